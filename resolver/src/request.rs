//! The question: a release, a model's config.json, a GPU, and what the user
//! passes to `vllm serve`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::gpu::Gpu;
use crate::release::Release;
use crate::value::Value;

/// Who starts vLLM; its defaults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usage {
    /// `server`: `vllm serve`.
    #[default]
    Server,
    /// `llm`: the `LLM` class.
    Llm,
}

impl Usage {
    /// The spelling in a case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Llm => "llm",
        }
    }
}

impl FromStr for Usage {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "server" => Ok(Self::Server),
            "llm" => Ok(Self::Llm),
            _ => Err(()),
        }
    }
}

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// vLLM's version.
    pub release: Release,
    /// The model's config.json.
    pub hf_config: Value,
    /// The GPU of each rank.
    pub gpu: Gpu,
    /// What the user passes.
    pub args: EngineArgs,
    /// What the user sets.
    pub env: Environment,
    /// Bytes left for the KV cache on each GPU; `None` leaves the capacity out,
    /// unless `kv_cache_memory_bytes` names it.
    pub available_memory: Option<u64>,
    /// Which defaults apply.
    pub usage: Usage,
}

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
}

/// A modelled flag of `vllm serve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // each is its own `EngineArgs` name
pub enum Flag {
    KvCacheDtype,
    TensorParallelSize,
    DataParallelSize,
    EnableExpertParallel,
    DecodeContextParallelSize,
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
}

impl Flag {
    /// Every modelled flag.
    pub const ALL: [Self; 18] = [
        Self::KvCacheDtype,
        Self::TensorParallelSize,
        Self::DataParallelSize,
        Self::EnableExpertParallel,
        Self::DecodeContextParallelSize,
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
    ];

