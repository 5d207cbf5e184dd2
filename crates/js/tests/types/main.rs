//! The types for TypeScript are made from the Rust types, and every answer is of them.

mod model;
mod rust;
mod typescript;

use std::fs;
use std::path::{Path, PathBuf};

use model::{Ty, Types};
use rust::Source;
use serde_json::Value;

/// What the functions return.
const RETURNED: [&str; 9] = [
    "Resolved",
    "Refused",
    "Matrix",
    "Compared",
    "ModelRow",
    "GpuRow",
    "ReleaseRow",
    "ParsedCommand",
    "ParsedLog",
];

/// Types of the same names, of which no function returns any: what `kvx plan` would change.
const NOT_RETURNED: &str = "resolver/src/changes";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn types() -> Types {
    let mut source = Source::default();
    for folder in ["resolver/src", "crates/cases/src", "crates/js/src"] {
        source.read(&root().join(folder), &root().join(NOT_RETURNED));
    }
    let mut types = Types::default();
    for name in RETURNED {
        source.declare(name, &mut types);
    }
    types
}

fn named(name: &str) -> Ty {
    Ty::Named(name.to_owned())
}

/// Every so many-th case of all vectors.
fn cases(step: usize) -> Vec<String> {
    let folder = fs::read_dir(root().join("tests/vectors")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    let lines = files.iter().flat_map(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let case = |line: String| {
        let vector: Value = serde_json::from_str(&line).unwrap();
        vector["case"].to_string()
    };
    lines.step_by(step).map(case).collect()
}

#[test]
fn the_file_is_what_the_rust_types_say() {
    let path = root().join("crates/js/types.d.ts");
    let written = typescript::file(&types());
    if std::env::var_os("KV_WRITE_TYPES").is_some() {
        fs::write(&path, &written).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == written,
        "types.d.ts is stale: KV_WRITE_TYPES=1 cargo test --package kv-js --test types"
    );
}

#[test]
fn every_result_is_of_its_type() {
    let types = types();
    let (mut starts, mut stops) = (0, 0);
    for case in cases(7) {
        let json = kv_js::answers::resolved(&case).unwrap();
        let result: Value = serde_json::from_str(&json).unwrap();
        let is_ok = result["ok"] == Value::Bool(true);
        *(if is_ok { &mut starts } else { &mut stops }) += 1;
        let ty = if is_ok { "Resolved" } else { "Refused" };
        if let Err(why) = types.check(&result, &named(ty), "") {
            panic!("{case}\n{why}");
        }
        assert_eq!(kv_js::numbers::inexact(&json), None, "{case}");
    }
    assert!(starts > 200 && stops > 200, "{starts} {stops}");
}

#[test]
fn so_is_everything_else() {
    let types = types();
    let check = |json: &str, ty: &Ty| {
        let value: Value = serde_json::from_str(json).unwrap();
        types
            .check(&value, ty, "")
            .unwrap_or_else(|why| panic!("{why}"));
    };
    let flash = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","args":{"tensor_parallel_size":8},"available_memory":42949672960}"#;
    let matrix = kv_js::answers::matrix_of(flash).unwrap();
    check(&matrix, &named("Matrix"));
    assert!(matrix.contains("\"requests\":") && matrix.contains("\"ok\":false"));
    let diff = kv_js::answers::changed(flash, "0.29.0", "0.33.0").unwrap();
    check(&diff, &named("Compared"));
    assert!(diff.contains("\"changes\":[{"));
    let command = kv_js::pasted::command(
        "docker run -e VLLM_KV_CACHE_LAYOUT=NHD vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B -tp 2 --port 80 --max-model-len 32k",
    );
    let command = serde_json::to_string(&command.unwrap()).unwrap();
    check(&command, &named("ParsedCommand"));
    let case = r#""case":{"release":"0.33.0","model":"Qwen/Qwen3-8B","args":{"tensor_parallel_size":2,"max_model_len":32000},"env":{"VLLM_KV_CACHE_LAYOUT":"NHD"},"usage":"server"}"#;
    assert!(command.contains(case), "{command}");
    let log = kv_js::pasted::log(
        "INFO [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'kv_cache_dtype': 'fp8'}\n\
         INFO Available KV cache memory: 40.00 GiB\nINFO GPU KV cache size: 582,540 tokens",
    );
    let log = serde_json::to_string(&log.unwrap()).unwrap();
    check(&log, &named("ParsedLog"));
    assert!(
        log.contains(r#""tokens":582540"#) && log.contains(r#""kv_cache_dtype":"fp8""#),
        "{log}"
    );
    assert!(kv_js::pasted::command("hello").is_err() && kv_js::pasted::log("hello").is_err());
    let list = |name| Ty::List(Box::new(named(name)));
    let json = |value: Result<String, _>| value.unwrap();
    check(
        &json(serde_json::to_string(&kv_js::lists::models())),
        &list("ModelRow"),
    );
    check(
        &json(serde_json::to_string(&kv_js::lists::gpus())),
        &list("GpuRow"),
    );
    check(
        &json(serde_json::to_string(&kv_js::lists::releases())),
        &list("ReleaseRow"),
    );
}

#[test]
fn what_is_of_no_type_is_told() {
    let types = types();
    let json = kv_js::answers::resolved(r#"{"model":"Qwen/Qwen3-8B","gpu":"h200"}"#).unwrap();
    let result: Value = serde_json::from_str(&json).unwrap();
    let told = |change: fn(&mut Value)| {
        let mut result = result.clone();
        change(&mut result);
        types.check(&result, &named("Resolved"), "").unwrap_err()
    };
    assert!(told(|result| result["new"] = 1.into()).contains("the types have no new"));
    assert!(told(|result| result["outcome"] = "fine".into()).contains("outcome"));
    assert!(told(|result| result["groups"][0]["layers"] = Value::Null).contains("groups[0]"));
    assert!(
        told(|result| drop(result.as_object_mut().unwrap().remove("trace")))
            .contains("trace is missing")
    );
}
