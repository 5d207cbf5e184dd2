//! The modelled flags of `vllm serve`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::units::{parse_float, quoted};
use crate::value::Value;

/// What kind of value a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagKind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A whole number, or `32k`, `1M` and the like (vLLM's
    /// `human_readable_int`).
    HumanInteger,
    /// A number.
    Float,
    /// On or off (`--flag`, `--no-flag`).
    Bool,
    /// Words; on the command line they stand apart by commas or spaces.
    List,
}

/// A modelled flag of `vllm serve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // each is its own `EngineArgs` name
pub enum Flag {
    KvCacheDtype,
    TensorParallelSize,
    PipelineParallelSize,
    DataParallelSize,
    EnableExpertParallel,
    DecodeContextParallelSize,
    PrefillContextParallelSize,
    CpKvCacheInterleaveSize,
    DcpKvCacheInterleaveSize,
    DcpCommBackend,
    MaxModelLen,
    MaxNumBatchedTokens,
    MaxNumSeqs,
    BlockSize,
    AttentionBackend,
    EnablePrefixCaching,
    AsyncScheduling,
    EnforceEager,
    NumGpuBlocksOverride,
    DisableHybridKvCacheManager,
    GpuMemoryUtilization,
    KvCacheMemoryBytes,
    Dtype,
    KvCacheDtypeSkipLayers,
    MambaBlockSize,
    MambaCacheDtype,
    MambaSsmCacheDtype,
    MambaCacheMode,
    DisableSlidingWindow,
    TrustRemoteCode,
}

impl Flag {
    /// Every modelled flag.
    pub const ALL: [Self; 30] = [
        Self::KvCacheDtype,
        Self::TensorParallelSize,
        Self::PipelineParallelSize,
        Self::DataParallelSize,
        Self::EnableExpertParallel,
        Self::DecodeContextParallelSize,
        Self::PrefillContextParallelSize,
        Self::CpKvCacheInterleaveSize,
        Self::DcpKvCacheInterleaveSize,
        Self::DcpCommBackend,
        Self::MaxModelLen,
        Self::MaxNumBatchedTokens,
        Self::MaxNumSeqs,
        Self::BlockSize,
        Self::AttentionBackend,
        Self::EnablePrefixCaching,
        Self::AsyncScheduling,
        Self::EnforceEager,
        Self::NumGpuBlocksOverride,
        Self::DisableHybridKvCacheManager,
        Self::GpuMemoryUtilization,
        Self::KvCacheMemoryBytes,
        Self::Dtype,
        Self::KvCacheDtypeSkipLayers,
        Self::MambaBlockSize,
        Self::MambaCacheDtype,
        Self::MambaSsmCacheDtype,
        Self::MambaCacheMode,
        Self::DisableSlidingWindow,
        Self::TrustRemoteCode,
    ];

