//! Ranks, and what must divide by them.

use super::checks::{at_least, check_class, invalid};
use crate::args::EngineArgs;
use crate::error::{Refusal, Stage};
use crate::flag::Flag;
use crate::model::decoder::DtypeHook;
use crate::model::{Common, Kind, Model};
use crate::release::{PcpChecks, PcpRunner, PcpWithDataParallel, Profile};
use crate::speculation::{Method, Runner, Speculation};
use crate::value::Value;

/// GPUs of one node. A case says nothing of the node; this is the oracle's.
const NODE_GPUS: i64 = 64;

/// `vllm/config/parallel.py` `ParallelConfig`.
pub(super) fn parallel(args: &EngineArgs, profile: &Profile) -> Result<(), Box<Refusal>> {
    let fields = [
        Flag::PipelineParallelSize,
        Flag::TensorParallelSize,
        Flag::PrefillContextParallelSize,
        Flag::DataParallelSize,
        Flag::EnableExpertParallel,
        Flag::DecodeContextParallelSize,
        Flag::DcpKvCacheInterleaveSize,
        Flag::DcpCommBackend,
        Flag::CpKvCacheInterleaveSize,
    ];
    if !profile.bounds_sizes {
        unbounded(args)?;
    }
    check_class("ParallelConfig", args, &fields, |flag, errors| match flag {
        Flag::PipelineParallelSize => {
            at_least(errors, flag.name(), args.pipeline_parallel_size, 1);
        }
        Flag::TensorParallelSize => at_least(errors, flag.name(), args.tensor_parallel_size, 1),
        Flag::DataParallelSize => {
            at_least(errors, flag.name(), args.data_parallel_size, 1);
            // a field of its own, which follows it
            at_least(
                errors,
                "data_parallel_size_local",
                args.data_parallel_size,
                0,
            );
        }
        Flag::DecodeContextParallelSize => {
            at_least(errors, flag.name(), args.decode_context_parallel_size, 1);
        }
        Flag::PrefillContextParallelSize => {
            at_least(errors, flag.name(), args.prefill_context_parallel_size, 1);
        }
        Flag::DcpCommBackend => {
            let known = |name: &&str| CommBackend::parse(name).is_none();
            if let Some(name) = args.dcp_comm_backend.as_deref().filter(known) {
                let value = Value::String(name.to_owned());
                errors.not_a_literal(flag.name(), &CommBackend::CHOICES, &value);
            }
        }
        _ => {}
    })?;
    let tensor = args.tensor_parallel_size.unwrap_or(1);
    let prefill = args.prefill_context_parallel_size.unwrap_or(1);
    let ranks = tensor.checked_mul(prefill).ok_or(Refusal::TooLarge)?;
    let stages = args.pipeline_parallel_size.unwrap_or(1);
    let world = ranks.checked_mul(stages).ok_or(Refusal::TooLarge)?;
    if world > NODE_GPUS {
        return Err(invalid(format!(
            "World size ({world}) is larger than the number of available GPUs ({NODE_GPUS}) in \
             this node. If this is intentional and you are using:\n- ray, set \
             '--distributed-executor-backend ray'.\n- multiprocessing, set '--nnodes' \
             appropriately."
        )));
    }
    sharing(args, tensor, prefill, ranks, profile)
}

/// Which ranks may share a request's KV.
/// Mirrors `vllm/config/parallel.py` `ParallelConfig._validate_parallel_config`.
fn sharing(
    args: &EngineArgs,
    tensor: i64,
    prefill: i64,
    ranks: i64,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    let context = args.decode_context_parallel_size.unwrap_or(1);
    let checks = profile.context.checks;
    let replicated = args.data_parallel_size.unwrap_or(1) > 1 && prefill > 1;
    if replicated && profile.context.data_parallel == PcpWithDataParallel::Refused {
        return Err(invalid("PCP does not support data parallelism yet."));
    }
    let spans_prefill = prefill > 1 && checks == PcpChecks::Axes;
    if !spans_prefill && tensor % context != 0 {
        return Err(invalid(format!(
            "tp_size={tensor} must be {}dcp_size={context}.",
            profile.dcp_divides
        )));
    }
    if spans_prefill && ![1, prefill, ranks].contains(&context) {
        let mut sizes = vec![1, prefill, ranks];
        sizes.dedup();
        let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
        return Err(invalid(format!(
            "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x \
             PCP axis. Got TP={tensor}, PCP={prefill}, DCP={context}; valid DCP sizes are [{}].",
            sizes.join(", ")
        )));
    }
    let all_to_all = args.dcp_comm_backend.as_deref() == Some(CommBackend::AllToAll.as_str());
    if all_to_all && context <= 1 && profile.context.all_to_all_needs_dcp {
        return Err(invalid(
            "dcp_comm_backend='a2a' requires decode_context_parallel_size > 1.",
        ));
    }
    Ok(())
}

