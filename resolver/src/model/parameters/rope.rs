//! What rotary tables are made of: their length, their settings, the part of a head that turns.

use super::{MOST, Parameters};
use crate::model::ModelError;
use crate::value::Value;

/// A head, of which parts are in millionths.
const WHOLE: u64 = 1_000_000;

/// Where a position's rotary table ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rope {
    /// `max_position_embeddings`
    Whole,
    /// Turned by sections (M-RoPE), for time, height and width apart.
    Sections,
    /// So many positions, of YaRN.
    Yarn(u64),
    /// Of a kind, or in a way, without rules here.
    Unknown,
}

fn settings(language: &Value) -> Option<&Value> {
    let rope = language
        .get_set("rope_scaling")
        .or(language.get_set("rope_parameters"))?;
    let is_nested = matches!(rope, Value::Object(entries) if entries.iter().any(|(_, value)| matches!(value, Value::Object(_))));
    (!is_nested).then_some(rope)
}

/// Mirrors `vllm/model_executor/layers/rotary_embedding/__init__.py` `get_rope`.
pub(super) fn rope(language: &Value) -> Rope {
    let has = |field| language.get_set(field).is_some();
    let Some(settings) = settings(language) else {
        return if has("rope_scaling") || has("rope_parameters") {
            Rope::Unknown
        } else {
            Rope::Whole
        };
    };
    let kind = settings.get_set("rope_type").or(settings.get_set("type"));
    match kind.and_then(Value::as_str) {
        None | Some("default" | "mrope") if settings.get_set("mrope_section").is_some() => {
            Rope::Sections
        }
        None | Some("default" | "llama3" | "mrope") => Rope::Whole,
        Some("yarn") => {
            let number = |field| settings.get_set(field).and_then(Value::as_integer);
            let original = number("original_max_position_embeddings");
            match (original, number("factor")) {
                (Some(original @ 1..=MOST), Some(factor @ 1..=MOST)) => {
                    match original.checked_mul(factor).map(u64::try_from) {
                        Some(Ok(rows)) => Rope::Yarn(rows),
                        _ => Rope::Unknown,
                    }
                }
                _ => Rope::Unknown,
            }
        }
        Some(_) => Rope::Unknown,
    }
}

/// Names of what turns a table.
const TURNS: [&str; 13] = [
    "rope_theta",
    "rope_type",
    "type",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "mrope_section",
];

/// The settings and the base, in config.json's order: two models with the same settings in another order have a table
/// each. Mirrors `vllm/model_executor/layers/rotary_embedding/__init__.py` `get_rope`, whose tables are kept by their
/// settings' items.
pub(super) fn turned_by(language: &Value) -> Vec<(&'static str, Value)> {
    let entries = match settings(language) {
        Some(Value::Object(entries)) => entries.as_slice(),
        _ => &[],
    };
    // 10000.0 is 10000
    let whole = |value: &Value| {
        let number = value.as_integer();
        number.map_or_else(|| value.clone(), Value::Integer)
    };
    let inner = entries.iter().filter_map(|(key, value)| {
        let name = TURNS.into_iter().find(|name| name == key)?;
        (*value != Value::Null).then(|| (name, whole(value)))
    });
    let mut all: Vec<(&'static str, Value)> = inner.collect();
    if let Some(base) = language.get_set("rope_theta")
        && !all.iter().any(|(name, _)| *name == "rope_theta")
    {
        all.push(("rope_theta", whole(base)));
    }
    all
}

impl Parameters {
    /// Of a head's width, what is turned: `int(head_size * factor)`.
    pub(crate) fn turned(&self, head_size: u64) -> u64 {
        head_size.saturating_mul(self.rotary_part.unwrap_or(WHOLE)) / WHOLE
    }
}

/// Refuses sections that are not half of what turns of a head.
/// Mirrors `vllm/model_executor/layers/rotary_embedding/mrope.py` `MRotaryEmbedding.__init__`, whose assertion has no words.
pub(in crate::model) fn sections_fit(language: &Value, turned: u64) -> Result<(), Box<ModelError>> {
    let sections = settings(language).and_then(|settings| settings.get_set("mrope_section"));
    let Some(Value::Array(sections)) = sections else {
        return Ok(());
    };
    let sum = sections.iter().try_fold(0_i128, |sum, section| {
        sum.checked_add(section.as_integer()?)
    });
    if sections.is_empty() || sum == Some(i128::from(turned / 2)) {
        return Ok(());
    }
    Err(ModelError::unmodelled(
        "`mrope_section` does not add up to half of what turns of a head: vLLM stops with a bare AssertionError",
    ))
}

/// `partial_rotary_factor`, in millionths.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to a million
pub(super) fn rotary_part(language: &Value) -> Option<u64> {
    let nothing = Value::Null;
    let settings = settings(language).unwrap_or(&nothing);
    let part = [settings, language]
        .iter()
        .find_map(|part| part.get_set("partial_rotary_factor"))?;
    match part {
        Value::Float(part) if (0.0..=1.0).contains(part) => Some((part * 1e6).round() as u64),
        Value::Integer(1) => Some(WHOLE),
        _ => None,
    }
}
