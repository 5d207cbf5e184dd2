//! Where the rules of attention backends differ between releases: what a row of
//! the generated table cannot hold, since the rule looks at several things.

use crate::gpu::Arch;
use crate::release::masks::ReleaseBit;

/// A release's part in the rules of backends. Earlier releases than 0.28, of which
/// DeepSeek V4 alone is modelled, never ask for one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whose rows of the generated table hold.
    pub release: ReleaseBit,
    /// FA4 has a kernel of its own for heads of 256 on data-centre Blackwell (since 0.29).
    pub fa4_has_hd256_kernel: bool,
    /// FA4 reads an fp8 cache on Hopper at heads of 512, in pages of its own (since 0.31).
    pub fa4_reads_fp8_on_hopper: bool,
    /// The causal half of `TRITON_FLASH_ATTN` may be FlashAttention 3 (since 0.31).
    pub composite_takes_fa3: bool,
    /// FlashInfer's FA2 kernels object to NVFP4 (since 0.32).
    pub flashinfer_objects_to_nvfp4: bool,
    /// TRT-LLM's sparse MLA kernel has a shape without rope (since 0.30).
    pub sparse_mla_without_rope: bool,
    /// What FlashMLA's sparse kernel says of a head of 512, which has no rope.
    pub flashmla_without_rope: WithoutRope,
    /// A layer's kernel blocks follow its spec (since 0.31); before, its backend
    /// is asked as if there were no model.
    pub kernel_blocks_follow_spec: bool,
    /// FlashMLA's sparse kernel reads a quantised cache on SM100 in blocks of 64
    /// alone, and any other in multiples of 64 (since 0.32).
    pub flashmla_sparse_block_follows_spec: bool,
    /// `validate_configuration` asks for decode context parallelism (since 0.30).
    pub checks_dcp: bool,
    /// Drafters that look ahead have an order of their own on SM100 (since 0.26).
    pub orders_non_causal: bool,
    /// FlashInfer's sparse MLA leaves both kinds of context parallelism to FlashMLA (since 0.30).
    pub leaves_both_to_flashmla: bool,
    /// What `repr(AttentionSelectorConfig)` ends with.
    pub selector_prints: SelectorPrints,
    /// TurboQuant's and UltraQuant's caches count as quantised wherever that is asked of
    /// a spelling (since 0.33); before, `fp8…`, `nvfp4…` and scales per token and head.
    pub packed_spellings_are_quantised: bool,
    /// FlashInfer brings the package `b12x` (its 0.7.2, since 0.33); before, `vllm[b12x]` does.
    pub has_b12x: bool,
    /// The error of a backend's missing module is printed (since 0.29); before,
    /// its kind alone.
    pub prints_import_error: bool,
}

/// What `vllm/v1/attention/backends/mla/flashmla_sparse.py` takes at heads of 512.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutRope {
    /// No such head (through 0.30).
    Unknown,
    /// A cache that is not quantised (0.31).
    Floats,
    /// `fp8_ds_mla`, too (since 0.32).
    FloatsAndDsMla,
}

/// The last fields of `vllm/v1/attention/selector.py` `AttentionSelectorConfig.__repr__`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectorPrints {
    /// `use_pcp` (0.28)
    Pcp,
    /// and `use_dcp` (0.29)
    Dcp,
    /// and `use_rswa` (since 0.30)
    Rswa,
}

/// A GPU's architecture under a release's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub arch: Arch,
    pub rules: &'static Rules,
}

/// 0.33.0
pub(crate) const V0_33_0: Rules = Rules {
    release: ReleaseBit(13),
    packed_spellings_are_quantised: true,
    has_b12x: true,
    ..V0_32_0
};

/// 0.32.0
pub(crate) const V0_32_0: Rules = Rules {
    release: ReleaseBit(12),
    flashinfer_objects_to_nvfp4: true,
    flashmla_without_rope: WithoutRope::FloatsAndDsMla,
    flashmla_sparse_block_follows_spec: true,
    ..V0_31_0
};

/// 0.31.0
pub(crate) const V0_31_0: Rules = Rules {
    release: ReleaseBit(11),
    fa4_reads_fp8_on_hopper: true,
    composite_takes_fa3: true,
    flashmla_without_rope: WithoutRope::Floats,
    kernel_blocks_follow_spec: true,
    ..V0_30_0
};

/// 0.30.0
pub(crate) const V0_30_0: Rules = Rules {
    release: ReleaseBit(10),
    sparse_mla_without_rope: true,
    checks_dcp: true,
    leaves_both_to_flashmla: true,
    selector_prints: SelectorPrints::Rswa,
    ..V0_29_0
};

/// 0.29.0
pub(crate) const V0_29_0: Rules = Rules {
    release: ReleaseBit(9),
    fa4_has_hd256_kernel: true,
    selector_prints: SelectorPrints::Dcp,
    prints_import_error: true,
    ..V0_28_0
};

/// 0.28.0
pub(crate) const V0_28_0: Rules = Rules {
    release: ReleaseBit(8),
    fa4_has_hd256_kernel: false,
    fa4_reads_fp8_on_hopper: false,
    composite_takes_fa3: false,
    flashinfer_objects_to_nvfp4: false,
    sparse_mla_without_rope: false,
    flashmla_without_rope: WithoutRope::Unknown,
    kernel_blocks_follow_spec: false,
    flashmla_sparse_block_follows_spec: false,
    checks_dcp: false,
    orders_non_causal: true,
    leaves_both_to_flashmla: false,
    selector_prints: SelectorPrints::Pcp,
    packed_spellings_are_quantised: false,
    has_b12x: false,
    prints_import_error: false,
};
