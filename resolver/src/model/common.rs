//! What the checks ask of any model.

use super::fields::{integer, text, wrong_type};
use super::{ModelError, clip};
use crate::dtype::CacheDtype;
use crate::value::Value;

/// Context lengths beyond any model, in tokens.
const MOST_TOKENS: u64 = 1 << 32;

/// Facts of any model.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// `architectures[0]`
    pub architecture: String,
    /// Decoder layers.
    pub num_hidden_layers: u64,
    /// Query heads.
    pub num_attention_heads: u64,
    /// KV heads, 1 for MLA.
    pub num_key_value_heads: u64,
    /// Elements of a K row; of several kinds, the largest.
    pub head_size: u64,
    /// Whether one latent vector serves for K and V.
    pub use_mla: bool,
    /// Whether some layers keep a state instead of tokens.
    pub is_hybrid: bool,
    /// Whether prefixes of images attend both ways.
    pub mm_prefix: bool,
    /// Whether attention logits are capped.
    pub has_softcap: bool,
    /// The longest sequence.
    pub length: Length,
    /// The dtype that config.json names.
    pub dtype: Option<String>,
    /// What the checkpoint makes of `--kv-cache-dtype auto`.
    pub auto_cache_dtype: AutoCacheDtype,
    /// `quantization_config.quant_method`
    pub quant_method: Option<String>,
}

/// The longest sequence that config.json allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Tokens.
    pub tokens: u64,
    /// Whether vLLM carries it as a float, and prints it so.
    pub is_float: bool,
}

/// What the checkpoint makes of `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoCacheDtype {
    /// The model's dtype.
    Model,
    /// What ModelOpt's scheme says, when the config is made.
    Scheme(CacheDtype),
    /// What compressed-tensors' scheme says, when the first layer is made.
    FirstLayer,
}

/// The part that describes the language model.
pub(super) fn text_config(config: &Value) -> Result<&Value, ModelError> {
    match config.get_set("text_config") {
        None => Ok(config),
        Some(text @ Value::Object(_)) => Ok(text),
        Some(_) => Err(wrong_type("text_config", "an object", config)),
    }
}

/// Mirrors `vllm/config/model.py` `_get_and_verify_max_len` and
/// `derive_max_model_len_and_key`.
pub(super) fn length(text: &Value) -> Result<Length, ModelError> {
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
    if let Some(field) = OTHERS.iter().find(|field| text.get_set(field).is_some()) {
        return Err(ModelError::Unmodelled(format!(
            "`{field}` beside max_position_embeddings is not modelled"
        )));
    }
    let positions = integer(text, "max_position_embeddings", 1, MOST_TOKENS)?;
    let ropes = ropes(text)?;
    for rope in &ropes {
        let kind = rope.get_set("rope_type").or(rope.get_set("type"));
        let stretches = match kind.and_then(Value::as_str) {
            Some("su" | "llama3" | "yarn" | "deepseek_yarn" | "deepseek_llama_scaling") => false,
            None | Some("default" | "proportional") => rope
                .get_set("factor")
                .is_some_and(|factor| factor.as_integer() != Some(1)),
            Some(_) => true,
        };
        if stretches {
            return Err(ModelError::Unmodelled(
                "RoPE scaling that may stretch the longest sequence is not modelled".into(),
            ));
        }
    }
    Ok(Length {
        tokens: positions,
        is_float: !ropes.is_empty() || text.get_set("rope_theta").is_some(),
    })
}

/// The RoPE settings, one for all layers or one for each type of layer.
fn ropes(text: &Value) -> Result<Vec<&Value>, ModelError> {
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
    Ok(ropes)
}

/// `dtype` or `torch_dtype`, of the whole or of the language model.
pub(super) fn dtype(config: &Value) -> Result<Option<String>, ModelError> {
    for part in [config, text_config(config)?] {
        for field in ["dtype", "torch_dtype"] {
            if let Some(name) = text(part, field)? {
                return Ok(Some(clip(name)));
            }
        }
    }
    Ok(None)
}

/// `quantization_config`, an object if it is there.
fn quantization(config: &Value) -> Result<Option<&Value>, ModelError> {
    match config.get_set("quantization_config") {
        None => Ok(None),
        Some(quantization @ Value::Object(_)) => Ok(Some(quantization)),
        Some(_) => Err(wrong_type("quantization_config", "an object", config)),
    }
}

/// `quantization_config.quant_method`, wherever it stands.
pub(super) fn quant_method(config: &Value) -> Result<Option<String>, ModelError> {
    for part in [config, text_config(config)?] {
        if let Some(quantization) = quantization(part)?
            && let Some(name) = text(quantization, "quant_method")?
        {
            return Ok(Some(clip(name)));
        }
    }
    Ok(None)
}

/// Mirrors `vllm/utils/torch_utils.py` `resolve_kv_cache_dtype_string`, and
/// `Attention.__init__` for compressed-tensors.
pub(super) fn auto_cache_dtype(config: &Value) -> Result<AutoCacheDtype, ModelError> {
    let Some(top) = quantization(config)? else {
        return Ok(AutoCacheDtype::Model);
    };
    let method = text(top, "quant_method")?.unwrap_or_default();
    let inner = top.get_set("quantization");
    let scheme = [inner, Some(top)]
        .into_iter()
        .flatten()
        .find_map(|part| part.get_set("kv_cache_scheme"));
    if method == "compressed-tensors" && scheme.is_some() {
        return Ok(AutoCacheDtype::FirstLayer);
    }
    if !method.starts_with("modelopt") {
        return Ok(AutoCacheDtype::Model);
    }
    let algorithm = [inner, Some(top)]
        .into_iter()
        .flatten()
        .find_map(|part| part.get_set("kv_cache_quant_algo"));
    Ok(match scheme.or(algorithm) {
        Some(Value::String(name)) => match name.to_lowercase().as_str() {
            "fp8" => AutoCacheDtype::Scheme(CacheDtype::Fp8E4m3),
            "nvfp4" => AutoCacheDtype::Scheme(CacheDtype::Nvfp4),
            _ => AutoCacheDtype::Model,
        },
        Some(scheme @ Value::Object(_)) => {
            let is_float = scheme.get("type").and_then(Value::as_str) == Some("float");
            let is_static = scheme.get("dynamic") == Some(&Value::Bool(false));
            match scheme.get("num_bits").and_then(Value::as_integer) {
                Some(8) if is_float && is_static => AutoCacheDtype::Scheme(CacheDtype::Fp8E4m3),
                Some(4) if is_float => AutoCacheDtype::Scheme(CacheDtype::Nvfp4),
                _ => AutoCacheDtype::Model,
            }
        }
        _ => AutoCacheDtype::Model,
    })
}
