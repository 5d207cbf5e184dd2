//! Writing a result.

use kv_resolver::trace::TraceStep;
use kv_resolver::{Advice, LogLine, Note, Outcome, Resolution, Stage, StartupError, Value};
use serde::{Serialize, Serializer};

/// It starts, as far as vLLM decides before its first kernel.
#[derive(Serialize)]
struct Resolved<'a> {
    /// The case's own.
    id: &'a Value,
    /// Always `true` here: by it the two kinds of results are told apart.
    ok: True,
    #[serde(flatten)]
    resolution: &'a Resolution,
}

/// It stops, or there is no rule for it.
#[derive(Serialize)]
struct Refused<'a> {
    /// The case's own.
    id: &'a Value,
    /// Always `false` here.
    ok: False,
    /// In one word.
    outcome: Outcome,
    /// Where vLLM stops.
    stage: Stage,
    /// Python's exception class, or `NotModelled` for ours.
    error_type: &'a str,
    /// vLLM's text, verbatim.
    error: String,
    /// What to change instead, which has been tried.
    advice: &'a [Advice],
    /// What the error does not say by itself.
    notes: &'a [Note],
    /// What vLLM logs before it stops, as far as it is predicted.
    log: &'a [LogLine],
    /// Why.
    trace: &'a [TraceStep],
}

/// `true`, as a type: a reader of the JSON's types knows by it which fields there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct True;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

/// `false`, as a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct False;

impl Serialize for False {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

impl<'a> Refused<'a> {
    fn new(id: &'a Value, error: &'a StartupError) -> Self {
        Self {
            id,
            ok: False,
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
    let mut json = Vec::new();
    write_result(&mut json, id, result);
    String::from_utf8(json).unwrap_or_default()
}

/// Appends the line to others.
pub fn write_result(lines: &mut Vec<u8>, id: &Value, result: &Result<Resolution, StartupError>) {
    let before = lines.len();
    let written = match result {
        Ok(resolution) => serde_json::to_writer(
            &mut *lines,
            &Resolved {
                id,
                ok: True,
                resolution,
            },
        ),
        Err(error) => serde_json::to_writer(&mut *lines, &Refused::new(id, error)),
    };
    // only an id of more than 64 bits cannot be written
    if written.is_err() {
        lines.truncate(before);
        write_result(lines, &Value::Null, result);
    }
}

/// A value as it is written in a case.
pub fn value_json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A result, to be indented or picked apart.
pub fn result_value(id: &Value, result: &Result<Resolution, StartupError>) -> serde_json::Value {
    serde_json::from_str(&result_json(id, result)).unwrap_or_default()
}
