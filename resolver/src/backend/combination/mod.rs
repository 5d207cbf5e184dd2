//! What a backend says of several things at once, in vLLM's words.
//! Mirrors the classes' `supports_combination`.

mod mla;
mod plain;

use std::borrow::Cow;

use super::AttentionBackend as B;
use super::select::{Selection, Surroundings};
use crate::dtype::CacheDtype as D;
use crate::error::Refusal;

/// Why not, if so.
type Reason = Option<Cow<'static, str>>;

#[allow(clippy::unnecessary_wraps)] // short for the reason as it is returned
const fn say(text: &'static str) -> Reason {
    Some(Cow::Borrowed(text))
}

/// The backend's own objection, at most one. `Err` where vLLM itself stops on
/// the question.
pub(super) fn objection(
    backend: B,
    selection: &Selection,
    around: &Surroundings,
) -> Result<Reason, Box<Refusal>> {
    Ok(match backend {
        B::FlashAttn | B::FlashAttnDiffkv => plain::flash_attn(selection, around),
        // asked as if the cache were not quantised
        B::Step5Dsa => plain::flash_attn(
            &Selection {
                kv_cache_dtype: D::Auto,
                ..*selection
            },
            around,
        ),
        B::Flashinfer => plain::flashinfer(selection, around.target()),
        B::TritonFlashAttn => {
            plain::of_child("FLASH_ATTN", plain::causal_flash_attn(selection, around))
        }
        B::TritonFlashinfer => {
            plain::of_child("FLASHINFER", plain::flashinfer(selection, around.target()))
        }
        B::B12x => plain::b12x(selection, around.target()),
        B::FlashAttnMla => mla::flash_attn_mla(around.arch),
        B::Flashmla => mla::flashmla(selection.use_sparse, around.arch),
        B::FlashinferMla => mla::flashinfer_mla(around.mla),
        B::TokenspeedMla => mla::tokenspeed_mla(around.mla),
        B::FlashAttnMlaSparse => mla::flash_attn_mla_sparse(selection, around),
        B::FlashAttnMlaSparseFa4 => match mla::flash_attn_mla_sparse_fa4(around) {
            None => mla::flashinfer_mla_sparse(backend, selection, around)?,
            reason => reason,
        },
        B::FlashinferMlaSparse => mla::flashinfer_mla_sparse(backend, selection, around)?,
        B::FlashinferMlaSparseSm90 => mla::flashinfer_mla_sparse_sm90(selection, around)?,
        B::FlashinferMlaSparseSm120 => mla::flashinfer_mla_sparse_sm120(selection, around),
        B::FlashmlaSparse => mla::flashmla_sparse(selection, around),
        B::FlashinferMlaSparseDsv4 | B::FlashinferMlaSparseDsv41 => {
            mla::deepseek_v4_flashinfer(selection.kv_cache_dtype, around.arch)
        }
        B::FlashmlaMegaAttnDsv41 => mla::mega_attention(around.arch),
        B::TritonAttn
        | B::TritonAttnDiffkv
        | B::FlexAttention
        | B::Turboquant
        | B::Ultraquant
        | B::HpcAttn
        | B::CutlassMla
        | B::TritonMla
        | B::FlashmlaSparseDsv4
        | B::FlashmlaSparseDsv41
        | B::MinimaxM3Sparse
        | B::CutlassMsa
        | B::TritonMsa
        | B::NoAttention
        | B::TreeAttn
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
        | B::AmxMla => None,
    })
}
