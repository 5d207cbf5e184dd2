//! The checks themselves, each with vLLM's text.

use super::batch::BatchLimits;
use super::lines;
use crate::args::EngineArgs;
use crate::dtype::{CacheDtype, TorchDtype};
use crate::error::{Refusal, Stage};
use crate::flag::Flag;
use crate::model::Common;
use crate::python::{Bound, FieldErrors, repr, repr_list};
use crate::release::{Profile, UnknownDtype};
use crate::request::Request;
use crate::speculation::Speculation;
use crate::trace::Trace;
use crate::value::Value;

pub(super) fn invalid(message: impl Into<String>) -> Box<Refusal> {
    Refusal::raised(Stage::Config, "ValidationError", message)
}

/// A class's fields in its order: what is of the wrong type, then what
/// `bound` finds out of bounds.
pub(super) fn check_class(
    class: &'static str,
    args: &EngineArgs,
    fields: &[Flag],
    mut bound: impl FnMut(Flag, &mut FieldErrors),
) -> Result<(), Box<Refusal>> {
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
pub(super) fn at_least(errors: &mut FieldErrors, field: &str, value: Option<i64>, least: i64) {
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
pub(crate) fn model_fields(args: &EngineArgs) -> Result<(), Box<Refusal>> {
    let fields = [
        Flag::TrustRemoteCode,
        Flag::Dtype,
        Flag::MaxModelLen,
        Flag::EnforceEager,
        Flag::DisableSlidingWindow,
    ];
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

/// Code of the model's repository is run only where the user says so; vLLM then
/// names the repository, which is not known here. Mirrors transformers'
/// `dynamic_module_utils.py` `resolve_trust_remote_code`.
pub(crate) fn own_code(args: &EngineArgs, model: &Common) -> Result<(), Box<Refusal>> {
    if !model.own_code || args.trust_remote_code == Some(true) {
        return Ok(());
    }
    Err(invalid(
        "The repository <model> contains custom code which must be executed to correctly load the \
         model. You can inspect the repository content at https://hf.co/<model> .\n You can \
         inspect the repository content at https://hf.co/<model>.\nPlease pass the argument \
         `trust_remote_code=True` to allow custom code to be run.",
    ))
}

/// `--dtype`, or the model's own; float32 is run as bfloat16 unless asked for.
/// Mirrors `vllm/config/model.py` `_get_and_verify_dtype`.
pub(super) fn model_dtype(args: &EngineArgs, model: &Common) -> Result<ModelDtype, Box<Refusal>> {
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

/// Bounds of `vllm/config/cache.py` `CacheConfig`.
pub(super) fn cache_fields(args: &EngineArgs, profile: &Profile) -> Result<(), Box<Refusal>> {
    let utilization = args.gpu_memory_utilization;
    if utilization.is_some_and(|fraction| !fraction.is_finite()) {
        return Err(Box::new(Refusal::BadCase(
            "gpu_memory_utilization: expected a finite number".into(),
        )));
    }
    let fields = [
        Flag::BlockSize,
        Flag::GpuMemoryUtilization,
        Flag::NumGpuBlocksOverride,
        Flag::EnablePrefixCaching,
        Flag::KvCacheDtypeSkipLayers,
        Flag::MambaBlockSize,
        Flag::MambaCacheDtype,
        Flag::MambaSsmCacheDtype,
        Flag::MambaCacheMode,
        Flag::KvCacheMemoryBytes,
    ];
    check_class("CacheConfig", args, &fields, |flag, errors| match flag {
        Flag::BlockSize if profile.bounds_sizes => positive(errors, flag, args.block_size),
        Flag::MambaBlockSize => positive(errors, flag, args.mamba_block_size),
        Flag::MambaCacheDtype => state_dtype(errors, flag, args.mamba_cache_dtype.as_deref()),
        Flag::MambaSsmCacheDtype => {
            state_dtype(errors, flag, args.mamba_ssm_cache_dtype.as_deref());
        }
        Flag::MambaCacheMode => {
            let choices = profile.mamba_mode.choices();
            let mode = args.mamba_cache_mode.as_deref();
            if let Some(mode) = mode.filter(|mode| !choices.is_empty() && !choices.contains(mode)) {
                let value = Value::String(mode.to_owned());
                errors.not_a_literal(flag.name(), choices, &value);
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

/// An integer field above 0.
fn positive(errors: &mut FieldErrors, flag: Flag, value: Option<i64>) {
    if let Some(value) = value.filter(|value| *value <= 0) {
        let value = Value::Integer(value.into());
        errors.out_of_bounds(flag.name(), Bound::GreaterThan(0), &value);
    }
}

/// `vllm/config/cache.py` `MambaDType`
fn state_dtype(errors: &mut FieldErrors, flag: Flag, name: Option<&str>) {
    if let Some(name) = name.filter(|name| StateDtype::parse(name).is_none()) {
        let value = Value::String(name.to_owned());
        errors.not_a_literal(flag.name(), &StateDtype::CHOICES, &value);
    }
}

/// `--mamba-cache-dtype` and `--mamba-ssm-cache-dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateDtype {
    /// `auto`
    #[default]
    Auto,
    /// `float32`
    Float32,
    /// `float16`
    Float16,
    /// `bfloat16`
    Bfloat16,
}

impl StateDtype {
    /// Every spelling, in vLLM's order.
    const CHOICES: [&str; 4] = ["auto", "float32", "float16", "bfloat16"];

    fn parse(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "float32" => Some(Self::Float32),
            "float16" => Some(Self::Float16),
            "bfloat16" => Some(Self::Bfloat16),
            _ => None,
        }
    }

    /// As asked; the checks have found it to be a choice.
    pub(super) fn asked(name: Option<&str>) -> Self {
        name.and_then(Self::parse).unwrap_or_default()
    }

    /// The spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// The type of an element, unless it follows something else.
    pub const fn torch(self) -> Option<TorchDtype> {
        match self {
            Self::Auto => None,
            Self::Float32 => Some(TorchDtype::Float32),
            Self::Float16 => Some(TorchDtype::Float16),
            Self::Bfloat16 => Some(TorchDtype::Bfloat16),
        }
    }
}

/// Mirrors `vllm/config/vllm.py` `VllmConfig.validate_mamba_block_size`.
pub(super) fn mamba_block_size(args: &EngineArgs, max_model_len: u64) -> Result<(), Box<Refusal>> {
    let differs = args
        .mamba_block_size
        .is_some_and(|size| u64::try_from(size) != Ok(max_model_len));
    if differs && args.enable_prefix_caching == Some(false) {
        return Err(invalid(
            "--mamba-block-size can only be set with --enable-prefix-caching",
        ));
    }
    Ok(())
}

/// Whether windows are to be kept as if they were full attention: chunks may
/// only have blocks of their own where the environment allows it, and no drafter
/// reads the target's states.
/// Mirrors `vllm/config/vllm.py` `VllmConfig.__post_init__`.
pub(super) fn hybrid_manager_off(
    request: &Request,
    model: &Common,
    speculation: Option<&Speculation>,
    trace: &mut Trace,
) -> Result<bool, Box<Refusal>> {
    let reads_states = speculation.is_some_and(|drafts| drafts.method.reads_states());
    let must = model.attention_chunk_size.is_some()
        && (reads_states || request.env.hybrid_chunks_disallowed);
    if must && !reads_states {
        lines::slow_chunks(trace);
    }
    match request.args.disable_hybrid_kv_cache_manager {
        None => Ok(must),
        Some(false) if must => Err(invalid(format!(
            "Hybrid KV cache manager was explicitly enabled but is not supported in this \
             configuration. Consider omitting the {} flag to let vLLM decide automatically.",
            request.release.profile().hybrid_manager_flag
        ))),
        Some(off) => Ok(off),
    }
}

/// Through 0.31 the layers to skip are sorted as numbers under a packed dtype.
/// Mirrors `vllm/engine/arg_utils.py` `EngineArgs.create_engine_config`.
pub(super) fn skipped_numbers(
    args: &EngineArgs,
    dtype: CacheDtype,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    if !profile.sorts_skipped_as_numbers || !dtype.skips_boundary_layers() {
        return Ok(());
    }
    let skipped = args.kv_cache_dtype_skip_layers.iter().flatten();
    match skipped
        .into_iter()
        .find(|layer| layer.trim().parse::<i64>().is_err())
    {
        None => Ok(()),
        Some(layer) => Err(Refusal::raised(
            Stage::Config,
            "ValueError",
            format!("invalid literal for int() with base 10: {}", repr(layer)),
        )),
    }
}

/// The spelling, as the parser or `CacheConfig._validate_cache_dtype` takes it.
pub(super) fn cache_dtype(
    args: &EngineArgs,
    profile: &Profile,
) -> Result<CacheDtype, Box<Refusal>> {
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

/// `vllm/config/scheduler.py` `SchedulerConfig`; `made` is told of the tokens once it
/// is made, which is before they are held against the requests.
pub(super) fn scheduler(
    args: &EngineArgs,
    batch: &BatchLimits,
    made: impl FnOnce(u64),
) -> Result<(u64, u64), Box<Refusal>> {
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
    let narrow = |value| u64::try_from(value).map_err(|_| Refusal::TooLarge);
    made(narrow(tokens)?);
    if args.max_num_seqs.is_some() && tokens < seqs {
        return Err(invalid(format!(
            "max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs \
             ({seqs})."
        )));
    }
    Ok((narrow(tokens)?, narrow(seqs)?))
}

/// A float cache of another type than the model's.
/// Mirrors `vllm/config/vllm.py` `VllmConfig._reject_mismatched_float_kv_cache`.
pub(super) fn float_cache(
    dtype: CacheDtype,
    model: ModelDtype,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
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

/// Methods of quantisation, in vLLM's order, with what stands for `fp8` on
/// DeepSeek V4. Mirrors `vllm/model_executor/layers/quantization/__init__.py`.
const QUANT_METHODS: [&str; 30] = [
    "awq",
    "auto_awq",
    "fp8",
    "fbgemm_fp8",
    "fp_quant",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mxfp8",
    "modelopt_mixed",
    "auto_gptq",
    "gptq",
    "gptq_marlin",
    "awq_marlin",
    "humming",
    "compressed-tensors",
    "experts_int8",
    "quark",
    "moe_wna16",
    "torchao",
    "inc",
    "mxfp4",
    "gpt_oss_mxfp4",
    "deepseek_v4_fp8",
    "online",
    "fp8_per_tensor",
    "fp8_per_block",
    "fp8_per_channel",
    "int8_per_channel_weight_only",
    "nvfp4_per_token",
    "mxfp8",
];

/// Mirrors `vllm/config/model.py` `ModelConfig._verify_quantization`.
pub(super) fn quant_method(model: &Common) -> Result<(), Box<Refusal>> {
    match model.quant_method.as_deref() {
        Some(method) if !QUANT_METHODS.contains(&method) => Err(invalid(format!(
            "Unknown quantization method: {method}. Must be one of {}.",
            repr_list(QUANT_METHODS)
        ))),
        _ => Ok(()),
    }
}

/// An fp8 checkpoint must say how activations are quantised, through 0.32 in words.
/// Mirrors `vllm/model_executor/layers/quantization/fp8.py` `Fp8Config`.
pub(super) fn activation_scheme(model: &Common, profile: &Profile) -> Result<(), Box<Refusal>> {
    if model.quant_method.as_deref() != Some("fp8") {
        return Ok(());
    }
    match model.activation_scheme.as_deref() {
        Some("dynamic") => Ok(()),
        Some("static") if model.weights.fp8_block.is_none() => Ok(()),
        Some("static") => Err(invalid(
            "The block-wise quantization only supports dynamic activation scheme for now, but got \
             static activation scheme.",
        )),
        Some(scheme) => Err(invalid(format!("Unsupported activation scheme {scheme}"))),
        None if profile.wants_activation_scheme => Err(invalid(
            "Cannot find any of ['activation_scheme'] in the model's quantization config.",
        )),
        None if model.weights.fp8_block.is_some() => Ok(()),
        None => Err(Refusal::not_modelled(
            "an fp8 checkpoint without `activation_scheme` and `weight_block_size` is not modelled",
        )),
    }
}

/// Dtypes that the quantisation takes. Mirrors `vllm/config/vllm.py`
/// `VllmConfig._get_quantization_config`.
pub(super) fn quantised_dtype(dtype: ModelDtype, model: &Common) -> Result<(), Box<Refusal>> {
    let Some(method) = model.quant_method.as_deref() else {
        return Ok(());
    };
    let dtype = dtype.as_str();
    // hooks name these anew: `vllm/model_executor/models/config.py`
    let (name, takes): (_, &[_]) = match (model.architecture.as_str(), method) {
        ("DeepseekV4ForCausalLM", "fp8") => ("deepseek_v4_fp8", &["bfloat16", "float16"]),
        ("GptOssForCausalLM", "mxfp4") => ("gpt_oss_mxfp4", &["bfloat16"]),
        ("KimiK3ForConditionalGeneration", "compressed-tensors" | "mxfp4") => {
            ("mxfp4", &["bfloat16"])
        }
        (_, method) if dtype == "float32" => {
            return Err(Refusal::not_modelled(format!(
                "dtype=float32 with quantisation {method} is not modelled"
            )));
        }
        _ => return Ok(()),
    };
    if takes.contains(&dtype) {
        return Ok(());
    }
    let takes: Vec<String> = takes.iter().map(|dtype| format!("torch.{dtype}")).collect();
    Err(invalid(format!(
        "torch.{dtype} is not supported for quantization method {name}. Supported dtypes: [{}]",
        takes.join(", ")
    )))
}

/// Mirrors `vllm/config/vllm.py` `VllmConfig.validate_nvfp4_kv_cache_with_mla`.
pub(super) fn nvfp4_with_mla(
    dtype: CacheDtype,
    model: &Common,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    if dtype.is_plain_nvfp4() && profile.trips_over_unnamed_text && model.has_unnamed_text {
        return Err(Refusal::not_modelled(format!(
            "{dtype} with {} on this release is not modelled: vLLM may stop with an IndexError",
            model.architecture
        )));
    }
    if !dtype.is_plain_nvfp4() || !model.use_mla {
        return Ok(());
    }
    let Some(instead) = profile.instead_of_nvfp4 else {
        return Ok(());
    };
    Err(invalid(format!(
        "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends. Please \
         use a different --kv-cache-dtype (e.g., {instead}) for MLA models such as DeepSeek."
    )))
}
