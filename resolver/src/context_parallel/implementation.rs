//! What the implementations of attention backends tell of themselves.

use crate::backend::AttentionBackend as B;
use crate::backend::layer::LayerBackend;
use crate::release::Profile;

/// The backend of a layer that has an implementation.
pub(super) const fn implemented(layer: LayerBackend) -> Option<B> {
    match layer {
        LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend) => Some(backend),
        LayerBackend::Fixed(_) => None,
    }
}

/// Whether it cannot tell the softmax's LSE in decoding, which ranks that share KV need
/// (`can_return_lse_for_decode`).
pub(super) const fn hides_lse(backend: B, profile: &Profile) -> bool {
    match backend {
        B::FlashmlaSparse => !profile.context.flashmla_sparse_tells_lse,
        _ => matches!(
            backend,
            B::TritonAttn
                | B::TritonAttnDiffkv
                | B::FlexAttention
                | B::Turboquant
                | B::Ultraquant
                | B::HpcAttn
                | B::B12x
                | B::FlashAttnMlaSparse
                | B::FlashinferMlaSparseSm90
                | B::FlashinferMlaSparseSm120
        ),
    }
}

/// The class of its implementation (`get_impl_cls`).
pub(super) const fn class(backend: B) -> Option<&'static str> {
    Some(match backend {
        B::B12x => "B12xPagedAttentionImpl",
        B::CutlassMla => "CutlassMLAImpl",
        B::FlashAttn => "FlashAttentionImpl",
        B::FlashAttnDiffkv => "FlashAttentionDiffKVImpl",
        B::FlashAttnMla => "FlashAttnMLAImpl",
        B::FlashAttnMlaSparse => "FlashAttnMLASparseImpl",
        B::FlashAttnMlaSparseFa4 => "FlashAttnMLASparseFA4Impl",
        B::Flashinfer => "FlashInferImpl",
        B::FlashinferMla => "FlashInferMLAImpl",
        B::FlashinferMlaSparse => "FlashInferMLASparseImpl",
        B::FlashinferMlaSparseSm90 => "FlashInferMLASparseSM90Impl",
        B::FlashinferMlaSparseSm120 => "FlashInferMLASparseSM120Impl",
        B::Flashmla => "FlashMLAImpl",
        B::FlashmlaSparse => "FlashMLASparseImpl",
        B::FlexAttention => "FlexAttentionImpl",
        B::HpcAttn => "HpcAttentionImpl",
        B::TokenspeedMla => "TokenspeedMLAImpl",
        B::TritonAttn => "TritonAttentionImpl",
        B::TritonAttnDiffkv => "TritonAttentionDiffKVImpl",
        B::TritonMla => "TritonMLAImpl",
        B::Turboquant => "TurboQuantAttentionImpl",
        B::Ultraquant => "UltraQuantAttentionImpl",
        _ => return None,
    })
}
