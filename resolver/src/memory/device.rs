//! What vLLM may take of a GPU, and the check that it is free.

use super::{Budget, Interval, PartKind};
use crate::error::Refusal;
use crate::gpu::Gpu;
use crate::request::Request;

/// Of a board that is known by NVML's total alone, torch leaves at least this part,
/// in 256ths: no board of the catalog loses more (3 in 100).
const LEAST_256THS: u64 = 248;

/// torch's total memory.
pub(super) fn total(gpu: &Gpu) -> Interval {
    let most = gpu.total_memory_bytes;
    let range = gpu.torch_total_bytes;
    let (low, high) = range.unwrap_or((most / 256 * LEAST_256THS, most));
    Interval::between(low, high)
}

/// What it asks for. Mirrors `vllm/v1/worker/utils.py` `request_memory`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // Python's own arithmetic
pub(super) fn requested(total: Interval, utilization: f64) -> Interval {
    let of = |bytes: i64| (bytes as f64 * utilization).ceil() as i64;
    Interval {
        low: of(total.low),
        likely: of(total.likely),
        high: of(total.high),
    }
}

/// What stops a start-up with less free than it asks for; by the likeliest total.
/// Mirrors `vllm/v1/worker/utils.py` `request_memory`, alike in all releases.
pub(super) fn not_free(gpu: &Gpu, utilization: f64, free_bytes: u64) -> Option<Box<Refusal>> {
    let total = total(gpu);
    let bytes = |end: i64| u64::try_from(end).unwrap_or(0);
    let requested_bytes = bytes(requested(total, utilization).likely);
    (free_bytes < requested_bytes).then(|| {
        Box::new(Refusal::NotFree {
            free_bytes,
            total_bytes: bytes(total.likely),
            utilization,
            requested_bytes,
        })
    })
}

/// What stops a start-up whose weights are more than there is: they are loaded
/// whatever `gpu_memory_utilization` says. The first model runner says so, the second
/// leaves it to torch. Mirrors `vllm/v1/worker/gpu_model_runner.py` `load_model`.
pub(crate) fn weights_do_not_fit(request: &Request, budget: &Budget) -> Option<Box<Refusal>> {
    let total = u64::try_from(budget.torch_total.likely).unwrap_or(0);
    let room = request.free_memory.map_or(total, |free| free.min(total));
    let weights = budget.part(PartKind::Weights).likely;
    (u64::try_from(weights).unwrap_or(0) > room).then(|| {
        Box::new(Refusal::WeightsDoNotFit {
            total_bytes: total,
            says_so: !budget.second_runner,
        })
    })
}
