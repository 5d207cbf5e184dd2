//! The checks themselves, each with vLLM's text.

use super::batch::BatchLimits;
use crate::args::EngineArgs;
use crate::dtype::{CacheDtype, TorchDtype};
use crate::error::{Refusal, Stage};
use crate::flag::Flag;
use crate::model::{Common, Kind, Model};
use crate::python::{Bound, FieldErrors, repr, repr_list};
use crate::release::{Profile, UnknownDtype};
use crate::request::Request;
use crate::value::Value;

/// GPUs of one node. A case says nothing of the node; this is the oracle's.
const NODE_GPUS: i64 = 64;

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::raised(Stage::Config, "ValidationError", message)
}

/// A class's fields in its order: what is of the wrong type, then what
/// `bound` finds out of bounds.
fn check_class(
    class: &'static str,
    args: &EngineArgs,
    fields: &[Flag],
    mut bound: impl FnMut(Flag, &mut FieldErrors),
) -> Result<(), Refusal> {
    let mut errors = FieldErrors::new(class);
    for flag in fields {
        match args.wrong.iter().find(|wrong| wrong.flag == *flag) {
            Some(wrong) => errors.wrong_type(flag.name(), wrong.problem, &wrong.value),
            None => bound(*flag, &mut errors),
        }
    }
    errors.text().map_or(Ok(()), |text| Err(invalid(text)))
}

/// An integer field that must be at least `least`.
fn at_least(errors: &mut FieldErrors, field: &str, value: Option<i64>, least: i64) {
    if let Some(value) = value.filter(|value| *value < least) {
        errors.out_of_bounds(field, Bound::AtLeast(least), &Value::Integer(value.into()));
    }
}

/// The weights' and activations' dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelDtype {
    /// `bfloat16`
    Bfloat16,
    /// `float16`, `half`
    Float16,
    /// `float32`, `float`
    Float32,
}

impl ModelDtype {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
        }
    }

    /// As an element type.
    pub const fn torch(self) -> TorchDtype {
        match self {
            Self::Bfloat16 => TorchDtype::Bfloat16,
            Self::Float16 => TorchDtype::Float16,
            Self::Float32 => TorchDtype::Float32,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "bfloat16" => Some(Self::Bfloat16),
            "float16" | "half" => Some(Self::Float16),
            "float32" | "float" => Some(Self::Float32),
            _ => None,
        }
    }
}

/// `--dtype`'s choices, in vLLM's order.
const MODEL_DTYPES: [&str; 6] = ["auto", "half", "float16", "bfloat16", "float", "float32"];

/// Bounds and choices of `vllm/config/model.py` `ModelConfig`, before it opens
/// config.json.
pub(crate) fn model_fields(args: &EngineArgs) -> Result<(), Refusal> {
    let fields = [Flag::Dtype, Flag::MaxModelLen, Flag::EnforceEager];
    check_class("ModelConfig", args, &fields, |flag, errors| match flag {
        Flag::Dtype => {
            if let Some(name) = args
                .dtype
                .as_deref()
                .filter(|name| !MODEL_DTYPES.contains(name))
            {
                let value = Value::String(name.to_owned());
                errors.not_a_choice(flag.name(), &MODEL_DTYPES, "dtype", &value);
            }
        }
        Flag::MaxModelLen => at_least(errors, flag.name(), args.max_model_len, -1),
        _ => {}
    })
}

/// `--dtype`, or the model's own; float32 is run as bfloat16 unless asked for.
/// Mirrors `vllm/config/model.py` `_get_and_verify_dtype`.
pub(super) fn model_dtype(args: &EngineArgs, model: &Common) -> Result<ModelDtype, Refusal> {
    if let Some(dtype) = args.dtype.as_deref().and_then(ModelDtype::parse) {
        return Ok(dtype);
    }
    match model.dtype.as_deref() {
        // without a name vLLM looks into the checkpoint; all of these have bfloat16 there
        None | Some("bfloat16" | "float32") => Ok(ModelDtype::Bfloat16),
        Some("float16") => Ok(ModelDtype::Float16),
        Some(name) => Err(Refusal::not_modelled(format!(
            "config.json's dtype {name} is not modelled"
        ))),
    }
}

/// The longest request, and whether it is to be shortened to what fits.
/// Mirrors `vllm/config/model.py` `_get_and_verify_max_len` and
/// `ModelConfig.validate_model_config_after`.
pub(super) fn max_model_len(request: &Request, model: &Common) -> Result<(u64, bool), Refusal> {
    let asked = request.args.max_model_len;
    let derived = model.length.tokens;
    let length = match asked {
        None => return Ok((derived, false)),
        Some(-1) => return Ok((derived, true)),
        Some(length) => u64::try_from(length).unwrap_or(0),
    };
    if length > derived && !request.env.allow_long_max_model_len {
        let derived = format!("{derived}{}", if model.length.is_float { ".0" } else { "" });
        return Err(invalid(format!(
            "User-specified max_model_len ({length}) is greater than the derived max_model_len \
             (max_position_embeddings={derived} or model_max_length=None in model's \
             config.json). To allow overriding this maximum, set the env var \
             VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with \
             extreme caution. If the model uses relative position encoding (RoPE), positions \
             exceeding derived_max_model_len lead to nan. If the model uses absolute position \
             encoding, positions exceeding derived_max_model_len will cause a CUDA array \
             out-of-bounds error."
        )));
    }
    if length == 0 {
        return Err(invalid(
            "max_model_len must be a positive integer, got int: 0. Example: max_model_len=2048",
        ));
    }
    Ok((length, false))
}

