//! What the user passes.

use crate::flag::{Flag, FlagError, FlagKind};
use crate::python::{TypeProblem, lax_bool, lax_float, lax_int};
use crate::units::{TWO_TO_63, quoted};
use crate::value::Value;

/// What the user passes, by `EngineArgs` name; `None` is "not passed".
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // `Flag::help` says it
pub struct EngineArgs {
    pub kv_cache_dtype: Option<String>,
    pub tensor_parallel_size: Option<i64>,
    pub pipeline_parallel_size: Option<i64>,
    pub data_parallel_size: Option<i64>,
    pub enable_expert_parallel: Option<bool>,
    pub decode_context_parallel_size: Option<i64>,
    pub prefill_context_parallel_size: Option<i64>,
    pub cp_kv_cache_interleave_size: Option<i64>,
    pub dcp_kv_cache_interleave_size: Option<i64>,
    pub dcp_comm_backend: Option<String>,
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
    pub kv_cache_dtype_skip_layers: Option<Vec<String>>,
    pub mamba_block_size: Option<i64>,
    pub mamba_cache_dtype: Option<String>,
    pub mamba_ssm_cache_dtype: Option<String>,
    pub mamba_cache_mode: Option<String>,
    pub disable_sliding_window: Option<bool>,
    pub trust_remote_code: Option<bool>,
    /// `--speculative-config`, its JSON.
    pub speculative_config: Option<Value>,
    /// `--spec-method`, `--spec-model` and `--spec-tokens`, by what follows the dash.
    pub spec_flags: Vec<(&'static str, Value)>,
    /// Flags that were passed and have no rule here, by name.
    pub unmodelled: Vec<String>,
    /// Flags that decide nothing here, but that not every release has.
    pub idle: Vec<&'static str>,
    /// Values that are not of their flag's type, for vLLM's own message.
    pub(crate) wrong: Vec<WrongValue>,
}

/// A value that a config class does not take for its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WrongValue {
    pub flag: Flag,
    pub value: Value,
    pub problem: TypeProblem,
}

impl EngineArgs {
    /// Sets one flag as a keyword of `EngineArgs`: a string of digits is a
    /// number there, as pydantic has it; what it does not take is kept for
    /// vLLM's own message. Of `null`, vLLM makes "not passed" where that is the
    /// flag's default.
    pub fn set(&mut self, flag: Flag, value: &Value) -> Result<(), FlagError> {
        let is_list = matches!(value, Value::Array(_)) && flag.kind() == FlagKind::List;
        if matches!(value, Value::Array(_) | Value::Object(_)) && !is_list {
            return Err(wrong_type(flag, value));
        }
        self.clear(flag);
        if *value == Value::Null && flag.takes_null() {
            return Ok(());
        }
        match flag {
            Flag::KvCacheDtype => self.kv_cache_dtype = Some(text(flag, value)?),
            Flag::AttentionBackend => self.attention_backend = Some(text(flag, value)?),
            Flag::Dtype => self.dtype = Some(text(flag, value)?),
            Flag::DcpCommBackend => self.dcp_comm_backend = Some(text(flag, value)?),
            Flag::MambaCacheDtype => self.mamba_cache_dtype = Some(text(flag, value)?),
            Flag::MambaSsmCacheDtype => self.mamba_ssm_cache_dtype = Some(text(flag, value)?),
            Flag::MambaCacheMode => self.mamba_cache_mode = Some(text(flag, value)?),
            Flag::KvCacheDtypeSkipLayers => {
                self.kv_cache_dtype_skip_layers = self.words(flag, value)?;
            }
            Flag::GpuMemoryUtilization => {
                self.gpu_memory_utilization = self.lax(flag, value, lax_float(value))?;
            }
            Flag::EnableExpertParallel
            | Flag::EnablePrefixCaching
            | Flag::AsyncScheduling
            | Flag::EnforceEager
            | Flag::DisableSlidingWindow
            | Flag::TrustRemoteCode
            | Flag::DisableHybridKvCacheManager => {
                let on = self.lax(flag, value, lax_bool(value))?;
                if let Some(slot) = self.bool_slot(flag) {
                    *slot = on;
                }
            }
            Flag::TensorParallelSize
            | Flag::PipelineParallelSize
            | Flag::DataParallelSize
            | Flag::DecodeContextParallelSize
            | Flag::PrefillContextParallelSize
            | Flag::CpKvCacheInterleaveSize
            | Flag::DcpKvCacheInterleaveSize
            | Flag::MaxModelLen
            | Flag::MaxNumBatchedTokens
            | Flag::MaxNumSeqs
            | Flag::BlockSize
            | Flag::MambaBlockSize
            | Flag::NumGpuBlocksOverride
            | Flag::KvCacheMemoryBytes => {
                // a JSON reader leaves integers of more than 64 bits as floats
                if let Value::Float(number) = value
                    && number.fract() == 0.0
                    && number.abs() >= TWO_TO_63
                {
                    return Err(FlagError::OutOfRange {
                        flag: flag.name(),
                        got: "a number of more than 64 bits".to_owned(),
                    });
                }
                let number = self.lax(flag, value, lax_int(value))?;
                let number = number
                    .map(|number| {
                        i64::try_from(number).map_err(|_| FlagError::OutOfRange {
                            flag: flag.name(),
                            got: number.to_string(),
                        })
                    })
                    .transpose()?;
                if let Some(slot) = self.int_slot(flag) {
                    *slot = number;
                }
            }
        }
        Ok(())
    }

