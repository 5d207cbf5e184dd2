//! From `--speculative-config` to a drafter, in vLLM's order.

use super::fields::{Fields, invalid, not_modelled};
use super::{DraftBackend, DraftDtype, Method, Runner, Speculation};
use crate::backend::AttentionBackend;
use crate::config::length::longest;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::model::draft::{self, Apart, Draft, Mtp};
use crate::model::{Kind, Model, ModelError};
use crate::python::{repr, repr_list};
use crate::release::Drafting;
use crate::release::drafting::{
    DefaultRunner, DsparkBackend, DsparkTokens, Overrides, Unsupported,
};
use crate::request::Request;
use crate::units::add;
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
    let fields = Fields::check(&config, rules)?;
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

struct Asked<'a> {
    request: &'a Request,
    target: &'a Target<'a>,
    rules: &'static Drafting,
    fields: Fields<'a>,
    backend: Option<AttentionBackend>,
    tokens: Option<i128>,
    model: Option<&'a str>,
}

/// What the method makes of the checkpoint.
struct Drafted {
    method: Method,
    draft: Option<Draft>,
    class: &'static str,
    tokens: u64,
    /// Modules that run one after another.
    modules: u64,
    /// Whether the anchor is a token of its own.
    samples_from_anchor: bool,
    names_mask_token: bool,
    wants_states: bool,
}

