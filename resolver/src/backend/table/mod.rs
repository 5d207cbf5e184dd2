//! What each attention backend answers by itself, and in which order they are
//! tried: generated from what vLLM itself said on every compute capability.
//! Mirrors the classes that `vllm/v1/attention/backends/registry.py` names and
//! their `supports_…` methods. Rules that look at several things at once are in
//! `combination`, `kernel_block.rs` and `flash_attention.rs`.

mod rows;

use super::AttentionBackend as B;
use super::flash_attention::Version;
use super::kernel_block::KernelBlock;
use super::rules::Target;
use crate::config::ModelDtype;
use crate::dtype::CacheDtype;
use crate::gpu::Arch;
use crate::layout::KvCacheLayout;

/// What naming a backend leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A class that is asked what it supports.
    Class(&'static Row),
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
#[derive(Debug)]
pub(super) struct Row {
    pub backend: B,
    /// Where it holds: a bit for each release, architecture and version of FlashAttention.
    releases: u16,
    archs: u8,
    flash_attn: u8,
    model_dtypes: u8,
    /// `supports_kv_cache_dtype`
    pub cache_dtypes: Dtypes,
    head_sizes: &'static [Range],
    /// Architectures that it runs on.
    runs_on: u8,
    does: u16,
    /// `get_supported_kernel_block_sizes`, of no model.
    pub kernel_blocks: &'static [KernelBlock],
    /// Whether a KV block may be several of them.
    pub splits_blocks: bool,
    /// `get_preferred_block_size`, where it is not the general one.
    pub own_block: Option<u16>,
    /// `supported_kv_cache_layouts`, most preferred first; `None` for any.
    pub layouts: Option<&'static [KvCacheLayout]>,
}

/// `is_mla`
pub(super) const MLA: u16 = 1;
/// `is_sparse`
pub(super) const SPARSE: u16 = 1 << 1;
/// `supports_sink`
pub(super) const SINKS: u16 = 1 << 2;
/// `supports_mm_prefix`
pub(super) const MM_PREFIX: u16 = 1 << 3;
/// `supports_per_head_quant_scales`
pub(super) const PER_HEAD_SCALES: u16 = 1 << 4;
/// `supports_sliding_window`
pub(super) const SLIDING_WINDOW: u16 = 1 << 5;
/// `supports_dcp`: decode context parallelism (since 0.30)
pub(super) const DCP: u16 = 1 << 6;
/// `indexes_kv_by_block_stride` (through 0.28)
pub(super) const BY_BLOCK_STRIDE: u16 = 1 << 7;
/// `supports_non_causal`: drafters that look ahead
pub(super) const NON_CAUSAL: u16 = 1 << 8;

/// `attention_config.flash_attn_version` is not set.
const AUTOMATIC: u8 = 1;
/// It is 2.
const FORCED_2: u8 = 1 << 1;
/// It is 4.
const FORCED_4: u8 = 1 << 2;

impl Row {
    /// Whether it says all of these.
    pub(super) const fn does(&self, flags: u16) -> bool {
        self.does & flags == flags
    }

    pub(super) const fn runs_on(&self, arch: Arch) -> bool {
        self.runs_on & archs(&[arch]) != 0
    }

    pub(super) const fn takes_model_dtype(&self, dtype: ModelDtype) -> bool {
        self.model_dtypes & floats(&[dtype]) != 0
    }

    /// `supports_head_size`
    pub(super) fn takes_head_size(&self, size: u64) -> bool {
        self.head_sizes.iter().any(|range| range.contains(size))
    }

    fn holds(&self, backend: B, target: Target, forced: Option<Version>) -> bool {
        let flash_attn = match forced {
            None | Some(Version::Three) => AUTOMATIC,
            Some(Version::Two) => FORCED_2,
            Some(Version::Four) => FORCED_4,
        };
        self.backend == backend
            && target.rules.release.is_in(self.releases)
            && self.archs & archs(&[target.arch]) != 0
            && self.flash_attn & flash_attn != 0
    }
}

/// An order in which backends are tried, and when.
#[derive(Debug)]
pub(super) struct Order {
    releases: u16,
    archs: u8,
    mla: bool,
    mm_prefix: Option<bool>,
    cache_dtypes: Dtypes,
    heads: Range,
    head_sizes: Range,
    backends: &'static [B],
}

/// What an order is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub mla: bool,
    pub mm_prefix: bool,
    pub cache_dtype: CacheDtype,
    /// Of one rank.
    pub heads: u64,
    pub head_size: u64,
}

