//! Which version of FlashAttention serves what, in vLLM's own wheel: it carries
//! 2, 3 (Hopper) and 4 (Hopper and data-centre Blackwell).
//! Mirrors `vllm/v1/attention/backends/fa_utils.py`.

use super::rules::{Rules, Target};
use super::select::Surroundings;
use crate::dtype::{CacheDtype, KvQuantMode};
use crate::gpu::Arch;

/// A FlashAttention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// 2
    Two,
    /// 3
    Three,
    /// 4
    Four,
}

/// What a caller of `get_flash_attn_version` says about a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    /// Of K, if the question is about one layer.
    pub head_size: Option<u64>,
    /// Of V, if the caller says it.
    pub head_size_v: Option<u64>,
    /// Whether the layer has attention sinks.
    pub has_sinks: bool,
    /// `--block-size`, where the caller passes it on.
    pub block_size: Option<u64>,
    /// Whether the caller can run FA4's own kernel for heads of 256.
    pub takes_hd256_kernel: bool,
}

/// Heads past which FlashAttention 3 gives way to 4.
const FA3_MOST_HEAD_SIZE: u64 = 256;
/// Heads past which FA4 runs out of TMEM, but for two shapes.
const FA4_BLACKWELL_MOST_HEAD_SIZE: u64 = 128;
/// The head size of FA4's own kernel on Blackwell.
pub(super) const FA4_OWN_HEAD_SIZE: u64 = 256;
/// The one page that kernel takes (`FA4_HD256_PAGE_SIZE`).
pub(super) const FA4_OWN_PAGE_TOKENS: u64 = 128;
/// The one head size at which FA4 reads an FP8 cache on Hopper.
pub(super) const FA4_HOPPER_FP8_HEAD_SIZE: u64 = 512;

/// Whether FA4 runs at all. Mirrors `is_fa_version_supported`.
pub(super) const fn runs_fa4(arch: Arch) -> bool {
    match arch {
        Arch::Sm90 | Arch::Sm100 => true,
        Arch::Sm120 => false,
    }
}

/// The version for a shape; `config` is what vLLM's configuration adds while
/// one is current. Mirrors `get_flash_attn_version`.
pub(crate) fn version(shape: &Shape, target: Target, config: Option<&Surroundings>) -> Version {
    let forced = config.and_then(|config| config.forced_flash_attn);
    match (target.arch, forced) {
        // nothing forces what does not run there
        (Arch::Sm120, _) | (Arch::Sm90 | Arch::Sm100, Some(Version::Two)) => Version::Two,
        (Arch::Sm90, Some(Version::Four)) => Version::Four,
        (Arch::Sm90, None | Some(Version::Three)) if upgrades_fa3(shape) => Version::Four,
        (Arch::Sm90, None | Some(Version::Three)) => Version::Three,
        (Arch::Sm100, None | Some(Version::Three | Version::Four)) => {
            if takes_fa4_on_blackwell(shape, target.rules, config) {
                Version::Four
            } else {
                Version::Two
            }
        }
    }
}

/// Shapes that FlashAttention 3 does not take and 4 does.
fn upgrades_fa3(shape: &Shape) -> bool {
    let Some(head_size) = shape.head_size else {
        return false;
    };
    head_size > FA3_MOST_HEAD_SIZE
        || (shape.has_sinks && shape.head_size_v.is_some_and(|v| v != head_size))
}

fn takes_fa4_on_blackwell(shape: &Shape, rules: &Rules, config: Option<&Surroundings>) -> bool {
    match (shape.head_size, shape.head_size_v) {
        (None | Some(..=FA4_BLACKWELL_MOST_HEAD_SIZE), _) | (Some(192), Some(128)) => true,
        (Some(FA4_OWN_HEAD_SIZE), None | Some(FA4_OWN_HEAD_SIZE)) => {
            rules.fa4_has_hd256_kernel
                && shape.takes_hd256_kernel
                && !leaves_hd256_kernel(shape, config)
        }
        (Some(_), _) => false,
    }
}

/// Mirrors `_fa4_hd256_fallback_reason`.
fn leaves_hd256_kernel(shape: &Shape, config: Option<&Surroundings>) -> bool {
    shape.has_sinks
        || shape
            .block_size
            .is_some_and(|size| !size.is_multiple_of(FA4_OWN_PAGE_TOKENS))
        || config.is_some_and(|config| {
            config.has_softcap
                || is_quantised(config.cache_dtype, config.rules)
                || config.is_mm_prefix_model
                || config.dcp > 1
        })
}

/// Whether FlashAttention reads a quantised cache. Mirrors
/// `flash_attn_supports_kv_cache_dtype`, which knows one name that it does not
/// take and asks the version for any other.
pub(crate) fn reads_quantised_cache(
    dtype: CacheDtype,
    shape: &Shape,
    around: &Surroundings,
) -> bool {
    if dtype == CacheDtype::Fp8E5m2 {
        return false;
    }
    let version = version(shape, around.target(), Some(around));
    match around.arch {
        Arch::Sm90 => match version {
            Version::Two => false,
            Version::Three => true,
            Version::Four => {
                around.rules.fa4_reads_fp8_on_hopper
                    && matches!(shape.head_size, None | Some(FA4_HOPPER_FP8_HEAD_SIZE))
            }
        },
        Arch::Sm100 => version == Version::Four,
        Arch::Sm120 => false,
    }
}

/// Mirrors `vllm/v1/kv_cache_interface.py` `is_quantized_kv_cache`, before 0.33 that of
/// `vllm/utils/torch_utils.py`.
pub(crate) fn is_quantised(dtype: CacheDtype, rules: &Rules) -> bool {
    if rules.packed_spellings_are_quantised {
        return dtype.quant_mode() != KvQuantMode::None;
    }
    let name = dtype.as_str();
    name.starts_with("fp8") || name.starts_with("nvfp4") || name.ends_with("per_token_head")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::rules;

    const fn on(arch: Arch) -> Target {
        Target {
            arch,
            rules: &rules::V0_33_0,
        }
    }

    fn of(arch: Arch, head_size: u64, has_sinks: bool) -> Version {
        let shape = Shape {
            head_size: Some(head_size),
            has_sinks,
            takes_hd256_kernel: true,
            ..Shape::default()
        };
        version(&shape, on(arch), None)
    }

    #[test]
    fn versions_follow_head_size_and_sinks() {
        use Version::{Four, Three, Two};
        for (head_size, sinks, sm90, sm100) in [
            (64, false, Three, Four),
            (128, true, Three, Four),
            (160, false, Three, Two),
            (192, false, Three, Two),
            (256, false, Three, Four),
            (256, true, Three, Two),
            (320, false, Four, Two),
            (512, true, Four, Two),
        ] {
            assert_eq!(of(Arch::Sm90, head_size, sinks), sm90, "{head_size}");
            assert_eq!(of(Arch::Sm100, head_size, sinks), sm100, "{head_size}");
            assert_eq!(of(Arch::Sm120, head_size, sinks), Two, "{head_size}");
        }
    }

    #[test]
    fn keys_and_values_of_different_sizes() {
        let shape = |has_sinks| Shape {
            head_size: Some(192),
            head_size_v: Some(128),
            has_sinks,
            ..Shape::default()
        };
        assert_eq!(version(&shape(false), on(Arch::Sm90), None), Version::Three);
        assert_eq!(version(&shape(true), on(Arch::Sm90), None), Version::Four);
        assert_eq!(version(&shape(true), on(Arch::Sm100), None), Version::Four);
    }
}