impl Asked<'_> {
    fn settle(&self) -> Result<Speculation, Box<Refusal>> {
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
    fn method(&self) -> Result<Method, Box<Refusal>> {
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
    fn is_dspark(&self) -> bool {
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

    fn without_tokens(&self) -> Box<Refusal> {
        if self.fields.value("tensor_parallel_size").is_some() {
            return wrong_parallelism();
        }
        invalid(
            "num_speculative_tokens must be provided with speculative model unless the draft model \
             config contains an n_predict parameter.",
        )
    }

    fn count(&self) -> Result<u64, Box<Refusal>> {
        let tokens = self.tokens.ok_or_else(|| self.without_tokens())?;
        u64::try_from(tokens).map_err(|_| Refusal::TooLarge.into())
    }

    /// Drafting by looking tokens up.
    fn lookup(&self, method: Method) -> Result<Drafted, Box<Refusal>> {
        let most = self.fields.integer("prompt_lookup_max");
        let least = self.fields.integer("prompt_lookup_min");
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Err(invalid(format!(
                "prompt_lookup_min={least} must be <= prompt_lookup_max={most}"
            )));
        }
        Ok(Drafted {
            method,
            draft: None,
            class: "",
            tokens: self.count()?,
            modules: 0,
            samples_from_anchor: true,
            names_mask_token: false,
            wants_states: false,
        })
    }

    /// The target's own config.json, unless the user names another checkpoint.
    fn own_config(&self) -> Result<&Value, Box<Refusal>> {
        match (self.model, &self.request.draft_config) {
            (None, _) => Ok(&self.request.hf_config),
            (Some(_), Some(config)) => Ok(config),
            (Some(name), None) => Err(unknown_draft(name)),
        }
    }

    fn mtp(&self) -> Result<Drafted, Box<Refusal>> {
        let config = self.own_config()?;
        if self.model.is_some() && *config != self.request.hf_config {
            return Err(Refusal::not_modelled(
                "MTP layers of a checkpoint other than the target's are not modelled",
            ));
        }
        let Some(mtp) = draft::mtp(config, self.target.model).map_err(unmodelled_draft)? else {
            return Err(Refusal::raised(
                Stage::Config,
                "NotImplementedError",
                "Unsupported speculative method: 'mtp'",
            ));
        };
        // vLLM compares before it looks whether there is a number
        if self.tokens.is_none() {
            return Err(Refusal::raised(
                Stage::Config,
                "TypeError",
                "'>' not supported between instances of 'NoneType' and 'int'",
            ));
        }
        let tokens = self.count()?;
        divides(tokens, mtp.n_predict)?;
        let Mtp {
            modules,
            class,
            draft,
            ..
        } = mtp;
        Ok(Drafted {
            method: Method::Mtp,
            draft: Some(draft),
            class,
            tokens,
            modules,
            samples_from_anchor: true,
            names_mask_token: draft::names_mask_token(config),
            wants_states: false,
        })
    }

    /// DeepSeek V4's `DSpark` layers, which its checkpoint brings.
    fn v4_dspark(&self) -> Result<Drafted, Box<Refusal>> {
        let config = &self.request.hf_config;
        let tokens = self.count()?;
        if !matches!(self.target.model.kind, Kind::DeepseekV4(_)) {
            return Err(Refusal::not_modelled(format!(
                "dspark without a draft model on {} is not modelled",
                self.target.model.common.architecture
            )));
        }
        self.dspark_tokens(tokens, config)?;
        let draft = draft::v4_dspark(config, self.target.model).map_err(unmodelled_draft)?;
        let names_mask_token = draft::names_mask_token(config);
        if draft.is_none() && names_mask_token {
            return Err(Refusal::not_modelled(
                "a DeepSeek V4 without dspark_target_layer_ids and dspark_markov_rank has no \
                 DSpark layers that are modelled",
            ));
        }
        Ok(Drafted {
            method: Method::Dspark,
            draft,
            class: "DSparkDeepseekV4ForCausalLM",
            tokens,
            modules: 0,
            samples_from_anchor: samples_from_anchor(config),
            names_mask_token,
            wants_states: true,
        })
    }

    /// How many tokens `DSpark` takes of a checkpoint whose layers were trained for some.
    fn dspark_tokens(&self, tokens: u64, config: &Value) -> Result<(), Box<Refusal>> {
        let number = |field| config.get_set(field).and_then(Value::as_integer);
        match self.rules.dspark_tokens {
            DsparkTokens::Any => return Ok(()),
            DsparkTokens::OfModules | DsparkTokens::OfModulesAndABlock => {
                if let Some(modules) = number("num_nextn_predict_layers") {
                    divides(tokens, u64::try_from(modules).unwrap_or(0))?;
                }
            }
        }
        match number("dspark_block_size") {
            Some(block)
                if self.rules.dspark_tokens == DsparkTokens::OfModulesAndABlock
                    && i128::from(tokens) < block =>
            {
                Err(invalid(format!(
                    "DSpark requires num_speculative_tokens >= dspark_block_size ({block}); got \
                     {tokens}. Smaller values produce incorrect output. Use \
                     num_speculative_tokens={block} or larger (e.g. 7)."
                )))
            }
            _ => Ok(()),
        }
    }

    /// A drafter with a config.json of its own.
    fn apart(&self, method: Method) -> Result<Drafted, Box<Refusal>> {
        let Some(config) = self.request.draft_config.as_ref() else {
            return Err(unknown_draft(self.model.unwrap_or_default()));
        };
        let kind = match method {
            Method::Eagle => Apart::Eagle,
            Method::Eagle3 => Apart::Eagle3,
            Method::Dflash => Apart::Dflash,
            Method::Dspark => Apart::Dspark,
            _ => Apart::DraftModel,
        };
        let layers = self.target.model.common.num_hidden_layers;
        let drafter = draft::apart(config, kind, layers).map_err(unmodelled_draft)?;
        let block = ["block_size", "dspark_block_size"]
            .into_iter()
            .find_map(|field| config.get_set(field).and_then(Value::as_integer));
        let tokens = match (self.tokens, method, block) {
            (None, Method::Dspark, Some(block)) => {
                u64::try_from(block).map_err(|_| Refusal::TooLarge)?
            }
            (None, _, _) => {
                return Err(invalid(
                    "A speculative model was provided, but `num_speculative_tokens` was not provided",
                ));
            }
            (Some(_), _, _) => self.count()?,
        };
        let uses_states = config
            .get_set("eagle_config")
            .and_then(|own| own.get("use_aux_hidden_state"))
            .is_none_or(|on| *on != Value::Bool(false));
        Ok(Drafted {
            method,
            draft: Some(Draft::Decoder(Box::new(drafter))),
            class: "",
            tokens,
            modules: 0,
            samples_from_anchor: samples_from_anchor(config),
            names_mask_token: draft::names_mask_token(config),
            wants_states: match method {
                Method::Eagle3 => uses_states,
                _ => method.fills_blocks(),
            },
        })
    }

    /// What is left to check once the drafter is known, in vLLM's order.
    fn verify(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
        let fields = self.fields;
        let method = drafted.method;
        let has_model = drafted.draft.is_some() || method == Method::Dspark;
        if has_model {
            if fields.value("xpress_topc").is_some() {
                return Err(invalid("xpress_topc is only supported by XPress"));
            }
            if fields.value("dspark_draft_topk").is_some() {
                if method != Method::Dspark {
                    return Err(invalid("dspark_draft_topk is only supported by DSpark"));
                }
                return Err(not_modelled("dspark_draft_topk"));
            }
            self.draft_ranks()?;
            self.draft_length(drafted)?;
        }
        if fields.value("index_share_for_mtp_iteration").is_some() && method != Method::Mtp {
            return Err(invalid(
                "index_share_for_mtp_iteration is only supported with method='mtp'",
            ));
        }
        self.adaptive(method)?;
        if fields.value("tensor_parallel_size").is_some() {
            return Err(wrong_parallelism());
        }
        let head = fields.text("draft_lm_head_quantization");
        if head.is_some() && !matches!(method, Method::Eagle | Method::Eagle3 | Method::Mtp) {
            return Err(invalid(format!(
                "draft_lm_head_quantization is not supported for method '{method}'."
            )));
        }
        super::synthetic::check(fields, drafted.tokens)?;
        self.draft_heads(drafted)?;
        self.aux_target(method)?;
        if fields.is_on("use_heterogeneous_vocab") {
            if method != Method::DraftModel {
                return Err(invalid(
                    "use_heterogeneous_vocab only works with method='draft_model'",
                ));
            }
            return Err(not_modelled("use_heterogeneous_vocab"));
        }
        self.fly(drafted.tokens)?;
        self.vocabularies(drafted)
    }

    /// `enable_adaptive_verification`, of which backends are asked, too, but for
    /// DeepSeek V4's own.
    fn adaptive(&self, method: Method) -> Result<(), Box<Refusal>> {
        let name = "enable_adaptive_verification";
        if !self.fields.is_on(name) {
            return Ok(());
        }
        let is_v4 = matches!(self.target.model.kind, Kind::DeepseekV4(_));
        if !is_v4 || !self.rules.adapts_any_method {
            return Err(not_modelled(name));
        }
        if method != Method::Dspark && self.fields.is_on("use_local_argmax_reduction") {
            return Err(invalid(
                "Adaptive verification estimates per-position acceptance from the draft logits, \
                 which use_local_argmax_reduction never materializes. Disable one of them.",
            ));
        }
        if self.request.args.enforce_eager == Some(true) {
            return Err(not_modelled(
                "enable_adaptive_verification with enforce_eager",
            ));
        }
        Ok(())
    }

    /// `draft_tensor_parallel_size`. Mirrors `_verify_and_get_draft_tp`.
    fn draft_ranks(&self) -> Result<(), Box<Refusal>> {
        let target = i128::from(self.target.tensor_parallel_size);
        match self.fields.integer("draft_tensor_parallel_size") {
            Some(ranks) if ranks != 1 && ranks != target => Err(invalid(format!(
                "speculative_draft_tensor_parallel_size={ranks} cannot be other value than 1 or \
                 target model tensor_parallel_size"
            ))),
            _ => Ok(()),
        }
    }

    /// Tokens of the drafter's longest request. Mirrors
    /// `_maybe_override_draft_max_model_len`.
    fn draft_length(&self, drafted: &Drafted) -> Result<u64, Box<Refusal>> {
        let length = match &drafted.draft {
            Some(Draft::Decoder(drafter)) => &drafter.common.length,
            Some(Draft::Windows { .. }) | None => &self.target.model.common.length,
        };
        let asked = match self.fields.integer("max_model_len") {
            None => None,
            Some(tokens) => Some(i64::try_from(tokens).map_err(|_| Refusal::TooLarge)?),
        };
        let own = longest(asked, length, None, self.request)?;
        let target = self.target.max_model_len;
        match asked {
            Some(asked) if own > target => Err(invalid(format!(
                "speculative_max_model_len={asked} cannot be larger than target_max_model_len={target}"
            ))),
            _ => Ok(own.min(target)),
        }
    }

    /// The drafter's heads over its ranks. Mirrors `ModelConfig.verify_with_parallel_config`.
    fn draft_heads(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
        let Some(Draft::Decoder(drafter)) = &drafted.draft else {
            return Ok(());
        };
        let heads = drafter.common.num_attention_heads;
        let own = self.fields.integer("draft_tensor_parallel_size");
        let ranks = own.map_or(self.target.tensor_parallel_size, |ranks| {
            u64::try_from(ranks).unwrap_or(1)
        });
        if heads.is_multiple_of(ranks) {
            return Ok(());
        }
        Err(invalid(format!(
            "Total number of attention heads ({heads}) must be divisible by tensor parallel size \
             ({ranks})."
        )))
    }

    /// Methods that read several states, where the release lists their targets.
    fn aux_target(&self, method: Method) -> Result<(), Box<Refusal>> {
        let listed = self.rules.aux_targets;
        if listed.is_empty() || !matches!(method, Method::Eagle3 | Method::Dflash) {
            return Ok(());
        }
        let config = &self.request.hf_config;
        let text = config.get_set("text_config").unwrap_or(config);
        let name = text.get_set("model_type").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        if listed.iter().any(|part| name.contains(part)) {
            return Ok(());
        }
        Err(invalid(format!(
            "{method} is only supported for {} models. Got \
             self.target_model_config.hf_text_config.model_type={}",
            repr_list(listed.iter().copied()),
            repr(name)
        )))
    }

    /// `rejection_sample_method=fly`.
    fn fly(&self, tokens: u64) -> Result<(), Box<Refusal>> {
        if self.fields.text("rejection_sample_method") != Some("fly") {
            return Ok(());
        }
        if tokens < 2 {
            return Err(invalid(
                "FLy requires num_speculative_tokens to be at least 2.",
            ));
        }
        match self.fields.integer("fly_window_size") {
            Some(window) if window >= i128::from(tokens) => Err(invalid(
                "FLy requires fly_window_size to be smaller than num_speculative_tokens.",
            )),
            _ => Ok(()),
        }
    }

    /// A draft model speaks the target's tokens.
    fn vocabularies(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
        let (Method::DraftModel, Some(Draft::Decoder(drafter))) = (drafted.method, &drafted.draft)
        else {
            return Ok(());
        };
        let own = drafter.common.weights.vocab_size;
        let target = self.target.model.common.weights.vocab_size;
        match (own, target) {
            (Some(own), Some(target)) if own == target => Ok(()),
            (Some(own), Some(target)) => Err(invalid(format!(
                "Target and draft model should have the same vocabulary size. Target model \
                 vocab_size={target}. Draft model vocab_size={own}. Using models with different \
                 tokenizers can cause out-of-bounds errors during speculative decoding."
            ))),
            _ => Err(Refusal::not_modelled(
                "a draft model whose config.json, or whose target's, has no vocab_size is not modelled",
            )),
        }
    }

    fn finish(&self, drafted: Drafted) -> Result<Speculation, Box<Refusal>> {
        let rules = self.rules;
        let method = drafted.method;
        let tokens = drafted.tokens;
        let parallel = self.fields.is_on("parallel_drafting");
        let runner = self.runner(method, parallel);
        let length = match &drafted.draft {
            Some(draft) => {
                let own = self.draft_length(&drafted)?;
                let table = match draft {
                    Draft::Decoder(drafter) => drafter.common.length.is_only_a_table,
                    Draft::Windows { .. } => self.target.model.common.length.is_only_a_table,
                };
                let shares = method != Method::DraftModel && table;
                let bounds = rules.length_limits_target && runner == Runner::V2 && !shares;
                bounds.then_some(own)
            }
            None => None,
        };
        let chain = if method == Method::Mtp {
            drafted.modules.min(tokens)
        } else {
            0
        };
        let fill_in =
            method == Method::Dflash || (method == Method::Dspark && !drafted.samples_from_anchor);
        let parallel_slots = parallel && !method.fills_blocks();
        Ok(Speculation {
            method,
            num_speculative_tokens: tokens,
            num_lookahead_tokens: match method {
                _ if fill_in => add(tokens, 1)?,
                _ if method.reads_states() || method == Method::DraftModel => tokens,
                _ => 0,
            },
            extra_retained_tokens: if rules.chain_retains && chain > 1 {
                tokens - 1
            } else {
                0
            },
            slots_per_request: match method {
                Method::DraftModel if parallel_slots => tokens,
                Method::DraftModel => 1,
                _ if parallel_slots => tokens.saturating_sub(1),
                _ => 0,
            },
            draft: drafted.draft,
            class: drafted.class,
            length_limit: length,
            cache_dtype: self.cache_dtype(method, runner),
            backend: self.backend(method, runner),
            runner,
            refused_first: self.refused_first(method, parallel, runner, drafted.names_mask_token),
            wants_states: drafted.wants_states,
            is_unpadded: self.fields.is_on("disable_padded_drafter_batch"),
            wants_local_argmax: self.fields.is_on("use_local_argmax_reduction"),
        })
    }

    /// Mirrors `vllm/config/vllm.py` `use_v2_model_runner` and
    /// `_get_v2_model_runner_unsupported_features`.
    fn runner(&self, method: Method, parallel: bool) -> Runner {
        let is_v4 = matches!(self.target.model.kind, Kind::DeepseekV4(_));
        let by_default = match self.rules.runner {
            DefaultRunner::V1 => false,
            DefaultRunner::V2ForDspark => method == Method::Dspark,
            DefaultRunner::V2ForSome => {
                let common = &self.target.model.common;
                method == Method::Dspark || is_v4 || (!common.is_hybrid && !common.has_experts)
            }
            DefaultRunner::V2 => true,
        };
        let old = matches!(
            self.rules.runner,
            DefaultRunner::V2ForSome | DefaultRunner::V2ForDspark
        );
        let lacks = match (self.rules.unsupported, method) {
            (_, Method::Suffix | Method::CustomClass) => true,
            (Unsupported::Separate, Method::DraftModel | Method::Ngram | Method::NgramGpu)
            | (Unsupported::Lookups, Method::Ngram | Method::NgramGpu) => true,
            (Unsupported::Few, Method::DraftModel | Method::Ngram | Method::NgramGpu) => {
                old || self.rules.overrides == Overrides::Dtype
            }
            _ => false,
        };
        if by_default && !lacks && !(parallel && !method.fills_blocks()) {
            Runner::V2
        } else {
            Runner::V1
        }
    }

    /// The drafter's own cache dtype, where the loader hears of it.
    fn cache_dtype(&self, method: Method, runner: Runner) -> Option<DraftDtype> {
        let profile = self.request.release.profile();
        let name = self.fields.text("kv_cache_dtype")?;
        let known: Option<CacheDtype> = name.parse().ok();
        let known = known.filter(|dtype| profile.cache_dtypes.contains(dtype));
        match known {
            Some(_) if self.is_deaf_to_dtype(method, runner) => None,
            Some(dtype) => Some(DraftDtype::Known(dtype)),
            None => Some(DraftDtype::Unknown(name.chars().take(80).collect())),
        }
    }

    fn is_deaf_to_dtype(&self, method: Method, runner: Runner) -> bool {
        runner == Runner::V2
            && (self.rules.overrides == Overrides::None
                || (method == Method::DraftModel && self.rules.unsupported == Unsupported::Lookups))
    }

    /// Whom the drafter's layers ask for their backend.
    fn backend(&self, method: Method, runner: Runner) -> DraftBackend {
        let own = self.backend;
        let is_v4 = matches!(self.target.model.kind, Kind::DeepseekV4(_));
        match (runner, method) {
            (Runner::V1, _) if !self.rules.own_backend_on_v1 => DraftBackend::Targets,
            (Runner::V1, _) | (Runner::V2, Method::Dflash) => DraftBackend::Own(own),
            (Runner::V2, Method::Dspark) => match (own, self.rules.dspark_backend) {
                (None, DsparkBackend::Targets) => DraftBackend::Targets,
                (None, DsparkBackend::TargetsOnDeepseekV4) if is_v4 => DraftBackend::Targets,
                _ => DraftBackend::Own(own),
            },
            (Runner::V2, Method::DraftModel) => DraftBackend::Targets,
            (Runner::V2, _) => match (own, self.rules.overrides) {
                (Some(_), Overrides::DtypeAndBackend) => DraftBackend::Own(own),
                _ => DraftBackend::Targets,
            },
        }
    }

    /// What the drafter's class refuses when it is made.
    fn refused_first(
        &self,
        method: Method,
        parallel: bool,
        runner: Runner,
        names_mask_token: bool,
    ) -> Option<&'static str> {
        if names_mask_token || !(parallel || method.fills_blocks()) {
            return None;
        }
        match runner {
            // `vllm/v1/worker/gpu/spec_decode/utils.py` `get_parallel_drafting_token_id`
            Runner::V2 => Some(
                "Model config must specify `dflash_config.mask_token_id`, `mask_token_id`, \
                 `dspark_noise_token_id`, `pard_token`, or `ptd_token_id` for parallel drafting.",
            ),
            // `vllm/v1/spec_decode/llm_base_proposer.py` `_init_parallel_drafting_params`
            Runner::V1 if self.rules.names_more_mask_tokens => Some(
                "For parallel drafting, the draft model config must have \
                 `dflash_config.mask_token_id`, `mask_token_id`, `dspark_noise_token_id`, \
                 `pard_token`, or `ptd_token_id` specified in its config.json.",
            ),
            Runner::V1 => Some(
                "For parallel drafting, the draft model config must have `pard_token`, \
                 `ptd_token_id`, or `dflash_config.mask_token_id` specified in its config.json.",
            ),
        }
    }
}

