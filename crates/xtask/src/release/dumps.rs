//! Two dumps of `tests/oracle/dump_tables.py`, compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Keys whose value is a list of pairs: a case, each key with the values for which it holds, and its answer.
const PAIRS: [&str; 5] = [
    "priorities",
    "flash_attention_versions",
    "combinations",
    "blocks",
    "batch",
];
/// Tables of rows by backend and capability.
const ROWS: [&str; 3] = [
    "backends",
    "backends_with_flash_attention_2",
    "backends_with_flash_attention_4",
];
/// What describes the dump, not vLLM.
const ABOUT: [&str; 2] = ["release", "asked"];
/// Cases that one line of pairs may stand for; more are compared as they stand.
const MOST_CASES: usize = 200_000;

/// Every difference, a line or a few each.
pub fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for key in keys(before, after) {
        if ABOUT.contains(&key.as_str()) {
            continue;
        }
        let (old, new) = (&before[&key], &after[&key]);
        if ROWS.contains(&key.as_str()) {
            rows(&key, old, new, &mut out);
        } else {
            value(&key, old, new, &mut out);
        }
    }
    out
}

fn keys(before: &Value, after: &Value) -> BTreeSet<String> {
    let of = |value: &Value| -> Vec<String> {
        let map = value.as_object();
        map.map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    };
    of(before).into_iter().chain(of(after)).collect()
}

fn value(path: &str, old: &Value, new: &Value, out: &mut Vec<String>) {
    if old == new {
        return;
    }
    let is_pairs = path.split('.').any(|part| PAIRS.contains(&part));
    match (old, new) {
        (Value::Object(_), Value::Object(_)) => {
            for key in keys(old, new) {
                value(&format!("{path}.{key}"), &old[&key], &new[&key], out);
            }
        }
        (Value::Null, Value::Array(_)) if is_pairs => out.push(format!("- {path} is new")),
        (Value::Array(_), Value::Null) if is_pairs => out.push(format!("- {path} is gone")),
        (Value::Array(a), Value::Array(b)) if is_pairs => pairs(path, a, b, out),
        (Value::Array(a), Value::Array(b)) if a.iter().chain(b).all(Value::is_string) => {
            names(path, a, b, out);
        }
        _ => out.push(format!("- {path}: {} → {}", short(old), short(new))),
    }
}

/// Names that came, went or moved.
fn names(path: &str, old: &[Value], new: &[Value], out: &mut Vec<String>) {
    let texts = |names: &[Value], without: &[Value]| -> Vec<String> {
        let names = names.iter().filter(|name| !without.contains(name));
        names
            .filter_map(|name| Some(name.as_str()?.to_owned()))
            .collect()
    };
    let (gone, come) = (texts(old, new), texts(new, old));
    if gone.is_empty() && come.is_empty() {
        out.push(format!("- {path}: the same names in another order"));
        return;
    }
    let signed = [('+', come), ('−', gone)]
        .into_iter()
        .flat_map(|(sign, names)| names.into_iter().map(move |name| format!("{sign}{name}")));
    out.push(format!(
        "- {path}: {}",
        signed.collect::<Vec<_>>().join(" ")
    ));
}

/// Each single case with its answer.
fn expanded(pairs: &[Value]) -> Option<BTreeMap<String, String>> {
    let mut out = BTreeMap::new();
    for pair in pairs {
        let (case, answer) = (pair.get(0)?.as_object()?, pair.get(1)?.to_string());
        let mut cases = vec![String::new()];
        for (key, values) in case {
            let values = match values {
                Value::Array(values) => values.clone(),
                single => vec![single.clone()],
            };
            if cases.len() * values.len() + out.len() > MOST_CASES {
                return None;
            }
            cases = cases
                .iter()
                .flat_map(|case| {
                    values
                        .iter()
                        .map(move |value| format!("{case} {key}={value}"))
                })
                .collect();
        }
        out.extend(cases.into_iter().map(|case| (case, answer.clone())));
    }
    Some(out)
}

