//! What each attention backend declares: one row a backend.
//! Mirrors the classes that `vllm/v1/attention/backends/registry.py` names and
//! their `supports_…` methods; every row was held against vLLM's own answers on
//! each compute capability. Rules that look at several things at once are in
//! `combination.rs`.

mod rows;

use super::AttentionBackend as B;
use super::flash_attention::{self, Shape, Version};
use super::select::Surroundings;
use crate::config::ModelDtype;
use crate::dtype::CacheDtype as D;
use crate::gpu::Arch;

/// What naming a backend leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A class that is asked what it supports.
    Class(Row),
    /// Its module does not exist.
    NoModule(&'static str),
    /// A name that a plugin must fill.
    Unregistered,
    /// Written for other hardware.
    OtherPlatform,
    /// Only releases have it of which DeepSeek V4 alone is modelled, whose
    /// layers bring their own backend.
    Former,
}

/// What a backend supports, as far as it says so field by field. Every row
/// takes decoder attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub model_dtypes: &'static [ModelDtype],
    pub cache_dtypes: CacheDtypes,
    pub head_sizes: HeadSizes,
    /// Architectures among those answered.
    pub archs: &'static [Arch],
    pub mla: bool,
    pub sparse: bool,
    pub sinks: Where,
    pub mm_prefix: Where,
    pub per_head_scales: Where,
    pub sliding_window: bool,
    /// Decode context parallelism.
    pub dcp: bool,
}

/// `supports_kv_cache_dtype`
#[derive(Debug, Clone, Copy)]
pub(super) enum CacheDtypes {
    /// These.
    OneOf(&'static [D]),
    /// FlashAttention's: fp8 where its version reads it.
    FlashAttention,
    /// FlashInfer's: NVFP4 by architecture.
    Flashinfer,
}

impl CacheDtypes {
    pub(super) fn contain(self, dtype: D, around: &Surroundings) -> bool {
        match self {
            Self::OneOf(list) => list.contains(&dtype),
            // `vllm/v1/attention/backends/flash_attn.py` `supports_kv_cache_dtype`
            Self::FlashAttention => {
                rows::FLOATS.contains(&dtype)
                    || (matches!(dtype, D::Fp8 | D::Fp8E4m3)
                        && flash_attention::reads_quantised_cache(dtype, &Shape::default(), around))
            }
            // `vllm/v1/attention/backends/flashinfer.py` `supports_kv_cache_dtype`:
            // on SM100 whatever begins with "nvfp4", elsewhere by FA2 kernels
            Self::Flashinfer => match dtype {
                D::Nvfp4 => true,
                D::Nvfp44over6 | D::Nvfp4DsMla => around.arch == Arch::Sm100,
                _ => rows::FLOATS_AND_FP8_KINDS.contains(&dtype),
            },
        }
    }
}

/// `supports_head_size`
#[derive(Debug, Clone, Copy)]
pub(super) enum HeadSizes {
    /// Any.
    Any,
    /// From so many on.
    AtLeast(u64),
    /// These.
    OneOf(&'static [u64]),
    /// FlashAttention's: multiples of 8 up to 256, with FA4 up to 512.
    FlashAttention,
    /// Of these, those that FlashAttention takes, too.
    FlashAttentionAnd(&'static [u64]),
}

impl HeadSizes {
    pub(super) fn contain(self, size: u64, arch: Arch) -> bool {
        match self {
            Self::Any => true,
            Self::AtLeast(least) => size >= least,
            Self::OneOf(list) => list.contains(&size),
            // `vllm/v1/attention/backends/flash_attn.py` `supports_head_size`
            Self::FlashAttention => {
                let most = if flash_attention::runs_fa4(arch) {
                    512
                } else {
                    256
                };
                size.is_multiple_of(8) && size <= most
            }
            Self::FlashAttentionAnd(list) => {
                list.contains(&size) && Self::FlashAttention.contain(size, arch)
            }
        }
    }
}

/// On which GPUs something is supported.
#[derive(Debug, Clone, Copy)]
pub(super) enum Where {
    Nowhere,
    Everywhere,
    /// Where FlashAttention's default version is 3 or 4.
    FlashAttention3Or4,
    /// Where FA4 runs, whatever the default is.
    FlashAttention4,
}

impl Where {
    pub(super) fn holds(self, around: &Surroundings) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Everywhere => true,
            Self::FlashAttention3Or4 => {
                flash_attention::version(&Shape::default(), around.arch, Some(around))
                    > Version::Two
            }
            Self::FlashAttention4 => flash_attention::runs_fa4(around.arch),
        }
    }
}

/// What vLLM knows by this name.
pub(super) const fn entry(backend: B) -> Entry {
    Entry::Class(match backend {
        B::FlashAttn | B::FlashAttnDiffkv => rows::FLASH_ATTN,
        B::TritonAttn => rows::TRITON_ATTN,
        B::TritonAttnDiffkv => rows::TRITON_ATTN_DIFFKV,
        B::TritonFlashAttn => rows::TRITON_FLASH_ATTN,
        B::TritonFlashinfer => rows::TRITON_FLASHINFER,
        B::Flashinfer => rows::FLASHINFER,
        B::FlexAttention => rows::FLEX_ATTENTION,
        B::Turboquant => rows::TURBOQUANT,
        B::Ultraquant => rows::ULTRAQUANT,
        B::B12x => rows::B12X,
        B::HpcAttn => rows::HPC_ATTN,
        B::FlashinferMla | B::CutlassMla => rows::FLASHINFER_MLA,
        B::TokenspeedMla => rows::TOKENSPEED_MLA,
        B::FlashAttnMla => rows::FLASH_ATTN_MLA,
        B::Flashmla => rows::FLASHMLA,
        B::TritonMla => rows::TRITON_MLA,
        B::FlashinferMlaSparse => rows::FLASHINFER_MLA_SPARSE,
        B::FlashinferMlaSparseSm90 => rows::FLASHINFER_MLA_SPARSE_SM90,
        B::FlashinferMlaSparseSm120 => rows::FLASHINFER_MLA_SPARSE_SM120,
        B::FlashAttnMlaSparse => rows::FLASH_ATTN_MLA_SPARSE,
        B::FlashAttnMlaSparseFa4 => rows::FLASH_ATTN_MLA_SPARSE_FA4,
        B::FlashmlaSparse => rows::FLASHMLA_SPARSE,
        B::FlashmlaSparseDsv4 | B::FlashmlaSparseDsv41 => rows::DEEPSEEK_V4,
        B::FlashinferMlaSparseDsv4 | B::FlashinferMlaSparseDsv41 => rows::DEEPSEEK_V4_FLASHINFER,
        B::FlashmlaMegaAttnDsv41 => rows::MEGA_ATTENTION,
        B::MinimaxM3Sparse | B::CutlassMsa | B::TritonMsa => rows::MINIMAX_M3_SPARSE,
        B::Step5Dsa => rows::STEP5_DSA,
        B::TreeAttn => return Entry::Former,
        B::NoAttention => return Entry::NoModule("vllm.v1.attention.backends.no_attention"),
        B::TorchSdpa | B::Custom => return Entry::Unregistered,
        B::RocmAttn
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
        | B::AmxMla => return Entry::OtherPlatform,
    })
}
