//! What stops a start-up: vLLM's own errors, verbatim, and our "not modelled".

use serde::Serialize;
use thiserror::Error;

use crate::dtype::CacheDtype;
use crate::log::LogLine;
use crate::trace::TraceStep;
use crate::units::{format_gib, python_float};

/// Where in vLLM's start-up something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// `args`: the command line's parser.
    Args,
    /// `config`: the config objects.
    Config,
    /// `model`: building the model's layers.
    Model,
    /// `specs`: each layer's KV cache spec.
    Specs,
    /// `plan`: grouping and sizing.
    Plan,
    /// `engine`: the workers' KV cache and the scheduler, around the plan.
    Engine,
    /// `unmodelled`: ours, not vLLM's.
    Unmodelled,
}

impl Stage {
    /// As a result spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Config => "config",
            Self::Model => "model",
            Self::Specs => "specs",
            Self::Plan => "plan",
            Self::Engine => "engine",
            Self::Unmodelled => "unmodelled",
        }
    }

    /// The stage in words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Args => "reading the command line",
            Self::Config => "checking the configuration",
            Self::Model => "building the model",
            Self::Specs => "asking each layer for its KV spec",
            Self::Plan => "planning the KV cache",
            Self::Engine => "starting the engine",
            Self::Unmodelled => "not modelled",
        }
    }
}

/// How a release words that DeepSeek V4's packed rows are fp8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedAssertion {
    /// Through 0.22.
    ForNow,
    /// 0.23.
    FlashMla,
    /// 0.24 to 0.29.
    Layout,
}

impl PackedAssertion {
    const fn text(self) -> &'static str {
        match self {
            Self::ForNow => "DeepseekV4 only supports fp8 kv-cache format for now",
            Self::FlashMla => "DeepseekV4 FlashMLA fp8 layout only supports fp8 kv-cache",
            Self::Layout => "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache",
        }
    }
}

/// How a release words its memory errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryTexts {
    /// Through 0.21: a slip, and nothing of the CPU.
    Models,
    /// Since 0.22: says what the flag does on the CPU backend.
    OnCpuToo,
}

impl MemoryTexts {
    const fn engine_aside(self) -> &'static str {
        match self {
            Self::Models => "",
            Self::OnCpuToo => {
                " (this flag also controls CPU memory reservation on the CPU backend, despite its \
                 name)"
            }
        }
    }

    const fn models(self) -> &'static str {
        match self {
            Self::Models => "models's",
            Self::OnCpuToo => "model's",
        }
    }

    const fn flag_aside(self) -> &'static str {
        match self {
            Self::Models => "",
            Self::OnCpuToo => " (which also controls CPU memory on the CPU backend)",
        }
    }
}

