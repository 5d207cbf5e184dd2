//! What is checked once the drafter is known, in vLLM's order.
//! Mirrors `SpeculativeConfig.__post_init__` and `_verify_args`.

use super::Method;
use super::drafted::Drafted;
use super::fields::{invalid, not_modelled};
use super::settle::Asked;
use crate::config::length::longest;
use crate::error::{Refusal, Stage};
use crate::model::draft::Draft;
use crate::model::{Kind, Length};
use crate::python::{repr, repr_list};
use crate::value::Value;

impl Asked<'_> {
    /// What is left to check once the drafter is known, in vLLM's order.
    pub(super) fn verify(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
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
            self.draft_own_length(drafted)?;
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
        self.draft_stages(drafted)?;
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
    pub(super) fn adaptive(&self, method: Method) -> Result<(), Box<Refusal>> {
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
    pub(super) fn draft_ranks(&self) -> Result<(), Box<Refusal>> {
        let target = i128::from(self.target.tensor_parallel_size);
        match self.fields.integer("draft_tensor_parallel_size") {
            Some(ranks) if ranks != 1 && ranks != target => Err(invalid(format!(
                "speculative_draft_tensor_parallel_size={ranks} cannot be other value than 1 or \
                 target model tensor_parallel_size"
            ))),
            _ => Ok(()),
        }
    }

    /// `speculative_config.max_model_len`
    fn asked_length(&self) -> Result<Option<i64>, Box<Refusal>> {
        let asked = self.fields.integer("max_model_len");
        let narrow = |tokens| i64::try_from(tokens).map_err(|_| Refusal::TooLarge.into());
        asked.map(narrow).transpose()
    }

    /// Tokens of the drafter's longest request by its own config, which is checked when that is made.
    fn draft_own_length(&self, drafted: &Drafted) -> Result<u64, Box<Refusal>> {
        let length = match &drafted.draft {
            Some(Draft::Decoder(own)) => &own.common.length,
            Some(Draft::Windows { .. }) | None => &self.target.model.common.length,
        };
        self.own_length(length)
    }

    /// The same, by a length.
    pub(super) fn own_length(&self, length: &Length) -> Result<u64, Box<Refusal>> {
        longest(self.asked_length()?, length, None, self.request)
    }

    /// The same beside the target. Mirrors `_maybe_override_draft_max_model_len`.
    pub(super) fn draft_length(&self, drafted: &Drafted) -> Result<u64, Box<Refusal>> {
        let own = self.draft_own_length(drafted)?;
        let target = self.target.max_model_len;
        match self.asked_length()? {
            Some(asked) if own > target => Err(invalid(format!(
                "speculative_max_model_len={asked} cannot be larger than target_max_model_len={target}"
            ))),
            _ => Ok(own.min(target)),
        }
    }

    /// The drafter's heads over its ranks; those of the target where its config stands for the drafter's.
    /// Mirrors `ModelConfig.verify_with_parallel_config`.
    pub(super) fn draft_heads(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
        let target = &self.target.model.common;
        let asked = self.fields.integer("draft_tensor_parallel_size");
        let (common, own) = match (&drafted.draft, drafted.method) {
            (Some(Draft::Decoder(apart)), _) => (&apart.common, asked),
            (Some(Draft::Windows { .. }), _) => (target, asked),
            (None, Method::Ngram | Method::NgramGpu | Method::CustomClass) => (target, None),
            (None, _) => return Ok(()),
        };
        let heads = common.num_attention_heads;
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

    /// Drafters under a pipeline, which a release may want shared out, too.
    fn draft_stages(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
        let stages = self.request.args.pipeline_parallel_size.unwrap_or(1);
        let can = drafted.class == "NemotronHMTP";
        if stages <= 1 || !self.rules.shares_drafter_out || drafted.draft.is_none() || can {
            return Ok(());
        }
        Err(Refusal::raised(
            Stage::Config,
            "NotImplementedError",
            "Pipeline parallelism is not supported for this model. Supported models implement \
             the `SupportsPP` interface.",
        ))
    }

    /// Methods that read several states, where the release lists their targets.
    pub(super) fn aux_target(&self, method: Method) -> Result<(), Box<Refusal>> {
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
    pub(super) fn fly(&self, tokens: u64) -> Result<(), Box<Refusal>> {
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
    pub(super) fn vocabularies(&self, drafted: &Drafted) -> Result<(), Box<Refusal>> {
        let (Method::DraftModel, Some(Draft::Decoder(own))) = (drafted.method, &drafted.draft)
        else {
            return Ok(());
        };
        let own = own.common.weights.vocab_size;
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
}

pub(super) fn wrong_parallelism() -> Box<Refusal> {
    invalid(
        "'tensor_parallel_size' is not a valid argument in the speculative_config. Please pass \
         'draft_tensor_parallel_size' instead.",
    )
}
