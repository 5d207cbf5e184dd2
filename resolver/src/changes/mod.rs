//! What to change, so that more requests fit: each tried on the same question,
//! with what it brings and what it costs.

mod candidates;

use std::cmp::Ordering;

use serde::Serialize;

use crate::args::SPECULATIVE_CONFIG;
use crate::capacity::{Fit, Requests};
use crate::catalog::{CatalogGpu, find_gpu};
use crate::config::or_one;
use crate::dtype::CacheDtype;
use crate::error::Outcome;
use crate::flag::Flag;
use crate::memory::{self, Budget, Interval, Planned, Source};
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::resolve_quietly;
use crate::units::fixed;
use crate::value::Value;
use candidates::{Candidate, candidates};

/// Changes that bring less than this many hundredths more are not worth their cost.
const LEAST_GAIN_PERCENT: u64 = 103;

/// Requests that a deployment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Served {
    /// On each group of GPUs that holds the whole model once.
    #[serde(flatten)]
    pub requests: Requests,
    /// Such groups (data parallelism).
    pub replicas: u64,
    /// Tokens of each request.
    pub length: u64,
    /// GPUs in all.
    pub gpus: u64,
}

impl Served {
    fn new(request: &Request, fit: &Fit) -> Self {
        let size = |number: Option<i64>| or_one(number).max(1);
        let args = &request.args;
        let replicas = size(args.data_parallel_size);
        let ranks = [
            args.tensor_parallel_size,
            args.pipeline_parallel_size,
            args.prefill_context_parallel_size,
        ];
        let gpus = ranks
            .into_iter()
            .fold(replicas, |gpus, ranks| gpus.saturating_mul(size(ranks)));
        Self {
            requests: fit.requests,
            replicas,
            length: fit.max_model_len,
            gpus,
        }
    }

    /// As vLLM prints a concurrency, over all replicas.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // only printed
    pub fn shown(self) -> String {
        fixed(self.requests.as_f64() * self.replicas as f64, 2)
    }

    /// Which holds more.
    fn cmp(self, other: Self) -> Ordering {
        self.exceeds_by(other, 100)
    }

    /// How it stands to so many hundredths of another.
    fn exceeds_by(self, other: Self, percent: u64) -> Ordering {
        let product = |a: Self, b: Self, scale: u64| {
            u128::from(a.requests.num_blocks)
                .saturating_mul(u128::from(b.requests.blocks_per_request.max(1)))
                .saturating_mul(u128::from(a.replicas))
                .saturating_mul(u128::from(scale))
        };
        product(self, other, 100).cmp(&product(other, self, percent))
    }
}

/// One change that starts and brings something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What to do, in a few words.
    pub text: String,
    /// The flags to change and their new values, by `EngineArgs` name; an empty value
    /// takes the flag away.
    pub set: Vec<(&'static str, String)>,
    /// The GPU to take instead, by its key in the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<&'static str>,
    /// What fits then.
    pub served: Served,
    /// The pool on each GPU then, in bytes.
    pub pool_bytes: u64,
    /// Whether that pool follows from an estimate, not from the pool as given.
    pub is_estimated: bool,
    /// What it costs.
    pub cost: String,
}

impl Change {
    fn is_plain_fp8(&self) -> bool {
        let fp8 = CacheDtype::Fp8.as_str();
        let set = self.set.first();
        set.is_some_and(|(name, value)| *name == Flag::KvCacheDtype.name() && value == fp8)
    }
}

/// What there is to change, most effect first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changes {
    /// What fits as it is; `None` where it does not start.
    pub now: Option<Served>,
    /// Each on its own.
    pub changes: Vec<Change>,
}

impl Changes {
    /// Nothing tried.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            now: None,
            changes: Vec::new(),
        }
    }
}

/// Tries changes to a question that `base` answers without a pool, and that
/// `planned` has a pool for. `gpus` are those that one could take instead.
///
/// Only changes that start at the likeliest pool are returned; of a question whose
/// own answer is known to start, only such as are.
#[must_use]
pub fn changes(
    request: &Request,
    base: &Resolution,
    planned: &Planned,
    gpus: &'static [CatalogGpu],
) -> Changes {
    let now = match (planned.refusal(), &planned.likely().fit) {
        (None, Ok(fit)) => Some(Served::new(request, fit)),
        _ => None,
    };
    let trial = Trial {
        request,
        base,
        planned,
    };
    let mut found: Vec<Change> = candidates(request, base, planned, gpus)
        .into_iter()
        .filter_map(|candidate| trial.run(candidate, now))
        .collect();
    // what is asked of shorter requests alone comes last, as long as longer ones fit
    let is_shorter = |change: &Change| now.is_some_and(|now| change.served.length < now.length);
    found.sort_by(|a, b| {
        let order = is_shorter(a).cmp(&is_shorter(b));
        order.then(b.served.cmp(a.served))
    });
    Changes {
        now,
        changes: distinct(found),
    }
}

