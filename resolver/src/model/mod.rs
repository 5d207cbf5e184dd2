//! A config.json as release-independent facts. Nothing here knows a release.

mod bounds;
pub mod common;
pub mod decoder;
pub mod deepseek_v4;
mod describe;
pub mod draft;
mod families;
mod fields;
pub mod length;
mod modelled;
pub mod parameters;
pub mod scheme;
pub mod weights;

use thiserror::Error;

pub use common::{AutoCacheDtype, Common};
pub use decoder::Decoder;
pub use deepseek_v4::DeepseekV4;
pub use describe::Recognition;
pub use length::Length;
pub use modelled::MODELLED;

use crate::value::Value;
use bounds::{MOST_LAYERS, MOST_WIDTH};
use decoder::LayerKind;
use families::{dense, linear, mla, nas, windows};
use fields::{integer, text};
use parameters::{Rope, sections_fit};

/// A model as the KV cache sees it.
///
/// ```
/// use kv_resolver::Value;
/// use kv_resolver::catalog::find_model;
/// use kv_resolver::model::{Kind, Model, ModelError};
///
/// let flash = find_model("deepseek-ai/DeepSeek-V4-Flash").expect("it is in the catalog");
/// let config: Value = serde_json::from_str(flash.config_json)?;
/// let model = Model::from_config(&config)?;
/// assert_eq!(model.common.architecture, "DeepseekV4ForCausalLM");
/// assert!(matches!(model.kind, Kind::DeepseekV4(_)));
///
/// // a family without rules is named, and not guessed
/// let config: Value = serde_json::from_str(r#"{"architectures": ["New"], "model_type": "new"}"#)?;
/// let error = Model::from_config(&config).unwrap_err();
/// assert!(matches!(*error, ModelError::Family { .. }));
/// assert_eq!(error.to_string(), "New (model_type new) is not modelled yet");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What the checks ask of any model.
    pub common: Common,
    /// What its layers keep.
    pub kind: Kind,
}

/// What a model's layers keep.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// DeepSeek V4's own layers.
    DeepseekV4(DeepseekV4),
    /// Layers that any decoder may have.
    Decoder(Decoder),
}

