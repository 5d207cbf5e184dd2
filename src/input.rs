//! What the user has entered: one value in one signal, raw text and all.

use std::sync::Arc;

use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::catalog::{CatalogGpu, GPUS, find_gpu};
use kv_resolver::changes::Change;
use kv_resolver::speculation::Method;
use kv_resolver::{Advice, CacheDtype, Flag, Release, Usage};

use crate::view::View;

/// The model of the bare address.
const DEFAULT_MODEL: &str = "deepseek-ai/DeepSeek-V4-Flash";
/// Its context length: its own would fill the screen with "does not fit".
const DEFAULT_LENGTH: &str = "262144";

/// Where the model's config.json comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// The catalog's model of this id; whether there is one, the catalog knows.
    Catalog(Arc<str>),
    /// The text that the user pasted.
    Pasted,
}

/// `--speculative-config`, key by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drafting {
    /// How tokens are drafted; `None` for not at all, whatever else is entered.
    pub method: Option<Method>,
    /// Tokens drafted in a step, as typed.
    pub tokens: String,
    /// The drafter: an id of the catalog, or what a pasted config.json is called.
    pub model: String,
    /// Its config.json, if the catalog has none.
    pub pasted: Arc<str>,
    /// Its own `kv_cache_dtype`, if it is to have one.
    pub dtype: Option<CacheDtype>,
}

impl Default for Drafting {
    fn default() -> Self {
        Self {
            method: None,
            // without a number, vLLM refuses most methods
            tokens: "1".to_owned(),
            model: String::new(),
            pasted: Arc::from(""),
            dtype: None,
        }
    }
}

impl Drafting {
    /// What the drafter is called; empty if it is not.
    pub fn name(&self) -> String {
        let name = self.model.trim().chars();
        name.filter(|c| !c.is_control()).collect()
    }
}

/// Everything that the page can be asked. Text stays as it was typed, so that nothing is lost while it is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The model.
    pub model: ModelChoice,
    /// The pasted config.json, kept even while a catalog model is chosen.
    pub pasted: Arc<str>,
    /// vLLM's version.
    pub release: Release,
    /// The release that it is compared with, if one is chosen.
    pub compare: Option<Release>,
    /// The chosen cell's GPU.
    pub gpu: &'static CatalogGpu,
    /// The chosen cell's `--kv-cache-dtype`.
    pub dtype: CacheDtype,
    /// GiB for the KV cache on each GPU, or lines of vLLM's log that say them, as typed;
    /// empty to estimate them.
    pub pool_gib: String,
    /// GiB that are free on each GPU when vLLM starts, as typed; empty for as many as it
    /// wants.
    pub free_gib: String,
    /// Every other flag that is passed, as typed, in the order of [`Flag::ALL`].
    pub flags: Vec<(Flag, String)>,
    /// The drafter.
    pub drafting: Drafting,
    /// `VLLM_KV_CACHE_LAYOUT`; empty for unset.
    pub kv_cache_layout: String,
    /// `VLLM_ALLOW_LONG_MAX_MODEL_LEN`
    pub allow_long: bool,
    /// Who starts vLLM.
    pub usage: Usage,
    /// Flags and variables that are passed and have no rule, by name: there is no answer with them.
    pub unmodelled: Vec<String>,
    /// How the matrix is looked at.
    pub view: View,
    /// Parameters of the address that are none of this version's, as they are written.
    pub kept: Vec<String>,
}

impl Default for Input {
    /// A question that somebody has.
    fn default() -> Self {
        Self {
            model: default_model(),
            pasted: Arc::from(""),
            release: Release::LATEST,
            compare: None,
            gpu: find_gpu("h200").unwrap_or(&GPUS[0]),
            dtype: CacheDtype::Auto,
            pool_gib: String::new(),
            free_gib: String::new(),
            flags: vec![
                (Flag::TensorParallelSize, "8".to_owned()),
                (Flag::MaxModelLen, DEFAULT_LENGTH.to_owned()),
            ],
            drafting: Drafting::default(),
            kv_cache_layout: String::new(),
            allow_long: false,
            usage: Usage::default(),
            unmodelled: Vec::new(),
            view: View::default(),
            kept: Vec::new(),
        }
    }
}

impl Input {
    /// Chooses a model, with the context length that its question opens with
    /// unless another is entered: other models are asked for their own, for
    /// most have fewer tokens.
    pub fn choose_model(&mut self, model: ModelChoice) {
        let is_entered = self.flag(Flag::MaxModelLen) != opening_length(&self.model);
        if !is_entered {
            self.set_flag(Flag::MaxModelLen, opening_length(&model));
        }
        self.model = model;
    }

    /// A flag's text; empty if it is not passed.
    pub fn flag(&self, flag: Flag) -> &str {
        self.place(flag)
            .map_or("", |place| self.flags[place].1.as_str())
    }

