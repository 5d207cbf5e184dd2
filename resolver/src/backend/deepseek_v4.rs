//! Which sparse-MLA implementation DeepSeek V4's layers get.

mod heads;

use super::AttentionBackend;
use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::gpu::{Arch, ComputeCapability};
use crate::model::DeepseekV4;
use crate::release::{Profile, V4Classes};
use crate::resolution::Note;
use crate::trace::Trace;

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
    /// Its attention backend, as the release calls it.
    pub(crate) const fn backend(self, profile: &Profile) -> &'static str {
        match (self, profile.v4_classes) {
            (Self::FlashMla, V4Classes::FlashMlaOnly) => "V4_FLASHMLA_SPARSE",
            (Self::FlashMla, _) => AttentionBackend::FlashmlaSparseDsv4.as_str(),
            (Self::FlashInfer | Self::FlashInferSm120, _) => {
                AttentionBackend::FlashinferMlaSparseDsv4.as_str()
            }
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

/// Picks the implementation. Mirrors `vllm/models/deepseek_v4/nvidia/model.py`
/// `_select_dsv4_attn_cls` and the classes' `get_padded_num_q_heads`.
pub(crate) fn select(
    config: &EngineConfig,
    model: &DeepseekV4,
    arch: Arch,
    capability: ComputeCapability,
    profile: &Profile,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Implementation, Box<Refusal>> {
    let asked = config.attention_backend;
    let by_default = match (profile.v4_classes, arch) {
        (V4Classes::ByArch, Arch::Sm120) => Implementation::FlashInferSm120,
        _ => Implementation::FlashMla,
    };
    let (implementation, is_as_asked) = match (by_name(asked, arch, profile)?, asked) {
        (Some(implementation), _) => (implementation, true),
        (None, None) => (by_default, true),
        (None, Some(other)) => {
            notes.push(Note::new(
                "backend-ignored",
                format!(
                    "vLLM takes attention_backend={other} without a word and uses {} instead: \
                     DeepSeek V4 knows only its own backends.",
                    by_default.backend(profile)
                ),
            ));
            (by_default, false)
        }
    };
    let backend = implementation.backend(profile);
    trace.step(
        Stage::Model,
        profile.files.v4_model,
        profile.v4_classes.function(),
        || {
            let why = match asked {
                None if profile.v4_classes == V4Classes::ByArch => format!("the default of {arch}"),
                None => "the default of every GPU".to_owned(),
                Some(asked) if asked.as_str() == backend => "as asked".to_owned(),
                Some(asked) if is_as_asked => format!("for {asked}"),
                Some(other) => format!("the default of {arch}; {other} is ignored"),
            };
            format!("the attention backend is {backend}, {why}")
        },
    );
    let heads = model.num_attention_heads / config.tensor_parallel_size;
    let padded = heads::padded(implementation, heads, profile.v4_heads)?;
    let file = match implementation {
        Implementation::FlashMla => profile.files.v4_flashmla,
        Implementation::FlashInfer | Implementation::FlashInferSm120 => FLASHINFER_FILE,
    };
    trace.step(Stage::Model, file, "get_padded_num_q_heads", || {
        format!("{heads} query heads on one rank run as {padded}")
    });
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

/// Query heads of one rank, as the kernel runs them.
pub(crate) fn padded_heads(
    config: &EngineConfig,
    model: &DeepseekV4,
    implementation: Implementation,
    profile: &Profile,
) -> Result<u64, Box<Refusal>> {
    let heads = model.num_attention_heads / config.tensor_parallel_size;
    heads::padded(implementation, heads, profile.v4_heads)
}

/// The implementation that a name leads to; `None` if the release does not look
/// for this name.
fn by_name(
    asked: Option<AttentionBackend>,
    arch: Arch,
    profile: &Profile,
) -> Result<Option<Implementation>, Box<Refusal>> {
    use AttentionBackend as B;
    let Some(asked) = asked else {
        return Ok(None);
    };
    Ok(match (profile.v4_classes, asked) {
        (V4Classes::FlashInferByName, B::FlashinferMlaSparseDsv4) => {
            Some(Implementation::FlashInfer)
        }
        (V4Classes::ByArch, B::FlashinferMlaSparse | B::FlashinferMlaSparseSm120) => {
            return Err(Box::new(Refusal::NotADeepseekV4Backend(asked.as_str())));
        }
        (V4Classes::ByArch, B::FlashinferMlaSparseDsv4) => Some(match arch {
            Arch::Sm90 | Arch::Sm100 => Implementation::FlashInfer,
            Arch::Sm120 => Implementation::FlashInferSm120,
        }),
        (V4Classes::ByArch, B::FlashmlaSparse)
        // 0.23 does not look for this one, but takes no other
        | (V4Classes::ByArch | V4Classes::FlashInferByName, B::FlashmlaSparseDsv4) => {
            Some(Implementation::FlashMla)
        }
        _ => None,
    })
}
