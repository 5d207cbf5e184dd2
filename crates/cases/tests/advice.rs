//! Advice is tried: what it says to change makes the case start.

use std::fs;
use std::path::Path;

use kv_cases::parse_case;
use kv_resolver::{
    Advice, EngineArgs, Environment, Flag, Request, StartupError, Value, resolve, resolve_quietly,
};

/// The cases of every vector file.
fn cases() -> Vec<(String, Request)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let mut cases = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        for line in fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            if let (id, Ok(request)) = parse_case(&vector["case"].to_string()) {
                cases.push((id.as_str().unwrap_or_default().to_owned(), request));
            }
        }
    }
    cases
}

fn follow(request: &Request, advice: &Advice) -> Request {
    let mut followed = request.clone();
    for (name, value) in &advice.set {
        let flag: Flag = name.parse().unwrap();
        if value.is_empty() {
            followed.args.clear(flag);
        } else {
            let value = flag.parse_text(value).unwrap();
            followed.args.set(flag, &value).unwrap();
        }
    }
    followed
}

fn refused(line: &str) -> (Request, StartupError) {
    let request = parse_case(line).1.expect("a well-formed case");
    let error = resolve(&request).expect_err(line);
    (request, error)
}

/// What a refusal's advice sets.
fn advised(line: &str) -> Vec<Vec<(&'static str, String)>> {
    let (_, error) = refused(line);
    error.advice.into_iter().map(|advice| advice.set).collect()
}

#[test]
fn followed_advice_starts() {
    let mut followed = 0;
    for (id, request) in cases() {
        let Err(error) = resolve(&request) else {
            continue;
        };
        for advice in error.advice.iter().filter(|advice| !advice.set.is_empty()) {
            let answer = resolve_quietly(&follow(&request, advice));
            assert!(answer.is_ok(), "{id}: {}: {answer:?}", advice.text);
            followed += 1;
        }
    }
    assert!(followed > 300, "only {followed}");
}

#[test]
fn a_cache_that_no_backend_takes_is_never_left_without_advice() {
    let mut held = 0;
    for (id, request) in cases() {
        let Err(error) = resolve(&request) else {
            continue;
        };
        if error
            .refusal
            .to_string()
            .starts_with("No valid attention backend")
        {
            // the rest of the question has a second fault, which no advice on the first mends
            let mut plain = request.clone();
            plain.env = Environment::default();
            plain.available_memory = None;
            plain.args = EngineArgs::default();
            plain
                .args
                .kv_cache_dtype
                .clone_from(&request.args.kv_cache_dtype);
            if error.advice.is_empty()
                && resolve(&plain).is_err_and(|other| !other.advice.is_empty())
            {
                continue;
            }
            assert!(!error.advice.is_empty(), "{id}: {}", error.refusal);
            held += 1;
        }
    }
    assert!(held > 70, "only {held}");
}

#[test]
fn each_flag_at_fault_is_named() {
    let set = |flag: &'static str, value: &str| (flag, value.to_owned());
    let case = |model: &str, args: &str| {
        format!(r#"{{"model":"{model}","gpu":"h200","args":{{"tensor_parallel_size":8,{args}}}}}"#)
    };
    // no kernel has blocks of 7 tokens
    assert_eq!(
        advised(&case("Qwen/Qwen3-8B", r#""block_size":7"#)),
        [[set("block_size", "")]]
    );
    // the checkpoint's own dtype works, and so does a smaller one
    assert_eq!(
        advised(&case("Qwen/Qwen3-8B", r#""kv_cache_dtype":"nvfp4_ds_mla""#)),
        [
            [set("kv_cache_dtype", "auto")],
            [set("kv_cache_dtype", "fp8")]
        ]
    );
    // the dtype may stay with another backend, or the backend with another dtype
    let both = r#""kv_cache_dtype":"int8_per_token_head","attention_backend":"FLASH_ATTN""#;
    assert_eq!(
        advised(&case("Qwen/Qwen3-8B", both)),
        [
            [set("kv_cache_dtype", "auto")],
            [set("kv_cache_dtype", "fp8")],
            [set("attention_backend", "")]
        ]
    );
    // neither alone is enough
    let all = r#""kv_cache_dtype":"fp8_ds_mla","attention_backend":"FLASHMLA","block_size":7"#;
    assert_eq!(
        advised(&case("Qwen/Qwen3-8B", all)),
        [[
            set("kv_cache_dtype", ""),
            set("attention_backend", ""),
            set("block_size", "")
        ]]
    );
}

#[test]
fn a_repositorys_own_code_is_to_be_trusted() {
    let line = r#"{"model":"nvidia/Llama-3_3-Nemotron-Super-49B-v1","gpu":"h200","args":
        {"tensor_parallel_size":8}}"#;
    let (mut request, error) = refused(line);
    assert!(
        error
            .refusal
            .to_string()
            .contains("`trust_remote_code=True`")
    );
    assert_eq!(error.advice.len(), 1);
    assert_eq!(
        error.advice[0].set,
        [("trust_remote_code", "true".to_owned())]
    );
    let value = Value::Bool(true);
    request.args.set(Flag::TrustRemoteCode, &value).unwrap();
    assert!(resolve(&request).is_ok());
}
