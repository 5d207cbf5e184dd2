//! `max_num_batched_tokens` and `max_num_seqs`, where the user leaves them open.

use super::or_one;
use crate::args::EngineArgs;
use crate::error::{Refusal, Stage};
use crate::gpu::MemoryTier;
use crate::model::{Common, Kind, Model};
use crate::release::{InFlight, ModelRunner, Profile};
use crate::request::{Request, Usage};
use crate::trace::{Trace, named};
use crate::units::{add, mul};

const fn batched_tokens(tier: MemoryTier, usage: Usage) -> i128 {
    match (tier, usage) {
        (MemoryTier::Huge, _) | (MemoryTier::Large, Usage::Llm) => 16_384,
        (MemoryTier::Large, Usage::Server) | (MemoryTier::Small, Usage::Llm) => 8192,
        (MemoryTier::Small, Usage::Server) => 2048,
    }
}

const fn seqs(tier: MemoryTier) -> i128 {
    match tier {
        MemoryTier::Huge | MemoryTier::Large => 1024,
        MemoryTier::Small => 256,
    }
}

/// Tokens of the largest item that is not cut into chunks, where images attend both ways: Gemma 4's video, of 32
/// frames. Mirrors `vllm/model_executor/models/gemma4_mm.py` `get_mm_max_tokens_per_item`.
fn largest_item(model: &Common) -> i128 {
    let is_gemma = model.architecture == "Gemma4ForConditionalGeneration";
    if is_gemma && model.mm_prefix {
        32 * (70 + 2 + 6)
    } else {
        0
    }
}

fn tier(request: &Request) -> MemoryTier {
    MemoryTier::of(&request.gpu, request.release)
}

/// The two limits of a step, not yet checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchLimits {
    pub max_num_batched_tokens: i128,
    pub max_num_seqs: i128,
}

/// Fills in what is open. Mirrors `vllm/engine/arg_utils.py`
/// `EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`.
pub(super) fn limits(request: &Request, model: &Common, max_model_len: u64) -> BatchLimits {
    let args = &request.args;
    let tier = tier(request);
    let seqs = args.max_num_seqs.map_or(seqs(tier), i128::from);
    let max_num_batched_tokens = match args.max_num_batched_tokens {
        Some(tokens) => i128::from(tokens),
        None => batched_tokens(tier, request.usage)
            .max(largest_item(model))
            .min(seqs * i128::from(max_model_len)),
    };
    let max_num_seqs = match args.max_num_seqs {
        Some(_) => seqs,
        None => seqs.min(max_num_batched_tokens),
    };
    BatchLimits {
        max_num_batched_tokens,
        max_num_seqs,
    }
}

/// How the limits came about.
pub(super) fn explain(request: &Request, limits: &BatchLimits) -> String {
    let by = |asked: bool| if asked { "as asked" } else { "by default" };
    let tier = match tier(request) {
        MemoryTier::Huge => "at least 160 GiB",
        MemoryTier::Large => "at least 70 GiB",
        MemoryTier::Small => "the small tier",
    };
    format!(
        "max_num_batched_tokens is {} ({}), max_num_seqs {} ({}); {} counts as {tier}, started as {}",
        limits.max_num_batched_tokens,
        by(request.args.max_num_batched_tokens.is_some()),
        limits.max_num_seqs,
        by(request.args.max_num_seqs.is_some()),
        named(&request.gpu.name),
        request.usage.as_str(),
    )
}

/// Whether the second model runner serves the model.
/// Mirrors `vllm/config/vllm.py` `VllmConfig.use_v2_model_runner`.
pub(crate) fn is_second_runner(model: &Model, profile: &Profile) -> bool {
    match profile.model_runner {
        ModelRunner::First => false,
        ModelRunner::ByModel => {
            let listed = match model.kind {
                Kind::DeepseekV4(_) => true,
                Kind::Decoder(_) => model.common.architecture == "KimiK3ForConditionalGeneration",
            };
            listed || !(model.common.is_hybrid || model.common.has_experts)
        }
        ModelRunner::Second => true,
    }
}

/// Batches in flight: one a stage fills the pipeline, and one more is scheduled
/// while they run, which the first model runner cannot with several stages.
/// Mirrors `vllm/config/vllm.py` `VllmConfig.max_concurrent_batches`.
fn concurrent(
    args: &EngineArgs,
    model: &Model,
    async_scheduling: bool,
    profile: &Profile,
) -> Result<u64, Box<Refusal>> {
    let stages = or_one(args.pipeline_parallel_size);
    let ahead = async_scheduling && (stages == 1 || is_second_runner(model, profile));
    add(stages, u64::from(ahead))
}

/// How that number came about.
fn explain_concurrent(
    args: &EngineArgs,
    model: &Model,
    async_scheduling: bool,
    profile: &Profile,
) -> String {
    let stages = or_one(args.pipeline_parallel_size);
    let switch = match (async_scheduling, stages) {
        (false, _) => "async scheduling off",
        (true, 1) => "async scheduling on",
        (true, _) if is_second_runner(model, profile) => "async scheduling on",
        (true, _) => "async scheduling on, but model runner V1 does not overlap it with stages",
    };
    if stages == 1 {
        switch.to_owned()
    } else {
        format!("{stages} stages; {switch}")
    }
}

/// Batches in flight, and the tokens that are reserved for them.
/// Mirrors `vllm/config/vllm.py` `VllmConfig.max_in_flight_tokens`.
pub(super) fn in_flight(
    args: &EngineArgs,
    model: &Model,
    (async_scheduling, max_num_batched_tokens): (bool, u64),
    profile: &Profile,
    trace: &mut Trace,
) -> Result<(u64, u64), Box<Refusal>> {
    let batches = concurrent(args, model, async_scheduling, profile)?;
    let (reserved, counted) = match profile.in_flight {
        InFlight::OneBatch { .. } => (1, "one batch is reserved, whatever is in flight".to_owned()),
        InFlight::EveryBatch => (
            batches,
            explain_concurrent(args, model, async_scheduling, profile),
        ),
    };
    let tokens = mul(reserved, max_num_batched_tokens)?;
    trace.step(
        Stage::Config,
        "vllm/config/vllm.py",
        "VllmConfig.max_in_flight_tokens",
        || {
            format!(
                "{tokens} tokens are reserved for what is in flight: {reserved} × \
                 {max_num_batched_tokens} ({counted})"
            )
        },
    );
    Ok((batches, tokens))
}
