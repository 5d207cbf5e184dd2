//! Objections of backends with K and V.

use std::borrow::Cow;

use super::{Reason, say};
use crate::backend::flash_attention::{self, Shape, Version, is_quantised};
use crate::backend::rules::Target;
use crate::backend::select::{Selection, Surroundings};
use crate::config::ModelDtype;
use crate::dtype::CacheDtype as D;
use crate::gpu::Arch;

/// `vllm/v1/attention/backends/flash_attn.py`
pub(super) fn flash_attn(selection: &Selection, around: &Surroundings) -> Reason {
    let quantised = is_quantised(selection.kv_cache_dtype, around.rules);
    let hopper_reads_fp8 = around.rules.fa4_reads_fp8_on_hopper;
    if selection.use_mm_prefix && quantised && hopper_reads_fp8 && around.arch == Arch::Sm90 {
        return say("SM90 FP8 KV with mm_prefix requires Triton");
    }
    let shape = flash_shape(selection);
    let of_same_values = Shape {
        head_size_v: shape.head_size,
        ..shape
    };
    if quantised
        && !flash_attention::reads_quantised_cache(
            selection.kv_cache_dtype,
            &of_same_values,
            around,
        )
    {
        return say(if hopper_reads_fp8 {
            "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"
        } else {
            "FP8 KV cache requires FA3 on SM90 or FA4 on SM100"
        });
    }
    if selection.use_mm_prefix
        && flash_attention::version(&shape, around.target(), Some(around)) != Version::Four
    {
        return say(
            "mm_prefix (PrefixLM bidirectional attention) requires FlashAttention v4, which does \
             not resolve for this head_size",
        );
    }
    None
}

fn flash_shape(selection: &Selection) -> Shape {
    Shape {
        head_size: Some(selection.head_size),
        head_size_v: None,
        has_sinks: selection.has_sink,
        block_size: selection.block_size,
        takes_hd256_kernel: true,
    }
}

/// `vllm/v1/attention/backends/triton_flash_attn.py` `_FABackend`: the causal
/// half, which sees no image masks.
pub(super) fn causal_flash_attn(selection: &Selection, around: &Surroundings) -> Reason {
    let causal = Selection {
        use_mm_prefix: false,
        ..*selection
    };
    if let Some(reason) = flash_attn(&causal, around) {
        return Some(reason);
    }
    let version = flash_attention::version(&flash_shape(selection), around.target(), Some(around));
    match version {
        Version::Two | Version::Three if !around.rules.composite_takes_fa3 => {
            say("causal route requires FlashAttention v4")
        }
        Version::Two => say("causal route requires FlashAttention v3 or v4"),
        Version::Three | Version::Four => None,
    }
}

/// `vllm/v1/attention/backends/composite.py`: the Triton half never objects.
pub(super) fn of_child(name: &str, reason: Reason) -> Reason {
    reason.map(|reason| Cow::Owned(format!("{name}: {reason}")))
}

/// `vllm/v1/attention/backends/flashinfer.py`
pub(super) fn flashinfer(selection: &Selection, target: Target) -> Reason {
    if !target.rules.flashinfer_objects_to_nvfp4 {
        return None;
    }
    let nvfp4 = matches!(
        selection.kv_cache_dtype,
        D::Nvfp4 | D::Nvfp44over6 | D::Nvfp4DsMla
    );
    match target.arch {
        Arch::Sm90 | Arch::Sm120 if nvfp4 && selection.head_size == 64 => {
            say("fa2 prefill misreads an NVFP4 KV cache at head_size 64")
        }
        Arch::Sm90 | Arch::Sm120 if nvfp4 && selection.has_sink => {
            say("the sink prefill wrapper cannot read an NVFP4 KV cache")
        }
        Arch::Sm90 | Arch::Sm100 | Arch::Sm120 => None,
    }
}

/// `vllm/v1/attention/backends/b12x.py`. Where there is the package
/// (`flashinfer/experimental/b12x` in FlashInfer's wheel), it runs on SM120 alone.
pub(super) fn b12x(selection: &Selection, target: Target) -> Reason {
    if selection.dtype != ModelDtype::Bfloat16 {
        return say("b12x currently requires bfloat16 queries");
    }
    match selection.kv_cache_dtype {
        D::Float16 => return say("b12x does not support float16 KV cache"),
        D::Fp8 | D::Fp8E4m3 => {}
        other if is_quantised(other, target.rules) => {
            return say("b12x currently supports only fp8/fp8_e4m3 quantized KV cache dtypes");
        }
        _ => {}
    }
    if !target.rules.has_b12x {
        return say("Install the b12x backend with `pip install vllm[b12x]`");
    }
    match target.arch {
        Arch::Sm90 | Arch::Sm100 => {
            say("b12x paged attention is not supported on the current device")
        }
        Arch::Sm120 => None,
    }
}
