//! The words behind `vllm serve` as vLLM's own parser took them: `golden/argv.jsonl`, by `tests/oracle/options.py parse`.

use kv_paste::{Problem, Standing, read};
use kv_resolver::{Flag, Release, Value};

const ROWS: &str = include_str!("golden/argv.jsonl");

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[test]
fn vllms_parser_takes_them_so() {
    let mut wrong = Vec::new();
    let (mut taken, mut stopped) = (0, 0);
    for line in ROWS.lines() {
        let row = kv_cases::parse_config(line).unwrap();
        let release: Release = row
            .get("release")
            .and_then(Value::as_str)
            .unwrap()
            .parse()
            .unwrap();
        let Some(Value::Array(argv)) = row.get("argv") else {
            panic!("{line}")
        };
        let words: Vec<String> = argv
            .iter()
            .map(|word| quoted(word.as_str().unwrap()))
            .collect();
        let text = format!("vllm serve {}", words.join(" "));
        let pasted = read(&text, release).unwrap();
        let command = &pasted.commands[0];
        let stops = command.problems.iter().any(Problem::stops_vllm);
        if row.get("stops").is_some() {
            stopped += 1;
            if !stops {
                wrong.push(format!("{release} should stop: {text}"));
            }
            continue;
        }
        taken += 1;
        if stops {
            wrong.push(format!(
                "{release} should go on: {text}: {:?}",
                command.problems
            ));
            continue;
        }
        let Some(Value::Object(set)) = row.get("set") else {
            panic!("{line}")
        };
        for (name, value) in set {
            match name.as_str() {
                "model_tag" => {
                    if command.model.as_deref() != value.as_str() {
                        wrong.push(format!("{text}: model {:?}", command.model));
                    }
                }
                "subparser" | "dispatch_function" | "model" => {}
                _ => {
                    let found = command.passed.iter().find(|passed| passed.name == *name);
                    let is_same = found.is_some_and(|passed| {
                        let is_read =
                            matches!(passed.standing, Standing::Modelled(_) | Standing::Drafting);
                        !is_read || same(&passed.value, value)
                    });
                    if !is_same {
                        wrong.push(format!("{release} {text}: {name}={value:?}, not {found:?}"));
                    }
                }
            }
        }
        for passed in &command.passed {
            // what is at its default is not in the row
            let is_number = passed
                .name
                .parse::<Flag>()
                .is_ok_and(|flag| flag == Flag::TensorParallelSize);
            if is_number
                && passed.value != Value::Integer(1)
                && !set.iter().any(|(name, _)| *name == passed.name)
            {
                wrong.push(format!("{release} {text}: {} is not set", passed.name));
            }
        }
    }
    assert!(taken > 200 && stopped > 200, "{taken} {stopped}");
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Python prints 2 and 2.0 alike in JSON.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Integer(_)) => {
            other.as_integer() == Value::Float(*one).as_integer()
        }
        (Value::Object(one), Value::Object(_)) => one
            .iter()
            .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other))),
        _ => one == other,
    }
}
