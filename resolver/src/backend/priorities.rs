//! In which order backends are tried.

use super::AttentionBackend as B;
use super::flash_attention::is_quantised;
use super::select::{Selection, Surroundings};
use crate::gpu::Arch;

/// Heads on one rank up to which sparse MLA prefers FlashInfer's kernels.
const FEW_HEADS: u64 = 16;

/// Backends in the order in which they are tried.
/// Mirrors `vllm/platforms/cuda.py` `_get_backend_priorities`.
pub(super) fn priorities(selection: &Selection, around: &Surroundings) -> &'static [B] {
    const MLA_SM90: &[B] = &[
        B::FlashAttnMla,
        B::Flashmla,
        B::FlashinferMla,
        B::TritonMla,
        B::FlashAttnMlaSparse,
        B::FlashmlaSparse,
        B::FlashinferMlaSparseSm90,
    ];
    const MLA_SM90_NO_ROPE: &[B] = &[
        B::FlashAttnMla,
        B::Flashmla,
        B::FlashinferMla,
        B::TritonMla,
        B::FlashinferMlaSparseSm90,
        B::FlashAttnMlaSparse,
        B::FlashmlaSparse,
    ];
    const MLA_SM100_QUANTISED: &[B] = &[
        B::FlashinferMla,
        B::TokenspeedMla,
        B::CutlassMla,
        B::FlashAttnMla,
        B::Flashmla,
        B::TritonMla,
        B::FlashinferMlaSparse,
        B::FlashmlaSparse,
    ];
    const MLA_SM100_FEW_HEADS: &[B] = &[
        B::FlashinferMla,
        B::TokenspeedMla,
        B::CutlassMla,
        B::FlashAttnMla,
        B::Flashmla,
        B::TritonMla,
        B::FlashAttnMlaSparseFa4,
        B::FlashinferMlaSparse,
        B::FlashmlaSparse,
    ];
    const MLA_SM100: &[B] = &[
        B::FlashinferMla,
        B::TokenspeedMla,
        B::CutlassMla,
        B::FlashAttnMla,
        B::Flashmla,
        B::TritonMla,
        B::FlashmlaSparse,
        B::FlashinferMlaSparse,
    ];
    const MLA_SM120: &[B] = &[B::TritonMla, B::FlashinferMlaSparseSm120];
    // the first of these two lists is for models with mm_prefix alone
    const PLAIN_SM100: &[B] = &[
        B::TritonFlashinfer,
        B::Flashinfer,
        B::FlashAttn,
        B::TritonAttn,
        B::FlexAttention,
        B::Turboquant,
    ];
    const PLAIN: &[B] = &[
        B::TritonFlashAttn,
        B::FlashAttn,
        B::Flashinfer,
        B::TritonAttn,
        B::FlexAttention,
        B::Turboquant,
    ];
    match (selection.use_mla, around.arch) {
        (true, Arch::Sm90) if selection.head_size == 512 => MLA_SM90_NO_ROPE,
        (true, Arch::Sm90) => MLA_SM90,
        (true, Arch::Sm100) if is_quantised(selection.kv_cache_dtype) => MLA_SM100_QUANTISED,
        (true, Arch::Sm100) if around.heads_per_rank <= FEW_HEADS => MLA_SM100_FEW_HEADS,
        (true, Arch::Sm100) => MLA_SM100,
        (true, Arch::Sm120) => MLA_SM120,
        (false, Arch::Sm100) if selection.use_mm_prefix => PLAIN_SM100,
        (false, Arch::Sm100) => &PLAIN_SM100[1..],
        (false, Arch::Sm90) if selection.use_mm_prefix => PLAIN,
        (false, Arch::Sm90 | Arch::Sm120) => &PLAIN[1..],
    }
}
