//! What is taken outside torch: CUDA's modules, NCCL's channels, handles and
//! workspaces of libraries.

use super::facts::{ELEMENT, Facts};
use super::{Interval, Part, PartKind};
use crate::gpu::ComputeCapability;
use crate::units::{MIB, thousands};

/// By public start-up logs, one GPU …
const ALONE_MIB: [u64; 3] = [50, 155, 615];
/// … and several, beside the fused all-reduce.
const SHARED_MIB: [u64; 3] = [360, 615, 1230];
/// What cuBLAS' handles were, before they were made first.
const HANDLES_MIB: u64 = 30;

pub(super) fn part(facts: &Facts) -> Part {
    if facts.ranks == 1 {
        let early = if facts.profile.memory.handles_first {
            HANDLES_MIB
        } else {
            0
        };
        let [low, likely, high] = ALONE_MIB;
        return Part {
            kind: PartKind::NonTorch,
            bytes: Interval::new(
                low.saturating_sub(early) * MIB,
                (likely - early) * MIB,
                high * MIB,
            ),
            source: "CUDA's modules and libraries, one GPU: 0.07 to 0.56 GiB in public logs"
                .to_owned(),
        };
    }
    let fused = fused_all_reduce(facts);
    let [low, likely, high] = SHARED_MIB.map(|mib| mib * MIB);
    Part {
        kind: PartKind::NonTorch,
        bytes: Interval::new(
            low,
            likely.saturating_add(fused),
            high.saturating_add(fused / 10 * 13),
        ),
        source: format!(
            "CUDA's modules, NCCL's channels and libraries, {} GPUs: 0.7 to 1.7 GiB in public \
             logs; the fused all-reduce's buffers, {} MiB",
            facts.ranks,
            thousands(fused / MIB)
        ),
    }
}

/// Buffers of FlashInfer's fused all-reduce: a buffer and three to exchange, of each
/// rank. `vllm/compilation/passes/fusion/allreduce_rms_fusion.py`
/// `FI_ALLREDUCE_FUSION_MAX_SIZE_MB`
fn fused_all_reduce(facts: &Facts) -> u64 {
    if facts.eager {
        return 0;
    }
    let wide = facts.profile.memory.wider_fused_on_sm103;
    let ComputeCapability { major, minor } = facts.request.gpu.capability;
    let half_mib = match (major, minor, facts.ranks) {
        (9 | 10, _, 2) | (10, 3, 4) => 128,
        (10, 0, 4) => 64,
        (10, 3, 8) if wide => 8,
        (9, _, 4) | (10, 3, 8) => 4,
        (10, 0, 8) => 2,
        (9, _, 8) => 1,
        _ => 0,
    };
    let step = facts
        .tokens
        .saturating_mul(facts.hidden)
        .saturating_mul(ELEMENT);
    (half_mib * MIB / 2)
        .min(step)
        .saturating_mul(4 * facts.ranks)
}