fn samples_from_anchor(config: &Value) -> bool {
    config
        .get("sample_from_anchor")
        .is_none_or(|on| *on == Value::Bool(true))
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

fn divides(tokens: u64, n_predict: u64) -> Result<(), Box<Refusal>> {
    if tokens <= n_predict {
        return Ok(());
    }
    if n_predict == 0 {
        return Err(Refusal::raised(
            Stage::Config,
            "ZeroDivisionError",
            "integer modulo by zero",
        ));
    }
    if tokens.is_multiple_of(n_predict) {
        return Ok(());
    }
    Err(invalid(format!(
        "num_speculative_tokens:{tokens} must be divisible by n_predict={n_predict}"
    )))
}

fn wrong_parallelism() -> Box<Refusal> {
    invalid(
        "'tensor_parallel_size' is not a valid argument in the speculative_config. Please pass \
         'draft_tensor_parallel_size' instead.",
    )
}

fn unknown_draft(name: &str) -> Box<Refusal> {
    let name: String = name.chars().take(80).collect();
    Refusal::not_modelled(format!(
        "the draft model {} is not in the catalog; pass its config.json as draft_hf_config",
        crate::units::quoted(&name)
    ))
}

fn unmodelled_draft(error: ModelError) -> Box<Refusal> {
    Refusal::not_modelled(format!("the drafter: {error}"))
}
