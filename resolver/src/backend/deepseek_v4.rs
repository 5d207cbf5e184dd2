//! Which sparse-MLA implementation DeepSeek V4's layers get.

use super::AttentionBackend;
use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::gpu::{Arch, ComputeCapability};
use crate::model::DeepseekV4;
use crate::resolution::Note;
use crate::trace::Trace;

const MODEL_FILE: &str = "vllm/models/deepseek_v4/nvidia/model.py";
const FLASHMLA_FILE: &str = "vllm/models/deepseek_v4/nvidia/flashmla.py";
const FLASHINFER_FILE: &str = "vllm/models/deepseek_v4/nvidia/flashinfer_sparse.py";

/// The attention classes of DeepSeek V4 on CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// `DeepseekV4FlashMLAAttention`
    FlashMla,
    /// `DeepseekV4FlashInferMLAAttention`: made for SM100.
    FlashInfer,
    /// `DeepseekV4FlashInferSM120Attention`
    FlashInferSm120,
}

impl Implementation {
    /// Its attention backend.
    pub const fn backend(self) -> AttentionBackend {
        match self {
            Self::FlashMla => AttentionBackend::FlashmlaSparseDsv4,
            Self::FlashInfer | Self::FlashInferSm120 => AttentionBackend::FlashinferMlaSparseDsv4,
        }
    }

    /// Whether rows are packed as `fp8_ds_mla`, or plain bf16 / fp8.
    pub const fn packs_rows(self) -> bool {
        match self {
            Self::FlashMla | Self::FlashInferSm120 => true,
            Self::FlashInfer => false,
        }
    }

    /// What the backend's `supports_compute_capability` says, which nothing
    /// asks on this path.
    pub const fn declares(self, capability: ComputeCapability) -> bool {
        match self {
            Self::FlashMla => matches!(capability.major, 9 | 10),
            Self::FlashInfer | Self::FlashInferSm120 => matches!(capability.major, 10 | 12),
        }
    }

    /// The GPUs that it declares, in words.
    pub const fn declared_archs(self) -> &'static str {
        match self {
            Self::FlashMla => "SM90 and SM100",
            Self::FlashInfer | Self::FlashInferSm120 => "SM100 and SM120",
        }
    }
}

/// Query heads that FlashInfer's kernels take; others are padded up.
const FLASHINFER_HEADS: [u64; 5] = [8, 16, 32, 64, 128];
/// Query heads that FlashMLA's decode kernel takes at most.
const FLASHMLA_MOST_HEADS: u64 = 128;

/// Picks the implementation. Mirrors `vllm/models/deepseek_v4/nvidia/model.py`
/// `_select_dsv4_attn_cls` and the classes' `get_padded_num_q_heads`.
pub(crate) fn select(
    config: &EngineConfig,
    model: &DeepseekV4,
    arch: Arch,
    capability: ComputeCapability,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Implementation, Box<Refusal>> {
    let by_arch = match arch {
        Arch::Sm90 | Arch::Sm100 => Implementation::FlashMla,
        Arch::Sm120 => Implementation::FlashInferSm120,
    };
    let implementation = match config.attention_backend {
        Some(
            backend @ (AttentionBackend::FlashinferMlaSparse
            | AttentionBackend::FlashinferMlaSparseSm120),
        ) => return Err(Box::new(Refusal::NotADeepseekV4Backend(backend.as_str()))),
        Some(AttentionBackend::FlashinferMlaSparseDsv4) => match arch {
            Arch::Sm90 | Arch::Sm100 => Implementation::FlashInfer,
            Arch::Sm120 => Implementation::FlashInferSm120,
        },
        Some(AttentionBackend::FlashmlaSparse | AttentionBackend::FlashmlaSparseDsv4) => {
            Implementation::FlashMla
        }
        Some(other) => {
            notes.push(Note::new(
                "backend-ignored",
                format!(
                    "vLLM takes attention_backend={other} without a word and uses {} instead: \
                     DeepSeek V4 knows only its own backends.",
                    by_arch.backend()
                ),
            ));
            by_arch
        }
        None => by_arch,
    };
    let backend = implementation.backend();
    trace.step(Stage::Model, MODEL_FILE, "_select_dsv4_attn_cls", || {
        let why = match config.attention_backend {
            None => format!("the default of {arch}"),
            Some(asked) if asked == backend => "as asked".to_owned(),
            Some(AttentionBackend::FlashmlaSparse) => "for FLASHMLA_SPARSE".to_owned(),
            Some(other) => format!("the default of {arch}; {other} is ignored"),
        };
        format!("the attention backend is {backend}, {why}")
    });
    pad_heads(
        implementation,
        model.num_attention_heads / config.tensor_parallel_size,
        trace,
    )?;
    if !implementation.declares(capability) {
        notes.push(Note::new(
            "backend-declares-other-gpus",
            format!(
                "{backend} declares {} only; nothing asks it before the first kernel, so the \
                 start-up passes and what happens on this {arch} GPU then is not known.",
                implementation.declared_archs()
            ),
        ));
    }
    Ok(implementation)
}

/// The kernels' head counts; too many heads on one rank are refused.
fn pad_heads(
    implementation: Implementation,
    heads: u64,
    trace: &mut Trace,
) -> Result<(), Box<Refusal>> {
    let (file, padded) = match implementation {
        Implementation::FlashMla => {
            if heads > FLASHMLA_MOST_HEADS {
                return Err(Refusal::raised(
                    Stage::Model,
                    "ValueError",
                    format!(
                        "DeepseekV4 FlashMLA does not support {heads} heads (FP8 decode kernel \
                         requires h_q in {{64, 128}})."
                    ),
                ));
            }
            (FLASHMLA_FILE, if heads <= 64 { 64 } else { 128 })
        }
        Implementation::FlashInfer | Implementation::FlashInferSm120 => {
            let Some(padded) = FLASHINFER_HEADS.into_iter().find(|most| heads <= *most) else {
                return Err(Refusal::raised(
                    Stage::Model,
                    "ValueError",
                    format!(
                        "DeepseekV4 FlashInfer MLA Sparse does not support {heads} heads (sparse \
                         MLA kernel requires h_q in {{8, 16, 32, 64, 128}})."
                    ),
                ));
            };
            (FLASHINFER_FILE, padded)
        }
    };
    trace.step(Stage::Model, file, "get_padded_num_q_heads", || {
        format!("{heads} query heads on one rank run as {padded}")
    });
    Ok(())
}
