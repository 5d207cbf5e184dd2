//! Draft models: what `--speculative-config` asks for, and what vLLM makes of it.
//! Mirrors `vllm/config/speculative.py`.

mod cost;
mod drafted;
mod fields;
mod finish;
mod settle;
mod synthetic;
mod verify;

use std::fmt;

use crate::backend::AttentionBackend;
use crate::dtype::CacheDtype;
use crate::model::draft::Draft;

pub use cost::{Cost, Drafter, Extra, drafter};
pub(crate) use settle::{Target, settle};

/// How tokens are drafted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `ngram`: by looking the last tokens up in the request.
    Ngram,
    /// `ngram_gpu`: the same, on the GPU.
    NgramGpu,
    /// `suffix`: by a tree of what was generated before.
    Suffix,
    /// `custom_class`: by the user's own code.
    CustomClass,
    /// `extract_hidden_states`: not at all.
    ExtractHiddenStates,
    /// `draft_model`: by a smaller model.
    DraftModel,
    /// `eagle`: by a layer over the target's last state.
    Eagle,
    /// `eagle3`: by a layer over several of the target's states.
    Eagle3,
    /// `mtp`: by the checkpoint's own layers.
    Mtp,
    /// `dflash`: by layers that fill a block of tokens in at once.
    Dflash,
    /// `dspark`: the same, with what one token says of the next.
    Dspark,
}

impl Method {
    /// Every method with rules, in the order of the page's choices.
    pub const MODELLED: [Self; 7] = [
        Self::Mtp,
        Self::Eagle,
        Self::Eagle3,
        Self::Dspark,
        Self::Dflash,
        Self::DraftModel,
        Self::Ngram,
    ];

    /// The spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ngram => "ngram",
            Self::NgramGpu => "ngram_gpu",
            Self::Suffix => "suffix",
            Self::CustomClass => "custom_class",
            Self::ExtractHiddenStates => "extract_hidden_states",
            Self::DraftModel => "draft_model",
            Self::Eagle => "eagle",
            Self::Eagle3 => "eagle3",
            Self::Mtp => "mtp",
            Self::Dflash => "dflash",
            Self::Dspark => "dspark",
        }
    }

    /// Whether the drafter fills in a block of tokens at once.
    pub const fn fills_blocks(self) -> bool {
        matches!(self, Self::Dflash | Self::Dspark)
    }

    /// Whether a checkpoint of the drafter's own goes with it, or may.
    pub const fn takes_model(self) -> bool {
        matches!(
            self,
            Self::DraftModel | Self::Eagle | Self::Eagle3 | Self::Dflash | Self::Dspark
        )
    }

    /// Whether it drafts from the target's states (`use_eagle`).
    pub const fn reads_states(self) -> bool {
        matches!(
            self,
            Self::Eagle | Self::Eagle3 | Self::Mtp | Self::Dflash | Self::Dspark
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which of vLLM's runners a start-up gets, hence who loads the drafter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// `vllm/v1/worker/gpu_model_runner.py`
    V1,
    /// `vllm/v1/worker/gpu/model_runner.py`
    V2,
}

/// The settled configuration of a drafter.
#[derive(Debug, Clone, PartialEq)]
pub struct Speculation {
    /// How tokens are drafted.
    pub method: Method,
    /// Tokens drafted in a step.
    pub num_speculative_tokens: u64,
    /// KV slots past what the target is scheduled for. Mirrors
    /// `vllm/config/vllm.py` `num_lookahead_tokens`.
    pub num_lookahead_tokens: u64,
    /// Tokens that a chain of modules looks back to, which windows keep.
    pub extra_retained_tokens: u64,
    /// Slots of a batch that one request's drafting takes (`max_num_new_slots_for_drafting`).
    pub slots_per_request: u64,
    /// Modules that draft in a chain.
    pub(crate) chain: u64,
    /// What the drafter keeps; `None` where nothing is drafted by a network.
    pub draft: Option<Draft>,
    /// vLLM's class of the drafter, where texts name it.
    pub(crate) class: &'static str,
    /// Tokens of the longest request that the drafter takes, where that bounds the target's.
    pub(crate) length_limit: Option<u64>,
    /// The drafter's own cache dtype.
    pub(crate) cache_dtype: Option<DraftDtype>,
    /// The drafter's own backend, as far as it is heard.
    pub(crate) backend: DraftBackend,
    /// Which runner loads it.
    pub(crate) runner: Runner,
    /// Refused when the drafter is made, before the target's layers.
    pub(crate) refused_first: Option<&'static str>,
    /// Whether the target is asked for its states.
    pub(crate) wants_states: bool,
    /// Whether requests of a batch may have drafts of different lengths.
    pub(crate) is_unpadded: bool,
    /// Whether the drafter's best tokens are found on each rank.
    pub(crate) wants_local_argmax: bool,
}

impl Speculation {
    /// A drafter that is none of the checkpoint keeps `auto` where the target's
    /// hook has made it fp8. Mirrors `vllm/model_executor/models/config.py`.
    pub(crate) fn keep_auto(&mut self) {
        if self.method != Method::Mtp && self.draft.is_some() && self.cache_dtype.is_none() {
            self.cache_dtype = Some(DraftDtype::Known(CacheDtype::Auto));
        }
    }
}

/// A cache dtype of the drafter's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DraftDtype {
    /// One that there is.
    Known(CacheDtype),
    /// One that there is not, which is found out late.
    Unknown(String),
}

/// Whose backend the drafter's layers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DraftBackend {
    /// The target's `--attention-backend`.
    Targets,
    /// Its own, or the first without an objection.
    Own(Option<AttentionBackend>),
}
