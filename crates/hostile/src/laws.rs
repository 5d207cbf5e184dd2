//! What holds of any answer to any question.

use std::collections::BTreeSet;

use kv_resolver::memory::{self, Interval};
use kv_resolver::model::Model;
use kv_resolver::plan::demand::Demand;
use kv_resolver::{Outcome, Refusal, Request, Resolution, StartupError, resolve_quietly};

use crate::within;

/// More layers than anything has.
const MOST_LAYERS: usize = 4096;
/// Every figure is a number to others, too.
const MOST: u64 = i64::MAX.unsigned_abs();

/// Of an answer, whichever it is.
///
/// # Panics
/// Where it does not hold.
pub fn of_answer(request: &Request, result: &Result<Resolution, StartupError>) {
    let quiet = within("the same, quietly", || resolve_quietly(request));
    match (result, quiet) {
        (Ok(loud), Ok(quiet)) => {
            assert_eq!(
                (loud.request_bytes, &loud.groups, &loud.capacity),
                (quiet.request_bytes, &quiet.groups, &quiet.capacity),
                "a quiet answer is another"
            );
            of_resolution(request, loud);
        }
        (Err(loud), Err(quiet)) => {
            assert_eq!(loud.refusal.to_string(), quiet.to_string());
            of_error(loud);
        }
        (loud, quiet) => panic!("{:?} aloud, {:?} quietly", loud.is_ok(), quiet.is_ok()),
    }
}

/// An error has a word to say, and what it says is short.
fn of_error(error: &StartupError) {
    let text = error.refusal.to_string();
    assert!(!text.is_empty() || !error.notes.is_empty(), "{error:?}");
    assert!(!matches!(
        error.refusal.outcome(),
        Outcome::Works | Outcome::Becomes | Outcome::Unverified
    ));
    if let Refusal::RequestDoesNotFit {
        needed_bytes,
        available_bytes,
        ..
    } = error.refusal
    {
        assert!(i128::from(needed_bytes) > available_bytes, "{text}");
    }
    for advice in &error.advice {
        assert!(!advice.text.is_empty(), "{advice:?}");
    }
}

fn of_resolution(request: &Request, answer: &Resolution) {
    // there is no answer without a model
    let model = Model::from_config(&request.hf_config).expect("a model is answered for");
    let layers: usize = answer.layers.iter().map(|row| row.count).sum();
    assert!((1..=MOST_LAYERS).contains(&layers), "{layers} layers");
    assert!(model.common.num_hidden_layers >= 1 && model.common.head_size >= 1);
    assert!(!answer.groups.is_empty() && !answer.backends.is_empty());
    assert!(matches!(
        answer.outcome,
        Outcome::Works | Outcome::Becomes | Outcome::Unverified
    ));
    for (name, figure) in [
        ("max_model_len", answer.max_model_len),
        ("max_num_batched_tokens", answer.max_num_batched_tokens),
        ("max_num_seqs", answer.max_num_seqs),
        ("block_size", answer.block_size),
        ("reported_block_size", answer.reported_block_size),
        ("bytes_per_block", answer.bytes_per_block),
        ("request_bytes", answer.request_bytes),
        ("tokens", answer.marginal_bytes_per_token.tokens),
    ] {
        assert!((1..=MOST).contains(&figure), "{name} is {figure}");
    }
    assert!(answer.gpu_memory_utilization.is_finite());
    for row in &answer.layers {
        assert!(row.count >= 1 && row.block_size >= 1, "{row:?}");
        assert!((1..=MOST).contains(&row.page_size_bytes), "{row:?}");
        assert!(
            row.unpadded_page_size_bytes <= row.page_size_bytes,
            "{row:?}"
        );
    }
    of_request(answer);
    of_capacity(request, answer);
    of_numbers(&serde_json::to_value(answer).expect("an answer is JSON"));
}

