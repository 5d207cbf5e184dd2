//! vLLM's recorded answers, held against the library's own, in this process: what `cargo xtask test vectors` does with
//! `kvx`, quickly enough to be asked again of every mutant (docs/mutants.md).

// the one place that says which fields are compared
#[path = "../../xtask/src/compare.rs"]
mod compare;

use std::fs;

use kv_cases::{parse_case, result_value};
use kv_resolver::{StartupError, resolve_quietly};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The case stays the text that it is: a re-rendered number would be another input.
#[derive(Deserialize)]
struct Vector<'a> {
    #[serde(borrow)]
    case: &'a RawValue,
    result: serde_json::Value,
}

/// A mistake shows soonest in lines from everywhere: every so manieth, from each start.
const STRIDE: usize = 61;

#[test]
fn every_vector_is_answered_as_vllm_did() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let files = fs::read_dir(folder).unwrap();
    let texts: Vec<String> = files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    assert!(lines.len() > 6000, "{}", lines.len());
    for line in (0..STRIDE).flat_map(|start| lines.iter().skip(start).step_by(STRIDE)) {
        let vector: Vector = serde_json::from_str(line).unwrap();
        let (id, request) = parse_case(vector.case.get());
        let answer = match request {
            // quietly: no vector has a trace, and a law says that the answer is the same
            Ok(request) => resolve_quietly(&request).map_err(|refusal| *refusal),
            Err(error) => Err(error.into_refusal(1)),
        };
        let answer = answer.map_err(StartupError::bare);
        let found = compare::differences(&vector.result, &result_value(&id, &answer));
        assert!(
            found.is_empty(),
            "{}: {}",
            vector.result["id"],
            found.join("\n")
        );
    }
}
