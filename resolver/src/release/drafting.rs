//! How releases treat drafters: each as what it did differently from the next.

use super::masks::ReleaseBit;

/// A release's part in the rules of `--speculative-config`.
#[derive(Debug)]
pub struct Drafting {
    /// Which fields and methods it has.
    pub(crate) bit: ReleaseBit,
    /// `-` stands for `_` in names of fields (since 0.26).
    pub(crate) takes_dashes: bool,
    /// Who runs, and hence loads the drafter.
    pub(crate) runner: DefaultRunner,
    /// What runner V2 lacks of speculation.
    pub(crate) unsupported: Unsupported,
    /// What of the target's configuration the drafter may have otherwise on V2.
    pub(crate) overrides: Overrides,
    /// On V1 the drafter's backend is its own choice (since 0.21); before, the
    /// target's.
    pub(crate) own_backend_on_v1: bool,
    /// Async scheduling where nothing is asked.
    pub(crate) asynchronous: Asynchronous,
    /// What the refusal of async scheduling names beside EAGLE, MTP, draft models
    /// and n-grams.
    pub(crate) async_names: &'static str,
    /// A pipeline's stages share the drafter, too, which few can be (through 0.29).
    pub(crate) shares_drafter_out: bool,
    /// What a drafter takes of a batch.
    pub(crate) slots: Slots,
    /// `max_model_len` is lowered to the drafter's on V2 (since 0.33).
    pub(crate) length_limits_target: bool,
    /// Specs say whose layers they are (since 0.33).
    pub(crate) marks_layers: bool,
    /// Windows keep what a chain of draft modules looks back to (since 0.28).
    pub(crate) chain_retains: bool,
    /// How many tokens `DSpark` takes.
    pub(crate) dspark_tokens: DsparkTokens,
    /// Only these families may have EAGLE3 and `DFlash` (through 0.21); none named
    /// where the model itself says so later.
    pub(crate) aux_targets: &'static [&'static str],
    /// Whom `DSpark` asks for its backend.
    pub(crate) dspark_backend: DsparkBackend,
    /// Drafters other than MTP keep `auto` where GLM's hook makes it fp8 (since 0.32).
    pub(crate) glm_draft_stays_auto: bool,
    /// Adaptive verification is not `DSpark`'s alone (since 0.30).
    pub(crate) adapts_any_method: bool,
    /// How many keys a parallel drafter's mask token may stand under, in words.
    pub(crate) names_more_mask_tokens: bool,
}

/// Which runner a model gets. Mirrors `vllm/config/vllm.py` `use_v2_model_runner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultRunner {
    /// V1 (through 0.24, for what is modelled there).
    V1,
    /// V2 for `DSpark` alone (0.25 to 0.27).
    V2ForDspark,
    /// V2 for DeepSeek V4, for `DSpark`, and for dense decoders (0.28).
    V2ForSome,
    /// V2 wherever it has what is asked (since 0.29).
    V2,
}

/// What makes a release fall back to runner V1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// Every method without a network of the target's own (0.30).
    Separate,
    /// The same but draft models (0.31).
    Lookups,
    /// `suffix` and the user's class (since 0.32), and through 0.29 whatever the
    /// runner has no proposer for.
    Few,
}

/// What the drafter may have otherwise than the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overrides {
    /// Nothing (through 0.25).
    None,
    /// Its cache dtype (0.26 to 0.29).
    Dtype,
    /// Its cache dtype and backend (since 0.30).
    DtypeAndBackend,
}

/// When async scheduling is on, where nothing is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asynchronous {
    /// With EAGLE's kin and n-grams on the GPU; `DSpark` since 0.25 (through 0.27).
    Kin,
    /// And with draft models (0.28 to 0.32).
    KinAndDraftModels,
    /// Whatever V1 cannot do is none of V2's business (since 0.33).
    ByRunner,
}

/// What a drafter takes of `max_num_batched_tokens`.
/// Mirrors `vllm/config/vllm.py` `_set_max_num_scheduled_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    /// Its slots for each of `max_num_seqs` (through 0.27).
    OfEachRequest,
    /// One request's must leave a token (0.28 to 0.32).
    OfOneRequest,
    /// The tokens that it looks ahead must (since 0.33).
    Lookahead,
}

/// Tokens that `DSpark` may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DsparkTokens {
    /// Multiples of the trained modules (0.25, 0.28 to 0.30).
    OfModules,
    /// … and at least a block (0.26 and 0.27).
    OfModulesAndABlock,
    /// Any (since 0.31).
    Any,
}

