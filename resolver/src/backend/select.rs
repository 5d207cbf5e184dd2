//! Which attention backend a layer gets.
//! Mirrors `vllm/v1/attention/selector.py` `get_attn_backend` and
//! `vllm/platforms/cuda.py` `CudaPlatformBase.get_attn_backend_cls`.

mod repr;

use std::borrow::Cow;

use super::AttentionBackend as B;
use super::combination;
use super::flash_attention::Version;
use super::kernel_block;
use super::layer::LayerBackend;
use super::rules::{Rules, Target};
use super::table::{self, Entry, Row};
use crate::config::ModelDtype;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::gpu::{Arch, ComputeCapability};
use crate::python::repr_list;

/// The objection to a block size.
const BLOCK_SIZE: &str = "block_size not supported";

/// What one layer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Of the layer; for MLA the latent and the rope part together.
    pub head_size: u64,
    /// Of the model.
    pub dtype: ModelDtype,
    /// The layer's: `auto` for layers that are left unquantised.
    pub kv_cache_dtype: CacheDtype,
    /// `--block-size`, if the user gave it.
    pub block_size: Option<u64>,
    /// MLA layers.
    pub use_mla: bool,
    /// Layers with attention sinks.
    pub has_sink: bool,
    /// MLA layers with an indexer.
    pub use_sparse: bool,
    /// Models whose images attend both ways; MLA layers never.
    pub use_mm_prefix: bool,
    /// Checkpoints with a scale for each head of the cache.
    pub use_per_head_quant_scales: bool,
    /// Layers with a window; MLA layers never.
    pub has_sliding_window: bool,
    /// Drafters whose tokens look at each other.
    pub use_non_causal: bool,
    /// Under decode context parallelism.
    pub use_dcp: bool,
    /// Under prefill context parallelism.
    pub use_pcp: bool,
}

/// What the selection looks at besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// Of the release.
    pub rules: &'static Rules,
    /// Of the capability.
    pub arch: Arch,
    /// Printed in texts.
    pub capability: ComputeCapability,
    /// The model's query heads on one rank.
    pub heads_per_rank: u64,
    /// Query heads to a KV head on one rank, if whole; else 1.
    pub gqa_ratio: u64,
    /// Of the text config, if it has them.
    pub mla: Option<MlaDims>,
    /// Of the text config, if it has one.
    pub index_topk: Option<u64>,
    /// Whether the text config caps its attention logits (`attn_logit_softcapping`).
    pub has_softcap: bool,
    /// Whether the model's images attend both ways (`is_mm_prefix_lm`).
    pub is_mm_prefix_model: bool,
    /// The model's head size, the largest of its layers (`get_head_size`).
    pub model_head_size: u64,
    /// Ranks that share one request's KV.
    pub dcp: u64,
    /// Ranks that share one request's tokens in prefill.
    pub pcp: u64,
    /// `attention_config.flash_attn_version`: packed cache dtypes set 2, models
    /// with heads of two sizes 4.
    pub forced_flash_attn: Option<Version>,
    /// The run's cache dtype, after what earlier layers wrote back.
    pub cache_dtype: CacheDtype,
}

/// The sizes of an MLA model's heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MlaDims {
    pub qk_nope_head_dim: u64,
    pub qk_rope_head_dim: u64,
    pub v_head_dim: u64,
    pub kv_lora_rank: u64,
}

impl Surroundings {
    /// The GPU under the release's rules.
    pub(crate) const fn target(&self) -> Target {
        Target {
            arch: self.arch,
            rules: self.rules,
        }
    }
}

/// The layer's backend: the one asked for, or the first of the GPU's list that
/// has no objection.
pub(crate) fn select(
    asked: Option<B>,
    selection: &Selection,
    around: &Surroundings,
) -> Result<B, Box<Refusal>> {
    if let Some(backend) = asked {
        return as_asked(backend, selection, around);
    }
    let mut refused = Vec::new();
    for backend in priorities(selection, around).iter().copied() {
        let Some(row) = table::row(backend, around.target(), around.forced_flash_attn) else {
            continue;
        };
        let reasons = objections(row, selection, around)?;
        if reasons.is_empty() {
            return Ok(backend);
        }
        refused.push(format!("{backend}: [{}]", reasons.join(", ")));
    }
    Err(raise(format!(
        "No valid attention backend found for cuda with {}. Reasons: {{{}}}.",
        repr::Repr(selection, around.rules.selector_prints),
        refused.join(", ")
    )))
}

/// What the selector says of a choice that is its own: every backend without an
/// objection, in the order of the list, and those before them that the block size
/// alone stands against. `None` where that is not known of one of them.
/// Mirrors `vllm/platforms/cuda.py` `CudaPlatformBase.get_attn_backend_cls`.
pub(crate) fn candidates(selection: &Selection, around: &Surroundings) -> Option<(Vec<B>, Vec<B>)> {
    let (mut valid, mut precluded) = (Vec::new(), Vec::new());
    for backend in priorities(selection, around).iter().copied() {
        let Some(row) = table::row(backend, around.target(), around.forced_flash_attn) else {
            continue;
        };
        let reasons = objections(row, selection, around).ok()?;
        if reasons.is_empty() {
            valid.push(backend);
        } else if valid.is_empty() && reasons == [BLOCK_SIZE] {
            precluded.push(backend);
        }
    }
    Some((valid, precluded))
}

