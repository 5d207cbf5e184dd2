//! The blocks that kernels read. Mirrors the classes'
//! `get_supported_kernel_block_sizes`.

use std::fmt;

use super::AttentionBackend as B;
use super::flash_attention::{
    self, FA4_HOPPER_FP8_HEAD_SIZE, FA4_OWN_HEAD_SIZE, FA4_OWN_PAGE_TOKENS, Shape, Version,
};
use super::layer::{FixedBackend, LayerBackend};
use super::rules::Target;
use super::select::Surroundings;
use super::table::{self, Row};
use crate::dtype::{CacheDtype, KvQuantMode};
use crate::gpu::Arch;
use crate::spec::LayerSpec;

/// Tokens of a block that a kernel reads. `Display` is Python's `repr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelBlock {
    /// So many.
    Exact(u64),
    /// Any multiple of so many (`MultipleOf`).
    MultipleOf(u64),
}

impl KernelBlock {
    /// The smallest such block, in tokens.
    pub(crate) const fn base(self) -> u64 {
        match self {
            Self::Exact(tokens) | Self::MultipleOf(tokens) => tokens,
        }
    }
}

impl fmt::Display for KernelBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(tokens) => write!(f, "{tokens}"),
            Self::MultipleOf(base) => write!(f, "MultipleOf({base})"),
        }
    }
}

/// Who asks a backend for its kernel blocks: the answers differ.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asking<'a> {
    /// The platform, of the model as a whole, with vLLM's configuration at hand.
    Platform(&'a Surroundings),
    /// A layer, with its spec, when no configuration is at hand.
    Layer(&'a LayerSpec, Target),
}

impl Asking<'_> {
    const fn target(self) -> Target {
        match self {
            Self::Platform(around) => around.target(),
            Self::Layer(_, target) => target,
        }
    }
}

/// The backend's kernel blocks, in its order.
pub(crate) fn kernel_blocks(backend: LayerBackend, asking: Asking<'_>) -> Vec<KernelBlock> {
    match backend {
        LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend) => {
            of_selected(backend, asking)
        }
        LayerBackend::Fixed(backend) => vec![match backend {
            // `vllm/v1/attention/backends/mla/indexer.py` `DeepseekV32IndexerBackend`
            FixedBackend::DeepseekV32Indexer => KernelBlock::Exact(64),
            // `vllm/v1/attention/backend.py` `AttentionBackend`
            FixedBackend::GdnAttn | FixedBackend::Mamba2Attn | FixedBackend::KimiK3Kda => {
                KernelBlock::MultipleOf(1)
            }
        }],
    }
}

fn of_selected(backend: B, asking: Asking<'_>) -> Vec<KernelBlock> {
    match backend {
        // a composite takes what both halves take, and Triton takes any
        // multiple of 16 (`composite.py` `_intersect_kernel_block_sizes`)
        B::FlashAttn | B::TritonFlashAttn | B::Step5Dsa => vec![flash_attn(None, asking)],
        B::FlashAttnDiffkv => vec![flash_attn(Some(DIFFKV_HEAD_SIZE_V), asking)],
        B::Flashinfer => flashinfer(asking),
        B::FlashmlaSparse if reads_blocks_of_64(asking) => vec![KernelBlock::Exact(64)],
        _ => table::row(backend, asking.target(), None).map_or_else(
            || vec![KernelBlock::MultipleOf(1)],
            |row| row.kernel_blocks.to_vec(),
        ),
    }
}

/// `vllm/v1/attention/backends/flash_attn_diffkv.py` `head_size_v`, which the
/// platform's question sees.
const DIFFKV_HEAD_SIZE_V: u64 = 128;
/// Tokens of the page of FA4's FP8 kernel on Hopper.
const FA4_HOPPER_FP8_PAGE_TOKENS: u64 = 64;