/// What one request needs is what its groups need.
fn of_request(answer: &Resolution) {
    let groups = &answer.groups;
    let sum = groups.iter().map(|group| group.request_bytes).sum::<u64>();
    assert_eq!(sum, answer.request_bytes);
    for group in groups {
        // a pipeline's first stage may have no layer of a group
        let is_empty = group.layers == 0 && answer.stages.is_empty();
        assert!(group.block_size >= 1 && !is_empty, "{group:?}");
        assert_eq!(
            Some(group.request_bytes),
            group.blocks_per_request.checked_mul(answer.bytes_per_block)
        );
        // … and a narrower block than another stage's
        let width = group.page_size_bytes + group.padding_bytes;
        assert!(
            width <= answer.bytes_per_block.max(group.page_size_bytes) || !answer.stages.is_empty()
        );
    }
    let fixed = groups
        .iter()
        .map(|group| group.fixed_bytes_per_request)
        .sum::<u64>();
    assert_eq!(fixed, answer.fixed_bytes_per_request);
    let at = |length| answer.request_bytes_at(length).map(|bytes| bytes.total);
    assert_eq!(at(answer.max_model_len), Ok(answer.request_bytes));
    let half = at(answer.max_model_len / 2).expect("less than at its whole length");
    assert!(half <= answer.request_bytes);
    // past every window, a period costs its marginal bytes
    let period = answer.marginal_bytes_per_token.tokens;
    let reach = groups.iter().map(|group| match group.demand {
        Demand::Window { reach, .. } | Demand::Chunk { reach, .. } => reach,
        Demand::Full { .. } | Demand::Constant { .. } => 0,
    });
    let far = period.saturating_mul(1 + reach.max().unwrap_or(0) / period);
    if let (Ok(before), Some(Ok(after))) = (at(far), far.checked_add(period).map(at)) {
        assert_eq!(after - before, answer.marginal_bytes_per_token.bytes);
    }
}

/// What a pool comes to lies within it.
fn of_capacity(request: &Request, answer: &Resolution) {
    let Some(capacity) = &answer.capacity else {
        assert_eq!(request.available_memory, None);
        return;
    };
    let pool = answer.available_memory.expect("a pool has a size");
    if request.args.num_gpu_blocks_override.is_none() {
        assert!(
            capacity.allocated_bytes <= pool,
            "{} of {pool}",
            capacity.allocated_bytes
        );
    }
    assert!(capacity.num_blocks >= 1);
    assert!(capacity.max_concurrency.is_finite() && capacity.max_concurrency > 0.0);
    let placements = answer.placements();
    let names: BTreeSet<&str> = placements.iter().map(|place| place.name.as_str()).collect();
    assert_eq!(names.len(), placements.len(), "a layer has two places");
    for place in &placements {
        assert!(place.group < answer.groups.len() && place.layer < answer.layers.len());
        assert!(place.offset < capacity.allocated_bytes, "{place:?}");
    }
    if answer.stages.is_empty() {
        let layers: usize = answer.layers.iter().map(|row| row.count).sum();
        assert_eq!(placements.len(), layers);
    }
}

/// There is no number that JSON does not have: a float that is none becomes null.
fn of_numbers(answer: &serde_json::Value) {
    for key in [
        "max_concurrency",
        "gpu_memory_utilization",
        "marginal_bytes_per_token",
        "num_blocks",
    ] {
        if let Some(value) = answer.get(key) {
            assert!(value.is_number(), "{key} is {value}");
        }
    }
}

/// What else the page and the command line tell of an answer: the pool by estimate, who holds a request, and what the
/// pages are made of.
///
/// # Panics
/// Where it does not hold.
pub fn of_what_follows(request: &Request, answer: &Resolution) {
    let open = memory::without_pool(request);
    if let Ok(planned) = within("a plan", || memory::plan(&open, None)) {
        let parts = planned.budget.iter().flat_map(|budget| &budget.parts);
        for interval in parts.map(|part| part.bytes).chain([planned.pool]) {
            let Interval { low, likely, high } = interval;
            assert!(low <= likely && likely <= high, "{interval:?}");
        }
    }
    let shares = answer.shares(answer.max_model_len).expect("what is summed");
    let mut total = 0;
    for share in &shares {
        let parts = share.content_bytes + share.in_flight_bytes + share.padding_bytes;
        assert_eq!(share.total_bytes, parts, "{share:?}");
        total += share.total_bytes;
    }
    assert_eq!(total, answer.request_bytes);
    for layer in within("its pages", || answer.anatomy()) {
        let page = &layer.page;
        let kernel = page.kernel_blocks.checked_mul(page.kernel_block_bytes);
        assert!(kernel.is_some_and(|bytes| bytes <= page.bytes), "{page:?}");
        for region in &page.regions {
            let end = region.offset.checked_add(region.bytes());
            assert!(
                end.is_some_and(|end| end <= page.kernel_block_bytes),
                "{page:?}"
            );
            for field in &region.fields {
                assert!(field.offset + field.bytes <= region.stride, "{region:?}");
            }
        }
        assert!(!layer.lines(answer).is_empty());
    }
    let json = within("its pages, as JSON", || answer.anatomy_json());
    let pages: serde_json::Value = serde_json::from_str(&json).expect("pages are JSON");
    assert!(pages.is_array());
}