/// `--dcp-comm-backend`. `vllm/config/parallel.py` `DCPCommBackend`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommBackend {
    /// `ag_rs`
    GatherScatter,
    /// `a2a`
    AllToAll,
}

impl CommBackend {
    /// Every spelling, in vLLM's order.
    const CHOICES: [&str; 2] = ["ag_rs", "a2a"];

    /// The spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GatherScatter => "ag_rs",
            Self::AllToAll => "a2a",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "ag_rs" => Some(Self::GatherScatter),
            "a2a" => Some(Self::AllToAll),
            _ => None,
        }
    }
}

/// How ranks share one request, beside `decode_context_parallel_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextParallel {
    /// Ranks that share its tokens in prefill.
    pub prefill_ranks: u64,
    /// Tokens in a row on one rank of those that share KV; any integer passes.
    pub interleave_tokens: i64,
    /// The same by its former name.
    pub former_interleave_tokens: Option<i64>,
    /// How those ranks talk.
    pub comm_backend: CommBackend,
    /// Whether the start-up captures CUDA graphs, and measures them first as it
    /// measures the pool, unless `kv_cache_memory_bytes` gives that.
    pub captures_graphs: bool,
    /// Whether the pool is measured.
    pub measures_pool: bool,
}

impl ContextParallel {
    pub(super) fn of(args: &EngineArgs, model: &Model, profile: &Profile) -> Self {
        Self {
            prefill_ranks: super::or_one(args.prefill_context_parallel_size),
            interleave_tokens: args.cp_kv_cache_interleave_size.unwrap_or(1),
            former_interleave_tokens: args.dcp_kv_cache_interleave_size,
            comm_backend: comm_backend(args, model, profile),
            captures_graphs: args.enforce_eager != Some(true),
            measures_pool: args.kv_cache_memory_bytes.is_none_or(|bytes| bytes == 0),
        }
    }
}

/// As asked, or what GLM's sparse models prefer since 0.29.
/// Mirrors `vllm/model_executor/models/config.py` `GlmMoeDsaForCausalLM`.
fn comm_backend(args: &EngineArgs, model: &Model, profile: &Profile) -> CommBackend {
    let glm = match &model.kind {
        Kind::Decoder(decoder) => decoder.dtype_hook == DtypeHook::AutoIsFp8OnSm100,
        Kind::DeepseekV4(_) => false,
    };
    // the change that gave models a say took the check of all-to-all away
    let default = if glm && !profile.context.all_to_all_needs_dcp {
        CommBackend::AllToAll
    } else {
        CommBackend::GatherScatter
    };
    let asked = args.dcp_comm_backend.as_deref();
    asked.and_then(CommBackend::parse).unwrap_or(default)
}