/// Cases whose answer changed, by how it did.
fn pairs(path: &str, old: &[Value], new: &[Value], out: &mut Vec<String>) {
    let (Some(old), Some(new)) = (expanded(old), expanded(new)) else {
        out.push(format!("- {path}: differs (too many cases to tell how)"));
        return;
    };
    let mut changes: BTreeMap<(Option<&String>, Option<&String>), Vec<&String>> = BTreeMap::new();
    for case in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let change = (old.get(case), new.get(case));
        if change.0 != change.1 {
            changes.entry(change).or_default().push(case);
        }
    }
    for ((before, after), cases) in changes {
        let side =
            |text: Option<&String>| text.map_or_else(|| "not asked".to_owned(), |text| clip(text));
        out.push(format!(
            "- {path}, {} cases such as{}:\n    − {}\n    + {}",
            cases.len(),
            cases[0],
            side(before),
            side(after)
        ));
    }
}

/// What each backend answers on each capability.
fn rows(table: &str, old: &Value, new: &Value, out: &mut Vec<String>) {
    for backend in keys(old, new) {
        let (before, after) = (answers(&old[&backend]), answers(&new[&backend]));
        if old.get(&backend).is_none() || new.get(&backend).is_none() {
            let verb = if old.get(&backend).is_none() {
                "is new"
            } else {
                "is gone"
            };
            out.push(format!("- {table}.{backend} {verb}"));
            continue;
        }
        // the capabilities on which the answer changed in the same way
        let mut changes: BTreeMap<(String, String, String), Vec<String>> = BTreeMap::new();
        for key in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let (capability, question) = key;
            let side = |answers: &BTreeMap<_, Value>| answers.get(key).map_or("–".into(), short);
            let (a, b) = (side(&before), side(&after));
            if a != b {
                let change = (question.clone(), a, b);
                changes.entry(change).or_default().push(capability.clone());
            }
        }
        for ((question, a, b), capabilities) in changes {
            out.push(format!(
                "- {table}.{backend} {question} on {}: {a} → {b}",
                capabilities.join(", ")
            ));
        }
    }
}

/// `(capability, question)` → answer.
fn answers(rows: &Value) -> BTreeMap<(String, String), Value> {
    let mut out = BTreeMap::new();
    for row in rows.as_array().into_iter().flatten() {
        for capability in row["capabilities"].as_array().into_iter().flatten() {
            for (question, answer) in row["answers"].as_object().into_iter().flatten() {
                let capability = capability.as_str().unwrap_or_default().to_owned();
                out.insert((capability, question.clone()), answer.clone());
            }
        }
    }
    out
}

fn short(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        other => clip(&other.to_string()),
    }
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(240) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_rows_and_cases_are_told_apart() {
        let before = json!({
            "release": "1", "kv_cache_dtypes": ["auto", "fp8"],
            "defaults": {"gpu_memory_utilization": 0.9},
            "backends": {"A": [{"capabilities": ["9.0", "10.0"], "answers": {"is_mla": false}}], "B": []},
            "priorities": [[{"capability": ["9.0", "10.0"], "use_mla": [true]}, ["A"]]],
        });
        let after = json!({
            "release": "2", "kv_cache_dtypes": ["auto", "fp8", "nvfp4"],
            "defaults": {"gpu_memory_utilization": 0.92},
            "backends": {
                "A": [
                    {"capabilities": ["9.0"], "answers": {"is_mla": false}},
                    {"capabilities": ["10.0"], "answers": {"is_mla": true}},
                ],
                "C": [{"capabilities": ["9.0"], "answers": {"is_mla": true}}],
            },
            "priorities": [
                [{"capability": ["9.0"], "use_mla": [true]}, ["A"]],
                [{"capability": ["10.0"], "use_mla": [true]}, ["C", "A"]],
            ],
        });
        assert_eq!(
            differences(&before, &after),
            [
                "- backends.A is_mla on 10.0: false → true",
                "- backends.B is gone",
                "- backends.C is new",
                "- defaults.gpu_memory_utilization: 0.9 → 0.92",
                "- kv_cache_dtypes: +nvfp4",
                "- priorities, 1 cases such as capability=\"10.0\" use_mla=true:\n    − [\"A\"]\n    + [\"C\",\"A\"]",
            ]
        );
        assert!(differences(&before, &before).is_empty());
    }
}