    /// Takes a flag away.
    pub fn clear(&mut self, flag: Flag) {
        self.wrong.retain(|wrong| wrong.flag != flag);
        if let Some(slot) = self.int_slot(flag) {
            *slot = None;
        } else if let Some(slot) = self.bool_slot(flag) {
            *slot = None;
        } else {
            match flag {
                Flag::KvCacheDtype => self.kv_cache_dtype = None,
                Flag::AttentionBackend => self.attention_backend = None,
                Flag::Dtype => self.dtype = None,
                Flag::DcpCommBackend => self.dcp_comm_backend = None,
                Flag::MambaCacheDtype => self.mamba_cache_dtype = None,
                Flag::MambaSsmCacheDtype => self.mamba_ssm_cache_dtype = None,
                Flag::MambaCacheMode => self.mamba_cache_mode = None,
                Flag::KvCacheDtypeSkipLayers => self.kv_cache_dtype_skip_layers = None,
                _ => self.gpu_memory_utilization = None,
            }
        }
    }

    /// A flag's value, as [`EngineArgs::set`] takes it; `None` if it is not passed, or was passed as what it does
    /// not take.
    #[must_use]
    pub fn passed(&self, flag: Flag) -> Option<Value> {
        // the slots are reached by a mutable borrow alone
        let mut own = self.clone();
        if let Some(slot) = own.int_slot(flag) {
            return slot.map(|number| Value::Integer(number.into()));
        }
        if let Some(slot) = own.bool_slot(flag) {
            return slot.map(Value::Bool);
        }
        let text = match flag {
            Flag::KvCacheDtype => own.kv_cache_dtype,
            Flag::AttentionBackend => own.attention_backend,
            Flag::Dtype => own.dtype,
            Flag::DcpCommBackend => own.dcp_comm_backend,
            Flag::MambaCacheDtype => own.mamba_cache_dtype,
            Flag::MambaSsmCacheDtype => own.mamba_ssm_cache_dtype,
            Flag::MambaCacheMode => own.mamba_cache_mode,
            Flag::KvCacheDtypeSkipLayers => {
                let words = own.kv_cache_dtype_skip_layers?.into_iter();
                return Some(Value::Array(words.map(Value::String).collect()));
            }
            _ => return own.gpu_memory_utilization.map(Value::Float),
        };
        text.map(Value::String)
    }

    fn int_slot(&mut self, flag: Flag) -> Option<&mut Option<i64>> {
        match flag {
            Flag::TensorParallelSize => Some(&mut self.tensor_parallel_size),
            Flag::PipelineParallelSize => Some(&mut self.pipeline_parallel_size),
            Flag::DataParallelSize => Some(&mut self.data_parallel_size),
            Flag::DecodeContextParallelSize => Some(&mut self.decode_context_parallel_size),
            Flag::PrefillContextParallelSize => Some(&mut self.prefill_context_parallel_size),
            Flag::CpKvCacheInterleaveSize => Some(&mut self.cp_kv_cache_interleave_size),
            Flag::DcpKvCacheInterleaveSize => Some(&mut self.dcp_kv_cache_interleave_size),
            Flag::MaxModelLen => Some(&mut self.max_model_len),
            Flag::MaxNumBatchedTokens => Some(&mut self.max_num_batched_tokens),
            Flag::MaxNumSeqs => Some(&mut self.max_num_seqs),
            Flag::BlockSize => Some(&mut self.block_size),
            Flag::NumGpuBlocksOverride => Some(&mut self.num_gpu_blocks_override),
            Flag::KvCacheMemoryBytes => Some(&mut self.kv_cache_memory_bytes),
            Flag::MambaBlockSize => Some(&mut self.mamba_block_size),
            _ => None,
        }
    }

