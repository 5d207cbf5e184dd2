//! The longest sequence that a config.json allows.

use super::ModelError;
use super::bounds::{MOST_FACTOR, MOST_TOKENS};
use super::fields::{boolean, integer, wrong_type};
use crate::units::python_float;
use crate::value::Value;

/// The longest sequence that config.json allows, in its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Tokens, before RoPE stretches them.
    pub tokens: u64,
    /// The field that says so, which vLLM's refusal prints.
    pub key: &'static str,
    /// What RoPE stretches them by, if the model has RoPE settings: vLLM then
    /// carries the length as a float, and prints it so.
    pub factor: Option<f64>,
    /// `model_max_length`, up to which a user may go.
    pub model_max_length: Option<u64>,
    /// What is taken when nothing is asked, under LongRoPE.
    pub by_default: Option<u64>,
    /// The original length times the factor, under YaRN.
    pub by_yarn: Option<u64>,
    /// Whether a longer one would but lengthen a table of RoPE's, so that a
    /// drafter may be served past its own.
    pub is_only_a_table: bool,
}

/// A length as vLLM derives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// Whole tokens.
    pub tokens: u64,
    /// As vLLM prints it.
    pub shown: String,
    /// The field that it prints with it.
    pub key: &'static str,
}

impl Length {
    /// The length, where windows are switched off no longer than one.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // bounded: 2^32 × 2^16
    pub fn derived(&self, window: Option<u64>) -> Derived {
        let (tokens, key) = match window.filter(|window| *window < self.tokens) {
            Some(window) => (window, "sliding_window"),
            None => (self.tokens, self.key),
        };
        match self.factor {
            None => Derived {
                tokens,
                shown: tokens.to_string(),
                key,
            },
            Some(factor) => {
                let stretched = tokens as f64 * factor;
                Derived {
                    tokens: stretched as u64,
                    shown: python_float(stretched),
                    key,
                }
            }
        }
    }
}

/// Mirrors `vllm/config/model.py` `_get_and_verify_max_len` and
/// `vllm/transformers_utils/model_arch_config_convertor.py`
/// `derive_max_model_len_and_key`.
pub(super) fn length(text: &Value) -> Result<Length, Box<ModelError>> {
    const OTHERS: [&str; 8] = [
        "n_positions",
        "max_seq_len",
        "seq_length",
        "model_max_length",
        "max_target_positions",
        "max_sequence_length",
        "max_seq_length",
        "seq_len",
    ];
    let mut key = "max_position_embeddings";
    let mut tokens = integer(text, key, 1, MOST_TOKENS)?;
    for other in OTHERS {
        if text.get_set(other).is_some() {
            let length = integer(text, other, 0, MOST_TOKENS)?;
            if length < tokens {
                (tokens, key) = (length, other);
            }
        }
    }
    let model_max_length = match text.get_set("model_max_length") {
        None => None,
        Some(_) => Some(integer(text, "model_max_length", 0, MOST_TOKENS)?),
    };
    if let Some(length) = model_max_length.filter(|length| *length > 0) {
        (tokens, key) = (length, "model_max_length");
    }
    if tokens == 0 {
        return Err(ModelError::unmodelled(format!("`{key}` is 0")));
    }
    let ropes = ropes(text)?;
    let mut factor = Some(1.0);
    for rope in &ropes {
        match kind(rope) {
            // their config.json says the stretched length
            "su" | "longrope" | "llama3" | "yarn" | "deepseek_yarn" | "deepseek_llama_scaling" => {}
            _ => match rope.get("factor") {
                None => {}
                Some(Value::Null) => factor = None,
                Some(given) => factor = Some(number(given)?),
            },
        }
    }
    let by_default = if ropes.iter().any(|rope| kind(rope) == "longrope") {
        long_default(text)?
    } else {
        None
    };
    // some classes of transformers turn whatever config.json says
    let turns = [
        "llama",
        "mistral",
        "mixtral",
        "nemotron_h",
        "qwen3",
        "qwen3_moe",
    ];
    let model_type = text.get_set("model_type").and_then(Value::as_str);
    let has_rope = !ropes.is_empty()
        || text.get_set("rope_theta").is_some()
        || model_type.is_some_and(|name| turns.contains(&name));
    Ok(Length {
        tokens,
        key,
        // null counts as 1
        factor: has_rope.then_some(factor.unwrap_or(1.0)),
        model_max_length,
        by_default,
        by_yarn: by_yarn(&ropes)?,
        // `vllm/config/speculative.py` `_CACHE_ONLY_ROPE_TYPES`
        is_only_a_table: ropes.iter().all(|rope| {
            let kinds = [
                "default",
                "mrope",
                "linear",
                "llama3",
                "ntk",
                "proportional",
            ];
            kinds.contains(&kind(rope))
        }),
    })
}

/// What YaRN's own settings come to, where there is one of them.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // bounded: 2^32 × 2^16
fn by_yarn(ropes: &[&Value]) -> Result<Option<u64>, Box<ModelError>> {
    let field = "original_max_position_embeddings";
    let [rope] = ropes else {
        return Ok(None);
    };
    match rope.get_set("factor") {
        Some(factor) if kind(rope) == "yarn" && rope.get_set(field).is_some() => {
            let original = integer(rope, field, 1, MOST_TOKENS)?;
            Ok(Some((original as f64 * number(factor)?) as u64))
        }
        _ => Ok(None),
    }
}

/// Kinds of RoPE that vLLM builds.
/// `vllm/model_executor/layers/rotary_embedding/__init__.py` `get_rope`
const KINDS: [&str; 13] = [
    "default",
    "linear",
    "dynamic",
    "ntk",
    "yarn",
    "llama3",
    "mllama4",
    "longrope",
    "deepseek_yarn",
    "deepseek_llama_scaling",
    "proportional",
    "bailing_mrope",
    "openpangu",
];

