//! From a GPU to a pool: what vLLM takes of the memory before the KV cache gets the
//! rest. Only a start-up measures most of it, so every part is an interval with
//! its source, and so is the pool.
//!
//! ```
//! use kv_resolver::catalog::{find_gpu, find_model};
//! use kv_resolver::memory::{self, PartKind, Source};
//! use kv_resolver::{Request, resolve};
//!
//! let model = find_model("Qwen/Qwen3-8B").expect("it is in the catalog");
//! let gpu = find_gpu("h200").expect("it is in the catalog").gpu();
//! let request = Request::new(serde_json::from_str(model.config_json)?, gpu);
//!
//! // what a start-up takes, part by part, and what is left, in bytes
//! let budget = memory::budget(&request, &resolve(&request)?)?;
//! let weights = budget.part(PartKind::Weights);
//! assert_eq!(weights.low, weights.high); // counted, not estimated
//! assert!(budget.pool.low < budget.pool.likely && budget.pool.likely < budget.pool.high);
//!
//! // the same, and what each end of it holds
//! let planned = memory::plan(&request, None)?;
//! assert_eq!(planned.source, Source::Estimated);
//! assert!(planned.likely().fit.as_ref().is_ok_and(|fit| fit.requests.whole() > 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activations;
mod device;
mod facts;
mod graphs;
mod interval;
mod other;
mod printed;
mod repacked;
mod why;

pub(crate) use device::weights_do_not_fit;
pub use interval::Interval;
pub use printed::{PrintedCheck, PrintedPool, check_printed, pool_of_tokens, printed_gib};

use std::fmt;

use serde::{Serialize, Serializer};

use crate::advice::advise;
use crate::capacity::Fit;
use crate::config::DEFAULT_GPU_MEMORY_UTILIZATION;
use crate::error::{Refusal, Stage, StartupError};
use crate::gpu::{GB10, Gpu};
use crate::log::{self, LogLine};
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::{ReadModel, read, resolve};
use crate::trace::TraceStep;
use facts::Facts;

/// A part of the memory beside the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// `weights`: parameters and buffers as built.
    Weights,
    /// `repacked`: what kernels make of them on load, beyond their own size.
    Repacked,
    /// `non_torch`: CUDA's own, NCCL, libraries' workspaces.
    NonTorch,
    /// `activations`: the most that the profiling run holds at once.
    Activations,
    /// `cuda_graphs`: what vLLM expects that capturing takes, and deducts.
    CudaGraphs,
}

impl PartKind {
    /// All, in the order in which a start-up meets them.
    pub const ALL: [Self; 5] = [
        Self::Weights,
        Self::Repacked,
        Self::NonTorch,
        Self::Activations,
        Self::CudaGraphs,
    ];

    /// The spelling in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Repacked => "repacked",
            Self::NonTorch => "non_torch",
            Self::Activations => "activations",
            Self::CudaGraphs => "cuda_graphs",
        }
    }

    /// For people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Weights => "weights, as built",
            Self::Repacked => "repacked by kernels",
            Self::NonTorch => "outside torch",
            Self::Activations => "peak activations",
            Self::CudaGraphs => "CUDA graphs",
        }
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for PartKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One part, and where its figures come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Which.
    pub kind: PartKind,
    /// Bytes on one GPU.
    #[serde(flatten)]
    pub bytes: Interval,
    /// How they are derived.
    pub source: String,
}

/// What vLLM may take of one GPU, and what of it is left for the KV cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    /// NVML's total in bytes, by which vLLM chooses its defaults.
    pub nvml_total_bytes: u64,
    /// torch's total in bytes, of which the budget is taken.
    pub torch_total: Interval,
    /// `gpu_memory_utilization`
    pub gpu_memory_utilization: f64,
    /// The product, rounded up.
    pub requested: Interval,
    /// What is taken before the KV cache.
    pub parts: Vec<Part>,
    /// What is left; below 0 where nothing is.
    pub pool: Interval,
    /// Whether the GPU shares its memory with the host, as GB10 does: what is free of it
    /// varies by gigabytes.
    pub is_unified: bool,
    /// Whether the second model runner serves the model.
    #[serde(skip)]
    pub(crate) second_runner: bool,
}