/// `vllm/v1/attention/backends/flash_attn.py` `get_supported_kernel_block_sizes`
fn flash_attn(class_head_size_v: Option<u64>, asking: Asking<'_>) -> KernelBlock {
    let (config, head_size, head_size_v, fp8) = match asking {
        Asking::Platform(around) => (
            Some(around),
            around.model_head_size,
            class_head_size_v,
            matches!(around.cache_dtype, CacheDtype::Fp8 | CacheDtype::Fp8E4m3),
        ),
        Asking::Layer(_, target) if !target.rules.kernel_blocks_follow_spec => {
            return KernelBlock::MultipleOf(16);
        }
        Asking::Layer(spec, _) => (
            None,
            spec.head_size,
            Some(spec.head_size_v),
            spec.kv_quant_mode == KvQuantMode::Fp8PerTensor,
        ),
    };
    let target = asking.target();
    let fa4 = |head_size_v| {
        let shape = Shape {
            head_size: Some(head_size),
            head_size_v,
            takes_hd256_kernel: true,
            ..Shape::default()
        };
        flash_attention::version(&shape, target, config) == Version::Four
    };
    match target.arch {
        Arch::Sm90
            if target.rules.fa4_reads_fp8_on_hopper
                && fp8
                && head_size == FA4_HOPPER_FP8_HEAD_SIZE
                && fa4(None) =>
        {
            KernelBlock::Exact(FA4_HOPPER_FP8_PAGE_TOKENS)
        }
        Arch::Sm100
            if head_size == FA4_OWN_HEAD_SIZE
                && head_size_v.is_none_or(|v| v == FA4_OWN_HEAD_SIZE)
                && fa4(head_size_v) =>
        {
            KernelBlock::Exact(FA4_OWN_PAGE_TOKENS)
        }
        Arch::Sm90 | Arch::Sm100 | Arch::Sm120 => KernelBlock::MultipleOf(16),
    }
}

/// `vllm/v1/attention/backends/flashinfer.py`: large pages where its TRT-LLM
/// kernels serve grouped queries, as far as the configuration tells.
fn flashinfer(asking: Asking<'_>) -> Vec<KernelBlock> {
    const SIZES: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];
    let large = match asking {
        Asking::Platform(around) => around.arch == Arch::Sm100 && around.gqa_ratio > 1,
        Asking::Layer(..) => false,
    };
    let most = if large { 1024 } else { 64 };
    SIZES
        .into_iter()
        .filter(|size| *size <= most)
        .map(KernelBlock::Exact)
        .collect()
}

/// `vllm/v1/attention/backends/mla/flashmla_sparse.py`: what it reads of a
/// quantised cache on SM100, where the answer follows the spec.
fn reads_blocks_of_64(asking: Asking<'_>) -> bool {
    match asking {
        Asking::Layer(spec, target) => {
            target.rules.flashmla_sparse_block_follows_spec
                && target.arch == Arch::Sm100
                && spec.kv_quant_mode != KvQuantMode::None
        }
        Asking::Platform(_) => false,
    }
}

/// Whether a KV block of so many tokens can be split into the backend's kernel
/// blocks. Mirrors `AttentionBackend.supports_block_size`.
pub(crate) fn takes(backend: LayerBackend, block_size: u64, around: &Surroundings) -> bool {
    let sizes = kernel_blocks(backend, Asking::Platform(around));
    // `vllm/v1/attention/backends/b12x.py` splits nothing
    if selected_row(backend, around).is_some_and(|row| !row.splits_blocks) {
        return sizes.contains(&KernelBlock::Exact(block_size));
    }
    sizes
        .iter()
        .any(|size| block_size.is_multiple_of(size.base()))
}

/// The row of a backend that is selected.
pub(super) fn selected_row(backend: LayerBackend, around: &Surroundings) -> Option<&'static Row> {
    match backend {
        LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend) => {
            table::row(backend, around.target(), around.forced_flash_attn)
        }
        LayerBackend::Fixed(_) => None,
    }
}

/// The smallest kernel block, in tokens.
pub(crate) fn smallest(backend: LayerBackend, asking: Asking<'_>) -> u64 {
    kernel_blocks(backend, asking)
        .into_iter()
        .map(KernelBlock::base)
        .min()
        .unwrap_or(1)
}
