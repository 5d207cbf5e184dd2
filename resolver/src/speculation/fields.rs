//! The fields of `--speculative-config`, as pydantic takes them.
//! Mirrors `vllm/config/speculative.py` `SpeculativeConfig`.

use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::python::{Bound, FieldErrors, TypeProblem, lax_bool, lax_float, lax_int};
use crate::release::masks::{ALL, from, only};
use crate::release::{Drafting, Profile};
use crate::units::TWO_TO_63;
use crate::value::Value;

/// What a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// On or off.
    Bool,
    /// On, off or not said.
    MaybeBool,
    /// A whole number; null is none.
    Integer(Bound),
    /// A whole number or nothing.
    MaybeInteger(Option<Bound>),
    /// A number.
    Number(Option<Bound>),
    /// A string or nothing.
    MaybeText,
    /// One of the release's methods, or nothing.
    Method,
    /// One of the release's cache dtypes, or nothing.
    MaybeCacheDtype,
    /// One of these, or nothing.
    MaybeOneOf(&'static [&'static str]),
    /// One of these, of which each release has some.
    OneOf(&'static [(&'static str, u16)]),
    /// Whatever it is: who sets it is told that it is not modelled.
    Anything,
}

/// A field, with the releases that have it.
struct Field {
    name: &'static str,
    kind: Kind,
    releases: u16,
}

const fn field(name: &'static str, kind: Kind, releases: u16) -> Field {
    Field {
        name,
        kind,
        releases,
    }
}

const AT_LEAST_1: Kind = Kind::MaybeInteger(Some(Bound::AtLeast(1)));

/// In the order of the class, which is that of its errors.
const FIELDS: [Field; 44] = [
    field("enforce_eager", Kind::MaybeBool, ALL),
    field(
        "num_speculative_tokens",
        Kind::Integer(Bound::GreaterThan(0)),
        ALL,
    ),
    field("model", Kind::MaybeText, ALL),
    field("method", Kind::Method, ALL),
    field("draft_tensor_parallel_size", AT_LEAST_1, ALL),
    field("tensor_parallel_size", Kind::MaybeInteger(None), ALL),
    field("quantization", Kind::MaybeText, ALL),
    field("moe_backend", Kind::Anything, ALL),
    field("attention_backend", Kind::MaybeText, from(1)),
    field("kv_cache_dtype", Kind::MaybeCacheDtype, from(6) & !from(13)),
    field("kv_cache_dtype", Kind::MaybeText, from(13)),
    field("max_model_len", AT_LEAST_1, ALL),
    field("revision", Kind::MaybeText, ALL),
    field("code_revision", Kind::MaybeText, ALL),
    field("index_share_for_mtp_iteration", Kind::MaybeBool, from(9)),
    field("disable_padded_drafter_batch", Kind::Bool, ALL),
    field("disable_eagle_block_drop", Kind::Bool, from(10)),
    field("disable_lookahead_block_hashes", Kind::Bool, from(13)),
    field(
        "draft_lm_head_quantization",
        Kind::MaybeOneOf(&["fp8", "nvfp4"]),
        from(13),
    ),
    field("use_local_argmax_reduction", Kind::Bool, ALL),
    field("use_heterogeneous_vocab", Kind::Bool, from(5)),
    field("prompt_lookup_max", AT_LEAST_1, ALL),
    field("prompt_lookup_min", AT_LEAST_1, ALL),
    field("speculative_token_tree", Kind::Anything, only(0)),
    field("parallel_drafting", Kind::Bool, ALL),
    field(
        "num_speculative_tokens_per_batch_size",
        Kind::Anything,
        from(4),
    ),
    field(
        "suffix_decoding_max_tree_depth",
        Kind::Integer(Bound::AtLeast(i64::MIN)),
        ALL,
    ),
    field(
        "suffix_decoding_max_cached_requests",
        Kind::Integer(Bound::AtLeast(i64::MIN)),
        ALL,
    ),
    field("suffix_decoding_max_spec_factor", Kind::Number(None), ALL),
    field("suffix_decoding_min_token_prob", Kind::Number(None), ALL),
    field("draft_load_config", Kind::Anything, ALL),
    field(
        "rejection_sample_method",
        Kind::OneOf(&[
            ("strict", only(0)),
            ("probabilistic", only(0)),
            ("standard", from(1)),
            ("synthetic", ALL),
            ("block", from(5)),
            ("fly", from(13)),
        ]),
        ALL,
    ),
    field("synthetic_acceptance_rates", Kind::Anything, ALL),
    field("synthetic_acceptance_length", Kind::Anything, ALL),
    field("enable_adaptive_verification", Kind::Bool, from(8)),
    field(
        "draft_sample_method",
        Kind::OneOf(&[
            ("greedy", from(1)),
            ("gumbel", only(1)),
            ("probabilistic", from(2)),
        ]),
        from(1),
    ),
    field("dspark_draft_topk", AT_LEAST_1, from(8)),
    field(
        "xpress_topc",
        Kind::MaybeInteger(Some(Bound::AtLeast(0))),
        from(13),
    ),
    field("fly_window_size", AT_LEAST_1, from(13)),
    field(
        "fly_entropy_threshold",
        Kind::Number(Some(Bound::AtLeast(0))),
        from(13),
    ),
    field(
        "fly_entropy_top_k",
        Kind::Integer(Bound::AtLeast(1)),
        from(13),
    ),
    // set by the engine; a user's are overwritten
    field("target_model_config", Kind::Anything, ALL),
    field("target_parallel_config", Kind::Anything, ALL),
    field("draft_model_config", Kind::Anything, ALL),
];

