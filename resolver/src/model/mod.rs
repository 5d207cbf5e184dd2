//! A config.json as release-independent facts. Nothing here knows a release.

pub mod deepseek_v4;
mod fields;

use thiserror::Error;

pub use deepseek_v4::DeepseekV4;

use crate::value::Value;

/// The modelled families.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    /// `DeepseekV4ForCausalLM`
    DeepseekV4(DeepseekV4),
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
    /// A combination without rules.
    #[error("config.json: {0}")]
    Unmodelled(String),
}

impl Model {
    /// Reads a config.json.
    pub fn from_config(config: &Value) -> Result<Self, ModelError> {
        let Value::Object(_) = config else {
            return Err(ModelError::NotAnObject(config.type_name()));
        };
        let architecture = match config.get_set("architectures") {
            Some(Value::Array(names)) => match names.first() {
                Some(Value::String(name)) => name.as_str(),
                Some(_) => {
                    return Err(fields::wrong_type(
                        "architectures",
                        "a list of strings",
                        config,
                    ));
                }
                None => return Err(ModelError::NoArchitecture),
            },
            Some(_) => {
                return Err(fields::wrong_type(
                    "architectures",
                    "a list of strings",
                    config,
                ));
            }
            None => return Err(ModelError::NoArchitecture),
        };
        let model_type = match config.get_set("model_type") {
            Some(Value::String(name)) => name.as_str(),
            Some(_) => return Err(fields::wrong_type("model_type", "a string", config)),
            None => return Err(ModelError::Missing("model_type")),
        };
        match (architecture, model_type) {
            ("DeepseekV4ForCausalLM", "deepseek_v4") => {
                DeepseekV4::from_config(config).map(Self::DeepseekV4)
            }
            // a reference implementation's name, in files made for another server
            (_, "deepseek_ref") => Err(ModelError::UnknownToTransformers(clip(model_type))),
            _ => Err(ModelError::Family {
                architecture: clip(architecture),
                model_type: clip(model_type),
            }),
        }
    }

    /// Query heads.
    pub const fn num_attention_heads(&self) -> u64 {
        match self {
            Self::DeepseekV4(model) => model.num_attention_heads,
        }
    }

    /// Layers of the decoder.
    pub fn num_hidden_layers(&self) -> usize {
        match self {
            Self::DeepseekV4(model) => model.layers.len(),
        }
    }

    /// The longest sequence that config.json allows, in tokens.
    pub const fn max_position_embeddings(&self) -> u64 {
        match self {
            Self::DeepseekV4(model) => model.max_position_embeddings,
        }
    }
}

/// Text from a config.json, short enough for a message.
fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
