//! Objections of MLA backends, dense and sparse.

use std::borrow::Cow;

use super::{Reason, say};
use crate::backend::AttentionBackend as B;
use crate::backend::flash_attention;
use crate::backend::rules::WithoutRope;
use crate::backend::select::{MlaDims, Selection, Surroundings};
use crate::config::ModelDtype;
use crate::dtype::CacheDtype as D;
use crate::error::Refusal;
use crate::gpu::{Arch, ComputeCapability};

/// `vllm/v1/attention/backends/mla/flashattn_mla.py`: it is FA3's.
pub(super) fn flash_attn_mla(arch: Arch) -> Reason {
    match arch {
        Arch::Sm90 => None,
        Arch::Sm100 | Arch::Sm120 => say("FlashAttention MLA not supported on this device"),
    }
}

/// `vllm/v1/attention/ops/flashmla.py` `is_flashmla_…_supported`
pub(super) fn flashmla(sparse: bool, arch: Arch) -> Reason {
    match (sparse, arch) {
        (true, Arch::Sm90 | Arch::Sm100) | (false, Arch::Sm90) => None,
        (true, Arch::Sm120) => {
            say("FlashMLA Sparse is only supported on Hopper and Blackwell DC devices.")
        }
        (false, Arch::Sm100 | Arch::Sm120) => {
            say("FlashMLA Dense is only supported on Hopper devices.")
        }
    }
}

/// `vllm/models/deepseek_v41/nvidia/flash_mla_mega_attn.py`
/// `is_flashmla_mega_attn_supported`
pub(super) fn mega_attention(arch: Arch) -> Reason {
    match arch {
        Arch::Sm90 => say("FlashMLA mega attention requires sm_10x GPUs."),
        Arch::Sm100 => None,
        Arch::Sm120 => flashmla(true, arch),
    }
}

/// `vllm/v1/attention/backends/mla/flashinfer_mla.py`
pub(super) fn flashinfer_mla(mla: Option<MlaDims>) -> Reason {
    // of a config without the field: 1
    let nope = mla.map_or(1, |mla| mla.qk_nope_head_dim);
    if matches!(nope, 64 | 128 | 192) {
        return None;
    }
    Some(Cow::Owned(format!(
        "FlashInfer MLA kernel requires qk_nope_head_dim in [64, 128, 192], but got {nope}"
    )))
}

/// `vllm/v1/attention/backends/mla/tokenspeed_mla.py`
pub(super) fn tokenspeed_mla(mla: Option<MlaDims>) -> Reason {
    let (nope, rope, v) = mla.map_or((0, 0, 0), |mla| {
        (mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim)
    });
    if (nope, rope, v) == (128, 64, 128) {
        return None;
    }
    Some(Cow::Owned(format!(
        "tokenspeed_mla requires DeepSeek R1 MLA dimensions (qk_nope_head_dim=128, \
         qk_rope_head_dim=64, v_head_dim=128), got ({nope}, {rope}, {v})"
    )))
}

/// `vllm/v1/attention/backends/mla/flashattn_mla_sparse.py` `FlashAttnMLASparseBackend`
pub(super) fn flash_attn_mla_sparse(selection: &Selection, around: &Surroundings) -> Reason {
    if !matches!(selection.kv_cache_dtype, D::Auto | D::Float16 | D::Bfloat16) {
        return say("FlashAttention MLA Sparse currently supports only FP16/BF16 KV cache");
    }
    if let Some(reason) = flash_attn_mla(around.arch) {
        return Some(reason);
    }
    if around.dcp > 1 {
        return say("FlashAttention MLA Sparse does not support DCP for now");
    }
    match around.index_topk {
        None => say("FlashAttention MLA Sparse requires model with index_topk"),
        Some(_) => None,
    }
}

/// Query heads that FA4's sparse MLA takes, over all ranks that share KV.
const FA4_SPARSE_HEADS: [u64; 5] = [8, 16, 32, 64, 128];