/// Backends in the order in which they are tried.
/// Mirrors `vllm/platforms/cuda.py` `_get_backend_priorities`.
pub(super) fn priorities(selection: &Selection, around: &Surroundings) -> &'static [B] {
    let asked = table::Asked {
        mla: selection.use_mla,
        mm_prefix: selection.use_mm_prefix,
        cache_dtype: selection.kv_cache_dtype,
        heads: around.heads_per_rank,
        head_size: selection.head_size,
    };
    let mut target = around.target();
    if selection.use_non_causal && !selection.use_mla && target.rules.orders_non_causal {
        // then SM100 prefers FlashInfer no more, and does as SM120 does
        target.arch = match target.arch {
            Arch::Sm100 | Arch::Sm120 => Arch::Sm120,
            Arch::Sm90 => Arch::Sm90,
        };
    }
    table::order(asked, target)
}

/// `--attention-backend`: no other is tried.
fn as_asked(backend: B, selection: &Selection, around: &Surroundings) -> Result<B, Box<Refusal>> {
    let reasons = match table::entry(backend, around.target(), around.forced_flash_attn) {
        Entry::Class(row) => {
            let reasons = objections(row, selection, around)?;
            if reasons.is_empty() {
                return Ok(backend);
            }
            repr_list(reasons.iter().map(AsRef::as_ref))
        }
        Entry::NoModule(_) if !around.rules.prints_import_error => "['ImportError']".to_owned(),
        Entry::NoModule(module) => {
            format!("[ModuleNotFoundError: No module named '{module}']")
        }
        // `vllm/v1/attention/backends/registry.py` `AttentionBackendEnum.get_path`
        Entry::Unregistered => {
            return Err(raise(format!(
                "Backend {backend} must be registered before use. Use \
                 register_backend(Backend.{backend}, 'your.module.YourClass')"
            )));
        }
        Entry::OtherPlatform => {
            return Err(Refusal::not_modelled(format!(
                "{backend} on CUDA: it is written for other hardware"
            )));
        }
        Entry::Former => {
            return Err(Refusal::not_modelled(format!("{backend} is not modelled")));
        }
    };
    Err(raise(format!(
        "Selected backend AttentionBackendEnum.{backend} is not valid for this configuration. \
         Reason: {reasons}"
    )))
}

fn raise(text: String) -> Box<Refusal> {
    Refusal::raised(Stage::Model, "ValueError", text)
}

