//! What the documents say that `kvx` prints, it prints: every block with a line `$ … kvx …` is run and compared. There `…`
//! stands for what is left out: whole lines where it stands alone, or a part of a line.
#![cfg(unix)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LEFT_OUT: &str = "…";

/// How `kvx` is called from a checkout.
const FROM_SOURCE: &str = "cargo run --release --package kvx-cli --";

/// A command, and what is said that it prints.
#[derive(Debug, PartialEq)]
struct Example {
    command: String,
    printed: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README, and what lies in docs/.
fn documents() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let mut documents: Vec<PathBuf> = docs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    documents.extend(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    documents.sort();
    documents
}

/// The examples in a document: a block may have several, each up to the next `$`.
fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let mut lines = block.lines().skip(1).map(str::trim_end);
        let mut current: Option<Example> = None;
        while let Some(line) = lines.next() {
            if let Some(command) = line.strip_prefix("$ ") {
                examples.extend(current.take());
                let mut command = command.to_owned();
                while command.ends_with('\\') {
                    command.pop();
                    command.push_str(lines.next().unwrap_or_default().trim());
                }
                current = Some(Example {
                    command: command.replace(FROM_SOURCE, "kvx"),
                    printed: Vec::new(),
                });
            } else if let Some(example) = &mut current {
                example.printed.push(line.to_owned());
            }
        }
        examples.extend(current);
    }
    examples.retain(|example| example.command.split(' ').any(|word| word == "kvx"));
    examples
}

/// What a shell prints for it, in the folder of the documents' own files.
fn run(command: &str) -> Vec<String> {
    let kvx = Path::new(env!("CARGO_BIN_EXE_kvx"));
    let own = kvx.parent().unwrap().to_path_buf();
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([own].into_iter().chain(env::split_paths(&inherited))).unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}; }} 2>&1")])
        .current_dir(root().join("docs/examples"))
        .env("PATH", path)
        // what is printed beside a GPU is that GPU's own
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Whether lines are what is said of them.
fn are(said: &[String], lines: &[String]) -> bool {
    match said.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first.trim() == LEFT_OUT => {
            (0..=lines.len()).any(|skipped| are(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| is(first, line) && are(rest, others)),
    }
}

fn is(said: &str, line: &str) -> bool {
    match said.split_once(LEFT_OUT) {
        None => said == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|after| {
            let mut ends = after.char_indices().map(|(at, _)| at);
            ends.any(|at| is(rest, &after[at..])) || is(rest, "")
        }),
    }
}

#[test]
fn kvx_prints_what_the_documents_say() {
    let mut run_in_all = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for example in examples(&text) {
            let lines = run(&example.command);
            let missing: Vec<&String> = example
                .printed
                .iter()
                .filter(|said| said.trim() != LEFT_OUT)
                .filter(|said| !lines.iter().any(|line| is(said, line)))
                .collect();
            assert!(
                are(&example.printed, &lines),
                "{}: `{}` prints otherwise (or in another order, or more at an end without …).\nNot printed: {missing:#?}\nPrinted:\n{}",
                document.display(),
                example.command,
                lines.join("\n")
            );
            run_in_all += 1;
        }
    }
    // README alone has five
    assert!(run_in_all >= 5, "only {run_in_all} examples were found");
}

#[test]
fn an_example_goes_up_to_the_next_command() {
    let text = "a\n```\n$ kvx a \\\n    b\none\n…\n$ ls\nno\n$ echo x | kvx c\ntwo\n```\nkvx\n```sh\n$ kvxx\n```\n";
    let expected = [
        ("kvx a b", vec!["one", "…"]),
        ("echo x | kvx c", vec!["two"]),
    ];
    let expected = expected.map(|(command, printed)| Example {
        command: command.to_owned(),
        printed: printed.into_iter().map(str::to_owned).collect(),
    });
    assert_eq!(examples(text), expected);
}

#[test]
fn only_what_is_left_out_may_differ() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let printed = lines("one\ntwo 2\nthree");
    for said in [
        "one\ntwo 2\nthree",
        "…\nthree",
        "one\n…",
        "one\ntwo …\nthree",
        "one\n…\nthree\n…",
    ] {
        assert!(are(&lines(said), &printed), "{said}");
    }
    for said in [
        "one",
        "one\nthree",
        "two 2\nthree",
        "one\ntwo … x\nthree",
        "…\none\n…\none",
    ] {
        assert!(!are(&lines(said), &printed), "{said}");
    }
}
