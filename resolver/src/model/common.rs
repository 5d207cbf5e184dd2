//! What the checks ask of any model.

use super::fields::{text, wrong_type};
use super::length::Length;
use super::parameters::Parameters;
use super::weights::Weights;
use super::{ModelError, clip};
use crate::dtype::CacheDtype;
use crate::value::Value;

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
    /// Whether the class of its text part names no architecture.
    pub has_unnamed_text: bool,
    /// Whether it has experts.
    pub has_experts: bool,
    /// Whether attention logits are capped.
    pub has_softcap: bool,
    /// The longest sequence.
    pub length: Length,
    /// `sliding_window`, if every layer or every layer of one kind has it.
    pub sliding_window: Option<u64>,
    /// What must split over tensor-parallel ranks.
    pub weights: Weights,
    /// What their bytes follow from.
    pub parameters: Parameters,
    /// `attention_chunk_size`
    pub attention_chunk_size: Option<u64>,
    /// The dtype that config.json names.
    pub dtype: Option<String>,
    /// What the checkpoint makes of `--kv-cache-dtype auto`.
    pub auto_cache_dtype: AutoCacheDtype,
    /// `quantization_config.quant_method`
    pub quant_method: Option<String>,
    /// How an fp8 checkpoint quantises activations: `quantization_config.activation_scheme`.
    pub activation_scheme: Option<String>,
    /// Whether the configuration's class is the model repository's own code,
    /// which neither vLLM nor transformers has.
    pub own_code: bool,
}

impl Common {
    /// Whether its class takes images or other media beside text, which of the
    /// modelled families its name says.
    pub fn takes_images(&self) -> bool {
        self.architecture.ends_with("ForConditionalGeneration")
    }

