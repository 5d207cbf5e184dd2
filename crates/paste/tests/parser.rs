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

#[test]
fn argparse_ends_in_its_own_words() {
    for (words, error) in [
        ("x/y -tp 2", None),
        (
            "x/y --swap-space 4 -tp 2 z",
            Some("vllm: error: unrecognized arguments: --swap-space … z"),
        ),
        (
            "--no-such=1 x/y",
            Some("vllm: error: unrecognized arguments: --no-such=1"),
        ),
        (
            "x/y --apikey=1",
            Some("vllm: error: unrecognized arguments: --apikey=…"),
        ),
        (
            "x/y --no-such -tp two",
            Some(
                "vllm serve: error: argument --tensor-parallel-size/-tp: invalid int value: 'two'",
            ),
        ),
        (
            "x/y --max-model-len abc",
            Some(
                "vllm serve: error: argument --max-model-len: Value abc cannot be converted to <function human_readable_int_or_auto at 0x…>.",
            ),
        ),
        (
            "x/y --max-model-len 1.5K",
            Some(
                "vllm serve: error: argument --max-model-len: Decimals are not allowed with binary suffixes like K. Did you mean to use 1.5k instead?",
            ),
        ),
        (
            "x/y --block-size abc",
            Some(
                "vllm serve: error: argument --block-size: Value abc cannot be converted to <class 'int'>.",
            ),
        ),
        (
            "x/y --gpu-memory-utilization abc",
            Some(
                "vllm serve: error: argument --gpu-memory-utilization/--device-memory-utilization: invalid float value: 'abc'",
            ),
        ),
        (
            "x/y --enforce-eager=1",
            Some(
                "vllm serve: error: argument --enforce-eager/--no-enforce-eager: ignored explicit argument '1'",
            ),
        ),
        (
            "x/y --kv-cache-dtype",
            Some("vllm serve: error: argument --kv-cache-dtype: expected one argument"),
        ),
        (
            "x/y --block-size abc --max-num 4",
            Some(
                "vllm serve: error: ambiguous option: --max-num could match --max-num-batched-tokens, --max-num-seqs, …",
            ),
        ),
        (
            "--served-model-name a",
            Some(
                "ValueError: `model` should be provided as the first positional argument when using `vllm serve`. i.e. `vllm serve <model> --<arg> <value>`.",
            ),
        ),
    ] {
        let pasted = read(&format!("vllm serve {words}"), Release::LATEST).unwrap();
        assert_eq!(pasted.stops().as_deref(), error, "{words}");
        assert_eq!(
            pasted.commands[0].problems.iter().any(Problem::stops_vllm),
            error.is_some()
        );
    }
    // of a version without rules nothing is known
    let image = "docker run vllm/vllm-openai:v9.9.9 --model x/y --no-such";
    let image = image.replace("v9", "v0");
    assert_eq!(read(&image, Release::LATEST).unwrap().stops(), None);
}