impl Budget {
    /// The same parts on a GPU that the rules cannot tell from the one they were counted
    /// for ([`GpuClass`](crate::gpu::GpuClass)), but for its memory.
    #[must_use]
    pub fn on(mut self, gpu: &Gpu) -> Self {
        self.nvml_total_bytes = gpu.total_memory_bytes;
        self.torch_total = device::total(gpu);
        self.requested = device::requested(self.torch_total, self.gpu_memory_utilization);
        let parts = self.parts.iter();
        let taken = parts.fold(Interval::default(), |sum, part| sum.plus(part.bytes));
        self.pool = self.requested.less(taken);
        self
    }

    /// One part's bytes.
    #[must_use]
    pub fn part(&self, kind: PartKind) -> Interval {
        let part = self.parts.iter().find(|part| part.kind == kind);
        part.map(|part| part.bytes).unwrap_or_default()
    }
}

/// Where a pool's size comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It was given.
    Given,
    /// `kv_cache_memory_bytes` pins it.
    Pinned,
    /// vLLM's own log printed it, in GiB with two decimals.
    Printed,
    /// It is what the budget leaves.
    Estimated,
}

/// One end of an interval, or its likeliest point.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// What they come to.
    pub fit: Result<Fit, Box<Refusal>>,
}

/// A question's pool, and what each end of it comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Where the pool comes from.
    pub source: Source,
    /// Its size.
    pub pool: Interval,
    /// How it was estimated, if it can be; beside a given pool for comparison.
    pub budget: Result<Budget, String>,
    /// Least, likeliest and most.
    pub ends: [End; 3],
    /// What stops the start-up before any of it, if something does.
    pub stops: Option<Box<Refusal>>,
}

impl Planned {
    /// The likeliest.
    #[must_use]
    pub const fn likely(&self) -> &End {
        &self.ends[1]
    }

    /// What stops the start-up at the likeliest size, if something does.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        let at_likely = self.likely().fit.as_ref().err();
        self.stops
            .as_deref()
            .or(at_likely.map(|refusal| &**refusal))
    }
}

/// What the memory of a GPU leaves for the KV cache, by what is free of it and what
/// the start-up takes. `base` is the same question's answer.
///
/// # Errors
/// Why it is not estimated, in our words.
pub fn budget(request: &Request, base: &Resolution) -> Result<Budget, String> {
    budget_read(request, &read(request), base)
}

/// The same of a question whose model is read.
pub(crate) fn budget_read(
    request: &Request,
    model: &ReadModel,
    base: &Resolution,
) -> Result<Budget, String> {
    let facts = Facts::new(request, model, base)?;
    let parts = vec![
        facts.weights(),
        repacked::part(&facts),
        other::part(&facts),
        activations::part(&facts),
        graphs::part(&facts),
    ];
    let none = Interval::default();
    Ok(Budget {
        nvml_total_bytes: 0,
        torch_total: none,
        gpu_memory_utilization: base.gpu_memory_utilization,
        requested: none,
        parts,
        pool: none,
        is_unified: request.gpu.capability == GB10,
        second_runner: facts.second_runner,
    }
    .on(&request.gpu))
}

/// The question without a pool: what the start-up comes to before it has one.
#[must_use]
pub fn without_pool(request: &Request) -> Request {
    let mut open = request.clone();
    open.available_memory = None;
    open.args.kv_cache_memory_bytes = None;
    open
}

/// A question's pool: the one that it gives or pins, the one that `printed` says, or
/// the one that is estimated; and what its ends come to.
///
/// # Errors
/// What vLLM stops with before it looks at its memory; or [`Refusal::NotModelled`]
/// where there is no pool and none can be estimated.
pub fn plan(request: &Request, printed: Option<Interval>) -> Result<Planned, Box<Refusal>> {
    let base = if_free(request, resolve(&without_pool(request)));
    let base = base.map_err(|error| Box::new(error.refusal))?;
    plan_on(request, &base, printed)
}

/// The same, on the answer that the question has without a pool.
///
/// # Errors
/// As [`plan`].
pub fn plan_on(
    request: &Request,
    base: &Resolution,
    printed: Option<Interval>,
) -> Result<Planned, Box<Refusal>> {
    plan_with(request, base, budget(request, base), printed)
}

