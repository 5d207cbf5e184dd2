//! Of what is written: a question and an answer come back from JSON as they were.
//!
//! That native answers and those of wasm are the same bytes is a law, too: the step `wasm` of `cargo xtask test` holds every
//! answer to a vector against the native one, in Chromium (`tests/web.rs`).

use kv_cases::{parse_case, parse_config, resolve_line, result_value, value_json};
use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::{Flag, Request, Value, resolve};
use proptest::prelude::*;

use crate::config;
use crate::questions::questions;

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// The case that asks this.
fn case(request: &Request) -> String {
    let mut args: Vec<(String, Value)> = Flag::ALL
        .into_iter()
        .filter_map(|flag| Some((flag.name().to_owned(), request.args.passed(flag)?)))
        .collect();
    if let Some(drafter) = &request.args.speculative_config {
        args.push((SPECULATIVE_CONFIG.to_owned(), drafter.clone()));
    }
    let (env, capability) = (&request.env, request.gpu.capability);
    let layout = env.kv_cache_layout.iter();
    let env = layout.map(|layout| ("VLLM_KV_CACHE_LAYOUT".to_owned(), text(layout)));
    #[allow(clippy::cast_precision_loss)] // memory of a GPU
    let gib = request.gpu.total_memory_bytes as f64 / f64::from(1 << 30);
    let capability = [capability.major, capability.minor].map(|part| Value::Integer(part.into()));
    let gpu = [
        ("cc", Value::Array(capability.into())),
        ("name", text(&request.gpu.name)),
        ("mem_gib", Value::Float(gib)),
    ];
    let named = |(name, value): (&str, Value)| (name.to_owned(), value);
    let pool = request
        .available_memory
        .map_or(Value::Null, |pool| Value::Integer(pool.into()));
    let entries = [
        ("id", Value::Integer(7)),
        ("release", text(request.release.version())),
        ("hf_config", Value::clone(&request.hf_config)),
        (
            "draft_hf_config",
            request.draft_config.clone().unwrap_or_default(),
        ),
        ("gpu", Value::Object(gpu.map(named).into())),
        ("args", Value::Object(args)),
        ("env", Value::Object(env.collect())),
        ("available_memory", pool),
        ("usage", text(request.usage.as_str())),
    ];
    value_json(&Value::Object(entries.map(named).into()))
}

/// The same, but for the last digit of a float of more than fifteen: serde_json reads those quickly, not exactly, unless it
/// is built with another feature, and no rule hangs on it.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => (one - other).abs() <= one.abs() * 1e-15,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            let mut both = one.iter().zip(other);
            one.len() == other.len() && both.all(|((a, x), (b, y))| a == b && same(x, y))
        }
        _ => one == other,
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn a_question_comes_back_as_it_was(request in questions()) {
        let mut request = request;
        // a described GPU leaves torch's figures out
        request.gpu.torch_total_bytes = None;
        let (id, read) = parse_case(&case(&request));
        prop_assert_eq!(id, Value::Integer(7));
        prop_assert_eq!(read, Ok(request));
    }

    #[test]
    fn an_answer_comes_back_as_it_was(request in questions()) {
        let line = resolve_line(&case(&request), 1);
        let read = parse_config(&line).unwrap();
        let again = parse_config(&value_json(&read)).unwrap();
        prop_assert!(same(&read, &again), "{line}");
        // … and has what was answered
        let id = Value::Integer(7);
        let mut asked = request;
        asked.gpu.torch_total_bytes = None;
        let answer = resolve(&asked);
        let value = result_value(&id, &answer);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(&value, &line);
        match answer {
            Ok(r) => {
                prop_assert_eq!(line["ok"].as_bool(), Some(true));
                prop_assert_eq!(line["request_bytes"].as_u64(), Some(r.request_bytes));
                let groups = line["groups"].as_array().map(Vec::len);
                prop_assert_eq!(groups, Some(r.groups.len()));
                let capacity = r.capacity.expect("a pool was given");
                prop_assert_eq!(line["num_blocks"].as_u64(), Some(capacity.num_blocks));
                let concurrency = Value::Float(line["max_concurrency"].as_f64().unwrap());
                prop_assert!(same(&Value::Float(capacity.max_concurrency), &concurrency));
            }
            Err(error) => {
                prop_assert_eq!(line["ok"].as_bool(), Some(false));
                let text = error.refusal.to_string();
                prop_assert_eq!(line["error"].as_str(), Some(text.as_str()));
                prop_assert_eq!(line["stage"].as_str(), Some(error.refusal.stage().as_str()));
            }
        }
    }
}
