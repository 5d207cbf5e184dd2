//! The rows, each with its class's file.

use super::{CacheDtypes, HeadSizes, Row, Where};
use crate::config::ModelDtype::{self, Bfloat16, Float16, Float32};
use crate::dtype::CacheDtype as D;
use crate::gpu::Arch::{self, Sm90, Sm100, Sm120};

const HALVES: &[ModelDtype] = &[Float16, Bfloat16];
pub(super) const FLOATS: &[D] = &[D::Auto, D::Float16, D::Bfloat16];
const FLOATS_AND_FP8: &[D] = &[D::Auto, D::Float16, D::Bfloat16, D::Fp8, D::Fp8E4m3];
pub(super) const FLOATS_AND_FP8_KINDS: &[D] = &[
    D::Auto,
    D::Float16,
    D::Bfloat16,
    D::Fp8,
    D::Fp8E4m3,
    D::Fp8E5m2,
];
const BF16_AND_FP8: &[D] = &[D::Auto, D::Bfloat16, D::Fp8, D::Fp8E4m3];
const DSV4_FLASHINFER: &[D] = &[D::Auto, D::Bfloat16, D::Fp8, D::Fp8E4m3, D::Fp8DsMla];
const EVERY_ARCH: &[Arch] = &Arch::ALL;
/// Latent and rope together, of dense MLA models.
const MLA_HEADS: HeadSizes = HeadSizes::OneOf(&[320, 512, 576]);
const SPARSE_MLA_HEADS: HeadSizes = HeadSizes::OneOf(&[512, 576]);

/// `vllm/v1/attention/backend.py` `AttentionBackend`: what is so unless a class
/// says otherwise.
const PLAIN: Row = Row {
    model_dtypes: HALVES,
    cache_dtypes: CacheDtypes::OneOf(FLOATS),
    head_sizes: HeadSizes::Any,
    archs: EVERY_ARCH,
    mla: false,
    sparse: false,
    sinks: Where::Nowhere,
    mm_prefix: Where::Nowhere,
    per_head_scales: Where::Nowhere,
    sliding_window: false,
    dcp: false,
};

/// `vllm/model_executor/layers/attention/mla_attention.py` `MLACommonBackend`
const MLA: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(FLOATS_AND_FP8),
    head_sizes: MLA_HEADS,
    mla: true,
    dcp: true,
    ..PLAIN
};

/// Sparse MLA with an indexer, under `vllm/v1/attention/backends/mla/`
const SPARSE_MLA: Row = Row {
    model_dtypes: &[Bfloat16],
    head_sizes: SPARSE_MLA_HEADS,
    mla: true,
    sparse: true,
    ..PLAIN
};

/// `vllm/v1/attention/backends/flash_attn.py`
pub(super) const FLASH_ATTN: Row = Row {
    cache_dtypes: CacheDtypes::FlashAttention,
    head_sizes: HeadSizes::FlashAttention,
    sinks: Where::FlashAttention3Or4,
    mm_prefix: Where::FlashAttention4,
    per_head_scales: Where::FlashAttention3Or4,
    sliding_window: true,
    dcp: true,
    ..PLAIN
};

/// `vllm/v1/attention/backends/triton_attn.py`
pub(super) const TRITON_ATTN: Row = Row {
    model_dtypes: &[Float16, Bfloat16, Float32],
    cache_dtypes: CacheDtypes::OneOf(&[
        D::Auto,
        D::Float16,
        D::Bfloat16,
        D::Fp8,
        D::Fp8E4m3,
        D::Fp8E5m2,
        D::Int4PerTokenHead,
        D::Int8PerTokenHead,
        D::Fp8PerTokenHead,
    ]),
    head_sizes: HeadSizes::AtLeast(32),
    sinks: Where::Everywhere,
    mm_prefix: Where::Everywhere,
    sliding_window: true,
    ..PLAIN
};

/// `vllm/v1/attention/backends/composite.py`: what both halves take
const COMPOSITE: Row = Row {
    mm_prefix: Where::Everywhere,
    sliding_window: true,
    ..PLAIN
};

/// `vllm/models/minimax_m3/common/sparse_attention.py`
pub(super) const MINIMAX_M3_SPARSE: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Bfloat16, D::Fp8, D::Fp8E4m3, D::Fp8E5m2]),
    head_sizes: HeadSizes::OneOf(&[128]),
    sparse: true,
    ..PLAIN
};

/// `vllm/models/deepseek_v4/` and `deepseek_v41/`
pub(super) const DEEPSEEK_V4: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Auto, D::Fp8, D::Fp8DsMla]),
    head_sizes: HeadSizes::OneOf(&[512]),
    archs: &[Sm90, Sm100],
    sinks: Where::Everywhere,
    ..SPARSE_MLA
};

/// `vllm/v1/attention/backends/triton_attn_diffkv.py`
pub(super) const TRITON_ATTN_DIFFKV: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(BF16_AND_FP8),
    ..TRITON_ATTN
};

/// `vllm/v1/attention/backends/triton_flash_attn.py`
pub(super) const TRITON_FLASH_ATTN: Row = Row {
    cache_dtypes: CacheDtypes::FlashAttention,
    head_sizes: HeadSizes::FlashAttentionAnd(&[256, 512]),
    archs: &[Sm90],
    ..COMPOSITE
};

/// `vllm/v1/attention/backends/triton_flashinfer.py`
pub(super) const TRITON_FLASHINFER: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(FLOATS_AND_FP8_KINDS),
    head_sizes: HeadSizes::OneOf(&[256, 512]),
    archs: &[Sm100],
    ..COMPOSITE
};

