//! From `--speculative-config` to a drafter, in vLLM's order.

use super::fields::{Fields, invalid, not_modelled};
use super::verify::wrong_parallelism;
use super::{Method, Speculation};
use crate::backend::AttentionBackend;
use crate::error::{Refusal, Stage};
use crate::model::Model;
use crate::release::Drafting;
use crate::request::Request;
use crate::value::Value;

/// What is already known of the target.
pub(crate) struct Target<'a> {
    pub model: &'a Model,
    /// Tokens of its longest request.
    pub max_model_len: u64,
    /// Ranks that share each layer.
    pub tensor_parallel_size: u64,
}

/// The drafter that is asked for, if one is. Mirrors `vllm/engine/arg_utils.py`
/// `create_speculative_config` and `SpeculativeConfig.__post_init__`.
pub(crate) fn settle(
    request: &Request,
    target: &Target,
) -> Result<Option<Speculation>, Box<Refusal>> {
    let rules = request.release.profile().drafting;
    let Some(config) = asked(request, rules)? else {
        return Ok(None);
    };
    let fields = Fields::check(&config, request.release.profile())?;
    let backend = match fields.text("attention_backend") {
        None => None,
        Some(name) => {
            AttentionBackend::parse(name, request.release.profile()).map_err(|refusal| {
                match *refusal {
                    Refusal::NotModelled(_) => refusal,
                    other => invalid(other.to_string()),
                }
            })?
        }
    };
    unmodelled(fields)?;
    let asked = Asked {
        request,
        target,
        rules,
        fields,
        backend,
        tokens: fields.integer("num_speculative_tokens"),
        model: fields.text("model"),
    };
    asked.settle().map(Some)
}

/// The dictionary, with what flags of their own put in.
fn asked(request: &Request, rules: &Drafting) -> Result<Option<Value>, Box<Refusal>> {
    let raise = |class, text: String| Err(Refusal::raised(Stage::Config, class, text));
    let args = &request.args;
    let mut entries = match &args.speculative_config {
        None | Some(Value::Null) => None,
        Some(Value::Object(entries)) => Some(entries.clone()),
        Some(other) => {
            let class = match other {
                Value::Bool(_) => "bool",
                Value::Integer(_) => "int",
                Value::Float(_) => "float",
                Value::String(_) => "str",
                Value::Array(_) | Value::Null | Value::Object(_) => "list",
            };
            let text = format!("'{class}' object has no attribute 'items'");
            return raise("AttributeError", text);
        }
    };
    for (flag, key) in [
        ("method", "method"),
        ("model", "model"),
        ("tokens", "num_speculative_tokens"),
    ] {
        let Some((_, value)) = args.spec_flags.iter().find(|(name, _)| *name == flag) else {
            continue;
        };
        let entries = entries.get_or_insert_default();
        if entries.iter().any(|(name, _)| name == key) {
            let text =
                format!("--spec-{flag} and --speculative-config['{key}'] are mutually exclusive");
            return raise("ValueError", text);
        }
        entries.push((key.to_owned(), value.clone()));
    }
    Ok(entries.map(|mut entries| {
        if rules.takes_dashes {
            for (name, _) in &mut entries {
                *name = name.replace('-', "_");
            }
        }
        Value::Object(entries)
    }))
}

/// Fields that have an effect for which there is no rule.
fn unmodelled(fields: Fields) -> Result<(), Box<Refusal>> {
    let set = [
        "moe_backend",
        "quantization",
        "draft_load_config",
        "speculative_token_tree",
        "target_model_config",
        "target_parallel_config",
        "draft_model_config",
    ];
    if let Some(name) = set.iter().find(|name| fields.value(name).is_some()) {
        return Err(not_modelled(name));
    }
    Ok(())
}

pub(super) struct Asked<'a> {
    pub request: &'a Request,
    pub target: &'a Target<'a>,
    pub rules: &'static Drafting,
    pub fields: Fields<'a>,
    pub backend: Option<AttentionBackend>,
    pub tokens: Option<i128>,
    pub model: Option<&'a str>,
}

