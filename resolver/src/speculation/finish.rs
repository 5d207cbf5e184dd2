//! What follows from a drafter: who loads it, whose dtype and backend it has, what
//! it makes the scheduler hold back.

use super::drafted::Drafted;
use super::settle::Asked;
use super::{DraftBackend, DraftDtype, Method, Runner, Speculation};
use crate::dtype::CacheDtype;
use crate::error::Refusal;
use crate::model::Kind;
use crate::model::draft::Draft;
use crate::release::drafting::{DefaultRunner, DsparkBackend, Overrides, Unsupported};
use crate::units::add;

impl Asked<'_> {
    pub(super) fn finish(&self, drafted: Drafted) -> Result<Speculation, Box<Refusal>> {
        let rules = self.rules;
        let method = drafted.method;
        let tokens = drafted.tokens;
        let parallel = self.fields.is_on("parallel_drafting");
        let runner = self.runner(method, parallel);
        let length = match &drafted.draft {
            Some(draft) => {
                let own = self.draft_length(&drafted)?;
                let table = match draft {
                    Draft::Decoder(apart) => apart.common.length.is_only_a_table,
                    Draft::Windows { .. } => self.target.model.common.length.is_only_a_table,
                };
                let shares = method != Method::DraftModel && table;
                let bounds = rules.length_limits_target && runner == Runner::V2 && !shares;
                bounds.then_some(own)
            }
            None => None,
        };
        let chain = if method == Method::Mtp {
            drafted.modules.min(tokens)
        } else {
            0
        };
        let fill_in =
            method == Method::Dflash || (method == Method::Dspark && !drafted.samples_from_anchor);
        let parallel_slots = parallel && !method.fills_blocks();
        Ok(Speculation {
            method,
            num_speculative_tokens: tokens,
            num_lookahead_tokens: match method {
                _ if fill_in => add(tokens, 1)?,
                _ if method.reads_states() || method == Method::DraftModel => tokens,
                _ => 0,
            },
            extra_retained_tokens: if rules.chain_retains && chain > 1 {
                tokens - 1
            } else {
                0
            },
            chain,
            slots_per_request: match method {
                Method::DraftModel if parallel_slots => tokens,
                Method::DraftModel => 1,
                _ if parallel_slots => tokens.saturating_sub(1),
                _ => 0,
            },
            draft: drafted.draft,
            class: drafted.class,
            length_limit: length,
            cache_dtype: self.cache_dtype(method, runner),
            backend: self.backend(method, runner),
            runner,
            refused_first: self.refused_first(method, parallel, runner, drafted.names_mask_token),
            wants_states: drafted.wants_states,
            is_unpadded: self.fields.is_on("disable_padded_drafter_batch"),
            wants_local_argmax: self.fields.is_on("use_local_argmax_reduction"),
        })
    }

    /// Mirrors `vllm/config/vllm.py` `use_v2_model_runner` and
    /// `_get_v2_model_runner_unsupported_features`.
    pub(super) fn runner(&self, method: Method, parallel: bool) -> Runner {
        let is_v4 = matches!(self.target.model.kind, Kind::DeepseekV4(_));
        let by_default = match self.rules.runner {
            DefaultRunner::V1 => false,
            DefaultRunner::V2ForDspark => method == Method::Dspark,
            DefaultRunner::V2ForSome => {
                let common = &self.target.model.common;
                method == Method::Dspark || is_v4 || (!common.is_hybrid && !common.has_experts)
            }
            DefaultRunner::V2 => true,
        };
        let old = matches!(
            self.rules.runner,
            DefaultRunner::V2ForSome | DefaultRunner::V2ForDspark
        );
        let lacks = match (self.rules.unsupported, method) {
            (_, Method::Suffix | Method::CustomClass)
            | (Unsupported::Separate, Method::DraftModel | Method::Ngram | Method::NgramGpu)
            | (Unsupported::Lookups, Method::Ngram | Method::NgramGpu) => true,
            (Unsupported::Few, Method::DraftModel | Method::Ngram | Method::NgramGpu) => {
                old || self.rules.overrides == Overrides::Dtype
            }
            _ => false,
        };
        let fills_in = !parallel || method.fills_blocks();
        if by_default && !lacks && fills_in {
            Runner::V2
        } else {
            Runner::V1
        }
    }

    /// The drafter's own cache dtype, where the loader hears of it.
    pub(super) fn cache_dtype(&self, method: Method, runner: Runner) -> Option<DraftDtype> {
        let profile = self.request.release.profile();
        let name = self.fields.text("kv_cache_dtype")?;
        let known: Option<CacheDtype> = name.parse().ok();
        let known = known.filter(|dtype| profile.cache_dtypes.contains(dtype));
        match known {
            Some(_) if self.is_deaf_to_dtype(method, runner) => None,
            Some(dtype) => Some(DraftDtype::Known(dtype)),
            None => Some(DraftDtype::Unknown(name.chars().take(80).collect())),
        }
    }

    pub(super) fn is_deaf_to_dtype(&self, method: Method, runner: Runner) -> bool {
        runner == Runner::V2
            && (self.rules.overrides == Overrides::None
                || (method == Method::DraftModel && self.rules.unsupported == Unsupported::Lookups))
    }

    /// Whom the drafter's layers ask for their backend.
    pub(super) fn backend(&self, method: Method, runner: Runner) -> DraftBackend {
        let own = self.backend;
        let is_v4 = matches!(self.target.model.kind, Kind::DeepseekV4(_));
        match (runner, method) {
            (Runner::V1, _) if !self.rules.own_backend_on_v1 => DraftBackend::Targets,
            (Runner::V1, _) | (Runner::V2, Method::Dflash) => DraftBackend::Own(own),
            (Runner::V2, Method::Dspark) => match (own, self.rules.dspark_backend) {
                (None, DsparkBackend::Targets) => DraftBackend::Targets,
                (None, DsparkBackend::TargetsOnDeepseekV4) if is_v4 => DraftBackend::Targets,
                _ => DraftBackend::Own(own),
            },
            (Runner::V2, Method::DraftModel) => DraftBackend::Targets,
            (Runner::V2, _) => match (own, self.rules.overrides) {
                (Some(_), Overrides::DtypeAndBackend) => DraftBackend::Own(own),
                _ => DraftBackend::Targets,
            },
        }
    }

    /// What the drafter's class refuses when it is made.
    pub(super) fn refused_first(
        &self,
        method: Method,
        parallel: bool,
        runner: Runner,
        names_mask_token: bool,
    ) -> Option<&'static str> {
        if names_mask_token || !(parallel || method.fills_blocks()) {
            return None;
        }
        match runner {
            // `vllm/v1/worker/gpu/spec_decode/utils.py` `get_parallel_drafting_token_id`
            Runner::V2 => Some(
                "Model config must specify `dflash_config.mask_token_id`, `mask_token_id`, \
                 `dspark_noise_token_id`, `pard_token`, or `ptd_token_id` for parallel drafting.",
            ),
            // `vllm/v1/spec_decode/llm_base_proposer.py` `_init_parallel_drafting_params`
            Runner::V1 if self.rules.names_more_mask_tokens => Some(
                "For parallel drafting, the draft model config must have \
                 `dflash_config.mask_token_id`, `mask_token_id`, `dspark_noise_token_id`, \
                 `pard_token`, or `ptd_token_id` specified in its config.json.",
            ),
            Runner::V1 => Some(
                "For parallel drafting, the draft model config must have `pard_token`, \
                 `ptd_token_id`, or `dflash_config.mask_token_id` specified in its config.json.",
            ),
        }
    }
}
