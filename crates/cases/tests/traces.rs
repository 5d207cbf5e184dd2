//! Why, in words: the trace, the log's lines and the notes of some questions, as `traces.txt` has them. It is rewritten with
//! `KV_WRITE_TRACES=1 cargo test --package kv-cases --test traces`; what changes is to be read.

use std::fmt::Write as _;
use std::fs;

use kv_cases::parse_case;
use kv_resolver::resolve;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces.txt");

/// What is decided about a case, a step a line.
fn trace(case: &str) -> String {
    let request = parse_case(case).1.expect("a well-formed case");
    let (trace, log, end) = match resolve(&request) {
        Ok(r) => {
            let notes = r.notes.iter();
            let notes: Vec<String> = notes
                .map(|note| format!("{}: {}\n", note.code, note.text))
                .collect();
            let end = notes.concat() + r.outcome.as_str();
            (r.trace, r.log, end)
        }
        Err(error) => (
            error.trace,
            error.log,
            format!("{}: {}", error.refusal.error_type(), error.refusal),
        ),
    };
    let mut text = format!("{case}\n");
    for step in trace {
        let rule = step.rule;
        let _ = writeln!(text, "{} {} | {}", rule.file, rule.function, step.decided);
    }
    for line in log {
        let _ = writeln!(text, "{} {}", line.level.as_str(), line.text);
    }
    text + &end
}

#[test]
fn the_reasons_are_told_as_they_were() {
    let recorded = fs::read_to_string(FILE).unwrap();
    let cases = recorded.lines().filter(|line| line.starts_with('{'));
    let told: Vec<String> = cases.map(trace).collect();
    let told = told.join("\n\n") + "\n";
    if std::env::var_os("KV_WRITE_TRACES").is_some() {
        fs::write(FILE, &told).unwrap();
    }
    assert!(told.matches("\n{").count() > 10, "no case");
    for (want, got) in recorded.lines().zip(told.lines()) {
        assert_eq!(got, want);
    }
    assert_eq!(told.lines().count(), recorded.lines().count());
}
