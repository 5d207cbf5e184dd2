//! The memory's part of "why": what vLLM asks of the GPU, and what of it is left.

use super::{Budget, Interval};
use crate::error::{Stage, StartupError};
use crate::request::Request;
use crate::resolution::Resolution;
use crate::trace::{Rule, TraceStep};
use crate::units::format_gib;

fn gib(bytes: i64) -> String {
    format_gib(i128::from(bytes))
}

/// Puts the steps where a start-up comes to them: before it builds the model, and once that is loaded and has run.
pub(super) fn explain(
    request: &Request,
    budget: &Budget,
    result: &mut Result<Resolution, StartupError>,
) {
    let (trace, loads) = match result {
        Ok(resolution) => (&mut resolution.trace, true),
        Err(error) => (&mut error.trace, error.refusal.stage() >= Stage::Plan),
    };
    let mut put = |before, file, function, decided| {
        let place = trace.partition_point(|step| step.stage < before);
        let step = TraceStep {
            stage: Stage::Engine,
            decided,
            rule: Rule { file, function },
        };
        trace.insert(place, step);
    };
    // the later first: both are of a stage that is not in order
    if loads {
        put(
            Stage::Plan,
            "vllm/v1/worker/gpu_worker.py",
            "Worker.determine_available_memory",
            left(request, budget),
        );
    }
    put(
        Stage::Model,
        "vllm/v1/worker/utils.py",
        "request_memory",
        asked(request, budget),
    );
}

/// Alike in all releases.
fn asked(request: &Request, budget: &Budget) -> String {
    let mut text = format!(
        "gpu_memory_utilization {} of torch's {} GiB is {} GiB, which must be free at the start",
        budget.gpu_memory_utilization,
        gib(budget.torch_total.likely),
        gib(budget.requested.likely),
    );
    if let Some(free) = request.free_memory {
        text.push_str(": ");
        text.push_str(&format_gib(i128::from(free)));
        text.push_str(" GiB are");
    }
    text
}

/// What is counted as taken differs by release ([`MemoryRules`](crate::release::MemoryRules)).
fn left(request: &Request, budget: &Budget) -> String {
    let Interval { low, likely, high } = budget.pool;
    let mut text = format!(
        "{} GiB are likely left for the KV cache ({} to {}): {}",
        gib(likely),
        gib(low),
        gib(high),
        gib(budget.requested.likely),
    );
    for part in budget.parts.iter().filter(|part| part.bytes.likely != 0) {
        let bytes = part.bytes.likely;
        text.push_str(if bytes < 0 { " + " } else { " − " });
        text.push_str(&gib(bytes.saturating_abs()));
        text.push(' ');
        text.push_str(part.kind.label());
    }
    text.push_str(if request.release.profile().memory.counts_all {
        "; all that the process has taken counts"
    } else {
        "; of torch's, the weights and the profiling run's peak count"
    });
    text
}
