//! What vLLM expects that capturing CUDA graphs takes, which it deducts.

use super::facts::{ELEMENT, Facts};
use super::{Interval, Part, PartKind};
use crate::gpu::Arch;
use crate::units::{MIB, thousands};

/// In KiB for each layer and graph, from public start-up logs: of dense models …
const DENSE_KIB: [u64; 3] = [102, 205, 369];
/// … and of experts.
const EXPERTS_KIB: [u64; 3] = [154, 410, 717];

pub(super) fn part(facts: &Facts) -> Part {
    let nothing = |source: &str| Part {
        kind: PartKind::CudaGraphs,
        bytes: Interval::default(),
        source: source.to_owned(),
    };
    if facts.eager {
        return nothing("none: enforce_eager captures no graphs");
    }
    if facts.second_runner && !facts.profile.context.second_runner_measures_graphs {
        return nothing(
            "model runner V2 of this release does not estimate them: they are taken later, of what \
             gpu_memory_utilization leaves",
        );
    }
    let query = facts.drafted.saturating_add(1);
    let sizes = sizes(facts, query);
    let largest = sizes.last().copied().unwrap_or(0);
    let decoding = facts.base.max_num_seqs.saturating_mul(query);
    let full = sizes.iter().filter(|size| **size <= decoding).count() as u64;
    let piecewise = sizes.len() as u64;
    let per_graph = if facts.experts.is_some() {
        EXPERTS_KIB
    } else {
        DENSE_KIB
    };
    // what a step of the largest size holds
    let elements = 4 * facts.hidden + 2 * facts.queries + 3 * facts.width;
    let step = largest.saturating_mul(ELEMENT).saturating_mul(elements);
    let first = [
        step / 2 + 10 * MIB,
        step.saturating_add(100 * MIB),
        step.saturating_mul(2).saturating_add(500 * MIB),
    ];
    let layers = facts.layers;
    let [low, likely, high] = [0, 1, 2].map(|end| {
        let layer = per_graph[end] << 10;
        let pieces = (piecewise.saturating_sub(1)) * (layers + 1) * layer;
        let whole = full.saturating_sub(1) * (layers * layer).max(MIB);
        first[end].saturating_add(pieces + whole)
    });
    Part {
        kind: PartKind::CudaGraphs,
        bytes: Interval::new(low, likely, high),
        source: format!(
            "{piecewise} sizes up to {} tokens in {} pieces, {full} of them whole; bytes of \
             each by public logs",
            thousands(largest),
            layers + 1
        ),
    }
}

/// Sizes that are captured. Mirrors `vllm/config/vllm.py` `_set_cudagraph_sizes`.
fn sizes(facts: &Facts, query: u64) -> Vec<u64> {
    let wide = facts.arch == Arch::Sm100 && facts.profile.memory.wide_graphs_on_sm100;
    let most = facts
        .base
        .max_num_seqs
        .saturating_mul(query)
        .saturating_mul(2)
        .min(if wide { 1024 } else { 512 })
        .min(facts.tokens);
    let small = [1, 2, 4].into_iter();
    small
        .chain((8..256).step_by(8))
        .chain((256..=most.max(256)).step_by(16))
        .filter(|size| *size <= most)
        .collect()
}
