//! Writing what `kvx plan` answers.

use kv_resolver::Resolution;
use kv_resolver::capacity::{Fit, Share};
use kv_resolver::changes::Changes;
use kv_resolver::memory::{Budget, Interval, Planned, Source};
use serde::Serialize;

#[derive(Serialize)]
struct Plan<'a> {
    ok: bool,
    source: Source,
    pool: Interval,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a Budget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_estimated: Option<&'a str>,
    ends: Vec<End<'a>>,
    max_model_len: u64,
    shares: Vec<Share>,
    #[serde(flatten)]
    changes: &'a Changes,
}

#[derive(Serialize)]
struct End<'a> {
    pool_bytes: u64,
    #[serde(flatten)]
    fit: Option<&'a Fit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_request: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The pool, what its ends hold, who holds a request, and what to change. `base` is the
/// question's answer without a pool.
#[must_use]
pub fn plan_value(base: &Resolution, planned: &Planned, changes: &Changes) -> serde_json::Value {
    let ends = planned.ends.iter().map(|end| {
        let stopped = planned.stops.as_ref().or(end.fit.as_ref().err());
        let fit = end.fit.as_ref().ok().filter(|_| stopped.is_none());
        End {
            pool_bytes: end.pool_bytes,
            fit,
            longest_request: fit.and_then(|_| base.longest_request(end.pool_bytes).ok()),
            error_type: stopped.map(|refusal| refusal.error_type()),
            error: stopped.map(ToString::to_string),
        }
    });
    let plan = Plan {
        ok: planned.refusal().is_none(),
        source: planned.source,
        pool: planned.pool,
        budget: planned.budget.as_ref().ok(),
        not_estimated: planned.budget.as_ref().err().map(String::as_str),
        ends: ends.collect(),
        max_model_len: base.max_model_len,
        shares: base.shares(base.max_model_len).unwrap_or_default(),
        changes,
    };
    serde_json::to_value(plan).unwrap_or_default()
}
