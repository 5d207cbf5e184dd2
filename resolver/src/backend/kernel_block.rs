//! The blocks that kernels read. Mirrors the classes'
//! `get_supported_kernel_block_sizes`.

use std::fmt;

use super::AttentionBackend as B;
use super::flash_attention::{
    self, FA4_HOPPER_FP8_HEAD_SIZE, FA4_OWN_HEAD_SIZE, FA4_OWN_PAGE_TOKENS, Shape, Version,
};
use super::layer::{FixedBackend, LayerBackend};
use super::select::Surroundings;
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
    Layer(&'a LayerSpec, Arch),
}

impl Asking<'_> {
    const fn arch(self) -> Arch {
        match self {
            Self::Platform(around) => around.arch,
            Self::Layer(_, arch) => arch,
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
    let exactly = |sizes: &[u64]| sizes.iter().copied().map(KernelBlock::Exact).collect();
    let multiple_of = |base| vec![KernelBlock::MultipleOf(base)];
    match backend {
        // a composite takes what both halves take, and Triton takes any
        // multiple of 16 (`composite.py` `_intersect_kernel_block_sizes`)
        B::FlashAttn | B::TritonFlashAttn | B::Step5Dsa => vec![flash_attn(None, asking)],
        B::FlashAttnDiffkv => vec![flash_attn(Some(DIFFKV_HEAD_SIZE_V), asking)],
        B::Flashinfer => flashinfer(asking),
        B::FlashmlaSparse => vec![flashmla_sparse(asking)],
        B::TritonAttn | B::TritonAttnDiffkv | B::FlexAttention | B::TritonMla | B::FlashAttnMla => {
            multiple_of(16)
        }
        B::FlashinferMlaSparse => multiple_of(32),
        B::FlashinferMlaSparseSm90
        | B::FlashinferMlaSparseSm120
        | B::FlashAttnMlaSparse
        | B::FlashAttnMlaSparseFa4 => multiple_of(64),
        B::Turboquant | B::Ultraquant => exactly(&[16, 32, 64, 128]),
        B::FlashinferMla | B::TokenspeedMla => exactly(&[32, 64]),
        B::TritonFlashinfer | B::Flashmla | B::HpcAttn => exactly(&[64]),
        B::B12x => exactly(&[64, 128]),
        B::CutlassMla
        | B::MinimaxM3Sparse
        | B::CutlassMsa
        | B::TritonMsa
        | B::FlashinferMlaSparseDsv41
        | B::FlashmlaMegaAttnDsv41 => exactly(&[128]),
        // `vllm/models/deepseek_v41/sparse_mla.py` `DeepseekV4SparseMLABackend`
        B::FlashmlaSparseDsv41 => match asking.arch() {
            Arch::Sm90 => exactly(&[64]),
            Arch::Sm100 | Arch::Sm120 => exactly(&[128]),
        },
        B::FlashmlaSparseDsv4 | B::FlashinferMlaSparseDsv4 => exactly(&[256]),
        // never selected here
        B::NoAttention
        | B::TorchSdpa
        | B::Custom
        | B::RocmAttn
        | B::RocmSegmentedAttn
        | B::RocmAiterMla
        | B::RocmAiterTritonMla
        | B::RocmAiterFa
        | B::RocmAiterMlaSparse
        | B::RocmAiterUnifiedAttn
        | B::RocmFlashmlaSparseDsv4
        | B::RocmFlashmlaSparseDsv41
        | B::RocmOctave
        | B::XpuMlaSparse
        | B::CpuAttn
        | B::CpuMla
        | B::AmxMla
        | B::TreeAttn => multiple_of(1),
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
        Asking::Layer(spec, _) => (
            None,
            spec.head_size,
            Some(spec.head_size_v),
            spec.kv_quant_mode == KvQuantMode::Fp8PerTensor,
        ),
    };
    let fa4 = |head_size_v| {
        let shape = Shape {
            head_size: Some(head_size),
            head_size_v,
            takes_hd256_kernel: true,
            ..Shape::default()
        };
        flash_attention::version(&shape, asking.arch(), config) == Version::Four
    };
    match asking.arch() {
        Arch::Sm90 if fp8 && head_size == FA4_HOPPER_FP8_HEAD_SIZE && fa4(None) => {
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

/// `vllm/v1/attention/backends/mla/flashmla_sparse.py`
fn flashmla_sparse(asking: Asking<'_>) -> KernelBlock {
    match asking {
        Asking::Layer(spec, Arch::Sm100) if spec.kv_quant_mode != KvQuantMode::None => {
            KernelBlock::Exact(64)
        }
        Asking::Layer(..) | Asking::Platform(_) => KernelBlock::MultipleOf(64),
    }
}

/// Whether a KV block of so many tokens can be split into the backend's kernel
/// blocks. Mirrors `AttentionBackend.supports_block_size`.
pub(crate) fn takes(backend: LayerBackend, block_size: u64, around: &Surroundings) -> bool {
    let sizes = kernel_blocks(backend, Asking::Platform(around));
    match backend {
        // `vllm/v1/attention/backends/b12x.py` splits nothing
        LayerBackend::Selected(B::B12x) | LayerBackend::ChunkedLocal(B::B12x) => {
            sizes.contains(&KernelBlock::Exact(block_size))
        }
        LayerBackend::Selected(_) | LayerBackend::ChunkedLocal(_) | LayerBackend::Fixed(_) => sizes
            .iter()
            .any(|size| block_size.is_multiple_of(size.base())),
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
