//! `max_num_batched_tokens` and `max_num_seqs`, where the user leaves them open.

use crate::gpu::{ComputeCapability, Gpu};
use crate::request::{Request, Usage};
use crate::units::GIB;

/// What vLLM takes a GPU for, by its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// At least 160 GiB.
    Huge,
    /// At least 70 GiB, with exceptions.
    Large,
    /// Anything else.
    Small,
}

const HUGE_BYTES: u64 = 160 * GIB;
const LARGE_BYTES: u64 = 70 * GIB;
/// DGX Spark's chip: much memory, little compute.
const GB10: ComputeCapability = ComputeCapability::new(12, 1);

impl Tier {
    /// Mirrors `vllm/engine/arg_utils.py` `EngineArgs.get_batch_defaults`.
    fn of(gpu: &Gpu, gb10_is_small: bool) -> Self {
        let held_small =
            gpu.name.to_lowercase().contains("a100") || (gb10_is_small && gpu.capability == GB10);
        match gpu.total_memory_bytes {
            HUGE_BYTES.. => Self::Huge,
            LARGE_BYTES.. if !held_small => Self::Large,
            _ => Self::Small,
        }
    }

    const fn batched_tokens(self, usage: Usage) -> i128 {
        match (self, usage) {
            (Self::Huge, _) | (Self::Large, Usage::Llm) => 16_384,
            (Self::Large, Usage::Server) | (Self::Small, Usage::Llm) => 8192,
            (Self::Small, Usage::Server) => 2048,
        }
    }

    const fn seqs(self) -> i128 {
        match self {
            Self::Huge | Self::Large => 1024,
            Self::Small => 256,
        }
    }
}

/// The two limits of a step, not yet checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchLimits {
    pub max_num_batched_tokens: i128,
    pub max_num_seqs: i128,
}

/// Fills in what is open. Mirrors `vllm/engine/arg_utils.py`
/// `EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`.
pub(super) fn limits(request: &Request, max_model_len: u64) -> BatchLimits {
    let args = &request.args;
    let tier = Tier::of(&request.gpu, request.release.profile().gb10_is_small);
    let seqs = args.max_num_seqs.map_or(tier.seqs(), i128::from);
    let max_num_batched_tokens = match args.max_num_batched_tokens {
        Some(tokens) => i128::from(tokens),
        None => tier
            .batched_tokens(request.usage)
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
    let tier = match Tier::of(&request.gpu, request.release.profile().gb10_is_small) {
        Tier::Huge => "at least 160 GiB",
        Tier::Large => "at least 70 GiB",
        Tier::Small => "the small tier",
    };
    format!(
        "max_num_batched_tokens is {} ({}), max_num_seqs {} ({}); {} counts as {tier}, started as {}",
        limits.max_num_batched_tokens,
        by(request.args.max_num_batched_tokens.is_some()),
        limits.max_num_seqs,
        by(request.args.max_num_seqs.is_some()),
        request.gpu.name,
        request.usage.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str, capability: (u8, u8), gib: u64) -> Gpu {
        Gpu {
            name: name.to_owned(),
            capability: ComputeCapability::new(capability.0, capability.1),
            total_memory_bytes: gib * GIB,
        }
    }

    #[test]
    fn tiers_follow_memory_and_name() {
        assert_eq!(
            Tier::of(&gpu("NVIDIA B200", (10, 0), 179), true),
            Tier::Huge
        );
        assert_eq!(Tier::of(&gpu("NVIDIA H100", (9, 0), 79), true), Tier::Large);
        assert_eq!(Tier::of(&gpu("NVIDIA H100", (9, 0), 69), true), Tier::Small);
        assert_eq!(Tier::of(&gpu("my A100", (9, 0), 80), true), Tier::Small);
        assert_eq!(
            Tier::of(&gpu("NVIDIA GB10", (12, 1), 119), true),
            Tier::Small
        );
        assert_eq!(
            Tier::of(&gpu("NVIDIA GB10", (12, 1), 119), false),
            Tier::Large
        );
    }
}