    /// Whether it is DeepSeek V3.2 or a GLM of its kind, by `model_type`.
    pub fn is_v32_or_glm(&self) -> bool {
        matches!(
            self.architecture.as_str(),
            "DeepseekV32ForCausalLM" | "GlmMoeDsaForCausalLM"
        )
    }
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
pub(super) fn text_config(config: &Value) -> Result<&Value, Box<ModelError>> {
    match config.get_set("text_config") {
        None => Ok(config),
        Some(text @ Value::Object(_)) => Ok(text),
        Some(_) => Err(wrong_type("text_config", "an object", config)),
    }
}

/// `dtype` or `torch_dtype`, of the whole or of the language model.
pub(super) fn dtype(config: &Value) -> Result<Option<String>, Box<ModelError>> {
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
fn quantization(config: &Value) -> Result<Option<&Value>, Box<ModelError>> {
    match config.get_set("quantization_config") {
        None => Ok(None),
        Some(quantization @ Value::Object(_)) => Ok(Some(quantization)),
        Some(_) => Err(wrong_type("quantization_config", "an object", config)),
    }
}

/// `quantization_config.quant_method`, wherever it stands, as vLLM leaves it.
pub(super) fn quant_method(config: &Value) -> Result<Option<String>, Box<ModelError>> {
    for part in [config, text_config(config)?] {
        if let Some(quantization) = quantization(part)?
            && let Some(name) = method_of(quantization)?
        {
            return Ok(Some(clip(&name)));
        }
    }
    Ok(None)
}

/// Families whose class of transformers has no experts unless config.json says so.
const DENSE: [&str; 7] = [
    "llama",
    "mistral",
    "qwen3",
    "qwen3_vl",
    "qwen3_5",
    "nemotron-nas",
    "gemma4",
];

/// Mirrors `vllm/transformers_utils/model_arch_config_convertor.py` `get_num_experts`.
pub(super) fn has_experts(language: &Value, model_type: &str) -> bool {
    let names = [
        "num_experts",
        "moe_num_experts",
        "n_routed_experts",
        "num_local_experts",
    ];
    let count = names.iter().find_map(|name| language.get_set(name));
    match count {
        Some(Value::Array(counts)) => counts.first().and_then(Value::as_integer) != Some(0),
        Some(count) => count.as_integer() != Some(0),
        None => !DENSE.contains(&model_type),
    }
}

/// `quantization_config.activation_scheme`.
pub(super) fn activation_scheme(config: &Value) -> Result<Option<String>, Box<ModelError>> {
    for part in [config, text_config(config)?] {
        if let Some(quantization) = quantization(part)? {
            return Ok(text(quantization, "activation_scheme")?.map(clip));
        }
    }
    Ok(None)
}

/// A ModelOpt checkpoint is told by its producer and its algorithm.
/// Mirrors `vllm/transformers_utils/model_arch_config_convertor.py`
/// `_normalize_quantization_config`.
fn method_of(quantization: &Value) -> Result<Option<String>, Box<ModelError>> {
    let inner = quantization
        .get_set("quantization")
        .filter(|inner| matches!(inner, Value::Object(_)));
    let producer = quantization
        .get_set("producer")
        .and_then(|producer| producer.get_set("name"))
        .and_then(Value::as_str);
    let is_modelopt = producer == Some("modelopt")
        || inner.is_some_and(|inner| inner.get("modelopt_quant_config").is_some());
    let algorithm = inner.and_then(|inner| inner.get_set("quant_algo"));
    if let (true, Some(algorithm)) = (is_modelopt, algorithm) {
        let method = match algorithm.as_str().map(str::to_ascii_uppercase).as_deref() {
            Some("FP8" | "FP8_PER_CHANNEL_PER_TOKEN" | "FP8_PB_WO") => "modelopt",
            Some("NVFP4") => "modelopt_fp4",
            Some("MIXED_PRECISION") => "modelopt_mixed",
            _ => {
                return Err(ModelError::unmodelled(
                    "a ModelOpt `quant_algo` that vLLM does not know is not modelled",
                ));
            }
        };
        return Ok(Some(method.to_owned()));
    }
    let method = text(quantization, "quant_method")?.map(str::to_ascii_lowercase);
    Ok(method.map(|method| method.replace("compressed_tensors", "compressed-tensors")))
}

/// Mirrors `vllm/utils/torch_utils.py` `resolve_kv_cache_dtype_string`, and
/// `Attention.__init__` for compressed-tensors.
pub(super) fn auto_cache_dtype(config: &Value) -> Result<AutoCacheDtype, Box<ModelError>> {
    let Some(top) = quantization(config)? else {
        return Ok(AutoCacheDtype::Model);
    };
    let method = method_of(top)?.unwrap_or_default();
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
        Some(Value::String(name)) => match name.to_ascii_lowercase().as_str() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: &[(&str, Value)]) -> Value {
        let entry = |(key, value): &(&str, Value)| ((*key).to_owned(), value.clone());
        Value::Object(entries.iter().map(entry).collect())
    }

    fn word(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn modelopt_is_told_by_its_producer() {
        let config = |algorithm, cache| {
            let inner = object(&[
                ("quant_algo", word(algorithm)),
                ("kv_cache_quant_algo", word(cache)),
            ]);
            let producer = object(&[("name", word("modelopt"))]);
            let whole = object(&[("producer", producer), ("quantization", inner)]);
            object(&[("quantization_config", whole)])
        };
        let auto = |algorithm, cache| auto_cache_dtype(&config(algorithm, cache));
        assert_eq!(
            auto("FP8", "FP8"),
            Ok(AutoCacheDtype::Scheme(CacheDtype::Fp8E4m3))
        );
        assert_eq!(
            auto("NVFP4", "NVFP4"),
            Ok(AutoCacheDtype::Scheme(CacheDtype::Nvfp4))
        );
        assert_eq!(auto("FP8", "INT8"), Ok(AutoCacheDtype::Model));
        assert!(auto("W3A5", "FP8").is_err());
        assert_eq!(
            quant_method(&config("nvfp4", "FP8")),
            Ok(Some("modelopt_fp4".to_owned()))
        );
    }
}
