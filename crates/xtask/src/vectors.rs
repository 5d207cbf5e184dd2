//! vLLM's recorded answers (`tests/vectors/*.jsonl`, lines of `{"case": …, "result": …}`) against `kvx resolve`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::compare::differences;
use crate::native;
use crate::record::Record;
use crate::workspace::{Fallible, Workspace, run};

/// More would only bury the first.
const MISMATCHES_SHOWN: usize = 10;

/// Builds kvx, has it answer every vector's case and compares with vLLM's answers. The answers are kept for the
/// browser test, which must come to the same bytes.
pub fn check(workspace: &Workspace) -> Fallible<String> {
    let (counted, record) = compare(workspace)?;
    let stale = record.stale(workspace);
    if !stale.is_empty() {
        return Err(format!(
            "run `cargo xtask record`, which rewrites {}",
            stale.join(", ")
        )
        .into());
    }
    Ok(counted)
}

/// Does the same, and writes what it has counted.
pub fn record(workspace: &Workspace) -> Fallible {
    let (_, record) = compare(workspace)?;
    record.write(workspace)?;
    // the page's first answer says on what it stands
    run(workspace
        .cargo(["test", "--package", "kv-explorer", "--lib", "ui::first"])
        .env("KV_WRITE_FIRST_ANSWER", "1"))
}

fn compare(workspace: &Workspace) -> Fallible<(String, Record)> {
    // Whatever fails below, the browser test must not compare with the answers of an earlier run.
    let answers_folder = answers_folder(workspace);
    if answers_folder.exists() {
        fs::remove_dir_all(&answers_folder)?;
    }
    run(&mut workspace.cargo(["build", "--release", "--package", "kvx-cli"]))?;
    let files = vector_files(&workspace.root.join("tests/vectors"))?;
    fs::create_dir_all(&answers_folder)?;

    let mut included = String::from("&[\n");
    let (mut passed, mut failed) = (0, 0);
    let mut record = Record::default();
    for file in &files {
        let name = file
            .file_stem()
            .ok_or("a vector file without a name")?
            .display()
            .to_string();
        let vectors = read_vectors(file)?;
        let mut cases = String::new();
        for (case, _) in &vectors {
            cases.push_str(case);
            cases.push('\n');
        }
        let answers = resolve(workspace, &cases).map_err(|error| format!("{name}: {error}"))?;
        record.count(&kvx(workspace, "signatures", &cases)?);
        let mismatches =
            mismatches(&vectors, &answers).map_err(|error| format!("{name}: {error}"))?;
        for mismatch in mismatches.iter().take(MISMATCHES_SHOWN) {
            println!("{mismatch}");
        }
        println!(
            "{name}: {} of {} equal",
            vectors.len() - mismatches.len(),
            vectors.len()
        );
        passed += vectors.len() - mismatches.len();
        failed += mismatches.len();

        fs::write(answers_folder.join(format!("{name}.cases.jsonl")), &cases)?;
        fs::write(
            answers_folder.join(format!("{name}.answers.jsonl")),
            &answers,
        )?;
        writeln!(
            included,
            "    (\"{name}\", include_str!(\"{name}.cases.jsonl\"), include_str!(\"{name}.answers.jsonl\")),"
        )?;
    }
    included.push_str("]\n");
    fs::write(answers_folder.join("files.rs"), included)?;
    native::write_plan(workspace, &answers_folder)?;

    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        return Err(format!("{failed} vectors differ from vLLM's answers").into());
    }
    if passed == 0 {
        return Err("there is no vector in tests/vectors".into());
    }
    Ok((format!("{passed} vectors"), record))
}

/// Where the native answers are, with a `files.rs` that includes them: `&[(name, cases, answers)]`.
pub fn answers_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("native-answers")
}

/// The files of vectors in a folder, sorted.
pub fn vector_files(folder: &Path) -> Fallible<Vec<PathBuf>> {
    let mut files = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Each line's case, as the text it is, and its result.
pub fn read_vectors(file: &Path) -> Fallible<Vec<(String, Value)>> {
    fs::read_to_string(file)?
        .lines()
        .enumerate()
        .map(|(index, line)| {
            parse_vector(line)
                .map_err(|error| format!("{}:{}: {error}", file.display(), index + 1).into())
        })
        .collect()
}

fn parse_vector(line: &str) -> Fallible<(String, Value)> {
    // RawValue keeps the case's text: a re-rendered number would be another input.
    let mut fields: HashMap<String, Box<RawValue>> = serde_json::from_str(line)?;
    let case = fields.remove("case").ok_or("no \"case\"")?;
    let result = fields.remove("result").ok_or("no \"result\"")?;
    Ok((case.get().to_owned(), serde_json::from_str(result.get())?))
}

/// What `kvx resolve` answers to these cases, one a line.
pub fn resolve(workspace: &Workspace, cases: &str) -> Fallible<String> {
    kvx(workspace, "resolve", cases)
}

/// What a command of `kvx` prints for these cases.
fn kvx(workspace: &Workspace, command: &str, cases: &str) -> Fallible<String> {
    let program = workspace.target.join("release/kvx");
    let mut child = Command::new(&program)
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let mut stdin = child.stdin.take().ok_or("kvx has no standard input")?;
    let cases = cases.to_owned();
    // From a thread: both pipes are smaller than what goes through them.
    let writer = thread::spawn(move || stdin.write_all(cases.as_bytes()));
    let output = child.wait_with_output()?;
    // A kvx that stopped reading has failed, and its exit status says more than the broken pipe.
    let written = writer.join().map_err(|_| "the writer to kvx panicked")?;
    // 1 and 3 say that some case was refused or is not modelled, as some must be.
    if !matches!(output.status.code(), Some(0 | 1 | 3)) {
        return Err(format!("kvx {command} ended with {}", output.status).into());
    }
    written?;
    Ok(String::from_utf8(output.stdout)?)
}

fn mismatches(vectors: &[(String, Value)], answers: &str) -> Fallible<Vec<String>> {
    let answers: Vec<&str> = answers.lines().collect();
    if answers.len() != vectors.len() {
        return Err(format!("{} cases but {} answers", vectors.len(), answers.len()).into());
    }
    let mut mismatches = Vec::new();
    for ((_, want), answer) in vectors.iter().zip(answers) {
        let got: Value = serde_json::from_str(answer).unwrap_or(Value::Null);
        let differences = differences(want, &got);
        if !differences.is_empty() {
            mismatches.push(format!(
                "- {}\n    {}",
                want["id"],
                differences.join("\n    ")
            ));
        }
    }
    Ok(mismatches)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_case_keeps_its_text() {
        let (case, result) = parse_vector(
            r#"{"case": {"id": "x", "args": {"a":1.0, "b" : 1e2}}, "result": {"ok": true}}"#,
        )
        .unwrap();
        assert_eq!(case, r#"{"id": "x", "args": {"a":1.0, "b" : 1e2}}"#);
        assert_eq!(result, json!({"ok": true}));
    }
}