/// Bounds of `vllm/config/cache.py` `CacheConfig`.
pub(super) fn cache_fields(args: &EngineArgs) -> Result<(), Refusal> {
    let utilization = args.gpu_memory_utilization;
    if utilization.is_some_and(|fraction| !fraction.is_finite()) {
        return Err(Refusal::BadCase(
            "gpu_memory_utilization: expected a finite number".into(),
        ));
    }
    let fields = [
        Flag::BlockSize,
        Flag::GpuMemoryUtilization,
        Flag::NumGpuBlocksOverride,
        Flag::EnablePrefixCaching,
        Flag::KvCacheMemoryBytes,
    ];
    check_class("CacheConfig", args, &fields, |flag, errors| match flag {
        Flag::BlockSize => {
            if let Some(size) = args.block_size.filter(|size| *size <= 0) {
                let value = Value::Integer(size.into());
                errors.out_of_bounds(flag.name(), Bound::GreaterThan(0), &value);
            }
        }
        Flag::GpuMemoryUtilization => {
            let value = utilization.map(Value::Float).unwrap_or_default();
            let shown = value.as_integer().map_or(value, Value::Integer);
            if utilization.is_some_and(|fraction| fraction > 1.0) {
                errors.out_of_bounds(flag.name(), Bound::AtMost(1), &shown);
            } else if utilization.is_some_and(|fraction| fraction <= 0.0) {
                errors.out_of_bounds(flag.name(), Bound::GreaterThan(0), &shown);
            }
        }
        _ => {}
    })
}

/// The spelling, as the parser or `CacheConfig._validate_cache_dtype` takes it.
pub(super) fn cache_dtype(args: &EngineArgs, profile: &Profile) -> Result<CacheDtype, Refusal> {
    let asked = args.kv_cache_dtype.as_deref().unwrap_or("auto");
    let known = asked
        .parse()
        .ok()
        .filter(|dtype| profile.cache_dtypes.contains(dtype));
    known.ok_or_else(|| {
        let names = profile.cache_dtypes.iter().map(|dtype| dtype.as_str());
        match profile.unknown_dtype {
            UnknownDtype::Config => invalid(format!(
                "Invalid kv_cache_dtype: {}. Valid values are: {}",
                repr(asked),
                repr_list(names)
            )),
            // argparse sorts; Python 3.12.8 and later do not quote the choices
            UnknownDtype::Parser => {
                let mut names: Vec<&str> = names.collect();
                names.sort_unstable();
                Refusal::raised(
                    Stage::Args,
                    "SystemExit",
                    format!(
                        "argument --kv-cache-dtype: invalid choice: {} (choose from {})",
                        repr(asked),
                        names.join(", ")
                    ),
                )
            }
        }
    })
}

/// `vllm/config/parallel.py` `ParallelConfig`.
pub(super) fn parallel(args: &EngineArgs) -> Result<(), Refusal> {
    let fields = [
        Flag::TensorParallelSize,
        Flag::DataParallelSize,
        Flag::EnableExpertParallel,
        Flag::DecodeContextParallelSize,
    ];
    check_class("ParallelConfig", args, &fields, |flag, errors| match flag {
        Flag::TensorParallelSize => at_least(errors, flag.name(), args.tensor_parallel_size, 1),
        Flag::DataParallelSize => {
            at_least(errors, flag.name(), args.data_parallel_size, 1);
            // a field of its own, which follows it
            at_least(
                errors,
                "data_parallel_size_local",
                args.data_parallel_size,
                0,
            );
        }
        Flag::DecodeContextParallelSize => {
            at_least(errors, flag.name(), args.decode_context_parallel_size, 1);
        }
        _ => {}
    })?;
    let tensor = args.tensor_parallel_size.unwrap_or(1);
    if tensor > NODE_GPUS {
        return Err(invalid(format!(
            "World size ({tensor}) is larger than the number of available GPUs ({NODE_GPUS}) in \
             this node. If this is intentional and you are using:\n- ray, set \
             '--distributed-executor-backend ray'.\n- multiprocessing, set '--nnodes' \
             appropriately."
        )));
    }
    let context = args.decode_context_parallel_size.unwrap_or(1);
    if tensor % context != 0 {
        return Err(invalid(format!(
            "tp_size={tensor} must be divisible by dcp_size={context}."
        )));
    }
    Ok(())
}

