//! The package's answers as JSON text. What cannot be read is told in one line.

use std::str::FromStr;

use kv_cases::{CaseError, Compared, answer, gpu_of, parse_open_case, result_json};
use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::diff::{diff, dtypes};
use kv_resolver::{CacheDtype, Gpu, Refusal, Release, Request};
use serde::Serialize;

/// The line that `kvx resolve` writes for a case.
///
/// # Errors
/// Why the case cannot be read. A case without a rule is answered.
pub fn resolved(case: &str) -> Result<String, String> {
    let answer = answer(case, 1);
    if let Err(error) = &answer.result
        && let Refusal::BadCase(why) = &error.refusal
    {
        // there is only this line
        return Err(why.trim_start_matches("line 1: ").to_owned());
    }
    Ok(result_json(&answer.id, &answer.result))
}

/// Every GPU × every cache dtype.
///
/// # Errors
/// Why the case cannot be read.
pub fn matrix_of(case: &str) -> Result<String, String> {
    json(&kv_cases::matrix(&open(case)?))
}

/// What changed between two releases.
///
/// # Errors
/// Why the case or a release cannot be read.
pub fn changed(case: &str, from: &str, to: &str) -> Result<String, String> {
    let release = |name: &str, text: &str| {
        Release::from_str(text).map_err(|error| format!("{name}: {error}"))
    };
    let (from, to) = (release("from", from)?, release("to", to)?);
    let request = open(case)?;
    let (gpus, keys): (Vec<Gpu>, Vec<String>) = match gpu_of(case) {
        Some(key) => (vec![request.gpu.clone()], vec![key]),
        None => GPUS
            .iter()
            .map(|gpu: &CatalogGpu| (gpu.gpu(), gpu.key.to_owned()))
            .unzip(),
    };
    let dtypes = match request.args.kv_cache_dtype.as_deref() {
        None => dtypes(from, to),
        Some(asked) => vec![CacheDtype::from_str(asked).map_err(|_| {
            format!("args.kv_cache_dtype: neither release knows {asked:?}; resolve has the error")
        })?],
    };
    json(&Compared::new(&diff(&request, from, to, &gpus, &dtypes), &keys).value())
}

fn open(case: &str) -> Result<Request, String> {
    parse_open_case(case).map_err(|error: CaseError| error.text().to_owned())
}

fn json<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}