    /// The name in `EngineArgs`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KvCacheDtype => "kv_cache_dtype",
            Self::TensorParallelSize => "tensor_parallel_size",
            Self::PipelineParallelSize => "pipeline_parallel_size",
            Self::DataParallelSize => "data_parallel_size",
            Self::EnableExpertParallel => "enable_expert_parallel",
            Self::DecodeContextParallelSize => "decode_context_parallel_size",
            Self::PrefillContextParallelSize => "prefill_context_parallel_size",
            Self::CpKvCacheInterleaveSize => "cp_kv_cache_interleave_size",
            Self::DcpKvCacheInterleaveSize => "dcp_kv_cache_interleave_size",
            Self::DcpCommBackend => "dcp_comm_backend",
            Self::MaxModelLen => "max_model_len",
            Self::MaxNumBatchedTokens => "max_num_batched_tokens",
            Self::MaxNumSeqs => "max_num_seqs",
            Self::BlockSize => "block_size",
            Self::AttentionBackend => "attention_backend",
            Self::EnablePrefixCaching => "enable_prefix_caching",
            Self::AsyncScheduling => "async_scheduling",
            Self::EnforceEager => "enforce_eager",
            Self::NumGpuBlocksOverride => "num_gpu_blocks_override",
            Self::DisableHybridKvCacheManager => "disable_hybrid_kv_cache_manager",
            Self::GpuMemoryUtilization => "gpu_memory_utilization",
            Self::KvCacheMemoryBytes => "kv_cache_memory_bytes",
            Self::Dtype => "dtype",
            Self::KvCacheDtypeSkipLayers => "kv_cache_dtype_skip_layers",
            Self::MambaBlockSize => "mamba_block_size",
            Self::MambaCacheDtype => "mamba_cache_dtype",
            Self::MambaSsmCacheDtype => "mamba_ssm_cache_dtype",
            Self::MambaCacheMode => "mamba_cache_mode",
            Self::DisableSlidingWindow => "disable_sliding_window",
            Self::TrustRemoteCode => "trust_remote_code",
        }
    }

    /// The spelling on the command line: `--kv-cache-dtype`.
    pub fn option(self) -> String {
        format!("--{}", self.name().replace('_', "-"))
    }

    /// What it takes.
    pub const fn kind(self) -> FlagKind {
        match self {
            Self::KvCacheDtype
            | Self::AttentionBackend
            | Self::DcpCommBackend
            | Self::Dtype
            | Self::MambaCacheDtype
            | Self::MambaSsmCacheDtype
            | Self::MambaCacheMode => FlagKind::Text,
            Self::KvCacheDtypeSkipLayers => FlagKind::List,
            Self::TensorParallelSize
            | Self::PipelineParallelSize
            | Self::DataParallelSize
            | Self::DecodeContextParallelSize
            | Self::PrefillContextParallelSize
            | Self::CpKvCacheInterleaveSize
            | Self::DcpKvCacheInterleaveSize
            | Self::MaxNumSeqs
            | Self::BlockSize
            | Self::MambaBlockSize
            | Self::NumGpuBlocksOverride => FlagKind::Integer,
            Self::MaxModelLen | Self::MaxNumBatchedTokens | Self::KvCacheMemoryBytes => {
                FlagKind::HumanInteger
            }
            Self::GpuMemoryUtilization => FlagKind::Float,
            Self::EnableExpertParallel
            | Self::EnablePrefixCaching
            | Self::AsyncScheduling
            | Self::EnforceEager
            | Self::DisableSlidingWindow
            | Self::TrustRemoteCode
            | Self::DisableHybridKvCacheManager => FlagKind::Bool,
        }
    }

    /// Whether `EngineArgs` leaves it at `None` by default.
    pub const fn takes_null(self) -> bool {
        match self {
            Self::CpKvCacheInterleaveSize
            | Self::DcpCommBackend
            | Self::MaxModelLen
            | Self::MaxNumBatchedTokens
            | Self::MaxNumSeqs
            | Self::BlockSize
            | Self::AttentionBackend
            | Self::EnablePrefixCaching
            | Self::AsyncScheduling
            | Self::NumGpuBlocksOverride
            | Self::DisableHybridKvCacheManager
            | Self::MambaBlockSize
            | Self::MambaCacheMode
            | Self::KvCacheMemoryBytes => true,
            Self::KvCacheDtype
            | Self::TensorParallelSize
            | Self::PipelineParallelSize
            | Self::DataParallelSize
            | Self::EnableExpertParallel
            | Self::DecodeContextParallelSize
            | Self::PrefillContextParallelSize
            | Self::DcpKvCacheInterleaveSize
            | Self::EnforceEager
            | Self::GpuMemoryUtilization
            | Self::KvCacheDtypeSkipLayers
            | Self::MambaCacheDtype
            | Self::MambaSsmCacheDtype
            | Self::DisableSlidingWindow
            | Self::TrustRemoteCode
            | Self::Dtype => false,
        }
    }

    /// One line of help.
    pub const fn help(self) -> &'static str {
        match self {
            Self::KvCacheDtype => "data type of the KV cache",
            Self::TensorParallelSize => "GPUs that share each layer",
            Self::PipelineParallelSize => "stages that share out the layers",
            Self::DataParallelSize => "replicas; experts may be spread over them",
            Self::EnableExpertParallel => "whole experts on each rank instead of slices",
            Self::DecodeContextParallelSize => "ranks that share one request's KV in decoding",
            Self::PrefillContextParallelSize => "ranks that share one request's tokens in prefill",
            Self::CpKvCacheInterleaveSize => "tokens in a row on one rank of those that share KV",
            Self::DcpKvCacheInterleaveSize => "the same by its former name; not read since 0.29",
            Self::DcpCommBackend => "how ranks that share KV talk: ag_rs or a2a",
            Self::MaxModelLen => "longest request in tokens; -1 or auto takes what fits",
            Self::MaxNumBatchedTokens => "tokens in one step",
            Self::MaxNumSeqs => "requests in one step",
            Self::BlockSize => "tokens in a KV block",
            Self::AttentionBackend => "attention backend by name",
            Self::EnablePrefixCaching => "reuse the blocks of common prefixes",
            Self::AsyncScheduling => "schedule a step while one runs",
            Self::EnforceEager => "no CUDA graphs",
            Self::NumGpuBlocksOverride => "number of blocks, whatever fits",
            Self::DisableHybridKvCacheManager => "treat windows as full attention",
            Self::GpuMemoryUtilization => "fraction of the GPU that vLLM may fill",
            Self::KvCacheMemoryBytes => "bytes for the KV cache, instead of profiling",
            Self::Dtype => "data type of the weights and activations",
            Self::KvCacheDtypeSkipLayers => {
                "layers that keep the model's data type: numbers, or sliding_window"
            }
            Self::MambaBlockSize => "tokens in a block of linear layers' states",
            Self::MambaCacheDtype => "data type of linear layers' states",
            Self::MambaSsmCacheDtype => "data type of their recurrent states alone",
            Self::MambaCacheMode => "how states are cached; not read since 0.33",
            Self::DisableSlidingWindow => "no windows, and requests no longer than one",
            Self::TrustRemoteCode => "run code of the model's own repository",
        }
    }

    /// Reads the value as the command line would.
    pub fn parse_text(self, text: &str) -> Result<Value, FlagError> {
        let wrong = |expected| FlagError::WrongType {
            flag: self.name(),
            expected,
            got: quoted(&text.chars().take(40).collect::<String>()),
        };
        match self.kind() {
            FlagKind::Text => Ok(Value::String(text.to_owned())),
            FlagKind::List => Ok(Value::Array(
                text.split([',', ' '])
                    .filter(|word| !word.is_empty())
                    .map(|word| Value::String(word.to_owned()))
                    .collect(),
            )),
            FlagKind::Integer => match text.trim().parse() {
                Ok(number) => Ok(Value::Integer(number)),
                Err(_) => Err(wrong("a whole number")),
            },
            FlagKind::HumanInteger
                if self == Self::MaxModelLen && text.trim().eq_ignore_ascii_case("auto") =>
            {
                Ok(Value::Integer(-1))
            }
            FlagKind::HumanInteger => human_readable_int(text.trim())
                .map(Value::Integer)
                .ok_or_else(|| wrong("a whole number such as 32768, 32k or 1M")),
            FlagKind::Float => parse_float(text)
                .map(Value::Float)
                .ok_or_else(|| wrong("a number")),
            FlagKind::Bool => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(Value::Bool(true)),
                "false" | "0" => Ok(Value::Bool(false)),
                _ => Err(wrong("true or false")),
            },
        }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flag {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|flag| flag.name() == name)
            .ok_or(())
    }
}