/// `vllm/v1/attention/backends/flashinfer.py`
pub(super) const FLASHINFER: Row = Row {
    cache_dtypes: CacheDtypes::Flashinfer,
    head_sizes: HeadSizes::OneOf(&[64, 128, 256, 512]),
    sinks: Where::Everywhere,
    sliding_window: true,
    dcp: true,
    ..PLAIN
};

/// `vllm/v1/attention/backends/flex_attention.py`
pub(super) const FLEX_ATTENTION: Row = Row {
    model_dtypes: &[Float16, Bfloat16, Float32],
    mm_prefix: Where::Everywhere,
    sliding_window: true,
    ..PLAIN
};

/// `vllm/v1/attention/backends/turboquant_attn.py`
pub(super) const TURBOQUANT: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[
        D::TurboquantK8v4,
        D::Turboquant4bitNc,
        D::TurboquantK3v4Nc,
        D::Turboquant3bitNc,
    ]),
    ..PLAIN
};

/// `vllm/v1/attention/backends/ultraquant_attn.py`
pub(super) const ULTRAQUANT: Row = Row {
    model_dtypes: &[Bfloat16],
    cache_dtypes: CacheDtypes::OneOf(&[D::Ultraquant4bit]),
    ..PLAIN
};

/// `vllm/v1/attention/backends/b12x.py`
pub(super) const B12X: Row = Row {
    model_dtypes: &[Bfloat16],
    cache_dtypes: CacheDtypes::OneOf(BF16_AND_FP8),
    head_sizes: HeadSizes::OneOf(&[64, 128, 192, 256]),
    archs: &[Sm120],
    sinks: Where::Everywhere,
    sliding_window: true,
    ..PLAIN
};

/// `vllm/v1/attention/backends/hpc_attn.py`
pub(super) const HPC_ATTN: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Auto, D::Bfloat16, D::Fp8E4m3]),
    head_sizes: HeadSizes::OneOf(&[128]),
    archs: &[Sm90],
    ..PLAIN
};

/// `vllm/v1/attention/backends/mla/flashinfer_mla.py` and `cutlass_mla.py`
pub(super) const FLASHINFER_MLA: Row = Row {
    archs: &[Sm100],
    ..MLA
};

/// `vllm/v1/attention/backends/mla/tokenspeed_mla.py`
pub(super) const TOKENSPEED_MLA: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Fp8, D::Fp8E4m3]),
    archs: &[Sm100],
    ..MLA
};

/// `vllm/v1/attention/backends/mla/flashattn_mla.py`
pub(super) const FLASH_ATTN_MLA: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(FLOATS),
    archs: &[Sm90],
    ..MLA
};

/// `vllm/v1/attention/backends/mla/flashmla.py`
pub(super) const FLASHMLA: Row = Row {
    archs: &[Sm90, Sm100],
    ..MLA
};

/// `vllm/v1/attention/backends/mla/triton_mla.py`
pub(super) const TRITON_MLA: Row = Row {
    head_sizes: HeadSizes::Any,
    ..MLA
};

/// `vllm/v1/attention/backends/mla/flashinfer_mla_sparse.py`
pub(super) const FLASHINFER_MLA_SPARSE: Row = Row {
    model_dtypes: HALVES,
    cache_dtypes: CacheDtypes::OneOf(FLOATS_AND_FP8),
    archs: &[Sm100],
    dcp: true,
    ..SPARSE_MLA
};

/// `vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py`
pub(super) const FLASHINFER_MLA_SPARSE_SM90: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(BF16_AND_FP8),
    archs: &[Sm90],
    ..SPARSE_MLA
};

/// `vllm/v1/attention/backends/mla/flashinfer_mla_sparse.py`
pub(super) const FLASHINFER_MLA_SPARSE_SM120: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Auto, D::Fp8, D::Fp8E4m3, D::Fp8DsMla]),
    archs: &[Sm120],
    ..SPARSE_MLA
};

/// `vllm/v1/attention/backends/mla/flashattn_mla_sparse.py`
pub(super) const FLASH_ATTN_MLA_SPARSE: Row = Row {
    model_dtypes: HALVES,
    head_sizes: HeadSizes::Any,
    archs: &[Sm90],
    ..SPARSE_MLA
};

/// `vllm/v1/attention/backends/mla/flashattn_mla_sparse.py`
pub(super) const FLASH_ATTN_MLA_SPARSE_FA4: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Auto, D::Bfloat16]),
    head_sizes: HeadSizes::OneOf(&[576]),
    archs: &[Sm100],
    dcp: true,
    ..SPARSE_MLA
};

/// `vllm/v1/attention/backends/mla/flashmla_sparse.py`
pub(super) const FLASHMLA_SPARSE: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Auto, D::Bfloat16, D::Fp8, D::Fp8DsMla, D::Nvfp4DsMla]),
    archs: &[Sm90, Sm100],
    dcp: true,
    ..SPARSE_MLA
};

/// `vllm/models/deepseek_v4/nvidia/flashinfer_sparse.py` and that of `deepseek_v41`
pub(super) const DEEPSEEK_V4_FLASHINFER: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(DSV4_FLASHINFER),
    archs: &[Sm100, Sm120],
    ..DEEPSEEK_V4
};

/// `vllm/models/deepseek_v41/sparse_mla.py`
pub(super) const MEGA_ATTENTION: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(&[D::Auto, D::Fp8, D::Fp8DsMla, D::Nvfp4DsMla]),
    archs: &[Sm100],
    ..DEEPSEEK_V4
};

/// `vllm/models/step5/nvidia/sparse_attention.py`
pub(super) const STEP5_DSA: Row = Row {
    cache_dtypes: CacheDtypes::OneOf(BF16_AND_FP8),
    head_sizes: HeadSizes::OneOf(&[192]),
    archs: &[Sm90, Sm100],
    sparse: true,
    ..PLAIN
};