/// `vllm/config/scheduler.py` `SchedulerConfig`.
pub(super) fn scheduler(args: &EngineArgs, batch: &BatchLimits) -> Result<(u64, u64), Refusal> {
    let fields = [
        Flag::MaxNumBatchedTokens,
        Flag::MaxNumSeqs,
        Flag::DisableHybridKvCacheManager,
        Flag::AsyncScheduling,
    ];
    check_class("SchedulerConfig", args, &fields, |flag, errors| {
        let value = match flag {
            Flag::MaxNumBatchedTokens => batch.max_num_batched_tokens,
            Flag::MaxNumSeqs => batch.max_num_seqs,
            _ => return,
        };
        if value < 1 {
            errors.out_of_bounds(flag.name(), Bound::AtLeast(1), &Value::Integer(value));
        }
    })?;
    let BatchLimits {
        max_num_batched_tokens: tokens,
        max_num_seqs: seqs,
    } = *batch;
    if args.max_num_seqs.is_some() && tokens < seqs {
        return Err(invalid(format!(
            "max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs \
             ({seqs})."
        )));
    }
    let narrow = |value| u64::try_from(value).map_err(|_| Refusal::TooLarge);
    Ok((narrow(tokens)?, narrow(seqs)?))
}

/// A float cache of another type than the model's.
/// Mirrors `vllm/config/vllm.py` `VllmConfig._reject_mismatched_float_kv_cache`.
pub(super) fn float_cache(
    dtype: CacheDtype,
    model: ModelDtype,
    profile: &Profile,
) -> Result<(), Refusal> {
    let float = matches!(dtype, CacheDtype::Float16 | CacheDtype::Bfloat16);
    let model = model.as_str();
    if !profile.checks_float_clash || !float || dtype.as_str() == model {
        return Ok(());
    }
    let or_own = if model == "float32" {
        String::new()
    } else {
        format!(" or `{model}`")
    };
    Err(invalid(format!(
        "kv_cache_dtype=\"{dtype}\" is incompatible with dtype=\"{model}\". Please set \
         `--kv-cache-dtype` to `auto`{or_own}."
    )))
}

/// Dtypes that the quantisation takes. Mirrors `vllm/config/vllm.py`
/// `VllmConfig._get_quantization_config`.
pub(super) fn quantised_dtype(dtype: ModelDtype, model: &Model) -> Result<(), Refusal> {
    match (dtype, &model.kind, model.common.quant_method.as_deref()) {
        (ModelDtype::Bfloat16 | ModelDtype::Float16, _, _) | (ModelDtype::Float32, _, None) => {
            Ok(())
        }
        (ModelDtype::Float32, Kind::DeepseekV4(_), Some("fp8")) => Err(invalid(
            "torch.float32 is not supported for quantization method deepseek_v4_fp8. Supported \
             dtypes: [torch.bfloat16, torch.float16]",
        )),
        (ModelDtype::Float32, _, Some(method)) => Err(Refusal::not_modelled(format!(
            "dtype=float32 with quantisation {method} is not modelled"
        ))),
    }
}

/// Heads over ranks. Mirrors `vllm/config/model.py`
/// `ModelConfig.verify_with_parallel_config`.
pub(super) fn heads(args: &EngineArgs, model: &Common) -> Result<(), Refusal> {
    let heads = model.num_attention_heads;
    let tensor = super::or_one(args.tensor_parallel_size);
    if !heads.is_multiple_of(tensor) {
        return Err(invalid(format!(
            "Total number of attention heads ({heads}) must be divisible by tensor parallel size \
             ({tensor})."
        )));
    }
    let context = super::or_one(args.decode_context_parallel_size);
    if context == 1 || model.use_mla {
        return Ok(());
    }
    let kv = model.num_key_value_heads;
    if tensor <= kv {
        return Err(invalid(format!(
            "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tensor}) \
             to be greater than the model's total number of KV heads ({kv}). Increase \
             `--tensor-parallel-size` or set `--decode-context-parallel-size 1`."
        )));
    }
    let most = tensor / kv;
    if context > most {
        return Err(invalid(format!(
            "`--decode-context-parallel-size` ({context}) exceeds the maximum supported value \
             ({most}) for `--tensor-parallel-size` ({tensor}) and {kv} model KV heads."
        )));
    }
    let queries = heads / kv;
    if !queries.is_multiple_of(context) {
        return Err(invalid(format!(
            "The model's number of query heads per KV head ({queries}) must be divisible by \
             `--decode-context-parallel-size` ({context}) for GQA/MQA."
        )));
    }
    Ok(())
}

/// Mirrors `vllm/config/vllm.py` `VllmConfig.validate_nvfp4_kv_cache_with_mla`.
pub(super) fn nvfp4_with_mla(
    dtype: CacheDtype,
    model: &Common,
    profile: &Profile,
) -> Result<(), Refusal> {
    if !dtype.is_plain_nvfp4() || !model.use_mla {
        return Ok(());
    }
    let instead = if profile.cache_dtypes.contains(&CacheDtype::Nvfp4DsMla) {
        "'fp8', 'auto', or 'nvfp4_ds_mla' with a sparse MLA backend"
    } else {
        "'fp8' or 'auto'"
    };
    Err(invalid(format!(
        "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. Please \
         use a different --kv-cache-dtype (e.g., {instead}) for MLA models such as DeepSeek."
    )))
}
