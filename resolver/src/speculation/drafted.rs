//! What each method makes of its checkpoint.

use super::Method;
use super::fields::invalid;
use super::settle::Asked;
use crate::error::{Refusal, Stage};
use crate::model::draft::{self, Apart, Draft, Mtp};
use crate::model::{Kind, ModelError};
use crate::release::drafting::DsparkTokens;
use crate::value::Value;

/// What the method makes of the checkpoint.
pub(super) struct Drafted {
    pub method: Method,
    pub draft: Option<Draft>,
    pub class: &'static str,
    pub tokens: u64,
    /// Modules that run one after another.
    pub modules: u64,
    /// Whether the anchor is a token of its own.
    pub samples_from_anchor: bool,
    pub names_mask_token: bool,
    pub wants_states: bool,
}

impl Asked<'_> {
    /// Drafting by looking tokens up.
    pub(super) fn lookup(&self, method: Method) -> Result<Drafted, Box<Refusal>> {
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
    pub(super) fn own_config(&self) -> Result<&Value, Box<Refusal>> {
        match (self.model, &self.request.draft_config) {
            (None, _) => Ok(&self.request.hf_config),
            (Some(_), Some(config)) => Ok(config),
            (Some(name), None) => Err(unknown_draft(name)),
        }
    }

    pub(super) fn mtp(&self) -> Result<Drafted, Box<Refusal>> {
        let config = self.own_config()?;
        if self.model.is_some() && *config != *self.request.hf_config {
            return Err(Refusal::not_modelled(
                "MTP layers of a checkpoint other than the target's are not modelled",
            ));
        }
        let Some(mtp) =
            draft::mtp(config, self.target.model).map_err(|error| unmodelled_draft(&error))?
        else {
            // the drafter's own config comes first, which is the target's
            self.own_length(&self.target.model.common.length)?;
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
    pub(super) fn v4_dspark(&self) -> Result<Drafted, Box<Refusal>> {
        let config = &self.request.hf_config;
        let tokens = self.count()?;
        if !matches!(self.target.model.kind, Kind::DeepseekV4(_)) {
            return Err(Refusal::not_modelled(format!(
                "dspark without a draft model on {} is not modelled",
                self.target.model.common.architecture
            )));
        }
        self.dspark_tokens(tokens, config)?;
        let draft = draft::v4_dspark(config, self.target.model)
            .map_err(|error| unmodelled_draft(&error))?;
        let names_mask_token = draft::names_mask_token(config);
        if draft.is_none() && names_mask_token {
            return Err(Refusal::not_modelled(
                "a DeepSeek V4 whose config.json lacks dspark_target_layer_ids or \
                 dspark_markov_rank has no DSpark layers that are modelled",
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
    pub(super) fn dspark_tokens(&self, tokens: u64, config: &Value) -> Result<(), Box<Refusal>> {
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
    pub(super) fn apart(&self, method: Method) -> Result<Drafted, Box<Refusal>> {
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
        let drafter = draft::apart(config, kind, layers).map_err(|error| {
            Refusal::not_modelled(format!("method {method} with the drafter: {error}"))
        })?;
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
}

fn samples_from_anchor(config: &Value) -> bool {
    config
        .get("sample_from_anchor")
        .is_none_or(|on| *on == Value::Bool(true))
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

fn unknown_draft(name: &str) -> Box<Refusal> {
    let name: String = name.chars().take(80).collect();
    Refusal::not_modelled(format!(
        "the draft model {} is not in the catalog; give its config.json, too (draft_hf_config)",
        crate::units::quoted(&name)
    ))
}

fn unmodelled_draft(error: &ModelError) -> Box<Refusal> {
    Refusal::not_modelled(format!("the drafter: {error}"))
}