    /// The name in `EngineArgs`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KvCacheDtype => "kv_cache_dtype",
            Self::TensorParallelSize => "tensor_parallel_size",
            Self::DataParallelSize => "data_parallel_size",
            Self::EnableExpertParallel => "enable_expert_parallel",
            Self::DecodeContextParallelSize => "decode_context_parallel_size",
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
        }
    }

    /// The spelling on the command line: `--kv-cache-dtype`.
    pub fn option(self) -> String {
        format!("--{}", self.name().replace('_', "-"))
    }

    /// What it takes.
    pub const fn kind(self) -> FlagKind {
        match self {
            Self::KvCacheDtype | Self::AttentionBackend | Self::Dtype => FlagKind::Text,
            Self::TensorParallelSize
            | Self::DataParallelSize
            | Self::DecodeContextParallelSize
            | Self::MaxNumSeqs
            | Self::BlockSize
            | Self::NumGpuBlocksOverride => FlagKind::Integer,
            Self::MaxModelLen | Self::MaxNumBatchedTokens | Self::KvCacheMemoryBytes => {
                FlagKind::HumanInteger
            }
            Self::GpuMemoryUtilization => FlagKind::Float,
            Self::EnableExpertParallel
            | Self::EnablePrefixCaching
            | Self::AsyncScheduling
            | Self::EnforceEager
            | Self::DisableHybridKvCacheManager => FlagKind::Bool,
        }
    }

    /// One line of help.
    pub const fn help(self) -> &'static str {
        match self {
            Self::KvCacheDtype => "data type of the KV cache",
            Self::TensorParallelSize => "GPUs that share each layer",
            Self::DataParallelSize => "replicas; experts may be spread over them",
            Self::EnableExpertParallel => "whole experts on each rank instead of slices",
            Self::DecodeContextParallelSize => "ranks that share one request's KV in decoding",
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
        }
    }

    /// Reads the value as the command line would.
    pub fn parse_text(self, text: &str) -> Result<Value, FlagError> {
        let wrong = |expected| FlagError::WrongType {
            flag: self.name(),
            expected,
            got: format!("{:?}", text.chars().take(40).collect::<String>()),
        };
        match self.kind() {
            FlagKind::Text => Ok(Value::String(text.to_owned())),
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
            FlagKind::Float => match text.trim().parse() {
                Ok(number) => Ok(Value::Float(number)),
                Err(_) => Err(wrong("a number")),
            },
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
    if !all_digits(whole) || !all_digits(fraction) || digits.len() > 20 {
        return None;
    }
    if unit.is_ascii_uppercase() {
        let number: i128 = digits.parse().ok()?;
        return Some(number * 1024_i128.pow(power));
    }
    // by way of a double, as vLLM does
    let number: f64 = digits.parse().ok()?;
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

/// What the user passes, by `EngineArgs` name; `None` is "not passed".
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // `Flag::help` says it
pub struct EngineArgs {
    pub kv_cache_dtype: Option<String>,
    pub tensor_parallel_size: Option<i64>,
    pub data_parallel_size: Option<i64>,
    pub enable_expert_parallel: Option<bool>,
    pub decode_context_parallel_size: Option<i64>,
    pub max_model_len: Option<i64>,
    pub max_num_batched_tokens: Option<i64>,
    pub max_num_seqs: Option<i64>,
    pub block_size: Option<i64>,
    pub attention_backend: Option<String>,
    pub enable_prefix_caching: Option<bool>,
    pub async_scheduling: Option<bool>,
    pub enforce_eager: Option<bool>,
    pub num_gpu_blocks_override: Option<i64>,
    pub disable_hybrid_kv_cache_manager: Option<bool>,
    pub gpu_memory_utilization: Option<f64>,
    pub kv_cache_memory_bytes: Option<i64>,
    pub dtype: Option<String>,
    /// Flags that were passed and have no rule here, by name.
    pub unmodelled: Vec<String>,
}

impl EngineArgs {
    /// Sets one flag; `null` takes it away, as it does in `EngineArgs`.
    pub fn set(&mut self, flag: Flag, value: &Value) -> Result<(), FlagError> {
        match flag {
            Flag::KvCacheDtype => self.kv_cache_dtype = text(flag, value)?,
            Flag::TensorParallelSize => self.tensor_parallel_size = integer(flag, value)?,
            Flag::DataParallelSize => self.data_parallel_size = integer(flag, value)?,
            Flag::EnableExpertParallel => self.enable_expert_parallel = boolean(flag, value)?,
            Flag::DecodeContextParallelSize => {
                self.decode_context_parallel_size = integer(flag, value)?;
            }
            Flag::MaxModelLen => self.max_model_len = integer(flag, value)?,
            Flag::MaxNumBatchedTokens => self.max_num_batched_tokens = integer(flag, value)?,
            Flag::MaxNumSeqs => self.max_num_seqs = integer(flag, value)?,
            Flag::BlockSize => self.block_size = integer(flag, value)?,
            Flag::AttentionBackend => self.attention_backend = text(flag, value)?,
            Flag::EnablePrefixCaching => self.enable_prefix_caching = boolean(flag, value)?,
            Flag::AsyncScheduling => self.async_scheduling = boolean(flag, value)?,
            Flag::EnforceEager => self.enforce_eager = boolean(flag, value)?,
            Flag::NumGpuBlocksOverride => self.num_gpu_blocks_override = integer(flag, value)?,
            Flag::DisableHybridKvCacheManager => {
                self.disable_hybrid_kv_cache_manager = boolean(flag, value)?;
            }
            Flag::GpuMemoryUtilization => self.gpu_memory_utilization = float(flag, value)?,
            Flag::KvCacheMemoryBytes => self.kv_cache_memory_bytes = integer(flag, value)?,
            Flag::Dtype => self.dtype = text(flag, value)?,
        }
        Ok(())
    }

    /// Sets a flag by name. One without a rule is remembered and refused by
    /// name, unless its value is what vLLM does anyway or it cannot touch the
    /// KV cache.
    pub fn set_by_name(&mut self, name: &str, value: &Value) -> Result<(), FlagError> {
        match name.parse() {
            Ok(flag) => self.set(flag, value),
            Err(()) => {
                let untouched = *value == Value::Null
                    || UNTOUCHING_FLAGS.contains(&name)
                    || NEUTRAL_VALUES
                        .iter()
                        .any(|(flag, neutral)| *flag == name && neutral.is(value));
                if !untouched {
                    self.unmodelled.push(name.chars().take(80).collect());
                }
                Ok(())
            }
        }
    }
}

/// Flags of `EngineArgs` that no decision about the KV cache looks at.
const UNTOUCHING_FLAGS: [&str; 16] = [
    "model",
    "served_model_name",
    "tokenizer",
    "tokenizer_mode",
    "skip_tokenizer_init",
    "trust_remote_code",
    "allowed_local_media_path",
    "download_dir",
    "load_format",
    "revision",
    "tokenizer_revision",
    "seed",
    "disable_log_stats",
    "enable_log_requests",
    "generation_config",
    "use_tqdm_on_load",
];

/// A value that asks for nothing.
enum Neutral {
    Integer(i128),
    Bool(bool),
}

impl Neutral {
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Integer(neutral) => value.as_integer() == Some(*neutral),
            Self::Bool(neutral) => *value == Value::Bool(*neutral),
        }
    }
}