/// Spellings of `method`, with the releases that take them, in vLLM's order.
const METHODS: [(&str, u16); 40] = [
    ("ngram", ALL),
    ("medusa", ALL & !from(13)),
    ("mlp_speculator", ALL & !from(13)),
    ("draft_model", ALL),
    ("suffix", ALL),
    ("custom_class", from(2)),
    ("eagle", ALL),
    ("eagle3", ALL),
    ("extract_hidden_states", ALL),
    ("deepseek_mtp", ALL),
    ("dots3_note_mtp", from(8)),
    ("mimo_mtp", ALL),
    ("mimo_v2_mtp", from(1)),
    ("glm4_moe_mtp", ALL),
    ("glm4_moe_lite_mtp", ALL),
    ("glm_ocr_mtp", ALL),
    ("ernie_mtp", ALL),
    ("nemotron_h_mtp", ALL),
    ("exaone_moe_mtp", ALL),
    ("exaone4_5_mtp", ALL),
    ("qwen3_next_mtp", ALL),
    ("qwen4_exp_mtp", from(9)),
    ("qwen3_5_mtp", ALL),
    ("longcat_flash_mtp", ALL),
    ("bailing_hybrid_v3_mtp", from(8)),
    ("minimax_m3_mtp", from(4)),
    ("bailing_hybrid_mtp", from(5)),
    ("mtp", ALL),
    ("kimi_k3_mtp", from(7)),
    ("pangu_ultra_moe_mtp", ALL),
    ("step3p5_mtp", ALL),
    ("step5_mtp", from(13)),
    ("hy_v3_mtp", ALL),
    ("hy_v4_mtp", from(9)),
    ("gemma4_mtp", from(1)),
    ("inkling_mtp", from(6)),
    ("glm5_next_mtp", from(10)),
    ("dflash", ALL),
    ("ngram_gpu", ALL),
    ("dspark", from(5)),
];

/// Keys beyond any config.
const MOST_KEYS: usize = 200;