/// Why a config.json is not answered for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    /// Not a JSON object.
    #[error("config.json: expected an object, got {0}")]
    NotAnObject(&'static str),
    /// No `architectures`.
    #[error(
        "config.json has no `architectures`; vLLM cannot tell the model by it, nor can KV Explorer"
    )]
    NoArchitecture,
    /// A family without rules.
    #[error("{architecture} (model_type {model_type}) is not modelled yet")]
    Family {
        /// `architectures[0]`
        architecture: String,
        /// `model_type`
        model_type: String,
    },
    /// transformers has no such model, so vLLM refuses the file.
    #[error(
        "The checkpoint you are trying to load has model type `{0}` but Transformers does not \
         recognize this architecture. This could be because of an issue with the checkpoint, or \
         because your version of Transformers is out of date.\n\nYou can update Transformers with \
         the command `pip install --upgrade transformers`. If this does not work, and the \
         checkpoint is very new, then there may not be a release version that supports this model \
         yet. In this case, you can get the most up-to-date code by installing Transformers from \
         source with the command `pip install git+https://github.com/huggingface/transformers.git`"
    )]
    UnknownToTransformers(String),
    /// vLLM's registry has no such architecture, so it refuses the file; the
    /// text names all that a release has.
    #[error("vLLM's registry of models has no {0}")]
    UnknownToVllm(String),
    /// A field is absent.
    #[error(
        "config.json has no `{0}`; its value would be transformers' default, which KV Explorer does not guess"
    )]
    Missing(&'static str),
    /// A field is of the wrong kind.
    #[error("config.json: `{field}` should be {expected}, got {got}")]
    WrongType {
        /// Its name.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// A field is outside of what any model has.
    #[error("config.json: `{field}` is {got}; expected {least} to {most}")]
    OutOfRange {
        /// Its name.
        field: &'static str,
        /// Its value.
        got: i128,
        /// Smallest sensible value.
        least: u64,
        /// Largest sensible value.
        most: u64,
    },
    /// More keys or entries than any model has.
    #[error("config.json: {what} has {got} entries; {most} are read at most")]
    TooMany {
        /// An object or a list.
        what: &'static str,
        /// How many.
        got: usize,
        /// The most that are read.
        most: usize,
    },
    /// A combination without rules.
    #[error("config.json: {0}")]
    Unmodelled(String),
}

impl ModelError {
    /// A combination without rules.
    #[cold]
    pub(crate) fn unmodelled(what: impl Into<String>) -> Box<Self> {
        Box::new(Self::Unmodelled(what.into()))
    }
}

impl Model {
    /// The architecture that a config.json names first, whether it has rules or not.
    #[must_use]
    pub fn architecture(config: &Value) -> Option<&str> {
        architecture(config).ok()
    }

    /// Reads a config.json.
    pub fn from_config(config: &Value) -> Result<Self, Box<ModelError>> {
        let Value::Object(_) = config else {
            return Err(ModelError::NotAnObject(config.type_name()).into());
        };
        let architecture = architecture(config)?;
        let model_type = text(config, "model_type")?.ok_or(ModelError::Missing("model_type"))?;
        let language = common::text_config(config)?;
        if let Err(many) = bounds::bounded(config) {
            // of too many layers, their number says more than a list of them
            return Err(match families::count(language) {
                Err(error) if matches!(*error, ModelError::OutOfRange { .. }) => error,
                Ok(_) | Err(_) => many,
            });
        }
        let inner = "language_model.model.layers";
        let defaults = dense::Defaults::of(model_type);
        let kind = match (architecture, model_type) {
            // a reference implementation's name, in files made for another server
            (_, "deepseek_ref") | ("MiMoForCausalLM", "mimo") => {
                return Err(ModelError::UnknownToTransformers(clip(model_type)).into());
            }
            // the name in one of Step 3.7's checkpoints
            ("Step3p7FlashForCausalLM", "step3p7") => {
                return Err(ModelError::UnknownToVllm(clip(architecture)).into());
            }
            ("DeepseekV4ForCausalLM", "deepseek_v4") => {
                Kind::DeepseekV4(DeepseekV4::from_config(config)?)
            }
            ("DeepseekV32ForCausalLM", "deepseek_v32") => Kind::Decoder(mla::deepseek_v32(config)?),
            ("GlmMoeDsaForCausalLM", "glm_moe_dsa") => Kind::Decoder(mla::glm_moe_dsa(config)?),
            ("DeepseekV3ForCausalLM", "deepseek_v3" | "kimi_k2") => {
                Kind::Decoder(mla::dense(config, "model.layers")?)
            }
            ("KimiK25ForConditionalGeneration", "kimi_k25") => {
                Kind::Decoder(mla::dense(language, inner)?)
            }
            ("LlamaForCausalLM", "llama")
            | ("Qwen3ForCausalLM", "qwen3")
            | ("Qwen3MoeForCausalLM", "qwen3_moe")
            | ("MistralForCausalLM", "mistral")
            | ("MixtralForCausalLM", "mixtral")
            | ("MiniMaxM2ForCausalLM", "minimax_m2") => {
                Kind::Decoder(dense::decoder(config, "model.layers", defaults)?)
            }
            ("Qwen3VLForConditionalGeneration", "qwen3_vl")
            | ("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe") => {
                Kind::Decoder(dense::decoder(language, inner, defaults)?)
            }
            ("DeciLMForCausalLM", "nemotron-nas") => Kind::Decoder(nas::nemotron(config)?),
            ("GptOssForCausalLM", "gpt_oss") => Kind::Decoder(windows::gpt_oss(config)?),
            ("Gemma4ForConditionalGeneration", "gemma4") => {
                Kind::Decoder(windows::gemma4(language)?)
            }
            ("MiMoV2FlashForCausalLM", "mimo_v2_flash") => Kind::Decoder(windows::mimo_v2(config)?),
            ("Llama4ForConditionalGeneration", "llama4") => {
                Kind::Decoder(windows::llama4(language)?)
            }
            ("Qwen3_5ForConditionalGeneration", "qwen3_5")
            | ("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe") => {
                Kind::Decoder(linear::qwen3_5(language)?)
            }
            ("NemotronHForCausalLM", "nemotron_h") => Kind::Decoder(linear::nemotron_h(config)?),
            ("KimiK3ForConditionalGeneration", "kimi_k3") => {
                Kind::Decoder(linear::kimi_k3(language)?)
            }
            _ => {
                return Err(ModelError::Family {
                    architecture: clip(architecture),
                    model_type: clip(model_type),
                }
                .into());
            }
        };
        if matches!(&kind, Kind::Decoder(decoder) if decoder.layers.is_empty()) {
            return Err(ModelError::unmodelled("no layer has a cache"));
        }
        bounds::measures(language)?;
        let common = facts(config, language, (architecture, model_type), &kind)?;
        Ok(Self { common, kind })
    }
}

fn architecture(config: &Value) -> Result<&str, Box<ModelError>> {
    match config.get_set("architectures") {
        Some(Value::Array(names)) => match names.first() {
            Some(Value::String(name)) => Ok(name.as_str()),
            Some(_) => Err(fields::wrong_type(
                "architectures",
                "a list of strings",
                config,
            )),
            None => Err(ModelError::NoArchitecture.into()),
        },
        Some(_) => Err(fields::wrong_type(
            "architectures",
            "a list of strings",
            config,
        )),
        None => Err(ModelError::NoArchitecture.into()),
    }
}

/// What the checks ask. Mirrors
/// `vllm/transformers_utils/model_arch_config_convertor.py`.
fn facts(
    config: &Value,
    language: &Value,
    (architecture, model_type): (&str, &str),
    kind: &Kind,
) -> Result<Common, Box<ModelError>> {
    let decoder = match kind {
        Kind::DeepseekV4(_) => None,
        Kind::Decoder(decoder) => Some(decoder),
    };
    let (head_size, kv_heads, use_mla, is_hybrid, count) = match kind {
        Kind::DeepseekV4(model) => (model.head_dim, 1, true, false, model.layers.len() as u64),
        Kind::Decoder(decoder) => {
            let count = decoder
                .layers
                .iter()
                .map(|layer| u64::from(layer.index) + 1);
            let attention = decoder.layers.iter().filter_map(|layer| match layer.kind {
                LayerKind::Attention(attention) => Some(attention),
                LayerKind::Mla { .. } | LayerKind::Linear(_) => None,
            });
            let is_hybrid = decoder
                .layers
                .iter()
                .any(|layer| matches!(layer.kind, LayerKind::Linear(_)));
            let widest = attention.clone().map(|attention| attention.head_dim).max();
            let mut heads = attention.map(|attention| attention.kv_heads);
            let heads = match model_type {
                // `NemotronNasModelArchConfigConvertor` takes the first layer's
                "nemotron-nas" => heads.next(),
                // windows have heads of their own, under a name that nothing reads here
                "mimo_v2_flash" => Some(integer(language, "num_key_value_heads", 1, MOST_WIDTH)?),
                _ => heads.max(),
            };
            match decoder.mla {
                Some(dims) => (dims.row(), 1, true, is_hybrid, count.max().unwrap_or(0)),
                None => (
                    widest.unwrap_or(0),
                    heads.unwrap_or(1),
                    false,
                    is_hybrid,
                    count.max().unwrap_or(0),
                ),
            }
        }
    };
    let weights = weights::weights(config, language, model_type, decoder)?;
    let parameters =
        parameters::parameters(config, language, model_type, weights.fp8_block, decoder)?;
    if parameters.rope == Rope::Sections {
        sections_fit(language, parameters.turned(head_size))?;
    }
    Ok(Common {
        architecture: clip(architecture),
        num_hidden_layers: match language.get_set("num_hidden_layers") {
            Some(_) => integer(language, "num_hidden_layers", 1, MOST_LAYERS)?,
            None => count,
        },
        num_attention_heads: integer(language, "num_attention_heads", 1, MOST_WIDTH)?,
        num_key_value_heads: kv_heads,
        head_size,
        use_mla,
        is_hybrid,
        has_unnamed_text: matches!(model_type, "qwen3_vl" | "qwen3_vl_moe"),
        has_experts: common::has_experts(language, model_type),
        mm_prefix: text(language, "use_bidirectional_attention")? == Some("vision"),
        has_softcap: language.get_set("attn_logit_softcapping").is_some(),
        length: length::length(language)?,
        sliding_window: match model_type {
            // transformers' class: the tokens before, and the query's own
            "mimo_v2_flash" => Some(integer(language, "sliding_window_size", 1, MOST_WIDTH)? + 1),
            _ => length::sliding_window(language, dense::Defaults::of(model_type).window)?,
        },
        attention_chunk_size: chunk_size(kind),
        parameters,
        weights,
        dtype: common::dtype(config)?,
        auto_cache_dtype: common::auto_cache_dtype(config)?,
        quant_method: common::quant_method(config)?,
        activation_scheme: common::activation_scheme(config)?,
        own_code: model_type == "nemotron-nas",
    })
}

/// `attention_chunk_size` of the text config, where the layers have it.
fn chunk_size(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::DeepseekV4(_) => None,
        Kind::Decoder(decoder) => decoder.layers.iter().find_map(|layer| match layer.kind {
            LayerKind::Attention(attention) => attention.chunk,
            LayerKind::Mla { .. } | LayerKind::Linear(_) => None,
        }),
    }
}

/// Text from a config.json, short enough for a message, and without what
/// would move a terminal's cursor or turn its direction.
fn clip(text: &str) -> String {
    let moves = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .take(80)
        .map(|c| {
            if moves(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}
