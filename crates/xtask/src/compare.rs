//! Where an answer differs from what vLLM recorded. `crates/cases/tests/all_vectors.rs` compares by it, too.

use serde_json::Value;

/// The fields compared, the same as in the vectors' own `compare.py`.
const ANSWER: &[&str] = &[
    "cache_dtype",
    "backends",
    "block_size",
    "kv_cache_layout",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_in_flight_tokens",
    "gpu_memory_utilization",
    "num_blocks",
    "allocated_bytes",
    "capacity_tokens",
    "max_concurrency",
    "printed_tokens",
    "printed_concurrency",
];
/// Compared where the answer has them.
const OPTIONAL: &[&str] = &["parameter_bytes", "parameter_count"];
const REFUSAL: &[&str] = &["error_type", "error", "stage"];
const ROWS: &[(&str, &[&str])] = &[
    (
        "layers",
        &[
            "count",
            "first",
            "kind",
            "block_size",
            "page_size_bytes",
            "tokens_per_state",
            "state_content_bytes",
            "head_size",
            "num_kv_heads",
            "dtype",
            "sliding_window",
            "alignment",
        ],
    ),
    (
        "groups",
        &[
            "kind",
            "block_size",
            "layers",
            "page_size_bytes",
            "blocks_per_request",
        ],
    ),
    (
        "tensors",
        &["layers", "offset", "layer_stride", "block_stride", "size"],
    ),
];
/// Of each of the vector's `ranks`, which are our `stages`.
const STAGE: &[&str] = &["num_blocks", "allocated_bytes", "layers", "first", "groups"];

/// Every way in which our answer differs from vLLM's. What the vector does not hold is not compared.
pub fn differences(want: &Value, got: &Value) -> Vec<String> {
    if !got.is_object() {
        return vec!["the answer is no JSON object".into()];
    }
    if want["ok"] != got["ok"] {
        return vec![format!(
            "ok: want {} ({}) got {} ({})",
            want["ok"],
            short(&want["error"]),
            got["ok"],
            short(&got["error"])
        )];
    }
    if want["ok"] != Value::Bool(true) {
        return differing(REFUSAL, want, got);
    }
    let mut out = differing(ANSWER, want, got);
    let optional: Vec<&str> = OPTIONAL
        .iter()
        .copied()
        .filter(|name| got.get(name).is_some())
        .collect();
    out.extend(differing(&optional, want, got));
    // the drafter's own weights, where both count them
    if let (Some(want), Some(got)) = (
        want["speculative"]["parameter_bytes"].as_u64(),
        got["draft_parameter_bytes"].as_u64(),
    ) && want != got
    {
        out.push(format!("draft_parameter_bytes: want {want} got {got}"));
    }
    for (name, value) in derived(want) {
        if got[name].as_u64() != Some(value) {
            out.push(format!("{name}: want {value} got {}", short(&got[name])));
        }
    }
    for (part, names) in ROWS {
        out.extend(differing_rows(part, names, want.get(part), got.get(part)));
    }
    let (ranks, stages) = (want.get("ranks"), got.get("stages"));
    out.extend(differing_rows("stages", STAGE, ranks, stages));
    let both = ranks
        .zip(stages)
        .and_then(|(ranks, stages)| ranks.as_array().zip(stages.as_array()));
    for (stage, (rank, own)) in both
        .into_iter()
        .flat_map(|(a, b)| a.iter().zip(b))
        .enumerate()
    {
        for (part, names) in ROWS {
            if *part == "tensors" {
                let part = format!("stages[{stage}] {part}");
                out.extend(differing_rows(
                    &part,
                    names,
                    rank.get("tensors"),
                    own.get("tensors"),
                ));
            }
        }
    }
    out
}

