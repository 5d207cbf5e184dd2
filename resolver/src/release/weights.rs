//! What releases build differently of a model's weights.

/// What a release does with the weights that it builds.
#[derive(Debug, Clone, Copy)]
pub struct WeightRules {
    /// Weights of the families beside DeepSeek V4 have rules here.
    pub families: bool,
    /// … and of those with linear attention (Qwen3.5, Kimi K3).
    pub linear_attention: bool,
    /// DeepSeek V4's indexers have a norm of their keys (through 0.21).
    pub v4_norms_keys: bool,
    /// Where tokens are shared out over the ranks of an expert-parallel replica, each
    /// has the whole of DeepSeek V4's shared experts (since 0.27).
    pub v4_whole_shared: bool,
    /// On SM100, what the width of mxfp4 experts is padded to.
    pub mxfp4_sm100_width: u64,
    /// On SM90, four bits run on Humming's kernels (since 0.32); before, on Marlin's.
    pub prefers_humming: bool,
    /// `DeepGEMM` runs on SM120 (since 0.24).
    pub deep_gemm_on_sm120: bool,
    /// … and the version that is pinned is known to pack scales there, too (since 0.31).
    pub packs_scales_on_sm120: bool,
    /// nvfp4 of weights alone runs on CuTe-DSL's kernel on SM100 (since 0.30).
    pub cute_dsl_of_weights: bool,
    /// FlashInfer's kernel takes fp8 experts in blocks whose activation is clamped;
    /// in 0.29 alone it refuses them.
    pub flashinfer_clamps_fp8: bool,
    /// What DeepSeek V4's `DSpark` drafter has.
    pub v4_dspark: V4Dspark,
    /// Unquantised experts on SM100 are padded for FlashInfer's kernel before they
    /// are loaded (since 0.31).
    pub pads_plain_experts: bool,
    /// Rotary tables that are turned by sections are four times as long (through 0.31).
    pub long_mrope: bool,
    /// Experts of four bits keep the order of their inputs, twice (through 0.29).
    pub packed_keep_order: bool,
    /// GLM's sparse models are built as DeepSeek V3's are, not as V3.2's (0.28).
    pub glm_as_deepseek_v3: bool,
    /// Sparse MLA's models are compiled as others are (0.28), so that custom kernels
    /// are off; since 0.29 they are not.
    pub compiles_sparse_mla: bool,
}

/// Weights of DeepSeek V4's `DSpark` drafter.
#[derive(Debug, Clone, Copy)]
pub struct V4Dspark {
    /// The drafted layers' keys are projected at once (since 0.31).
    pub projects_context: bool,
    /// A head tells how sure it is (since 0.28).
    pub is_confident: bool,
    /// Each rank has the whole of what one token says of the next (since 0.27).
    pub whole_markov: bool,
}

pub(super) const V0_33_0: WeightRules = WeightRules {
    families: true,
    linear_attention: true,
    v4_norms_keys: false,
    v4_whole_shared: true,
    mxfp4_sm100_width: 128,
    prefers_humming: true,
    deep_gemm_on_sm120: true,
    packs_scales_on_sm120: true,
    cute_dsl_of_weights: true,
    flashinfer_clamps_fp8: true,
    v4_dspark: V4Dspark {
        projects_context: true,
        is_confident: true,
        whole_markov: true,
    },
    pads_plain_experts: true,
    long_mrope: false,
    packed_keep_order: false,
    glm_as_deepseek_v3: false,
    compiles_sparse_mla: false,
};

pub(super) const V0_32_0: WeightRules = WeightRules {
    linear_attention: false,
    ..V0_33_0
};

pub(super) const V0_31_0: WeightRules = WeightRules {
    prefers_humming: false,
    long_mrope: true,
    ..V0_32_0
};

pub(super) const V0_30_0: WeightRules = WeightRules {
    packs_scales_on_sm120: false,
    pads_plain_experts: false,
    v4_dspark: V4Dspark {
        projects_context: false,
        ..V0_33_0.v4_dspark
    },
    ..V0_31_0
};

pub(super) const V0_29_0: WeightRules = WeightRules {
    packed_keep_order: true,
    cute_dsl_of_weights: false,
    flashinfer_clamps_fp8: false,
    ..V0_30_0
};

pub(super) const V0_28_0: WeightRules = WeightRules {
    glm_as_deepseek_v3: true,
    compiles_sparse_mla: true,
    flashinfer_clamps_fp8: true,
    ..V0_29_0
};

pub(super) const V0_27_1: WeightRules = WeightRules {
    v4_dspark: V4Dspark {
        is_confident: false,
        ..V0_30_0.v4_dspark
    },
    ..V0_28_0
};

pub(super) const V0_26_0: WeightRules = WeightRules {
    v4_whole_shared: false,
    mxfp4_sm100_width: 256,
    v4_dspark: V4Dspark {
        whole_markov: false,
        ..V0_27_1.v4_dspark
    },
    ..V0_27_1
};

pub(super) const V0_23_0: WeightRules = WeightRules {
    deep_gemm_on_sm120: false,
    ..V0_26_0
};

pub(super) const V0_21_0: WeightRules = WeightRules {
    v4_norms_keys: true,
    ..V0_23_0
};