    fn bool_slot(&mut self, flag: Flag) -> Option<&mut Option<bool>> {
        match flag {
            Flag::EnableExpertParallel => Some(&mut self.enable_expert_parallel),
            Flag::EnablePrefixCaching => Some(&mut self.enable_prefix_caching),
            Flag::AsyncScheduling => Some(&mut self.async_scheduling),
            Flag::EnforceEager => Some(&mut self.enforce_eager),
            Flag::DisableHybridKvCacheManager => Some(&mut self.disable_hybrid_kv_cache_manager),
            Flag::DisableSlidingWindow => Some(&mut self.disable_sliding_window),
            Flag::TrustRemoteCode => Some(&mut self.trust_remote_code),
            _ => None,
        }
    }

    /// A list of words; anything but a list is kept for vLLM's message.
    fn words(&mut self, flag: Flag, value: &Value) -> Result<Option<Vec<String>>, FlagError> {
        let Value::Array(items) = value else {
            return self.lax(flag, value, Err(TypeProblem::NOT_A_LIST));
        };
        items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(|| wrong_type(flag, value))
    }

    /// Keeps a value that pydantic does not take for its message. vLLM itself
    /// computes with the two limits of a step before pydantic sees them, so
    /// what happens to nonsense there is not modelled.
    fn lax<T>(
        &mut self,
        flag: Flag,
        value: &Value,
        converted: Result<T, TypeProblem>,
    ) -> Result<Option<T>, FlagError> {
        let computed = matches!(flag, Flag::MaxNumBatchedTokens | Flag::MaxNumSeqs)
            // … and compares the stages with 1, which takes any number
            || (flag == Flag::PipelineParallelSize
                && matches!(value, Value::String(_) | Value::Null));
        match converted {
            Ok(_) if computed && value.as_integer().is_none() => Err(wrong_type(flag, value)),
            Ok(converted) => Ok(Some(converted)),
            Err(_) if computed => Err(wrong_type(flag, value)),
            // pydantic shortens what it shows of long input
            Err(_) if value.as_str().is_some_and(|text| text.len() > 40) => {
                Err(wrong_type(flag, value))
            }
            Err(problem) => {
                self.wrong.push(WrongValue {
                    flag,
                    value: value.clone(),
                    problem,
                });
                Ok(None)
            }
        }
    }

    /// The drafter that is named, by path or by repository.
    pub fn draft_model(&self) -> Option<&str> {
        self.drafting("model")
    }

    /// How tokens are drafted, as it is spelled.
    pub fn draft_method(&self) -> Option<&str> {
        self.drafting("method")
    }

    /// A text of `speculative_config`, or of its short flag.
    fn drafting(&self, key: &str) -> Option<&str> {
        let config = self.speculative_config.as_ref();
        let short = self.spec_flags.iter().find(|(name, _)| *name == key);
        config
            .and_then(|config| config.get_set(key))
            .or(short.map(|(_, value)| value))
            .and_then(Value::as_str)
    }

    /// Sets a flag by name. One without a rule is remembered and refused by
    /// name, unless its value is what vLLM does anyway or it cannot touch the
    /// KV cache.
    pub fn set_by_name(&mut self, name: &str, value: &Value) -> Result<(), FlagError> {
        if let Ok(flag) = name.parse() {
            return self.set(flag, value);
        }
        if name == SPECULATIVE_CONFIG {
            self.speculative_config = (*value != Value::Null).then(|| value.clone());
            return Ok(());
        }
        if let Some((_, key)) = SPEC_FLAGS.iter().find(|(flag, _)| *flag == name) {
            self.spec_flags.retain(|(known, _)| known != key);
            if *value != Value::Null {
                self.spec_flags.push((key, value.clone()));
            }
            return Ok(());
        }
        if name == Q_REPLICATE && matches!(value, Value::Bool(_) | Value::Null) {
            self.idle.push(Q_REPLICATE);
            return Ok(());
        }
        let untouched = *value == Value::Null
            || UNTOUCHING_FLAGS.contains(&name)
            || (SWITCHES.contains(&name) && *value == Value::Bool(false))
            // of every model that generates text, it is vLLM's own choice
            || (name == "enable_chunked_prefill" && *value == Value::Bool(true));
        if !untouched {
            self.unmodelled.push(name.chars().take(80).collect());
        }
        Ok(())
    }
}