    /// Passes a flag, or takes it away if the text is empty.
    pub fn set_flag(&mut self, flag: Flag, text: &str) {
        match (self.place(flag), text.is_empty()) {
            (Ok(place), true) => drop(self.flags.remove(place)),
            (Ok(place), false) => text.clone_into(&mut self.flags[place].1),
            (Err(_), true) => {}
            (Err(place), false) => self.flags.insert(place, (flag, text.to_owned())),
        }
    }

    /// Where a flag is among those that are passed, or would be.
    fn place(&self, flag: Flag) -> Result<usize, usize> {
        self.flags
            .binary_search_by_key(&flag, |(passed, _)| *passed)
    }

    /// Changes what a piece of advice says.
    pub fn apply(&mut self, advice: &Advice) {
        for (name, value) in &advice.set {
            match name.parse() {
                Ok(Flag::KvCacheDtype) => {
                    self.dtype = value.parse().unwrap_or(CacheDtype::Auto);
                }
                Ok(flag) => self.set_flag(flag, value),
                Err(()) => {}
            }
        }
    }

    /// Makes a change that was tried.
    pub fn change(&mut self, change: &Change) {
        if let Some(gpu) = change.gpu.and_then(find_gpu) {
            self.gpu = gpu;
        }
        if change
            .set
            .iter()
            .any(|(name, _)| *name == SPECULATIVE_CONFIG)
        {
            self.drafting.method = None;
        }
        self.apply(&Advice {
            text: String::new(),
            set: change.set.clone(),
        });
    }

    /// What the model is called where it is chosen.
    pub fn model_name(&self) -> &str {
        match &self.model {
            ModelChoice::Catalog(id) => id,
            ModelChoice::Pasted => "your own config.json",
        }
    }
}

fn opening_length(model: &ModelChoice) -> &'static str {
    if *model == default_model() {
        DEFAULT_LENGTH
    } else {
        ""
    }
}

/// The model of the bare address.
pub fn default_model() -> ModelChoice {
    ModelChoice::Catalog(Arc::from(DEFAULT_MODEL))
}

/// `DeepSeek-V4-Flash` of `deepseek-ai/DeepSeek-V4-Flash`.
pub fn short_model_name(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// The flags with a control of their own; the others are under "More flags".
const OWN_CONTROL: [Flag; 3] = [
    Flag::KvCacheDtype,
    Flag::TensorParallelSize,
    Flag::MaxModelLen,
];

/// The flags under "More flags".
pub fn more_flags() -> impl Iterator<Item = Flag> {
    Flag::ALL
        .into_iter()
        .filter(|flag| !OWN_CONTROL.contains(flag))
}

/// A control whose text can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The pasted config.json.
    Config,
    /// The pool.
    Pool,
    /// What is free.
    Free,
    /// `VLLM_KV_CACHE_LAYOUT`, which takes any text: vLLM checks it.
    Layout,
    /// Tokens drafted in a step.
    DraftTokens,
    /// The drafter, which is any text: vLLM checks it.
    DraftModel,
    /// Its pasted config.json.
    DraftConfig,
    /// A flag.
    Flag(Flag),
}

impl Field {
    /// The control's id in the page.
    pub fn id(self) -> String {
        match self {
            Self::Config => "field-config".to_owned(),
            Self::Pool => "field-pool".to_owned(),
            Self::Free => "field-free".to_owned(),
            Self::Layout => "field-layout".to_owned(),
            Self::DraftTokens => "field-spec_tokens".to_owned(),
            Self::DraftModel => "field-spec_model".to_owned(),
            Self::DraftConfig => "field-draft".to_owned(),
            Self::Flag(flag) => format!("field-{}", flag.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_sets_and_clears() {
        let mut input = Input::default();
        input.apply(&Advice {
            text: String::new(),
            set: vec![
                (Flag::KvCacheDtype.name(), "fp8".to_owned()),
                (Flag::MaxModelLen.name(), String::new()),
                (Flag::MaxNumBatchedTokens.name(), "2048".to_owned()),
            ],
        });
        assert_eq!(input.dtype, CacheDtype::Fp8);
        assert_eq!(input.flag(Flag::MaxModelLen), "");
        assert_eq!(input.flag(Flag::MaxNumBatchedTokens), "2048");
    }

    #[test]
    fn a_model_brings_its_length_unless_one_is_entered() {
        let mut input = Input::default();
        input.choose_model(ModelChoice::Pasted);
        assert_eq!(input.flag(Flag::MaxModelLen), "");
        input.choose_model(default_model());
        assert_eq!(input, Input::default());
        input.set_flag(Flag::MaxModelLen, "8192");
        input.choose_model(ModelChoice::Pasted);
        assert_eq!(input.flag(Flag::MaxModelLen), "8192");
    }

    #[test]
    fn every_flag_has_a_control() {
        assert_eq!(more_flags().count() + OWN_CONTROL.len(), Flag::ALL.len());
    }
}