/// Why the KV cache cannot be answered for or would not start.
///
/// `Display` is the text that the user reads: vLLM's, to the letter, for
/// everything but [`Refusal::NotModelled`], [`Refusal::BadCase`] and
/// [`Refusal::TooLarge`].
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Refusal {
    /// Ours: a flag, model, release or GPU that the resolver has no rule for.
    #[error("{0}")]
    NotModelled(String),
    /// Ours: the case itself is malformed.
    #[error("{0}")]
    BadCase(String),
    /// Ours: figures past 64 bits.
    #[error("the figures of this case exceed 64 bits")]
    TooLarge,

    /// A text that is raised as it stands, by its Python class.
    #[error("{message}")]
    Raised {
        /// Where.
        stage: Stage,
        /// Python's exception class.
        error_type: &'static str,
        /// `str(exception)`.
        message: String,
    },

    /// `vllm/models/deepseek_v4/attention.py` `_resolve_dsv4_kv_cache_dtype`, since 0.30.
    #[error(
        "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got {0}. Please set \
         `--kv-cache-dtype fp8` or select a backend that supports bfloat16 KV cache."
    )]
    PackedNeedsFp8(CacheDtype),
    /// The same rule through 0.29, an assertion whose words changed twice.
    #[error("{}, got {dtype}", words.text())]
    PackedAssertsFp8 {
        /// As asked.
        dtype: CacheDtype,
        /// The release's.
        words: PackedAssertion,
    },
    /// `vllm/models/deepseek_v4/nvidia/model.py` `_select_dsv4_attn_cls`.
    #[error(
        "{0} is not a DeepSeek V4 attention backend. Use FLASHINFER_MLA_SPARSE_DSV4 for \
         DeepSeek V4 FlashInfer sparse MLA."
    )]
    NotADeepseekV4Backend(&'static str),

    /// Python's own, where a page has no bytes.
    #[error("integer division or modulo by zero")]
    ZeroDivision,
    /// `vllm/v1/kv_cache_interface.py` `SlidingWindowSpec.max_memory_usage_bytes`.
    #[error("DCP not support sliding window.")]
    WindowUnderDcp,
    /// `vllm/v1/core/kv_cache_planning.py` `_promote_local_kv_cache_specs`, by `replace_as`.
    #[error("MLAAttentionSpec.__init__() got an unexpected keyword argument '{0}'")]
    PromotedSpecField(&'static str),
    /// `_check_enough_kv_cache_memory`: nothing left.
    #[error(
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when \
         initializing the engine{}. See \
         https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
        .0.engine_aside()
    )]
    NoMemory(MemoryTexts),
    /// `_check_enough_kv_cache_memory`: one request does not fit.
    #[error(
        "To serve at least one request with the {models} max seq len ({max_model_len}), \
         ({needed} GiB KV cache is needed, which is larger than the available KV cache memory \
         ({available} GiB). {estimate}Try increasing `gpu_memory_utilization`{aside} or \
         decreasing `max_model_len` when initializing \
         the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more \
         details.",
        models = texts.models(),
        aside = texts.flag_aside(),
        needed = format_gib(i128::from(*needed_bytes)),
        available = format_gib(*available_bytes),
        estimate = estimated_sentence(*estimated_max_len),
    )]
    RequestDoesNotFit {
        /// The length that was asked, in tokens.
        max_model_len: u64,
        /// Bytes that one such request needs, as the release counts them.
        needed_bytes: u64,
        /// Bytes there are, since 0.29 less the null block.
        available_bytes: i128,
        /// The longest request that fits, in tokens; 0 if none does.
        estimated_max_len: u64,
        /// The release's words.
        texts: MemoryTexts,
    },
    /// `vllm/v1/worker/utils.py` `request_memory`: something else holds the GPU.
    #[error(
        "Free memory on device cuda:0 ({free}/{total} GiB) on startup is less than desired GPU \
         memory utilization ({utilization}, {requested} GiB). Decrease GPU memory utilization or \
         reduce GPU memory used by other processes.",
        free = format_gib(i128::from(*free_bytes)),
        total = format_gib(i128::from(*total_bytes)),
        utilization = python_float(*utilization),
        requested = format_gib(i128::from(*requested_bytes)),
    )]
    NotFree {
        /// Bytes that are free.
        free_bytes: u64,
        /// torch's total.
        total_bytes: u64,
        /// `gpu_memory_utilization`
        utilization: f64,
        /// Bytes that are asked for.
        requested_bytes: u64,
    },
    /// torch's own error while weights are loaded, as far as it can be told: the
    /// figures that only the GPU knows are left out.
    #[error(
        "{}CUDA out of memory. Tried to allocate … GPU 0 has a total capacity of {} GiB of which \
         … is free. …{}",
        if *says_so { LOAD_FAILED } else { "" },
        format_gib(i128::from(*total_bytes)),
        if *says_so { ")" } else { "" },
    )]
    WeightsDoNotFit {
        /// torch's total.
        total_bytes: u64,
        /// Whether vLLM logs a sentence of its own around it: model runner V1 does.
        says_so: bool,
    },
    /// `_auto_fit_max_model_len`.
    #[error(
        "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single \
         token. Try increasing `gpu_memory_utilization`."
    )]
    NothingToAutoFit,
}

/// `vllm/v1/worker/gpu_model_runner.py` `load_model`
const LOAD_FAILED: &str = "Failed to load model - not enough GPU memory. Try lowering \
     --gpu-memory-utilization to free memory for weights, increasing --tensor-parallel-size, or \
     using --quantization. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ \
     for more tips. (original error: ";

fn estimated_sentence(length: u64) -> String {
    if length == 0 {
        String::new()
    } else {
        format!("Based on the available memory, the estimated maximum model length is {length}. ")
    }
}

