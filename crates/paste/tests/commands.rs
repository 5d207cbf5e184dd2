//! Commands as people write them, and what is read of each: `golden/commands.txt`. A case is its name behind `===`,
//! the text, and behind `---` what comes of it, a line each. `KV_PASTE_WRITE=1` writes what comes of them now.

use std::fmt::Write as _;
use std::fs;

use kv_paste::{Command, read};
use kv_resolver::{Release, Usage};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/commands.txt");

fn shown(commands: &[Command]) -> String {
    let mut out = String::new();
    for (at, command) in commands.iter().enumerate() {
        if at > 0 {
            out.push_str("and\n");
        }
        if command.usage == Usage::Llm {
            out.push_str("usage llm\n");
        }
        if let Some(model) = &command.model {
            let _ = writeln!(out, "model {model}");
        }
        if let Some(version) = &command.version {
            let _ = writeln!(out, "version {version}");
        }
        if let Some(gpus) = command.visible_gpus {
            let _ = writeln!(out, "gpus {gpus}");
        }
        for (name, value) in &command.variables {
            let _ = writeln!(out, "env {name}={value}");
        }
        for flag in &command.passed {
            let _ = writeln!(
                out,
                "{}={}  {}",
                flag.name,
                kv_cases::value_json(&flag.value),
                flag.standing.as_str()
            );
        }
        for problem in command.problems.iter().chain(&command.args().1) {
            let _ = writeln!(out, "! {}", problem.text());
        }
    }
    out
}

#[test]
fn what_is_read_of_each_command() {
    let golden = fs::read_to_string(PATH).unwrap();
    let (mut now, mut wrong, mut count) = (String::new(), Vec::new(), 0);
    for case in golden.split("=== ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, expected) = rest.rsplit_once("---\n").unwrap_or((rest, ""));
        let found = shown(&read(text, Release::LATEST).unwrap().commands);
        if found != expected {
            wrong.push(format!("{name}:\n{found}"));
        }
        let _ = write!(now, "=== {name}\n{text}---\n{found}");
        count += 1;
    }
    if std::env::var_os("KV_PASTE_WRITE").is_some() {
        fs::write(PATH, now).unwrap();
        return;
    }
    assert!(count >= 60, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
