//! The lines of the start-up log on memory, groups and what they come to.

use super::pool::StageSizing;
use super::{Plan, groups};
use crate::config::EngineConfig;
use crate::error::Refusal;
use crate::layout::KvCacheLayout;
use crate::log::{self, PLAN, PLAN_WARNING, POOL, POOL_EACH, POOL_MEASURED};
use crate::release::{GroupSizes, Profile};
use crate::resolution::Capacity;
use crate::spec::Layers;
use crate::trace::Trace;
use crate::units::lcm;

/// Groups the layers, and says what there is for them before or after, as the release does.
/// What is pinned is not measured. Mirrors `vllm/v1/engine/core.py` `_initialize_kv_caches`.
pub(super) fn split(
    layers: &mut Layers,
    layout: Option<KvCacheLayout>,
    config: &EngineConfig,
    profile: &Profile,
    pool_bytes: Option<u64>,
    trace: &mut Trace,
) -> Result<Vec<groups::Group>, Box<Refusal>> {
    let measured = pool_bytes.filter(|_| config.context.measures_pool);
    let say_measured = |trace: &mut Trace| {
        if let Some(pool) = measured {
            trace.say(POOL_MEASURED, || log::available(pool));
        }
    };
    if !profile.log.groups_before_memory {
        say_measured(trace);
    }
    let groups = groups::split(layers, layout, config, profile, trace)?;
    if profile.log.groups_before_memory {
        say_measured(trace);
    }
    Ok(groups)
}

/// Mirrors `_get_kv_cache_groups_uniform_page_size`.
pub(super) fn padding(padding: u64, layers: u64, trace: &mut Trace) {
    trace.say(PLAN_WARNING, || {
        [
            "Add ",
            &padding.to_string(),
            " padding layers, may waste at most ",
            &log::percent(padding, layers),
            "% KV cache memory",
        ]
        .concat()
    });
}

/// Mirrors `_try_get_full_allocation_fallback_groups`.
pub(super) fn windows_as_full(trace: &mut Trace) {
    trace.say(PLAN_WARNING, || {
        "KV cache page sizes cannot be unified; treating sliding-window layers as full attention \
         for cache allocation. Sliding-window attention compute is unchanged."
            .to_owned()
    });
}

/// Mirrors `unify_hybrid_kv_cache_specs`.
pub(super) fn hybrid_manager_off(trace: &mut Trace) {
    trace.say(PLAN_WARNING, || {
        "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable \
         any optimizations for saving KV cache memory (e.g., dropping the KV cache outside the \
         sliding window). The compute of layers like sliding window is still saved."
            .to_owned()
    });
}

/// How many blocks would fit of those that are set. Mirrors `get_kv_cache_configs`.
pub(super) fn overriding(
    count: Option<i64>,
    stage: &StageSizing,
    pool_bytes: u64,
    trace: &mut Trace,
) {
    let Some(count) = count else { return };
    trace.say_if_known(POOL_EACH, || {
        let fitting = pool_bytes.checked_div(stage.pool_bytes_per_block)?;
        let line = [
            "Overriding num_gpu_blocks=",
            &fitting.to_string(),
            " with num_gpu_blocks_override=",
            &count.to_string(),
        ];
        Some(line.concat())
    });
}

/// The lines that the answer has by themselves.
pub(super) fn capacity(capacity: Option<&Capacity>, trace: &mut Trace) {
    let lines = capacity
        .iter()
        .flat_map(|capacity| capacity.log_line.lines());
    for line in lines {
        trace.say(POOL, || line.to_owned());
    }
}

/// The groups' block sizes, of which the scheduler is made.
/// Mirrors `vllm/v1/core/kv_cache_utils.py` `resolve_kv_cache_block_sizes`.
pub(crate) fn group_sizes(
    plan: &Plan,
    config: &EngineConfig,
    profile: &Profile,
    trace: &mut Trace,
) {
    let groups = &plan.groups;
    if groups.len() < 2 || profile.log.group_sizes == GroupSizes::Unsaid {
        return;
    }
    let ranks = config.decode_context_parallel_size;
    let sizes = || groups.iter().map(|group| group.tokens(ranks));
    trace.say_if_known(PLAN, || {
        log::group_sizes(&sizes().collect::<Vec<_>>(), &profile.log)
    });
    trace.say_if_known(PLAN, || {
        let common = sizes().try_fold(1, lcm).ok()?;
        Some(["kv lcm block sizes ", &common.to_string()].concat())
    });
}