/// The same, with the budget. Of `request`, the GPU is not looked at.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    request: &Request,
    base: &Resolution,
    budget: Result<Budget, String>,
    printed: Option<Interval>,
) -> Result<Planned, Box<Refusal>> {
    let (source, pool) = match (request.available_memory, pinned(request), printed, &budget) {
        (Some(bytes), ..) => (Source::Given, Interval::exact(bytes)),
        (None, Some(bytes), ..) => (Source::Pinned, Interval::exact(bytes)),
        (None, None, Some(printed), _) => (Source::Printed, printed),
        (None, None, None, Ok(budget)) => (Source::Estimated, budget.pool),
        (None, None, None, Err(why)) => {
            return Err(Refusal::not_modelled(format!(
                "the memory that is left for the KV cache is not estimated: {why}"
            )));
        }
    };
    let stops = match &budget {
        // a log that prints a pool is of a start-up that came so far
        Ok(budget) if source != Source::Printed => weights_do_not_fit(request, budget),
        Ok(_) | Err(_) => None,
    };
    Ok(Planned {
        source,
        pool,
        ends: pool.pools().map(|pool_bytes| End {
            pool_bytes,
            fit: base.fit(pool_bytes),
        }),
        budget,
        stops,
    })
}

/// The same result, unless too little is free: vLLM looks at that before it builds the
/// model. Without a word on what is free, nothing changes.
///
/// # Errors
/// As the result, or that too little is free.
pub fn if_free(
    request: &Request,
    result: Result<Resolution, StartupError>,
) -> Result<Resolution, StartupError> {
    let is_later = match &result {
        Ok(_) => true,
        Err(error) => comes_after_free(&error.refusal),
    };
    match not_free(request, &request.gpu).filter(|_| is_later) {
        Some(refusal) => {
            let (lines, trace) = match &result {
                Ok(resolution) => (&resolution.log, &resolution.trace),
                Err(error) => (&error.log, &error.trace),
            };
            Err(stopped(request, &refusal, lines, trace))
        }
        None => result,
    }
}

/// Whether vLLM comes to this refusal only after it has looked at what is free.
#[must_use]
pub const fn comes_after_free(refusal: &Refusal) -> bool {
    match refusal.stage() {
        Stage::Args | Stage::Config | Stage::Unmodelled => false,
        Stage::Model | Stage::Specs | Stage::Plan | Stage::Engine => true,
    }
}

/// Whether less is free than vLLM asks for of a GPU, if it is said what is.
#[must_use]
pub fn not_free(request: &Request, gpu: &Gpu) -> Option<Box<Refusal>> {
    let utilization = request.args.gpu_memory_utilization;
    let utilization = utilization.unwrap_or(DEFAULT_GPU_MEMORY_UTILIZATION);
    device::not_free(gpu, utilization, request.free_memory?)
}

/// A refusal of this stage, as a start-up ends with it; `lines` and `trace` are those of one
/// that goes on.
#[must_use]
pub fn stopped(
    request: &Request,
    refusal: &Refusal,
    lines: &[LogLine],
    trace: &[TraceStep],
) -> StartupError {
    let last = match refusal {
        // what a GPU has free is looked at before the model is made
        Refusal::NotFree { .. } => Stage::Config,
        _ => refusal.stage(),
    };
    let steps = trace.iter().filter(|step| step.stage <= last);
    StartupError {
        advice: advise(request, &read(request), refusal),
        refusal: refusal.clone(),
        notes: Vec::new(),
        log: log::before(refusal, lines.to_vec()),
        trace: steps.cloned().collect(),
    }
}

/// The answer to a question with a pool: weights that do not fit stop it before it comes to
/// that. Without a pool, memory is not looked at.
///
/// # Errors
/// As [`resolve`], or that the weights do not fit.
pub fn resolve_loaded(request: &Request) -> Result<Resolution, StartupError> {
    let has_pool = request.available_memory.is_some() || pinned(request).is_some();
    if has_pool
        && let Ok(base) = resolve(&without_pool(request))
        && let Ok(budget) = budget(request, &base)
        && let Some(refusal) = weights_do_not_fit(request, &budget)
    {
        return Err(stopped(request, &refusal, &base.log, &base.trace));
    }
    resolve(request)
}

/// Of an answer at a pool that is only estimated: what follows from the pool's size is not
/// predicted of the log, and "why" tells how it is estimated.
pub fn by_estimate(
    request: &Request,
    planned: &Planned,
    result: &mut Result<Resolution, StartupError>,
) {
    if planned.source == Source::Estimated {
        log::forget_pool(result);
        if let Ok(budget) = &planned.budget {
            why::explain(request, budget, result);
        }
    }
}

/// What `kv_cache_memory_bytes` pins, of which 0 pins nothing.
pub(crate) fn pinned(request: &Request) -> Option<u64> {
    let pinned = request
        .args
        .kv_cache_memory_bytes
        .filter(|bytes| *bytes != 0)?;
    Some(u64::try_from(pinned).unwrap_or(0))
}