impl Refusal {
    /// An exception with a text of its own.
    #[must_use]
    pub fn raised(stage: Stage, error_type: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self::Raised {
            stage,
            error_type,
            message: message.into(),
        })
    }

    /// Ours: no rule for this.
    #[must_use]
    pub fn not_modelled(what: impl Into<String>) -> Box<Self> {
        Box::new(Self::NotModelled(what.into()))
    }

    /// Where it happens.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        match self {
            Self::NotModelled(_) | Self::TooLarge => Stage::Unmodelled,
            Self::BadCase(_) => Stage::Args,
            Self::Raised { stage, .. } => *stage,
            Self::PackedNeedsFp8(_)
            | Self::PackedAssertsFp8 { .. }
            | Self::NotADeepseekV4Backend(_)
            | Self::WeightsDoNotFit { .. } => Stage::Model,
            Self::NotFree { .. } => Stage::Engine,
            Self::ZeroDivision
            | Self::WindowUnderDcp
            | Self::PromotedSpecField(_)
            | Self::NoMemory(_)
            | Self::RequestDoesNotFit { .. }
            | Self::NothingToAutoFit => Stage::Plan,
        }
    }

    /// Python's exception class, or `NotModelled` / `BadCase` for ours.
    #[must_use]
    pub const fn error_type(&self) -> &'static str {
        match self {
            Self::NotModelled(_) | Self::TooLarge => "NotModelled",
            Self::BadCase(_) => "BadCase",
            Self::Raised { error_type, .. } => error_type,
            Self::PackedAssertsFp8 { .. } | Self::WindowUnderDcp => "AssertionError",
            Self::ZeroDivision => "ZeroDivisionError",
            Self::PromotedSpecField(_) => "TypeError",
            Self::WeightsDoNotFit { .. } => "OutOfMemoryError",
            Self::PackedNeedsFp8(_)
            | Self::NotADeepseekV4Backend(_)
            | Self::NoMemory(_)
            | Self::RequestDoesNotFit { .. }
            | Self::NotFree { .. }
            | Self::NothingToAutoFit => "ValueError",
        }
    }

    /// The outcome it amounts to.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::NotModelled(_) | Self::TooLarge => Outcome::Unmodelled,
            Self::NoMemory(_)
            | Self::RequestDoesNotFit { .. }
            | Self::NotFree { .. }
            | Self::WeightsDoNotFit { .. }
            | Self::NothingToAutoFit => Outcome::DoesNotFit,
            _ => Outcome::Refused,
        }
    }
}

/// What becomes of a case, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    /// Starts with the cache dtype as asked.
    #[serde(rename = "works")]
    Works,
    /// Starts; the cache gets another dtype than was asked.
    #[serde(rename = "becomes")]
    Becomes,
    /// Nothing up to the plan refuses, but something later is known to or may.
    #[serde(rename = "unverified")]
    Unverified,
    /// vLLM stops with an error.
    #[serde(rename = "refused")]
    Refused,
    /// vLLM stops for want of memory.
    #[serde(rename = "does not fit")]
    DoesNotFit,
    /// There is no rule for it here.
    #[serde(rename = "unmodelled")]
    Unmodelled,
}

impl Outcome {
    /// All, best first.
    pub const ALL: [Self; 6] = [
        Self::Works,
        Self::Becomes,
        Self::Unverified,
        Self::DoesNotFit,
        Self::Refused,
        Self::Unmodelled,
    ];

    /// The design's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Becomes => "becomes",
            Self::Unverified => "unverified",
            Self::Refused => "refused",
            Self::DoesNotFit => "does not fit",
            Self::Unmodelled => "unmodelled",
        }
    }

    /// What the word means.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Works => "starts with the cache dtype as asked",
            Self::Becomes => "starts; the cache gets another dtype than was asked",
            Self::Unverified => {
                "nothing up to the plan refuses it, but vLLM declares or checks otherwise later"
            }
            Self::Refused => "vLLM stops with an error",
            Self::DoesNotFit => "vLLM stops for want of memory",
            Self::Unmodelled => "KV Explorer has no rule for it and does not guess",
        }
    }
}

/// Something to change, which has been tried and works on this GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// The whole sentence.
    pub text: String,
    /// The flags to change and their new values, by `EngineArgs` name; an empty
    /// value takes the flag away.
    pub set: Vec<(&'static str, String)>,
}

/// A start-up that ends in an error, or that cannot be answered for.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{refusal}")]
pub struct StartupError {
    /// What, as data.
    pub refusal: Refusal,
    /// What works instead.
    pub advice: Vec<Advice>,
    /// What the error does not say by itself.
    pub notes: Vec<crate::resolution::Note>,
    /// What vLLM has logged by then, as far as it is predicted.
    pub log: Vec<LogLine>,
    /// The decisions up to it.
    pub trace: Vec<TraceStep>,
}

impl StartupError {
    /// An error with nothing beside it.
    pub const fn bare(refusal: Refusal) -> Self {
        Self {
            refusal,
            advice: Vec::new(),
            notes: Vec::new(),
            log: Vec::new(),
            trace: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_error_reads_as_vllm_prints_it() {
        let refusal = Refusal::RequestDoesNotFit {
            max_model_len: 262_144,
            needed_bytes: 7_723_261_440,
            available_bytes: 2_146_481_408,
            estimated_max_len: 5204,
            texts: MemoryTexts::OnCpuToo,
        };
        assert_eq!(
            refusal.to_string(),
            "To serve at least one request with the model's max seq len (262144), (7.19 GiB KV \
             cache is needed, which is larger than the available KV cache memory (2.0 GiB). Based \
             on the available memory, the estimated maximum model length is 5204. Try increasing \
             `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or \
             decreasing `max_model_len` when initializing the engine. See \
             https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
        );
        assert_eq!(refusal.stage(), Stage::Plan);
        assert_eq!(refusal.outcome(), Outcome::DoesNotFit);
    }
}
