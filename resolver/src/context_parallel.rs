//! What stops a start-up under context parallelism once the model is known:
//! the second model runner, the workers' KV cache, and what follows the plan.

mod builders;
mod implementation;

use crate::backend::layer::LayerBackend;
use crate::config::{CommBackend, EngineConfig};
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::gpu::Arch;
use crate::model::Common;
use crate::model::draft::Draft;
use crate::plan::Plan;
use crate::release::{PcpGraphs, PcpRunner, Profile};
use crate::speculation::{Method, Speculation};
use crate::trace::Trace;
use implementation::{class, hides_lse, implemented};

/// What the checks look at.
pub(crate) struct Checks<'a> {
    pub common: &'a Common,
    pub layers: Family,
    pub config: &'a EngineConfig,
    /// After what the layers wrote back.
    pub cache_dtype: CacheDtype,
    pub profile: &'a Profile,
    pub arch: Arch,
}

/// The kinds of models that the checks tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Layers see every token.
    Dense,
    /// An indexer picks tokens: the text config has `index_topk`.
    Sparse,
    /// DeepSeek V4: the same, over compressed states, and windows beside it.
    DeepseekV4,
}

impl Checks<'_> {
    const fn shares(&self) -> bool {
        self.shares_kv() || self.config.context.prefill_ranks > 1
    }

    const fn shares_kv(&self) -> bool {
        self.config.decode_context_parallel_size > 1
    }

    const fn is_sparse(&self) -> bool {
        match self.layers {
            Family::Dense => false,
            Family::Sparse | Family::DeepseekV4 => true,
        }
    }

    /// Ahead of the model's weights: since 0.33 the second model runner looks
    /// at its configuration when it is made. Through 0.29 Qwen3-VL's language model
    /// trips over a name that it was not given:
    /// `vllm/config/model.py` `ModelConfig._get_transformers_backend_cls`
    pub fn before_model(&self) -> Result<(), Box<Refusal>> {
        let architecture = self.common.architecture.as_str();
        if self.profile.context.nameless_submodels && architecture.starts_with("Qwen3VL") {
            let trip = |class, text| Err(Refusal::raised(Stage::Model, class, text));
            if self.config.pipeline_parallel_size > 1 {
                return trip("ValidationError", "No model architectures are specified");
            }
            if self.shares_kv() {
                return trip("IndexError", "list index out of range");
            }
        }
        let (prefills, runner) = (
            self.config.context.prefill_ranks > 1,
            self.profile.context.runner,
        );
        if prefills && runner != PcpRunner::SecondAtOnce && architecture.starts_with("KimiK3") {
            return Err(Refusal::raised(
                Stage::Model,
                "AssertionError",
                "Kimi-K3 MultiHeadLatentAttention does not support prefill context parallelism.",
            ));
        }
        match runner {
            PcpRunner::SecondAtOnce => self.second_runner(Stage::Model),
            PcpRunner::First | PcpRunner::SecondIfMla | PcpRunner::Second => Ok(()),
        }
    }

    /// Ahead of the plan: measuring what CUDA graphs take sets up a small KV cache.
    /// Mirrors `vllm/v1/worker/gpu_worker.py` `determine_available_memory`.
    pub fn before_plan(&self, backends: &[LayerBackend]) -> Result<(), Box<Refusal>> {
        if self.shares() && self.measures_graphs() {
            self.set_up_cache(backends, self.config.context.interleave_tokens)
        } else {
            Ok(())
        }
    }

    /// What follows the plan.
    pub fn after_plan(
        &self,
        plan: &Plan,
        backends: &[LayerBackend],
        trace: &mut Trace,
    ) -> Result<(), Box<Refusal>> {
        if !self.shares() {
            return Ok(());
        }
        let turn = self.turn();
        self.interleave(plan.reported_block_size, turn, trace)?;
        self.set_up_cache(backends, turn)?;
        self.one_group(plan)?;
        let ranks = self.config.context.prefill_ranks;
        if ranks > 1 {
            let (file, function) = if self.profile.context.shards_over_prefill {
                ("vllm/v1/kv_cache_interface.py", "max_memory_usage_bytes")
            } else {
                ("vllm/v1/worker/gpu/pcp_manager.py", "PCPManager")
            };
            trace.step(Stage::Engine, file, function, || {
                if self.profile.context.shards_over_prefill {
                    format!("{ranks} ranks of prefill share the cache, as those of decoding do")
                } else {
                    format!(
                        "{ranks} ranks share a prefill's tokens; each holds the cache as if it \
                         were alone"
                    )
                }
            });
        }
        Ok(())
    }

    /// Tokens in a row on one rank: through 0.28 the former name overrides,
    /// once the plan is made. Mirrors `vllm/config/vllm.py` `VllmConfig.validate_block_size`.
    const fn turn(&self) -> i64 {
        match self.config.context.former_interleave_tokens {
            Some(former) if former > 1 && self.profile.context.reads_former_interleave => former,
            _ => self.config.context.interleave_tokens,
        }
    }

    fn measures_graphs(&self) -> bool {
        self.config.context.captures_graphs
            && self.config.context.measures_pool
            && (self.profile.context.second_runner_measures_graphs || !self.runs_second())
    }

    /// Whether the release runs the model by its second model runner.
    /// Mirrors `vllm/config/vllm.py` `VllmConfig.use_v2_model_runner`.
    fn runs_second(&self) -> bool {
        let context = &self.profile.context;
        match context.runner {
            PcpRunner::First => false,
            PcpRunner::SecondIfMla => {
                let architecture = self.common.architecture.as_str();
                let listed = context.second_runner_models.contains(&architecture);
                let plain = !self.common.is_hybrid && !self.common.has_experts;
                self.config.context.prefill_ranks > 1 || listed || plain
            }
            PcpRunner::Second | PcpRunner::SecondAtOnce => true,
        }
    }

    /// Mirrors `vllm/v1/worker/gpu/model_runner.py` and
    /// `vllm/v1/worker/gpu_model_runner.py` `initialize_kv_cache`.
    fn set_up_cache(&self, backends: &[LayerBackend], turn: i64) -> Result<(), Box<Refusal>> {
        if !self.runs_second() {
            self.implementations(backends, turn)?;
            return self.builders(backends, turn);
        }
        self.builders(backends, turn)?;
        match self.profile.context.runner {
            PcpRunner::SecondIfMla | PcpRunner::Second => self.second_runner(Stage::Engine)?,
            PcpRunner::First | PcpRunner::SecondAtOnce => {}
        }
        self.implementations(backends, turn)
    }

    /// Mirrors `vllm/v1/worker/cp_utils.py` `check_attention_cp_compatibility`.
    fn implementations(&self, backends: &[LayerBackend], turn: i64) -> Result<(), Box<Refusal>> {
        let refuse = |message| Err(Refusal::raised(Stage::Engine, "AssertionError", message));
        let splits_prefill = self.config.context.prefill_ranks > 1;
        // through 0.25 it is the implementations that are asked, which these layers have none of
        let asks_backends = !self.profile.context.shards_over_prefill;
        if self.layers == Family::DeepseekV4 && splits_prefill && asks_backends {
            return refuse(
                "PCP requires attention backend support, but DEEPSEEK_SPARSE_SWA does not support \
                 PCP."
                    .to_owned(),
            );
        }
        if self.layers == Family::DeepseekV4 {
            return Ok(());
        }
        let drafts = turn > 1 && self.config.speculation.is_some();
        for backend in backends.iter().filter_map(|layer| implemented(*layer)) {
            let class = class(backend);
            if drafts && !self.profile.context.drafting_in_turns.contains(&backend) {
                let Some(class) = class else {
                    return Err(Refusal::not_modelled(format!(
                        "a drafter with {} and cp_kv_cache_interleave_size={turn} is not modelled",
                        backend.as_str()
                    )));
                };
                return refuse(format!(
                    "MTP with cp_kv_cache_interleave_size > 1 is not supported in {class}."
                ));
            }
            if self.shares_kv()
                && hides_lse(backend, self.profile)
                && let Some(class) = class
            {
                return refuse(format!(
                    "Decode Context Parallelism (DCP) requires attention implementations to \
                     return the softmax LSE during decode, but {class} does not. Try a different \
                     backend by setting --attention-backend or disable DCP."
                ));
            }
        }
        Ok(())
    }

    /// What the second runner refuses of a drafter beside ranks of prefill.
    fn drafter_with_prefill_ranks(&self, speculation: &Speculation) -> Option<String> {
        let (ranks, prefill) = (
            self.config.decode_context_parallel_size,
            self.config.context.prefill_ranks,
        );
        let has_latent_rows = match &speculation.draft {
            Some(Draft::Decoder(own)) => own.common.use_mla,
            Some(Draft::Windows { .. }) => true,
            None => false,
        };
        match speculation.method {
            _ if self.profile.context.graphs == PcpGraphs::Piecewise => {
                Some("MRV2 PCP does not support speculative decoding yet.".to_owned())
            }
            Method::Dspark if has_latent_rows && ranks != 1 && ranks != prefill => Some(format!(
                "MRV2 PCP DSpark requires DCP=1 or DCP=PCP; got DCP={ranks}, PCP={prefill}."
            )),
            Method::Dspark => None,
            Method::Mtp if speculation.chain <= 1 => None,
            _ => Some(
                "MRV2 PCP only supports DSpark or single-module MTP speculative decoding."
                    .to_owned(),
            ),
        }
    }

    /// Mirrors `vllm/v1/worker/gpu/pcp_manager.py` `PCPManager.validate_config`.
    fn second_runner(&self, stage: Stage) -> Result<(), Box<Refusal>> {
        let config = self.config;
        if config.context.prefill_ranks == 1 {
            return Ok(());
        }
        let refuse = |message: &str| {
            Err(Refusal::raised(
                stage,
                "NotImplementedError",
                message.to_owned(),
            ))
        };
        let shares_kv = config.decode_context_parallel_size > 1;
        let graphs = config.context.captures_graphs;
        let rule = self.profile.context.graphs;
        if !self.common.use_mla {
            return refuse("MRV2 PCP currently supports MLA models only.");
        }
        if self.common.takes_images() {
            return refuse("MRV2 PCP does not support MM inputs yet.");
        }
        if let Some(speculation) = &config.speculation
            && let Some(message) = self.drafter_with_prefill_ranks(speculation)
        {
            return refuse(&message);
        }
        match rule {
            PcpGraphs::Piecewise => {
                if self.is_sparse() && graphs {
                    return refuse(
                        "MRV2 sparse MLA PCP does not support CUDA graphs yet. Set \
                         -cc.cudagraph_mode=NONE.",
                    );
                }
                if graphs {
                    return refuse("MRV2 PCP supports PIECEWISE CUDA graphs only.");
                }
                return Ok(());
            }
            PcpGraphs::DenseOnly | PcpGraphs::Listed => {}
        }
        if shares_kv && !self.is_sparse() {
            return refuse("MRV2 PCP + DCP supports sparse MLA models only.");
        }
        if self.is_sparse() && !shares_kv && graphs {
            match rule {
                PcpGraphs::Listed if self.common.is_v32_or_glm() => {}
                PcpGraphs::Listed => {
                    return refuse(
                        "MRV2 sparse MLA PCP supports CUDA graphs only for DeepSeek-V3.2 and \
                         GLM-5.2/5.3. Set -cc.cudagraph_mode=NONE.",
                    );
                }
                PcpGraphs::DenseOnly | PcpGraphs::Piecewise => {
                    return refuse(
                        "MRV2 sparse MLA PCP does not support CUDA graphs yet. Set \
                         -cc.cudagraph_mode=NONE.",
                    );
                }
            }
        }
        if shares_kv && config.context.comm_backend != CommBackend::GatherScatter {
            return Err(Refusal::raised(
                stage,
                "NotImplementedError",
                format!(
                    "MRV2 PCP + DCP requires dcp_comm_backend='ag_rs'; got '{}'.",
                    config.context.comm_backend.as_str()
                ),
            ));
        }
        Ok(())
    }

    /// Blocks must hold whole turns of each rank.
    /// Mirrors `vllm/config/vllm.py` `VllmConfig.validate_block_size`, after
    /// `vllm/v1/engine/core.py` has made the block size the smallest group's.
    fn interleave(
        &self,
        block_size: u64,
        turn: i64,
        trace: &mut Trace,
    ) -> Result<(), Box<Refusal>> {
        let ranks = self.config.decode_context_parallel_size;
        if ranks == 1 {
            return Ok(());
        }
        let whole = i64::try_from(block_size).map_err(|_| Refusal::TooLarge)?;
        if turn == 0 {
            return Err(Refusal::raised(
                Stage::Engine,
                "ZeroDivisionError",
                "integer modulo by zero",
            ));
        }
        if turn > whole || whole % turn != 0 {
            return Err(Refusal::raised(
                Stage::Engine,
                "AssertionError",
                format!(
                    "Block_size({block_size}) should be greater than or equal to and divisible by \
                     cp_kv_cache_interleave_size ({turn})."
                ),
            ));
        }
        trace.step(
            Stage::Engine,
            "vllm/config/vllm.py",
            "VllmConfig.validate_block_size",
            || {
                format!(
                    "{ranks} ranks take turns of {turn} tokens, which blocks of {block_size} hold \
                     whole: a block of each rank together covers {ranks} × {block_size} tokens"
                )
            },
        );
        Ok(())
    }

    /// Mirrors `vllm/v1/core/kv_cache_utils.py` `resolve_kv_cache_block_sizes`
    /// through 0.25.
    fn one_group(&self, plan: &Plan) -> Result<(), Box<Refusal>> {
        if !self.profile.context.shards_over_prefill || plan.groups.len() <= 1 {
            return Ok(());
        }
        Err(Refusal::raised(
            Stage::Engine,
            "ValueError",
            "Hybrid KV cache groups with multiple block sizes do not support context parallelism \
             (dcp_world_size/pcp_world_size > 1).",
        ))
    }
}
