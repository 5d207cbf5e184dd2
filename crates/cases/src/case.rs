//! Reading a case.

use std::str::FromStr;

use kv_resolver::catalog::{CatalogGpu, GPUS, find_model};
use kv_resolver::release::ReleaseError;
use kv_resolver::{EngineArgs, Environment, Refusal, Release, Request, Usage, Value};

use crate::gpu::gpu;

/// Config files beyond this size are not read: more takes longer than a person waits. The largest real one has 90 kB.
pub const MOST_CONFIG_BYTES: usize = 1 << 20;

/// Longer lines are not read as cases: there is room for the longest config.json that is read, and the rest of a case. A
/// line may take sixteen times its length of memory, and a tenth of a second.
pub const MOST_LINE_BYTES: usize = MOST_CONFIG_BYTES + (256 << 10);

/// A case that cannot be answered as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseError {
    /// It is not a case.
    Malformed(String),
    /// It is one, for which there are no rules.
    NotModelled(String),
}

impl CaseError {
    /// As an answer; a malformed case names its line.
    pub fn into_refusal(self, number: usize) -> Refusal {
        match self {
            Self::Malformed(text) => Refusal::BadCase(format!("line {number}: {text}")),
            Self::NotModelled(text) => Refusal::NotModelled(text),
        }
    }

    /// The text alone.
    pub fn text(&self) -> &str {
        match self {
            Self::Malformed(text) | Self::NotModelled(text) => text,
        }
    }
}

pub(crate) fn malformed<T>(text: impl Into<String>) -> Result<T, CaseError> {
    Err(CaseError::Malformed(text.into()))
}

/// Stands for Python's `NaN` and `Infinity` between reading and [`settle`].
const NONFINITE: &str = "\u{0}nonfinite";

/// Reads JSON. Python writes `Infinity` and `NaN` into some, which are none; no
/// rule reads such a field of a config.json, so there they are taken as null.
pub(crate) fn parse_json(text: &str) -> Result<Value, CaseError> {
    let text = text.trim_start_matches('\u{feff}');
    let strict = serde_json::from_str(text);
    strict
        .or_else(|error| match without_nonfinite(text) {
            Some(text) => serde_json::from_str(&text),
            None => Err(error),
        })
        .map_err(|error| CaseError::Malformed(format!("not JSON: {error}")))
}

/// Makes numbers that are none null; whether there were any.
fn settle(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text == NONFINITE => {
            *value = Value::Null;
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| settle(item) | any),
        Value::Object(entries) => entries
            .iter_mut()
            .fold(false, |any, (_, item)| settle(item) | any),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {
            false
        }
    }
}

/// Reads a config.json.
pub fn parse_config(text: &str) -> Result<Value, CaseError> {
    if text.len() > MOST_CONFIG_BYTES {
        return malformed(format!(
            "config.json has {} bytes; {MOST_CONFIG_BYTES} are read at most",
            text.len()
        ));
    }
    let mut config = parse_json(text)?;
    settle(&mut config);
    Ok(config)
}

/// The text with [`NONFINITE`] for Python's non-finite numbers; `None` without any.
fn without_nonfinite(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|word| !in_string && rest.starts_with(word));
        if let Some(word) = word {
            out.push_str("\"\\u0000nonfinite\"");
            rest = &rest[word.len()..];
            found = true;
            continue;
        }
        let mut length = c.len_utf8();
        if c == '"' {
            in_string = !in_string;
        } else if c == '\\' && in_string {
            length += rest[length..].chars().next().map_or(0, char::len_utf8);
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    found.then_some(out)
}

/// Reads a case: its id (null if it has none), and the request.
pub fn parse_case(line: &str) -> (Value, Result<Request, CaseError>) {
    read(line, None)
}

/// Reads a case that need not name a GPU, for it is asked of many.
pub fn parse_open_case(line: &str) -> Result<Request, CaseError> {
    read(line, GPUS.first()).1
}