/// What the vector has no rows of is not compared.
fn differing_rows(
    part: &str,
    names: &[&str],
    want: Option<&Value>,
    got: Option<&Value>,
) -> Vec<String> {
    let Some(want) = want.and_then(Value::as_array) else {
        return Vec::new();
    };
    let got = got.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if want.len() != got.len() {
        return vec![format!(
            "{part}: want {} rows got {}",
            want.len(),
            got.len()
        )];
    }
    let rows = want.iter().zip(got).enumerate();
    rows.flat_map(|(row, (want, got))| {
        let differences = differing(names, want, got).into_iter();
        differences.map(move |difference| format!("{part}[{row}] {difference}"))
    })
    .collect()
}

fn differing(names: &[&str], want: &Value, got: &Value) -> Vec<String> {
    names
        .iter()
        .filter_map(|name| Some((name, want.get(name)?, &got[name])))
        .filter(|(_, want, got)| !same(want, got))
        .map(|(name, want, got)| format!("{name}: want {} got {}", short(want), short(got)))
        .collect()
}

/// Equal, or floats that differ only in their last digits.
fn same(want: &Value, got: &Value) -> bool {
    match (want.as_f64(), got.as_f64()) {
        (Some(want_float), Some(got_float)) if want.is_f64() => {
            (want_float - got_float).abs() <= 1e-9 * want_float.abs()
        }
        _ => want == got,
    }
}

/// Two figures that the vector does not print but determines, where all tensors share one allocation.
fn derived(want: &Value) -> Vec<(&'static str, u64)> {
    let figures = || {
        let tensors = want.get("tensors").and_then(Value::as_array);
        if tensors
            .is_some_and(|tensors| tensors.iter().any(|tensor| tensor.get("offset").is_none()))
        {
            return None;
        }
        let groups = want["groups"].as_array()?;
        let block = want["allocated_bytes"]
            .as_u64()?
            .checked_div(want["num_blocks"].as_u64()?)?;
        let blocks: u64 = groups
            .iter()
            .filter_map(|group| group["blocks_per_request"].as_u64())
            .sum();
        Some(vec![
            ("bytes_per_block", block),
            ("request_bytes", block * blocks),
        ])
    };
    figures().unwrap_or_default()
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_vector_holds_is_compared() {
        let want = json!({"ok": true, "num_blocks": 7});
        assert!(
            differences(
                &want,
                &json!({"ok": true, "num_blocks": 7, "block_size": 256})
            )
            .is_empty()
        );
        assert_eq!(
            differences(&want, &json!({"ok": true})),
            ["num_blocks: want 7 got null"]
        );
    }

    #[test]
    fn a_refusal_is_compared_to_the_letter() {
        let want =
            json!({"ok": false, "stage": "config", "error_type": "ValueError", "error": "No."});
        assert!(differences(&want, &want).is_empty());
        assert_eq!(
            differences(
                &want,
                &json!({"ok": false, "stage": "config", "error_type": "ValueError", "error": "no."})
            ),
            [r#"error: want "No." got "no.""#]
        );
        assert_eq!(differences(&want, &json!({"ok": true})).len(), 1);
        assert_eq!(
            differences(&want, &Value::Null),
            ["the answer is no JSON object"]
        );
    }

    #[test]
    fn rows_and_derived_figures_are_compared() {
        let want = json!({
            "ok": true, "allocated_bytes": 100, "num_blocks": 10,
            "groups": [{"kind": "mla", "blocks_per_request": 3}],
            "tensors": [{"offset": 0}],
        });
        let mut got = want.clone();
        got["bytes_per_block"] = json!(10);
        got["request_bytes"] = json!(30);
        assert!(differences(&want, &got).is_empty());
        got["request_bytes"] = json!(31);
        got["groups"][0]["kind"] = json!("full");
        assert_eq!(
            differences(&want, &got),
            [
                "request_bytes: want 30 got 31",
                r#"groups[0] kind: want "mla" got "full""#
            ]
        );
    }

    #[test]
    fn floats_may_differ_in_the_last_digit_and_integers_may_not() {
        assert!(same(&json!(5.56), &json!(5.560_000_000_000_001)));
        assert!(!same(&json!(5.56), &json!(5.57)));
        assert!(!same(
            &json!(10_000_000_000_u64),
            &json!(10_000_000_001_u64)
        ));
    }
}
