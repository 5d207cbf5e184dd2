//! What releases build differently of a model's weights.

/// What a release does with the weights that it builds.
#[derive(Debug, Clone, Copy)]
pub struct WeightRules {
    /// Weights of the families beside DeepSeek V4 have rules here.
    pub families: bool,
    /// DeepSeek V4's indexers have a norm of their keys (through 0.21).
    pub v4_norms_keys: bool,
    /// On SM100, what the width and the hidden size of DeepSeek V4's fp4 experts are
    /// padded to.
    pub v4_sm100_tile: (u64, u64),
    /// Unquantised experts on SM100 are padded for FlashInfer's kernel before they
    /// are loaded.
    pub pads_plain_experts: bool,
}

pub(super) const V0_33_0: WeightRules = WeightRules {
    families: true,
    v4_norms_keys: false,
    v4_sm100_tile: (128, 128),
    pads_plain_experts: true,
};

pub(super) const V0_32_0: WeightRules = WeightRules {
    families: false,
    ..V0_33_0
};

/// Through 0.26: of FlashInfer's kernels.
pub(super) const V0_26_0: WeightRules = WeightRules {
    v4_sm100_tile: (256, 256),
    ..V0_32_0
};

pub(super) const V0_21_0: WeightRules = WeightRules {
    v4_norms_keys: true,
    ..V0_26_0
};