/// Older spellings that transformers replaces.
const RENAMED: [&str; 2] = ["su", "mrope"];

fn known_kind(rope: &Value) -> Result<(), Box<ModelError>> {
    let kind = kind(rope);
    if KINDS.contains(&kind) || RENAMED.contains(&kind) {
        return Ok(());
    }
    Err(ModelError::unmodelled(format!(
        "RoPE of the kind `{}` is not modelled",
        super::clip(kind)
    )))
}

fn kind(rope: &Value) -> &str {
    rope.get_set("rope_type")
        .or(rope.get_set("type"))
        .and_then(Value::as_str)
        .unwrap_or("default")
}

/// LongRoPE's default is the length before stretching, where the config names
/// it at its top; where only the RoPE settings do, transformers' classes differ.
fn long_default(text: &Value) -> Result<Option<u64>, Box<ModelError>> {
    let field = "original_max_position_embeddings";
    if text.get_set(field).is_some() {
        return integer(text, field, 1, MOST_TOKENS).map(Some);
    }
    Err(ModelError::unmodelled(format!(
        "LongRoPE without `{field}` beside it is not modelled"
    )))
}

fn number(value: &Value) -> Result<f64, Box<ModelError>> {
    #[allow(clippy::cast_precision_loss)] // bounded below
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => f64::NAN,
    };
    if number > 0.0 && number <= MOST_FACTOR {
        Ok(number)
    } else {
        Err(ModelError::unmodelled(
            "a RoPE `factor` that is no number above 0 is not modelled",
        ))
    }
}

/// The RoPE settings, one for all layers or one for each type of layer.
fn ropes(text: &Value) -> Result<Vec<&Value>, Box<ModelError>> {
    let mut ropes = Vec::new();
    for field in ["rope_scaling", "rope_parameters"] {
        match text.get_set(field) {
            None => {}
            Some(rope @ Value::Object(entries)) => {
                let nested: Vec<&Value> = entries
                    .iter()
                    .map(|(_, value)| value)
                    .filter(|value| matches!(value, Value::Object(_)))
                    .collect();
                if nested.is_empty() {
                    ropes.push(rope);
                } else {
                    ropes.extend(nested);
                }
            }
            Some(_) => return Err(wrong_type(field, "an object", text)),
        }
    }
    for rope in &ropes {
        known_kind(rope)?;
    }
    Ok(ropes)
}

/// `sliding_window` as transformers' class leaves it; 0 is none. Qwen's classes
/// drop it unless it is switched on; Mistral's has one where the file is silent.
/// Mirrors `vllm/config/model.py` `get_sliding_window`.
pub(super) fn sliding_window(
    text: &Value,
    absent: Option<u64>,
) -> Result<Option<u64>, Box<ModelError>> {
    if boolean(text, "use_sliding_window")? == Some(false) {
        return Ok(None);
    }
    let window = match text.get("sliding_window") {
        None => absent,
        Some(Value::Null) => None,
        Some(_) => Some(integer(text, "sliding_window", 0, MOST_TOKENS)?),
    };
    Ok(window.filter(|window| *window > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, Value)]) -> Value {
        let mut all = vec![("max_position_embeddings".to_owned(), Value::Integer(4096))];
        all.extend(
            entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone())),
        );
        Value::Object(all)
    }

    fn derived(entries: &[(&str, Value)]) -> Derived {
        length(&config(entries)).unwrap().derived(None)
    }

    fn rope(kind: &str, factor: f64) -> (&'static str, Value) {
        let entries = vec![
            ("rope_type".to_owned(), Value::String(kind.to_owned())),
            ("factor".to_owned(), Value::Float(factor)),
        ];
        ("rope_scaling", Value::Object(entries))
    }

    #[test]
    fn rope_stretches_and_makes_a_float() {
        assert_eq!(derived(&[]).shown, "4096");
        assert_eq!(
            derived(&[("rope_theta", Value::Float(1e4))]).shown,
            "4096.0"
        );
        assert_eq!(derived(&[rope("linear", 2.5)]).shown, "10240.0");
        assert_eq!(derived(&[rope("dynamic", 1.0001)]).tokens, 4096);
        assert_eq!(derived(&[rope("yarn", 40.0)]).tokens, 4096);
    }

    #[test]
    fn the_smallest_length_counts_but_for_model_max_length() {
        let other = derived(&[("seq_length", Value::Integer(2048))]);
        assert_eq!((other.tokens, other.key), (2048, "seq_length"));
        let larger = derived(&[("model_max_length", Value::Integer(8192))]);
        assert_eq!((larger.tokens, larger.key), (8192, "model_max_length"));
    }

    #[test]
    fn without_windows_a_request_is_no_longer_than_one() {
        let length = length(&config(&[])).unwrap();
        let capped = length.derived(Some(1024));
        assert_eq!((capped.tokens, capped.key), (1024, "sliding_window"));
        assert_eq!(length.derived(Some(8192)).key, "max_position_embeddings");
    }

    #[test]
    fn a_silent_file_has_the_class_window() {
        let window = |entries: &[_]| sliding_window(&config(entries), Some(4096)).unwrap();
        assert_eq!(window(&[]), Some(4096));
        assert_eq!(window(&[("sliding_window", Value::Null)]), None);
        assert_eq!(window(&[("sliding_window", Value::Integer(0))]), None);
        assert_eq!(window(&[("use_sliding_window", Value::Bool(false))]), None);
    }
}