impl Asked<'_> {
    pub(super) fn settle(&self) -> Result<Speculation, Box<Refusal>> {
        let method = self.method()?;
        let drafted = match method {
            Method::Ngram | Method::NgramGpu => self.lookup(method)?,
            Method::Suffix => {
                return Err(Refusal::raised(
                    Stage::Config,
                    "ImportError",
                    "Arctic Inference is required for suffix decoding. Install via `pip install \
                     arctic-inference==0.1.1`.",
                ));
            }
            Method::CustomClass if self.model.is_none() && self.tokens.is_some() => {
                return Err(invalid(
                    "method='custom_class' requires 'model' to contain the custom proposer module \
                     path (e.g., 'my_module.MyProposer').",
                ));
            }
            Method::CustomClass | Method::ExtractHiddenStates => {
                return Err(not_modelled("method"));
            }
            Method::Mtp => self.mtp()?,
            Method::Dspark if self.model.is_none() => self.v4_dspark()?,
            Method::DraftModel
            | Method::Eagle
            | Method::Eagle3
            | Method::Dflash
            | Method::Dspark => self.apart(method)?,
        };
        self.verify(&drafted)?;
        self.finish(drafted)
    }

    /// The method, as asked or by the draft model's name.
    pub(super) fn method(&self) -> Result<Method, Box<Refusal>> {
        let asked = match self.fields.text("method") {
            // former methods, which no model here is drafted for by
            Some("medusa" | "mlp_speculator") if self.model.is_some() || self.tokens.is_none() => {
                return Err(not_modelled("method"));
            }
            Some("medusa" | "mlp_speculator") => Method::DraftModel,
            Some(name) => named(name)?,
            None if self.model.is_some_and(is_custom_path) => Method::CustomClass,
            None if matches!(self.model, Some("ngram" | "[ngram]")) => Method::Ngram,
            None => Method::DraftModel,
        };
        if self.model.is_none() && self.tokens.is_some() {
            return match asked {
                Method::Mtp
                | Method::Dspark
                | Method::Ngram
                | Method::NgramGpu
                | Method::Suffix
                | Method::CustomClass
                | Method::ExtractHiddenStates => Ok(asked),
                Method::DraftModel | Method::Eagle | Method::Eagle3 | Method::Dflash => Err(
                    invalid("num_speculative_tokens was provided but without speculative model."),
                ),
            };
        }
        let silent = !matches!(asked, Method::Suffix | Method::ExtractHiddenStates);
        if self.model.is_none() && silent {
            return Err(self.without_tokens());
        }
        let Some(name) = self.model.map(str::to_ascii_lowercase) else {
            return Ok(asked);
        };
        Ok(match asked {
            Method::Mtp | Method::DraftModel => {
                if name.contains("eagle-") {
                    Method::Eagle
                } else if name.contains("eagle3") {
                    Method::Eagle3
                } else if name.contains("dflash") {
                    Method::Dflash
                } else if name.contains("dspark") || self.is_dspark() {
                    Method::Dspark
                } else {
                    asked
                }
            }
            other => other,
        })
    }

    /// Whether the drafter's architecture is `DSpark`'s, whatever its name.
    pub(super) fn is_dspark(&self) -> bool {
        let config = self.request.draft_config.as_ref();
        let names = config.and_then(|config| config.get_set("architectures"));
        match names {
            Some(Value::Array(names)) => names.iter().any(|name| {
                matches!(
                    name.as_str(),
                    Some("Qwen3DSparkModel" | "Gemma4DSparkModel")
                )
            }),
            _ => false,
        }
    }

    pub(super) fn without_tokens(&self) -> Box<Refusal> {
        if self.fields.value("tensor_parallel_size").is_some() {
            return wrong_parallelism();
        }
        invalid(
            "num_speculative_tokens must be provided with speculative model unless the draft model \
             config contains an n_predict parameter.",
        )
    }

    pub(super) fn count(&self) -> Result<u64, Box<Refusal>> {
        let tokens = self.tokens.ok_or_else(|| self.without_tokens())?;
        u64::try_from(tokens).map_err(|_| Refusal::TooLarge.into())
    }
}

/// Mirrors `MTPModelTypes` and the other spellings.
fn named(name: &str) -> Result<Method, Box<Refusal>> {
    Ok(match name {
        "ngram" => Method::Ngram,
        "ngram_gpu" => Method::NgramGpu,
        "suffix" => Method::Suffix,
        "custom_class" => Method::CustomClass,
        "extract_hidden_states" => Method::ExtractHiddenStates,
        "draft_model" => Method::DraftModel,
        "eagle" => Method::Eagle,
        "eagle3" => Method::Eagle3,
        "dflash" => Method::Dflash,
        "dspark" => Method::Dspark,
        "mtp" => Method::Mtp,
        // former spellings of mtp
        _ if name.ends_with("_mtp") => Method::Mtp,
        _ => return Err(not_modelled("method")),
    })
}

/// `package.Class`. Mirrors `_is_custom_proposer_path`.
fn is_custom_path(model: &str) -> bool {
    let is_word = |part: &str| {
        let mut chars = part.chars();
        chars
            .next()
            .is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
            && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    model.contains('.') && !model.contains('/') && model.split('.').all(is_word)
}