/// Of changes of one kind, only the best few; of GPUs, the one that holds most and the
/// one with least memory.
fn distinct(found: Vec<Change>) -> Vec<Change> {
    const MOST_OF_A_KIND: usize = 2;
    let memory = |change: &Change| {
        let gpu = change.gpu.and_then(find_gpu);
        gpu.map(|gpu| gpu.nvml_total_mib)
    };
    let least = found.iter().filter_map(memory).min();
    let mut kept: Vec<Change> = Vec::new();
    for change in found {
        let flag = change.set.first().map(|(name, _)| *name);
        let alike = kept.iter().filter(|other| {
            other.gpu.is_some() == change.gpu.is_some()
                && other.set.first().map(|(name, _)| *name) == flag
        });
        let most = match (change.gpu, flag) {
            (Some(_), _) if memory(&change) == least => MOST_OF_A_KIND,
            (Some(_), _) => 1,
            // the plainest of fewer bits, however many fewer others have
            (None, _) if change.is_plain_fp8() => usize::MAX,
            (None, _) => MOST_OF_A_KIND,
        };
        if alike.count() < most {
            kept.push(change);
        }
    }
    kept
}

/// What changes are tried on.
struct Trial<'a> {
    request: &'a Request,
    base: &'a Resolution,
    planned: &'a Planned,
}

impl Trial<'_> {
    fn run(&self, candidate: Candidate, now: Option<Served>) -> Option<Change> {
        let mut changed = memory::without_pool(self.request);
        for (flag, value) in &candidate.set {
            apply(&mut changed, *flag, value)?;
        }
        if let Some(gpu) = candidate.gpu {
            changed.gpu = gpu.gpu();
            // what is free is known of the GPU at hand alone
            changed.free_memory = None;
        }
        if let (Source::Pinned, false) = (self.planned.source, candidate.drops_pin) {
            changed.args.kv_cache_memory_bytes = self.request.args.kv_cache_memory_bytes;
        }
        if candidate.drops_drafter {
            changed.args.speculative_config = None;
            changed.args.spec_flags.clear();
        }
        let resolution = resolve_quietly(&memory::without_pool(&changed)).ok()?;
        if memory::not_free(&changed, &changed.gpu).is_some() {
            return None;
        }
        let was_known = self.base.outcome != Outcome::Unverified;
        if was_known && resolution.outcome == Outcome::Unverified {
            return None;
        }
        let budget = memory::budget(&changed, &resolution);
        let does_not_load = budget
            .as_ref()
            .is_ok_and(|budget| memory::weights_do_not_fit(&changed, budget).is_some());
        if does_not_load {
            return None;
        }
        let (pool_bytes, is_estimated) = self.pool(&candidate, budget.ok())?;
        let fit = resolution.fit(pool_bytes).ok()?;
        let served = self.served(&changed, &resolution, &fit, now)?;
        if let Some(now) = now
            && served.exceeds_by(now, LEAST_GAIN_PERCENT) == Ordering::Less
        {
            return None;
        }
        let flags = candidate.set.into_iter();
        let mut set: Vec<_> = flags.map(|(flag, value)| (flag.name(), value)).collect();
        if candidate.drops_drafter {
            set.push((SPECULATIVE_CONFIG, String::new()));
        }
        if candidate.drops_pin {
            set.push((Flag::KvCacheMemoryBytes.name(), String::new()));
        }
        Some(Change {
            text: candidate.text,
            set,
            gpu: candidate.gpu.map(|gpu| gpu.key),
            served,
            pool_bytes,
            is_estimated,
            cost: candidate.cost,
        })
    }

    /// What fits. Under auto-fit each change has a length of its own: compared is what
    /// fits of the length that there is now.
    fn served(
        &self,
        changed: &Request,
        resolution: &Resolution,
        fit: &Fit,
        now: Option<Served>,
    ) -> Option<Served> {
        let mut served = Served::new(changed, fit);
        if self.request.args.max_model_len == Some(-1)
            && changed.args.max_model_len == Some(-1)
            && let Some(now) = now
        {
            if fit.max_model_len < now.length {
                return None;
            }
            let blocks = fit.requests.num_blocks;
            served.requests = resolution.requests_of(blocks, now.length).ok()?;
            served.length = now.length;
        }
        Some(served)
    }

    /// The pool after the change. One that is pinned stays whatever changes; one that is
    /// known stays, but for what a change moves by itself, such as weights: then the two
    /// estimates' difference is added.
    fn pool(&self, candidate: &Candidate, after: Option<Budget>) -> Option<(u64, bool)> {
        let likely = self.planned.pool.pools()[1];
        let is_pinned = self.planned.source == Source::Pinned && !candidate.drops_pin;
        if self.planned.source == Source::Estimated || candidate.drops_pin {
            return Some((after?.pool.pools()[1], true));
        }
        if is_pinned || !candidate.moves_memory {
            return Some((likely, false));
        }
        let before = self.planned.budget.as_ref().ok()?;
        let gained = Interval::less(after?.pool, before.pool).likely;
        let pool = i64::try_from(likely).ok()?.checked_add(gained)?;
        Some((u64::try_from(pool).ok()?, true))
    }
}

/// Sets a flag, or takes it away; `None` where it does not take the value.
fn apply(request: &mut Request, flag: Flag, value: &str) -> Option<()> {
    if value.is_empty() {
        request.args.clear(flag);
        return Some(());
    }
    let value = if flag == Flag::KvCacheDtype {
        Value::String(value.to_owned())
    } else {
        flag.parse_text(value).ok()?
    };
    request.args.set(flag, &value).ok()
}
