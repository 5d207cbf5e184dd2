//! Writing a result.

use kv_resolver::trace::TraceStep;
use kv_resolver::{Advice, LogLine, Note, Outcome, Resolution, Stage, StartupError, Value};
use serde::Serialize;

#[derive(Serialize)]
struct Resolved<'a> {
    id: &'a Value,
    ok: bool,
    #[serde(flatten)]
    resolution: &'a Resolution,
}

#[derive(Serialize)]
struct Refused<'a> {
    id: &'a Value,
    ok: bool,
    outcome: Outcome,
    stage: Stage,
    error_type: &'a str,
    error: String,
    advice: &'a [Advice],
    notes: &'a [Note],
    log: &'a [LogLine],
    trace: &'a [TraceStep],
}

impl<'a> Refused<'a> {
    fn new(id: &'a Value, error: &'a StartupError) -> Self {
        Self {
            id,
            ok: false,
            outcome: error.refusal.outcome(),
            stage: error.refusal.stage(),
            error_type: error.refusal.error_type(),
            error: error.refusal.to_string(),
            advice: &error.advice,
            notes: &error.notes,
            log: &error.log,
            trace: &error.trace,
        }
    }
}

/// One line of JSON, with the design's names.
pub fn result_json(id: &Value, result: &Result<Resolution, StartupError>) -> String {
    let json = match result {
        Ok(resolution) => serde_json::to_string(&Resolved {
            id,
            ok: true,
            resolution,
        }),
        Err(error) => serde_json::to_string(&Refused::new(id, error)),
    };
    // only an id of more than 64 bits cannot be written
    json.unwrap_or_else(|_| result_json(&Value::Null, result))
}

/// A value as it is written in a case.
pub fn value_json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A result, to be indented or picked apart.
pub fn result_value(id: &Value, result: &Result<Resolution, StartupError>) -> serde_json::Value {
    serde_json::from_str(&result_json(id, result)).unwrap_or_default()
}