/// Everything that a backend has against a layer, in vLLM's order.
/// Mirrors `vllm/v1/attention/backend.py` `AttentionBackend.validate_configuration`.
fn objections(
    row: &Row,
    selection: &Selection,
    around: &Surroundings,
) -> Result<Vec<Cow<'static, str>>, Box<Refusal>> {
    let backend = row.backend;
    let takes_block = selection
        .block_size
        .is_none_or(|size| kernel_block::takes(LayerBackend::Selected(backend), size, around));
    let checks = [
        (
            row.takes_head_size(selection.head_size),
            "head_size not supported",
        ),
        (
            row.takes_model_dtype(selection.dtype),
            "dtype not supported",
        ),
        (
            row.cache_dtypes.contain(selection.kv_cache_dtype),
            "kv_cache_dtype not supported",
        ),
        (takes_block, BLOCK_SIZE),
        (
            !selection.use_mm_prefix || row.does(table::MM_PREFIX),
            "partial multimodal token full attention not supported",
        ),
        (
            selection.use_mla == row.does(table::MLA),
            if selection.use_mla {
                "MLA not supported"
            } else {
                "non-MLA not supported"
            },
        ),
        (
            !selection.has_sink || row.does(table::SINKS),
            "attention sinks not supported",
        ),
        (
            selection.use_sparse == row.does(table::SPARSE),
            if selection.use_sparse {
                "sparse not supported"
            } else {
                "non-sparse not supported"
            },
        ),
        (
            !selection.use_per_head_quant_scales || row.does(table::PER_HEAD_SCALES),
            "per-head quant scales not supported",
        ),
        (row.runs_on(around.arch), "compute capability not supported"),
        (
            !selection.has_sliding_window || row.does(table::SLIDING_WINDOW),
            "sliding window not supported",
        ),
        // `AttentionImpl.supports_pcp`: all of MLA, and no other
        (
            !selection.use_pcp || row.does(table::MLA),
            "PCP not supported",
        ),
        (
            !selection.use_non_causal || row.does(table::NON_CAUSAL),
            "non-causal attention not supported",
        ),
        (
            !(selection.use_dcp && around.rules.checks_dcp) || row.does(table::DCP),
            "DCP not supported",
        ),
    ];
    Ok(checks
        .into_iter()
        .filter(|(fine, _)| !fine)
        .map(|(_, text)| Cow::Borrowed(text))
        .chain(combination::objection(backend, selection, around)?)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::rules;
    use crate::backend::tests::{around, selection};

    fn on(major: u8) -> Surroundings {
        Surroundings {
            heads_per_rank: 32,
            gqa_ratio: 4,
            model_head_size: 128,
            ..around(ComputeCapability::new(major, 0), None)
        }
    }

    #[test]
    fn each_architecture_has_its_first_choice() {
        assert_eq!(select(None, &selection(), &on(9)), Ok(B::FlashAttn));
        assert_eq!(select(None, &selection(), &on(10)), Ok(B::Flashinfer));
        assert_eq!(select(None, &selection(), &on(12)), Ok(B::FlashAttn));
        let odd_heads = Selection {
            head_size: 80,
            ..selection()
        };
        assert_eq!(select(None, &odd_heads, &on(10)), Ok(B::FlashAttn));
    }

    #[test]
    fn a_refusal_lists_every_backend_that_was_tried() {
        let odd_block = Selection {
            block_size: Some(24),
            ..selection()
        };
        assert_eq!(
            select(None, &odd_block, &on(9)).unwrap_err().to_string(),
            "No valid attention backend found for cuda with \
             AttentionSelectorConfig(head_size=128, dtype=torch.bfloat16, kv_cache_dtype=auto, \
             block_size=24, use_mla=False, has_sink=False, use_sparse=False, \
             use_mm_prefix=False, use_per_head_quant_scales=False, \
             attn_type=AttentionType.DECODER, has_sliding_window=False, use_non_causal=False, \
             use_batch_invariant=False, use_kv_connector=False, \
             use_adaptive_verification=False, use_pcp=False, use_dcp=False, use_rswa=False). \
             Reasons: {FLASH_ATTN: [block_size not supported], FLASHINFER: [block_size not \
             supported], TRITON_ATTN: [block_size not supported], FLEX_ATTENTION: [block_size \
             not supported], TURBOQUANT: [kv_cache_dtype not supported, block_size not \
             supported]}."
        );
    }

    #[test]
    fn what_does_not_import_is_named_as_the_release_names_it() {
        let refused = |rules| {
            let around = Surroundings { rules, ..on(9) };
            select(Some(B::NoAttention), &selection(), &around)
                .unwrap_err()
                .to_string()
        };
        let text = "Selected backend AttentionBackendEnum.NO_ATTENTION is not valid for this \
                    configuration. Reason: ";
        assert_eq!(refused(&rules::V0_28_0), format!("{text}['ImportError']"));
        assert_eq!(
            refused(&rules::V0_29_0),
            format!(
                "{text}[ModuleNotFoundError: No module named \
                 'vllm.v1.attention.backends.no_attention']"
            )
        );
    }

    #[test]
    fn only_later_releases_ask_for_dcp() {
        let selection = Selection {
            use_dcp: true,
            ..selection()
        };
        let takes = |rules| {
            let around = Surroundings {
                rules,
                dcp: 2,
                ..on(9)
            };
            select(Some(B::TritonAttn), &selection, &around).is_ok()
        };
        assert!(takes(&rules::V0_28_0) && takes(&rules::V0_29_0));
        assert!(!takes(&rules::V0_30_0) && !takes(&rules::V0_33_0));
    }

    #[test]
    fn a_named_backend_is_held_to_its_name() {
        let refused = |backend, major| {
            select(Some(backend), &selection(), &on(major))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            select(Some(B::TritonAttn), &selection(), &on(9)),
            Ok(B::TritonAttn)
        );
        assert_eq!(
            refused(B::FlashinferMla, 9),
            "Selected backend AttentionBackendEnum.FLASHINFER_MLA is not valid for this \
             configuration. Reason: ['head_size not supported', 'non-MLA not supported', \
             'compute capability not supported', 'FlashInfer MLA kernel requires \
             qk_nope_head_dim in [64, 128, 192], but got 1']"
        );
        assert_eq!(
            refused(B::NoAttention, 9),
            "Selected backend AttentionBackendEnum.NO_ATTENTION is not valid for this \
             configuration. Reason: [ModuleNotFoundError: No module named \
             'vllm.v1.attention.backends.no_attention']"
        );
        assert_eq!(
            refused(B::TritonMsa, 9),
            "Selected backend AttentionBackendEnum.TRITON_MSA is not valid for this \
             configuration. Reason: ['kv_cache_dtype not supported', 'non-sparse not supported']"
        );
        assert_eq!(
            refused(B::TorchSdpa, 9),
            "Backend TORCH_SDPA must be registered before use. Use \
             register_backend(Backend.TORCH_SDPA, 'your.module.YourClass')"
        );
    }
}