impl Serialize for Flag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// `32k` is 32,000, `32K` 32,768, `1.5m` 1,500,000; capitals take no decimals.
/// Mirrors `human_readable_int`, which `vllm/engine/arg_utils.py` uses.
fn human_readable_int(text: &str) -> Option<i128> {
    let Some(unit) = text.chars().last().filter(char::is_ascii_alphabetic) else {
        return text.parse().ok();
    };
    let digits = text.strip_suffix(unit)?;
    let power = 1 + u32::try_from("kmgt".find(unit.to_ascii_lowercase())?).ok()?;
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if !all_digits(whole) || !all_digits(fraction) || digits.len() > 18 {
        return None;
    }
    if unit.is_ascii_uppercase() {
        let number: i128 = digits.parse().ok()?;
        return Some(number * 1024_i128.pow(power));
    }
    // by way of a double, as vLLM does
    let number = parse_float(digits)?;
    #[allow(clippy::cast_possible_truncation)] // at most 10^20 × 10^12
    Some((number * 1000_f64.powi(power.cast_signed())) as i128)
}

/// A flag that cannot be taken as given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlagError {
    /// The value is of the wrong kind.
    #[error("{flag}: expected {expected}, got {got}")]
    WrongType {
        /// `EngineArgs` name.
        flag: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it got.
        got: String,
    },
    /// Past 64 bits.
    #[error("{flag}: {got} is out of range")]
    OutOfRange {
        /// `EngineArgs` name.
        flag: &'static str,
        /// What it got.
        got: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_has_a_name_of_its_own() {
        for flag in Flag::ALL {
            assert_eq!(flag.name().parse(), Ok(flag));
        }
        assert_eq!(Flag::KvCacheDtype.option(), "--kv-cache-dtype");
    }

    #[test]
    fn words_stand_apart_by_commas_or_spaces() {
        let word = |text: &str| Value::String(text.to_owned());
        assert_eq!(
            Flag::KvCacheDtypeSkipLayers.parse_text("0, 3 sliding_window"),
            Ok(Value::Array(vec![
                word("0"),
                word("3"),
                word("sliding_window")
            ]))
        );
    }

    #[test]
    fn human_readable_numbers() {
        let parse = |text| Flag::MaxModelLen.parse_text(text);
        assert_eq!(parse("32k"), Ok(Value::Integer(32_000)));
        assert_eq!(parse("32K"), Ok(Value::Integer(32_768)));
        assert_eq!(parse("1.5m"), Ok(Value::Integer(1_500_000)));
        assert_eq!(parse("auto"), Ok(Value::Integer(-1)));
        assert_eq!(parse("-1"), Ok(Value::Integer(-1)));
        for bad in [
            "",
            "k",
            "1.5K",
            "1..5k",
            "32kk",
            "x",
            "1e3",
            "99999999999999999999k",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
