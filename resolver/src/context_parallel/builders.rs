//! What the builders of attention metadata say of context parallelism when a
//! worker makes them.

use super::{Checks, Family};
use crate::backend::AttentionBackend as B;
use crate::backend::layer::LayerBackend;
use crate::config::CommBackend;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::gpu::Arch;
use crate::release::{FlashmlaSharing, IndexerTurns, PcpGraphs};

/// Heads of a rank from which FlashMLA's sparse kernel takes prefills apart.
/// `vllm/v1/attention/backends/mla/flashmla_sparse.py` `MIN_HEADS_FOR_BF16_PREFILL`
const SEPARATE_PREFILL_HEADS: u64 = 32;

/// States of DeepSeek V4 that an indexer looks at hold so many tokens.
const COMPRESS_RATIO: i64 = 4;

fn not_implemented(message: String) -> Box<Refusal> {
    Refusal::raised(Stage::Engine, "NotImplementedError", message)
}

impl Checks<'_> {
    /// Asks each distinct backend's builder, the indexer's first.
    pub(super) fn builders(
        &self,
        backends: &[LayerBackend],
        turn: i64,
    ) -> Result<(), Box<Refusal>> {
        if !self.shares_kv() {
            return Ok(());
        }
        if self.is_sparse() {
            self.indexer(turn)?;
        }
        for backend in backends {
            match backend {
                LayerBackend::Selected(B::FlashmlaSparse) => self.flashmla_sparse()?,
                // `vllm/v1/attention/backends/mla/flashinfer_mla.py` `FlashInferMLAMetadataBuilder`
                LayerBackend::Selected(B::FlashinferMla)
                    if self.profile.context.flashinfer_mla_takes_turns_of_one && turn != 1 =>
                {
                    return Err(Refusal::raised(
                        Stage::Engine,
                        "ValueError",
                        format!(
                            "FlashInfer MLA native DCP requires cp_kv_cache_interleave_size=1; got \
                             {turn}."
                        ),
                    ));
                }
                LayerBackend::Selected(B::Flashinfer) if self.reads_nvfp4_by_fa2() => {
                    return Err(not_implemented(
                        "The DCP prefill wrapper cannot read NVFP4 block scales.".to_owned(),
                    ));
                }
                LayerBackend::Selected(_)
                | LayerBackend::ChunkedLocal(_)
                | LayerBackend::Fixed(_) => {}
            }
        }
        Ok(())
    }

    /// Mirrors `vllm/v1/attention/backends/mla/indexer.py`
    /// `DeepseekV32IndexerMetadataBuilder`.
    fn indexer(&self, turn: i64) -> Result<(), Box<Refusal>> {
        let rule = self.profile.context.indexer;
        let alone = match rule {
            IndexerTurns::Unchecked => return Ok(()),
            IndexerTurns::OfOne => turn > 1,
            IndexerTurns::Any | IndexerTurns::OfWholeStates => false,
        };
        if alone {
            return Err(not_implemented(format!(
                "DCP sparse indexer currently supports only cp_kv_cache_interleave_size=1 (got \
                 {turn})."
            )));
        }
        // the indexer's own cache does not say that it is DeepSeek V4's
        let is_whole = rule == IndexerTurns::OfWholeStates && turn % COMPRESS_RATIO == 0;
        if self.layers != Family::DeepseekV4 || is_whole {
            return Ok(());
        }
        Err(not_implemented(if rule == IndexerTurns::OfWholeStates {
            format!(
                "DCP with sparse indexer KV compression (compress_ratio={COMPRESS_RATIO}) requires \
                 --cp-kv-cache-interleave-size to be a multiple of it; DeepSeek-V4 is not \
                 supported."
            )
        } else {
            format!(
                "DCP is not supported with sparse indexer KV compression (compress_ratio={COMPRESS_RATIO})."
            )
        }))
    }

    /// Mirrors `vllm/v1/attention/backends/mla/flashmla_sparse.py`
    /// `FlashMLASparseMetadataBuilder`.
    fn flashmla_sparse(&self) -> Result<(), Box<Refusal>> {
        let config = self.config;
        let only_gather = match self.profile.context.flashmla_sharing {
            FlashmlaSharing::Unchecked => return Ok(()),
            FlashmlaSharing::GatherScatter => true,
            FlashmlaSharing::Any => false,
        };
        if only_gather && config.context.comm_backend != CommBackend::GatherScatter {
            return Err(not_implemented(format!(
                "DCP for FlashMLA sparse is only validated with the default 'ag_rs' DCP comm \
                 backend; got '{}'",
                config.context.comm_backend.as_str()
            )));
        }
        let gathers =
            config.context.prefill_ranks > 1 && self.profile.context.graphs != PcpGraphs::Piecewise;
        let cache = self.cache_dtype;
        if gathers && cache != CacheDtype::Fp8DsMla {
            return Err(not_implemented(format!(
                "PCP+DCP sparse prefill gathers the KV through the fp8_ds_mla upconvert; got a \
                 {cache} cache"
            )));
        }
        let tensor = config.tensor_parallel_size.max(1);
        let heads = self.common.num_attention_heads / tensor;
        if !gathers && heads >= SEPARATE_PREFILL_HEADS {
            return Err(not_implemented(format!(
                "DCP for FlashMLA sparse is only supported on the mixed-batch fp8 path (num_heads \
                 < {SEPARATE_PREFILL_HEADS}); the separate prefill/decode path returns the LSE \
                 for decode tokens only, while the DCP merge needs it for every token"
            )));
        }
        let ranks = if !gathers {
            config.decode_context_parallel_size
        } else if config.decode_context_parallel_size > config.context.prefill_ranks {
            tensor
        } else {
            1
        };
        let gathered = heads.checked_mul(ranks).ok_or(Refusal::TooLarge)?;
        let (own, all) = (padded_heads(heads), padded_heads(gathered));
        if own == all {
            return Ok(());
        }
        Err(not_implemented(format!(
            "DCP for FlashMLA sparse requires the local and DCP-gathered head counts to pad to the \
             same fp8 decode kernel envelope; got {heads} local heads (pad to {own}) vs {gathered} \
             gathered heads (pad to {all})"
        )))
    }

    /// Mirrors `vllm/v1/attention/backends/flashinfer.py` `FlashInferMetadataBuilder`.
    fn reads_nvfp4_by_fa2(&self) -> bool {
        self.cache_dtype.is_plain_nvfp4() && self.arch != Arch::Sm100
    }
}

/// Query heads that FlashMLA's fp8 decode kernel runs.
/// Mirrors `FlashMLASparseImpl._compute_fp8_decode_padded_heads`.
const fn padded_heads(heads: u64) -> u64 {
    if heads <= 64 { 64 } else { 128 }
}