/// Flags without a rule, with the value at which there is nothing to rule.
const NEUTRAL_VALUES: [(&str, Neutral); 5] = [
    ("pipeline_parallel_size", Neutral::Integer(1)),
    ("prefill_context_parallel_size", Neutral::Integer(1)),
    ("enable_lora", Neutral::Bool(false)),
    ("calculate_kv_scales", Neutral::Bool(false)),
    ("enable_eplb", Neutral::Bool(false)),
];

fn wrong_type(flag: Flag, expected: &'static str, value: &Value) -> FlagError {
    FlagError::WrongType {
        flag: flag.name(),
        expected,
        got: match value {
            Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
            other => other.type_name().to_owned(),
        },
    }
}

fn text(flag: Flag, value: &Value) -> Result<Option<String>, FlagError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        other => Err(wrong_type(flag, "a string", other)),
    }
}

fn integer(flag: Flag, value: &Value) -> Result<Option<i64>, FlagError> {
    if *value == Value::Null {
        return Ok(None);
    }
    let number = value
        .as_integer()
        .ok_or_else(|| wrong_type(flag, "a whole number", value))?;
    match i64::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(FlagError::OutOfRange {
            flag: flag.name(),
            got: number.to_string(),
        }),
    }
}

#[allow(clippy::cast_precision_loss)] // as Python's float() does
fn float(flag: Flag, value: &Value) -> Result<Option<f64>, FlagError> {
    match value {
        Value::Null => Ok(None),
        Value::Integer(number) => Ok(Some(*number as f64)),
        Value::Float(number) => Ok(Some(*number)),
        other => Err(wrong_type(flag, "a number", other)),
    }
}

fn boolean(flag: Flag, value: &Value) -> Result<Option<bool>, FlagError> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(on) => Ok(Some(*on)),
        other => Err(wrong_type(flag, "true or false", other)),
    }
}

/// The environment variables that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// `VLLM_KV_CACHE_LAYOUT`
    pub kv_cache_layout: Option<String>,
    /// `VLLM_ALLOW_LONG_MAX_MODEL_LEN`
    pub allow_long_max_model_len: bool,
    /// Variables that were set and have no rule here, by name.
    pub unmodelled: Vec<String>,
}

/// Variables that no decision about the KV cache looks at.
const UNTOUCHING_VARIABLES: [&str; 4] = [
    "VLLM_LOGGING_LEVEL",
    "VLLM_NO_USAGE_STATS",
    "VLLM_CACHE_ROOT",
    "VLLM_API_KEY",
];

impl Environment {
    /// Sets one variable. A `VLLM_` variable without a rule is remembered and
    /// refused by name; others are not vLLM's.
    pub fn set(&mut self, name: &str, value: &str) {
        match name {
            "VLLM_KV_CACHE_LAYOUT" => self.kv_cache_layout = Some(value.to_owned()),
            // mirrors `vllm/envs.py`: lower-cased, "1" or "true"
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN" => {
                self.allow_long_max_model_len =
                    matches!(value.trim().to_lowercase().as_str(), "1" | "true");
            }
            _ if name.starts_with("VLLM_") && !UNTOUCHING_VARIABLES.contains(&name) => {
                self.unmodelled.push(name.chars().take(80).collect());
            }
            _ => {}
        }
    }
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

    #[test]
    fn wrong_types_are_named() {
        let mut args = EngineArgs::default();
        assert_eq!(
            args.set(Flag::TensorParallelSize, &Value::String("8".into()))
                .unwrap_err()
                .to_string(),
            "tensor_parallel_size: expected a whole number, got \"8\""
        );
        assert_eq!(
            args.set(Flag::BlockSize, &Value::Integer(1 << 70))
                .unwrap_err()
                .to_string(),
            "block_size: 1180591620717411303424 is out of range"
        );
    }

    #[test]
    fn flags_without_a_rule_are_remembered() {
        let mut args = EngineArgs::default();
        args.set_by_name("speculative_config", &Value::Object(vec![]))
            .unwrap();
        args.set_by_name("pipeline_parallel_size", &Value::Integer(1))
            .unwrap();
        args.set_by_name("pipeline_parallel_size", &Value::Integer(2))
            .unwrap();
        args.set_by_name("seed", &Value::Integer(7)).unwrap();
        assert_eq!(
            args.unmodelled,
            ["speculative_config", "pipeline_parallel_size"]
        );
    }
}