/// Whether pydantic prints the value whole, and JSON's reader has it exactly.
fn is_short(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Integer(_) => true,
        Value::Float(number) => number.abs() < TWO_TO_63,
        Value::String(text) => text.len() <= 200,
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// `--speculative-config`, its types checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a Value);

impl<'a> Fields<'a> {
    /// Checks every field and refuses others, all at once.
    pub(super) fn check(config: &'a Value, profile: &Profile) -> Result<Self, Box<Refusal>> {
        let (rules, cache_dtypes) = (profile.drafting, profile.cache_dtypes);
        let mut errors = FieldErrors::new("SpeculativeConfig");
        let fields = FIELDS
            .iter()
            .filter(|field| rules.bit.is_in(field.releases));
        for field in fields.clone() {
            if let Some(value) = config.get(field.name) {
                if field.kind != Kind::Anything && !is_short(value) {
                    return Err(not_modelled(field.name));
                }
                field.check(value, rules, cache_dtypes, &mut errors);
            }
        }
        if let Value::Object(entries) = config {
            if entries.len() > MOST_KEYS {
                return Err(not_modelled("keys, so many of them,"));
            }
            for (name, value) in entries {
                if !fields.clone().any(|field| field.name == name) {
                    if !is_short(value) || name.len() > 80 {
                        return Err(not_modelled(name));
                    }
                    errors.unexpected(name, value);
                }
            }
        }
        match errors.text() {
            Some(text) => Err(invalid(text)),
            None => Ok(Self(config)),
        }
    }

    /// An integer field, checked before.
    pub(super) fn integer(self, name: &str) -> Option<i128> {
        lax_int(self.0.get_set(name)?).ok()
    }

    /// A field that is on or off; off where nothing is said.
    pub(super) fn is_on(self, name: &str) -> bool {
        self.0
            .get_set(name)
            .is_some_and(|value| lax_bool(value) == Ok(true))
    }

    /// A string.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.0.get_set(name)?.as_str()
    }

    /// Whatever is there.
    pub(super) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get_set(name)
    }
}

impl Field {
    fn check(
        &self,
        value: &Value,
        rules: &Drafting,
        cache_dtypes: &[CacheDtype],
        errors: &mut FieldErrors,
    ) {
        let name = self.name;
        let null = *value == Value::Null;
        let mut whole = |bound: Option<Bound>| match lax_int(value) {
            Err(problem) => errors.wrong_type(name, problem, value),
            Ok(number) => {
                if let Some(bound) = bound.filter(|bound| !bound.allows(number)) {
                    errors.out_of_bounds(name, bound, value);
                }
            }
        };
        match self.kind {
            Kind::Anything => {}
            Kind::MaybeBool
            | Kind::MaybeInteger(_)
            | Kind::MaybeText
            | Kind::MaybeCacheDtype
            | Kind::MaybeOneOf(_)
            | Kind::Method
                if null => {}
            Kind::Bool | Kind::MaybeBool => {
                if let Err(problem) = lax_bool(value) {
                    errors.wrong_type(name, problem, value);
                }
            }
            Kind::Integer(bound) => whole(Some(bound)),
            Kind::MaybeInteger(bound) => whole(bound),
            Kind::Number(bound) => match lax_float(value) {
                Err(problem) => errors.wrong_type(name, problem, value),
                Ok(number) => {
                    if let Some(bound) = bound.filter(|_| number < 0.0) {
                        errors.out_of_bounds(name, bound, value);
                    }
                }
            },
            Kind::MaybeText => {
                if value.as_str().is_none() {
                    errors.wrong_type(name, TypeProblem::NOT_A_STRING, value);
                }
            }
            Kind::MaybeCacheDtype => {
                let names: Vec<&str> = cache_dtypes.iter().map(|dtype| dtype.as_str()).collect();
                if !value.as_str().is_some_and(|word| names.contains(&word)) {
                    errors.not_a_literal(name, &names, value);
                }
            }
            Kind::Method => choose(name, &METHODS, value, rules, errors),
            Kind::OneOf(choices) => choose(name, choices, value, rules, errors),
            Kind::MaybeOneOf(choices) => {
                if !value.as_str().is_some_and(|word| choices.contains(&word)) {
                    errors.not_a_literal(name, choices, value);
                }
            }
        }
    }
}

fn choose(
    name: &str,
    choices: &[(&'static str, u16)],
    value: &Value,
    rules: &Drafting,
    errors: &mut FieldErrors,
) {
    let known =
        |(word, releases): &(&'static str, u16)| rules.bit.is_in(*releases).then_some(*word);
    let choices: Vec<&str> = choices.iter().filter_map(known).collect();
    if !value.as_str().is_some_and(|word| choices.contains(&word)) {
        errors.not_a_literal(name, &choices, value);
    }
}

/// pydantic's refusal.
pub(super) fn invalid(message: impl Into<String>) -> Box<Refusal> {
    Refusal::raised(Stage::Config, "ValidationError", message)
}

/// A field without a rule.
pub(super) fn not_modelled(name: &str) -> Box<Refusal> {
    let name: String = name.chars().take(80).collect();
    Refusal::not_modelled(format!("speculative_config's {name} is not modelled"))
}