/// Whom `DSpark` asks for its backend, if the user names none for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DsparkBackend {
    /// Nobody (through 0.27).
    Own,
    /// The target (0.28).
    Targets,
    /// The target, on DeepSeek V4 alone (since 0.29).
    TargetsOnDeepseekV4,
}

pub(super) const V0_33_0: Drafting = Drafting {
    bit: ReleaseBit(13),
    takes_dashes: true,
    runner: DefaultRunner::V2,
    unsupported: Unsupported::Few,
    overrides: Overrides::DtypeAndBackend,
    own_backend_on_v1: true,
    asynchronous: Asynchronous::ByRunner,
    async_names: "/DSpark/DFlash",
    shares_drafter_out: false,
    slots: Slots::Lookahead,
    length_limits_target: true,
    marks_layers: true,
    chain_retains: true,
    dspark_tokens: DsparkTokens::Any,
    aux_targets: &[],
    dspark_backend: DsparkBackend::TargetsOnDeepseekV4,
    glm_draft_stays_auto: true,
    adapts_any_method: true,
    names_more_mask_tokens: true,
};

pub(super) const V0_32_0: Drafting = Drafting {
    bit: ReleaseBit(12),
    asynchronous: Asynchronous::KinAndDraftModels,
    slots: Slots::OfOneRequest,
    length_limits_target: false,
    marks_layers: false,
    ..V0_33_0
};

pub(super) const V0_31_0: Drafting = Drafting {
    bit: ReleaseBit(11),
    unsupported: Unsupported::Lookups,
    glm_draft_stays_auto: false,
    ..V0_32_0
};

pub(super) const V0_30_0: Drafting = Drafting {
    bit: ReleaseBit(10),
    async_names: "/DSpark",
    unsupported: Unsupported::Separate,
    dspark_tokens: DsparkTokens::OfModules,
    ..V0_31_0
};

pub(super) const V0_29_0: Drafting = Drafting {
    bit: ReleaseBit(9),
    shares_drafter_out: true,
    adapts_any_method: false,
    unsupported: Unsupported::Few,
    overrides: Overrides::Dtype,
    ..V0_30_0
};

pub(super) const V0_28_0: Drafting = Drafting {
    bit: ReleaseBit(8),
    runner: DefaultRunner::V2ForSome,
    dspark_backend: DsparkBackend::Targets,
    ..V0_29_0
};

pub(super) const V0_27_1: Drafting = Drafting {
    bit: ReleaseBit(7),
    runner: DefaultRunner::V2ForDspark,
    asynchronous: Asynchronous::Kin,
    slots: Slots::OfEachRequest,
    chain_retains: false,
    dspark_tokens: DsparkTokens::OfModulesAndABlock,
    dspark_backend: DsparkBackend::Own,
    names_more_mask_tokens: false,
    ..V0_28_0
};

pub(super) const V0_26_0: Drafting = Drafting {
    bit: ReleaseBit(6),
    ..V0_27_1
};

pub(super) const V0_25_1: Drafting = Drafting {
    bit: ReleaseBit(5),
    takes_dashes: false,
    overrides: Overrides::None,
    dspark_tokens: DsparkTokens::OfModules,
    ..V0_26_0
};

pub(super) const V0_24_0: Drafting = Drafting {
    bit: ReleaseBit(4),
    async_names: "",
    runner: DefaultRunner::V1,
    ..V0_25_1
};

pub(super) const V0_23_0: Drafting = Drafting {
    bit: ReleaseBit(3),
    ..V0_24_0
};

pub(super) const V0_22_1: Drafting = Drafting {
    bit: ReleaseBit(2),
    ..V0_23_0
};

pub(super) const V0_21_0: Drafting = Drafting {
    bit: ReleaseBit(1),
    aux_targets: &[
        "llama",
        "qwen",
        "minicpm",
        "gpt_oss",
        "hunyuan_vl",
        "hunyuan_v1_dense",
        "afmoe",
        "nemotron_h",
        "deepseek_v2",
        "deepseek_v3",
        "kimi_k2",
        "kimi_k25",
        "minimax_m2",
        "gemma4",
        "laguna",
    ],
    ..V0_22_1
};

pub(super) const V0_20_2: Drafting = Drafting {
    bit: ReleaseBit(0),
    own_backend_on_v1: false,
    aux_targets: &[
        "llama",
        "qwen",
        "minicpm",
        "gpt_oss",
        "hunyuan_vl",
        "hunyuan_v1_dense",
        "afmoe",
        "nemotron_h",
        "deepseek_v2",
        "deepseek_v3",
        "kimi_k2",
        "kimi_k25",
        "minimax_m2",
        "gemma4",
    ],
    ..V0_21_0
};