/// The flag that describes a drafter.
pub const SPECULATIVE_CONFIG: &str = "speculative_config";

/// Its parts that are flags of their own.
const SPEC_FLAGS: [(&str, &str); 3] = [
    ("spec_method", "method"),
    ("spec_model", "model"),
    ("spec_tokens", "tokens"),
];
/// Copies a projection's weights under decode context parallelism (since 0.29).
const Q_REPLICATE: &str = "dcp_q_replicate";

/// Flags of `EngineArgs` that no decision about the KV cache looks at.
const UNTOUCHING_FLAGS: [&str; 26] = [
    "model",
    "served_model_name",
    "tokenizer",
    "tokenizer_mode",
    "skip_tokenizer_init",
    "allowed_local_media_path",
    "download_dir",
    "load_format",
    "revision",
    "tokenizer_revision",
    "seed",
    "disable_log_stats",
    "enable_log_requests",
    "generation_config",
    "override_generation_config",
    "use_tqdm_on_load",
    "hf_token",
    "code_revision",
    "ignore_patterns",
    "allowed_media_domains",
    "reasoning_parser",
    "max_logprobs",
    "logprobs_mode",
    "otlp_traces_endpoint",
    "show_hidden_metrics_for_version",
    "collect_detailed_traces",
];

/// Flags without a rule that have nothing to rule where they are off.
const SWITCHES: [&str; 3] = ["enable_lora", "calculate_kv_scales", "enable_eplb"];

fn wrong_type(flag: Flag, value: &Value) -> FlagError {
    FlagError::WrongType {
        flag: flag.name(),
        expected: match flag.kind() {
            FlagKind::Text => "a string",
            FlagKind::Integer | FlagKind::HumanInteger => "a whole number",
            FlagKind::Float => "a number",
            FlagKind::Bool => "true or false",
            FlagKind::List => "a list of strings",
        },
        got: match value {
            Value::String(text) => quoted(&text.chars().take(40).collect::<String>()),
            other => other.type_name().to_owned(),
        },
    }
}

fn text(flag: Flag, value: &Value) -> Result<String, FlagError> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| wrong_type(flag, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_numbers_and_containers_are_not() {
        let mut args = EngineArgs::default();
        args.set(Flag::TensorParallelSize, &Value::String("8".into()))
            .unwrap();
        assert_eq!(args.tensor_parallel_size, Some(8));
        assert_eq!(
            args.set(Flag::TensorParallelSize, &Value::Array(vec![]))
                .unwrap_err()
                .to_string(),
            "tensor_parallel_size: expected a whole number, got an array"
        );
        assert_eq!(
            args.set(Flag::BlockSize, &Value::Integer(1 << 70))
                .unwrap_err()
                .to_string(),
            "block_size: 1180591620717411303424 is out of range"
        );
    }

    #[test]
    fn a_flag_can_be_taken_away() {
        for flag in Flag::ALL {
            let mut args = EngineArgs::default();
            for value in [Value::String("x".into()), Value::Integer(1)] {
                let _ = args.set(flag, &value);
                args.clear(flag);
                assert_eq!(args, EngineArgs::default(), "{flag}");
            }
        }
    }

    #[test]
    fn flags_without_a_rule_are_remembered() {
        let mut args = EngineArgs::default();
        args.set_by_name("lora_modules", &Value::Object(vec![]))
            .unwrap();
        for on in [false, true] {
            args.set_by_name("enable_lora", &Value::Bool(on)).unwrap();
        }
        args.set_by_name("seed", &Value::Integer(7)).unwrap();
        assert_eq!(args.unmodelled, ["lora_modules", "enable_lora"]);
    }
}