/// `stand_in` is the GPU where the case names none.
fn read(line: &str, stand_in: Option<&CatalogGpu>) -> (Value, Result<Request, CaseError>) {
    match parse_json(line) {
        Ok(Value::Object(mut entries)) => {
            let mut wrong = None;
            for (key, value) in &mut entries {
                if settle(value) && key != "hf_config" && key != "draft_hf_config" {
                    wrong = Some(key.clone());
                }
            }
            let case = Value::Object(entries);
            let id = case.get("id").cloned().unwrap_or_default();
            let request = match wrong {
                Some(key) => malformed(format!("{key}: NaN and Infinity are no JSON numbers")),
                None => request(&case, stand_in),
            };
            (id, request)
        }
        Ok(other) => (
            Value::Null,
            malformed(format!("expected an object, got {}", other.type_name())),
        ),
        Err(error) => (Value::Null, Err(error)),
    }
}

/// The keys of a case.
pub const KEYS: [&str; 11] = [
    "id",
    "release",
    "model",
    "hf_config",
    "draft_hf_config",
    "gpu",
    "args",
    "env",
    "available_memory",
    "free_memory",
    "usage",
];

/// Refuses a key that is none of those that `what` has: it would be ignored.
pub(crate) fn known_keys(
    object: &Value,
    place: &str,
    known: &[&str],
    what: &str,
) -> Result<(), CaseError> {
    if let Value::Object(entries) = object {
        let unknown = |(key, _): &&(String, Value)| !known.contains(&key.as_str());
        if let Some((key, _)) = entries.iter().find(unknown) {
            return malformed(format!(
                "{place}unknown key {key:?}; {what} has {}",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

fn request(case: &Value, stand_in: Option<&CatalogGpu>) -> Result<Request, CaseError> {
    known_keys(case, "", &KEYS, "a case")?;
    // shapes first: a malformed case is malformed whatever it asks about
    let gpu = match (case.get_set("gpu"), stand_in) {
        (None, Some(gpu)) => gpu.gpu(),
        (Some(_), _) | (None, None) => gpu(case)?,
    };
    let args = args(case)?;
    let env = env(case)?;
    let available_memory = memory(case, "available_memory")?;
    let free_memory = memory(case, "free_memory")?;
    let usage = usage(case)?;
    let release = release(case)?;
    let hf_config = hf_config(case)?;
    let draft_config = draft_config(case, &args)?;
    Ok(Request {
        release,
        hf_config: hf_config.into(),
        draft_config,
        gpu,
        args,
        env,
        available_memory,
        free_memory,
        usage,
    })
}

fn release(case: &Value) -> Result<Release, CaseError> {
    match case.get_set("release") {
        None => Ok(Release::LATEST),
        Some(Value::String(text)) => Release::from_str(text).map_err(|error| match error {
            ReleaseError::NotModelled(_) => CaseError::NotModelled(error.to_string()),
            ReleaseError::Unknown(_) => CaseError::Malformed(error.to_string()),
        }),
        Some(other) => malformed(format!(
            "release: expected a string, got {}",
            other.type_name()
        )),
    }
}

fn hf_config(case: &Value) -> Result<Value, CaseError> {
    match (case.get_set("hf_config"), case.get_set("model")) {
        (Some(config @ Value::Object(_)), _) => Ok(config.clone()),
        (Some(other), _) => malformed(format!(
            "hf_config: expected an object, got {}",
            other.type_name()
        )),
        (None, Some(Value::String(id))) => match find_model(id) {
            Some(model) => parse_config(model.config_json),
            None => Err(CaseError::NotModelled(format!(
                "the model {:?} is not in the catalog; pass its config.json as hf_config",
                id.chars().take(80).collect::<String>()
            ))),
        },
        (None, Some(other)) => malformed(format!(
            "model: expected a string, got {}",
            other.type_name()
        )),
        (None, None) => malformed("neither model nor hf_config is given"),
    }
}

/// The drafter's config.json: the case's own, or the catalog's of the model that
/// `speculative_config` names. One that is in neither is refused by the rules.
fn draft_config(case: &Value, args: &EngineArgs) -> Result<Option<Value>, CaseError> {
    match case.get_set("draft_hf_config") {
        Some(config @ Value::Object(_)) => Ok(Some(config.clone())),
        Some(other) => malformed(format!(
            "draft_hf_config: expected an object, got {}",
            other.type_name()
        )),
        None => match args.draft_model().and_then(find_model) {
            Some(model) => parse_config(model.config_json).map(Some),
            None => Ok(None),
        },
    }
}

fn args(case: &Value) -> Result<EngineArgs, CaseError> {
    let mut args = EngineArgs::default();
    match case.get_set("args") {
        None => {}
        Some(Value::Object(entries)) => {
            for (name, value) in entries {
                args.set_by_name(name, value)
                    .map_err(|error| CaseError::Malformed(format!("args.{error}")))?;
            }
        }
        Some(other) => {
            return malformed(format!(
                "args: expected an object, got {}",
                other.type_name()
            ));
        }
    }
    Ok(args)
}

fn env(case: &Value) -> Result<Environment, CaseError> {
    let mut env = Environment::default();
    match case.get_set("env") {
        None => {}
        Some(Value::Object(entries)) => {
            for (name, value) in entries {
                match value {
                    Value::Null => {}
                    Value::String(text) => env.set(name, text),
                    other => {
                        return malformed(format!(
                            "env.{}: expected a string, got {}",
                            name.chars().take(80).collect::<String>(),
                            other.type_name()
                        ));
                    }
                }
            }
        }
        Some(other) => {
            return malformed(format!(
                "env: expected an object, got {}",
                other.type_name()
            ));
        }
    }
    Ok(env)
}

fn memory(case: &Value, key: &str) -> Result<Option<u64>, CaseError> {
    match case.get_set(key) {
        None => Ok(None),
        Some(value) => match value.as_integer() {
            // vLLM's profiling may find less than nothing left, and says the same of both
            Some(bytes) if bytes < 0 => Ok(Some(0)),
            Some(bytes) => match u64::try_from(bytes) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(_) => malformed(format!("{key}: out of range")),
            },
            None => malformed(format!(
                "{key}: expected bytes as a whole number, got {}",
                value.type_name()
            )),
        },
    }
}

fn usage(case: &Value) -> Result<Usage, CaseError> {
    match case.get_set("usage") {
        None => Ok(Usage::Server),
        Some(Value::String(text)) => text
            .parse()
            .or_else(|()| malformed("usage: expected \"server\" or \"llm\"")),
        Some(other) => malformed(format!(
            "usage: expected a string, got {}",
            other.type_name()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_numbers_that_are_no_json_are_null() {
        let config = parse_config(
            r#"{"limit":[0.0,Infinity],"low":-Infinity,"x":NaN,"text":"NaN \" Infinity"}"#,
        )
        .unwrap();
        assert_eq!(
            config.get("limit"),
            Some(&Value::Array(vec![Value::Float(0.0), Value::Null]))
        );
        assert_eq!(config.get_set("low"), None);
        assert_eq!(
            config.get("text").and_then(Value::as_str),
            Some("NaN \" Infinity")
        );
        assert!(parse_config("{Infinity").is_err());
    }

    #[test]
    fn elsewhere_they_are_refused_and_never_taken_as_absent() {
        for (case, key) in [
            (r#"{"args":{"max_model_len":NaN}}"#, "args"),
            (
                r#"{"available_memory":-Infinity,"args":{}}"#,
                "available_memory",
            ),
            (r#"{"available_memory":NaN,"id":NaN}"#, "id"),
        ] {
            let (id, request) = parse_case(case);
            assert_eq!(id, Value::Null);
            assert_eq!(
                request.unwrap_err().text(),
                format!("{key}: NaN and Infinity are no JSON numbers")
            );
        }
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert!(parse_config("\u{feff}{}").is_ok());
    }
}
