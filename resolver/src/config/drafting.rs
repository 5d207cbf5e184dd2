//! What a drafter changes of the rest of the configuration.
//! Mirrors `vllm/config/vllm.py` `VllmConfig.__post_init__`.

use super::EngineConfig;
use super::checks::{self, invalid};
use crate::args::EngineArgs;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::model::Common;
use crate::release::Profile;
use crate::release::drafting::{Asynchronous, Slots};
use crate::speculation::{Method, Runner, Speculation};
use crate::trace::Trace;
use crate::units::mul;

const FILE: &str = "vllm/config/vllm.py";

/// Tokens of the longest request, which a drafter may bound.
/// Mirrors `_limit_max_model_len_to_draft`.
pub(super) fn length(
    max_model_len: u64,
    speculation: Option<&Speculation>,
    trace: &mut Trace,
) -> u64 {
    let limit = speculation.and_then(|speculation| speculation.length_limit);
    match limit.filter(|limit| *limit < max_model_len) {
        None => max_model_len,
        Some(limit) => {
            trace.step(Stage::Config, FILE, "_limit_max_model_len_to_draft", || {
                format!(
                    "max_model_len is {limit}, not {max_model_len}: the drafter takes no longer requests"
                )
            });
            limit
        }
    }
}

/// Whether a step is scheduled while another runs.
pub(super) fn async_scheduling(
    args: &EngineArgs,
    speculation: Option<&Speculation>,
    profile: &Profile,
) -> Result<bool, Box<Refusal>> {
    let asked = args.async_scheduling;
    let Some(speculation) = speculation else {
        return Ok(asked.unwrap_or(true));
    };
    let method = speculation.method;
    let kin = method.reads_states() || matches!(method, Method::NgramGpu | Method::DraftModel);
    let unpadded = speculation.is_unpadded;
    match (profile.drafting.asynchronous, asked) {
        (Asynchronous::ByRunner, _) if speculation.runner == Runner::V2 => {
            Ok(asked.unwrap_or(true))
        }
        (Asynchronous::ByRunner, Some(true)) if !kin || unpadded => {
            let what = if kin {
                "disable_padded_drafter_batch=True".to_owned()
            } else {
                format!("{method}-based speculative decoding")
            };
            Err(invalid(format!(
                "Async scheduling is not supported by the V1 model runner with {what}."
            )))
        }
        (_, Some(true)) if !kin => Err(invalid(format!(
            "Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU{} \
             kind of speculative decoding",
            profile.drafting.async_names
        ))),
        (Asynchronous::Kin | Asynchronous::KinAndDraftModels, Some(true)) if unpadded => Err(
            invalid("Async scheduling is not compatible with disable_padded_drafter_batch=True."),
        ),
        (Asynchronous::Kin, None) => Ok(kin && !unpadded && method != Method::DraftModel),
        (_, None) => Ok(kin && !unpadded),
        (_, Some(on)) => Ok(on),
    }
}

/// Whether a batch has room for what is drafted.
/// Mirrors `_set_max_num_scheduled_tokens`.
pub(super) fn slots(
    (tokens, seqs): (u64, u64),
    speculation: Option<&Speculation>,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<(), Box<Refusal>> {
    let Some(speculation) = speculation else {
        return Ok(());
    };
    let lookahead = speculation.num_lookahead_tokens;
    let slots = speculation.slots_per_request;
    match profile.drafting.slots {
        Slots::Lookahead if tokens <= lookahead => {
            Err(no_room(tokens, "num_lookahead_tokens", lookahead))
        }
        Slots::OfOneRequest if tokens <= slots => {
            Err(no_room(tokens, "scheduled_token_delta", slots))
        }
        Slots::OfEachRequest if tokens <= mul(slots, seqs)? => {
            let left = i128::from(tokens) - i128::from(mul(slots, seqs)?);
            Err(invalid(format!(
                "max_num_scheduled_tokens is set to {left} based on the speculative decoding \
                 settings, which does not allow any tokens to be scheduled. Increase \
                 max_num_batched_tokens to accommodate the additional draft token slots, or \
                 decrease num_speculative_tokens or max_num_seqs."
            )))
        }
        Slots::Lookahead | Slots::OfOneRequest | Slots::OfEachRequest => {
            trace.step(Stage::Config, FILE, "_set_max_num_scheduled_tokens", || {
                let drafted = speculation.num_speculative_tokens;
                format!(
                    "{} drafts {drafted} token{} a step; max_num_batched_tokens stays {tokens}, and so \
                     does what is reserved for steps in flight",
                    speculation.method,
                    if drafted == 1 { "" } else { "s" },
                )
            });
            Ok(())
        }
    }
}

fn no_room(max_num_batched_tokens: u64, name: &str, needed: u64) -> Box<Refusal> {
    invalid(format!(
        "VllmConfig does not have enough slots to schedule a token and support the speculative \
         decoding settings. Got max_num_batched_tokens={max_num_batched_tokens} and {name}={needed}."
    ))
}

/// A config that is made anew with the drafter's cache dtype is checked anew, with the target's model or, for a draft
/// model, its own. Mirrors `vllm/config/vllm.py` `VllmConfig` as
/// `vllm/v1/spec_decode/llm_base_proposer.py` `_create_draft_vllm_config` makes it.
pub(crate) fn cache_dtype(
    dtype: CacheDtype,
    config: &EngineConfig,
    model: &Common,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    checks::float_cache(dtype, config.model_dtype, profile)
        .and_then(|()| checks::nvfp4_with_mla(dtype, model, profile))
        .map_err(|refusal| match *refusal {
            Refusal::Raised {
                error_type,
                message,
                ..
            } => Refusal::raised(Stage::Model, error_type, message),
            other => Box::new(other),
        })
}