/// What the configuration as a whole has against prefill context parallelism,
/// once the platform was asked. Mirrors `vllm/config/vllm.py`
/// `VllmConfig.__post_init__` and `vllm/platforms/cuda.py` `check_and_update_config`.
pub(super) fn prefill(
    args: &EngineArgs,
    model: &Common,
    speculation: Option<&Speculation>,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    if super::or_one(args.prefill_context_parallel_size) == 1 {
        return Ok(());
    }
    if args.data_parallel_size.unwrap_or(1) > 1
        && profile.context.data_parallel == PcpWithDataParallel::RefusedByPlatform
    {
        return Err(invalid(
            "PCP does not support data parallelism on CUDA yet.",
        ));
    }
    let of_first = speculation.filter(|drafts| drafts.runner == Runner::V1);
    match profile.context.runner {
        PcpRunner::SecondIfMla => {
            let mut lacks = Vec::new();
            if !model.use_mla {
                lacks.push("prefill context parallelism");
            }
            match of_first.map(|drafts| drafts.method) {
                Some(Method::Ngram | Method::NgramGpu) => {
                    lacks.push("ngram/ngram_gpu speculative decoding");
                }
                Some(method) => {
                    return Err(Refusal::not_modelled(format!(
                        "{method} beside prefill context parallelism on this release is not modelled"
                    )));
                }
                None => {}
            }
            if lacks.is_empty() {
                return Ok(());
            }
            Err(invalid(format!(
                "Model Runner V2 does not yet support: {}",
                lacks.join(", ")
            )))
        }
        PcpRunner::Second | PcpRunner::SecondAtOnce if of_first.is_some() => Err(invalid(
            "Model Runner V1 does not support: prefill context parallel",
        )),
        PcpRunner::First | PcpRunner::Second | PcpRunner::SecondAtOnce => Ok(()),
    }
}

/// Sizes below 1 that nothing stops here: what they lead to later was not asked.
fn unbounded(args: &EngineArgs) -> Result<(), Box<Refusal>> {
    let sizes = [
        (Flag::PipelineParallelSize, args.pipeline_parallel_size),
        (Flag::TensorParallelSize, args.tensor_parallel_size),
        (Flag::DataParallelSize, args.data_parallel_size),
        (
            Flag::DecodeContextParallelSize,
            args.decode_context_parallel_size,
        ),
        (
            Flag::PrefillContextParallelSize,
            args.prefill_context_parallel_size,
        ),
        (Flag::BlockSize, args.block_size),
    ];
    match sizes.iter().find(|(_, size)| size.is_some_and(|n| n < 1)) {
        None => Ok(()),
        Some((flag, _)) => Err(Refusal::not_modelled(format!(
            "{flag} below 1 on a release that does not check it is not modelled"
        ))),
    }
}

/// Heads over ranks. Mirrors `vllm/config/model.py`
/// `ModelConfig.verify_with_parallel_config`.
pub(super) fn heads(
    args: &EngineArgs,
    model: &Model,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    let Model {
        common: model,
        kind,
    } = model;
    let heads = model.num_attention_heads;
    let tensor = super::or_one(args.tensor_parallel_size);
    if !heads.is_multiple_of(tensor) {
        return Err(invalid(format!(
            "Total number of attention heads ({heads}) must be divisible by tensor parallel size \
             ({tensor})."
        )));
    }
    if args.enable_expert_parallel == Some(true) && !model.has_experts {
        return Err(invalid(
            "Number of experts in the model must be greater than 0 when expert parallelism is \
             enabled.",
        ));
    }
    let has_stages = match kind {
        Kind::DeepseekV4(_) => profile.v4_has_stages,
        Kind::Decoder(_) => true,
    };
    if super::or_one(args.pipeline_parallel_size) > 1 && !has_stages {
        return Err(Refusal::raised(
            Stage::Config,
            "NotImplementedError",
            "Pipeline parallelism is not supported for this model. Supported models implement the \
             `SupportsPP` interface.",
        ));
    }
    let context = super::or_one(args.decode_context_parallel_size);
    if context == 1 || model.use_mla {
        return Ok(());
    }
    let kv = model.num_key_value_heads;
    if tensor <= kv {
        return Err(invalid(format!(
            "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tensor}) \
             to be greater than the model's total number of KV heads ({kv}). Increase \
             `--tensor-parallel-size` or set `--decode-context-parallel-size 1`."
        )));
    }
    let most = tensor / kv;
    if context > most {
        return Err(invalid(format!(
            "`--decode-context-parallel-size` ({context}) exceeds the maximum supported value \
             ({most}) for `--tensor-parallel-size` ({tensor}) and {kv} model KV heads."
        )));
    }
    let queries = heads / kv;
    if !queries.is_multiple_of(context) {
        return Err(invalid(format!(
            "The model's number of query heads per KV head ({queries}) must be divisible by \
             `--decode-context-parallel-size` ({context}) for GQA/MQA."
        )));
    }
    Ok(())
}