/// The backends to try, first to last.
/// Mirrors `vllm/platforms/cuda.py` `_get_backend_priorities`.
pub(super) fn order(asked: Asked, target: Target) -> &'static [B] {
    let fits = |order: &&Order| {
        target.rules.release.is_in(order.releases)
            && order.archs & archs(&[target.arch]) != 0
            && order.mla == asked.mla
            && order
                .mm_prefix
                .is_none_or(|mm_prefix| mm_prefix == asked.mm_prefix)
            && order.cache_dtypes.contain(asked.cache_dtype)
            && order.heads.contains(asked.heads)
            && order.head_sizes.contains(asked.head_size)
    };
    rows::ORDERS
        .iter()
        .find(fits)
        .map_or(&[], |order| order.backends)
}

/// A set of spellings of `--kv-cache-dtype`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dtypes(u32);

impl Dtypes {
    const ALL: Self = Self(u32::MAX);
    const QUANTISED: Self =
        Self(!Self::these(&[CacheDtype::Auto, CacheDtype::Float16, CacheDtype::Bfloat16]).0);

    const fn these(dtypes: &[CacheDtype]) -> Self {
        let (mut mask, mut index) = (0, 0);
        while index < dtypes.len() {
            mask |= 1 << dtypes[index] as u32;
            index += 1;
        }
        Self(mask)
    }

    pub(super) const fn contain(self, dtype: CacheDtype) -> bool {
        self.0 & Self::these(&[dtype]).0 != 0
    }
}

/// Numbers at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    first: u16,
    last: u16,
    step: u16,
}

impl Range {
    const ANY: Self = Self::from(0);

    const fn from(first: u16) -> Self {
        Self::steps(first, u16::MAX, 1)
    }

    const fn only(number: u16) -> Self {
        Self::steps(number, number, 1)
    }

    const fn steps(first: u16, last: u16, step: u16) -> Self {
        Self { first, last, step }
    }

    fn contains(self, number: u64) -> bool {
        let (first, last) = (u64::from(self.first), u64::from(self.last));
        let ends = last == u64::from(u16::MAX) || number <= last;
        number >= first && ends && (number - first).is_multiple_of(u64::from(self.step))
    }
}

const fn archs(archs: &[Arch]) -> u8 {
    let (mut mask, mut index) = (0, 0);
    while index < archs.len() {
        mask |= 1 << archs[index] as u8;
        index += 1;
    }
    mask
}

const fn floats(dtypes: &[ModelDtype]) -> u8 {
    let (mut mask, mut index) = (0, 0);
    while index < dtypes.len() {
        mask |= 1 << dtypes[index] as u8;
        index += 1;
    }
    mask
}

/// The backend's row, if it is a class there. `forced` is
/// `attention_config.flash_attn_version`.
pub(super) fn row(backend: B, target: Target, forced: Option<Version>) -> Option<&'static Row> {
    rows::ROWS
        .iter()
        .find(|row| row.holds(backend, target, forced))
}

/// What vLLM knows by this name.
pub(super) fn entry(backend: B, target: Target, forced: Option<Version>) -> Entry {
    if let Some(row) = row(backend, target, forced) {
        return Entry::Class(row);
    }
    match backend {
        B::NoAttention => Entry::NoModule("vllm.v1.attention.backends.no_attention"),
        B::TorchSdpa | B::Custom => Entry::Unregistered,
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
        | B::AmxMla => Entry::OtherPlatform,
        _ => Entry::Former,
    }
}