/// `vllm/v1/attention/backends/mla/flashattn_mla_sparse.py`
/// `FlashAttnMLASparseFA4Backend`, before it asks its parent.
pub(super) fn flash_attn_mla_sparse_fa4(around: &Surroundings) -> Reason {
    if !flash_attention::runs_fa4(around.arch) {
        return say(
            "FA4 unavailable: FA4 is only supported on devices with compute capability 9.x, 10.x, \
             or 11.x",
        );
    }
    match around.index_topk {
        Some(topk) if topk.is_multiple_of(128) => {}
        topk => {
            let topk = python_number(topk);
            return Some(Cow::Owned(format!(
                "FA4 sparse MLA requires index_topk % 128 == 0, got {topk}"
            )));
        }
    }
    let rank = around.mla.map(|mla| mla.kv_lora_rank);
    let rope = around.mla.map(|mla| mla.qk_rope_head_dim);
    if (rank, rope) != (Some(512), Some(64)) {
        let (rank, rope) = (python_number(rank), python_number(rope));
        return Some(Cow::Owned(format!(
            "FA4 sparse MLA requires (kv_lora_rank, qk_rope_head_dim) == (512, 64), got ({rank}, \
             {rope})"
        )));
    }
    let (heads, dcp) = (around.heads_per_rank, around.dcp);
    let counts = match dcp {
        0 | 1 => &FA4_SPARSE_HEADS[..],
        _ => &FA4_SPARSE_HEADS[..4],
    };
    if heads
        .checked_mul(dcp)
        .is_some_and(|gathered| counts.contains(&gathered))
    {
        return None;
    }
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    Some(Cow::Owned(format!(
        "FA4 sparse MLA requires ({}) gathered query heads, got num_heads={heads} * dcp_size={dcp}",
        counts.join(", ")
    )))
}

fn python_number(number: Option<u64>) -> String {
    number.map_or_else(|| "None".to_owned(), |number| number.to_string())
}

/// A field that the class reads straight off the text config.
fn mla_dims(backend: B, around: &Surroundings) -> Result<MlaDims, Box<Refusal>> {
    around.mla.ok_or_else(|| {
        Refusal::not_modelled(format!(
            "{backend} on a model whose config.json has no MLA dimensions (vLLM stops on the \
             missing attribute)"
        ))
    })
}

/// `vllm/v1/attention/backends/mla/flashinfer_mla_sparse.py`
/// `FlashInferMLASparseTRTLLMBackend`
pub(super) fn flashinfer_mla_sparse(
    backend: B,
    selection: &Selection,
    around: &Surroundings,
) -> Result<Reason, Box<Refusal>> {
    if around.rules.leaves_both_to_flashmla && around.pcp > 1 && around.dcp > 1 {
        return Ok(Some(Cow::Owned(format!(
            "{backend} does not support combined PCP+DCP; use FLASHMLA_SPARSE, which gathers each \
             DCP KV shard before running the rank-local PCP prefill queries"
        ))));
    }
    if selection.kv_cache_dtype == D::Fp8DsMla {
        return Ok(Some(Cow::Owned(format!(
            "{backend} SM10 does not support fp8_ds_mla kv-cache dtype"
        ))));
    }
    let mla = match around.mla {
        // of a config without the field: 1
        None if !around.rules.sparse_mla_without_rope => MlaDims {
            qk_nope_head_dim: 1,
            ..MlaDims::default()
        },
        _ => mla_dims(backend, around)?,
    };
    let (nope, rank) = (mla.qk_nope_head_dim, mla.kv_lora_rank);
    if around.rules.sparse_mla_without_rope && mla.qk_rope_head_dim == 0 {
        if (nope, rank) != (256, 512) {
            return Ok(Some(Cow::Owned(format!(
                "FlashInfer native no-rope MLA requires qk_nope_head_dim=256 and \
                 kv_lora_rank=512, but got qk_nope_head_dim={nope}, kv_lora_rank={rank}"
            ))));
        }
    } else if !matches!(nope, 128 | 192) {
        return Ok(Some(Cow::Owned(format!(
            "FlashInfer MLA Sparse kernel requires qk_nope_head_dim in [128, 192], but got {nope}"
        ))));
    }
    Ok(match around.index_topk {
        None => say("FlashInfer MLA Sparse requires model with index_topk config"),
        Some(_) => None,
    })
}

/// `vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py`
pub(super) fn flashinfer_mla_sparse_sm90(
    selection: &Selection,
    around: &Surroundings,
) -> Result<Reason, Box<Refusal>> {
    if !selection.use_sparse {
        return Ok(say("FLASHINFER_MLA_SPARSE_SM90 requires sparse MLA"));
    }
    let mla = mla_dims(B::FlashinferMlaSparseSm90, around)?;
    if mla.kv_lora_rank != 512 {
        return Ok(say("FLASHINFER_MLA_SPARSE_SM90 requires kv_lora_rank=512"));
    }
    Ok(match mla.qk_rope_head_dim {
        0 | 64 => None,
        _ => say("FLASHINFER_MLA_SPARSE_SM90 requires qk_rope_head_dim in (0, 64)"),
    })
}

/// `vllm/v1/attention/backends/mla/flashinfer_mla_sparse.py`
/// `FlashInferMLASparseSM120Backend`
pub(super) fn flashinfer_mla_sparse_sm120(selection: &Selection, around: &Surroundings) -> Reason {
    if selection.dtype != ModelDtype::Bfloat16 {
        return say("dtype not supported");
    }
    if !matches!(
        selection.kv_cache_dtype,
        D::Auto | D::Fp8 | D::Fp8E4m3 | D::Fp8DsMla
    ) {
        return say("kv_cache_dtype not supported");
    }
    match around.index_topk {
        None => say("FLASHINFER_MLA_SPARSE_SM120 requires a model with index_topk config"),
        Some(2048) => None,
        Some(topk) => Some(Cow::Owned(format!(
            "FLASHINFER_MLA_SPARSE_SM120 requires index_topk=2048; got {topk}"
        ))),
    }
}

/// `vllm/v1/attention/backends/mla/flashmla_sparse.py`
pub(super) fn flashmla_sparse(selection: &Selection, around: &Surroundings) -> Reason {
    let dtype = selection.kv_cache_dtype;
    let without_rope = around.rules.flashmla_without_rope;
    if selection.head_size == 512 && without_rope != WithoutRope::Unknown {
        let takes_ds_mla = without_rope == WithoutRope::FloatsAndDsMla;
        let readable = match dtype {
            D::Auto | D::Bfloat16 | D::Float16 => true,
            D::Fp8DsMla => takes_ds_mla,
            _ => false,
        };
        if !readable || around.arch != Arch::Sm90 {
            let ComputeCapability { major, minor } = around.capability;
            let caches = if takes_ds_mla {
                "bf16 or fp8_ds_mla"
            } else {
                "bf16"
            };
            return Some(Cow::Owned(format!(
                "FLASHMLA_SPARSE supports head_size 512 only with {caches} kv-cache on SM90 \
                 (NoPE), got kv_cache_dtype={dtype}, \
                 capability=DeviceCapability(major={major}, minor={minor})"
            )));
        }
        // of a config without the field: 64
        if around.mla.is_none_or(|mla| mla.qk_rope_head_dim != 0) {
            return say("FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) models");
        }
    }
    if dtype == D::Nvfp4DsMla && around.arch != Arch::Sm100 {
        return say(
            "FLASHMLA_SPARSE only supports the nvfp4_ds_mla kv-cache dtype on SM100 (Blackwell)",
        );
    }
    None
}

/// `vllm/models/deepseek_v4/nvidia/flashinfer_sparse.py`, and word for word
/// that of `deepseek_v41`
pub(super) fn deepseek_v4_flashinfer(dtype: D, arch: Arch) -> Reason {
    match (arch, dtype) {
        (Arch::Sm90, _) => say("FLASHINFER_MLA_SPARSE_DSV4 requires SM10x or SM12x"),
        (Arch::Sm100, D::Fp8DsMla) => say(
            "FLASHINFER_MLA_SPARSE_DSV4 SM10x uses the plain per-tensor FP8 KV layout, not \
             fp8_ds_mla",
        ),
        (Arch::Sm100, D::Auto | D::Bfloat16 | D::Fp8 | D::Fp8E4m3)
        | (Arch::Sm120, D::Fp8 | D::Fp8E4m3 | D::Fp8DsMla) => None,
        (Arch::Sm100 | Arch::Sm120, _) => say("kv_cache_dtype not supported"),
    }
}
