//! The checks themselves, each with vLLM's text.

use super::batch::BatchLimits;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::model::Model;
use crate::python::{Bound, FieldErrors, repr, repr_list};
use crate::release::{Profile, UnknownDtype};
use crate::request::{EngineArgs, Request};
use crate::units::python_float;

/// GPUs of one node. A case says nothing of the node; this is the oracle's.
const NODE_GPUS: i64 = 64;

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::raised(Stage::Config, "ValidationError", message)
}

fn check_fields(errors: &FieldErrors) -> Result<(), Refusal> {
    errors.text().map_or(Ok(()), |text| Err(invalid(text)))
}

/// The weights' and activations' dtype: only bfloat16 has rules here.
pub(super) fn model_dtype(request: &Request, model: &Model) -> Result<(), Refusal> {
    let Model::DeepseekV4(model) = model;
    let asked = request.args.dtype.as_deref().unwrap_or("auto");
    match (asked, model.dtype.as_deref()) {
        ("bfloat16", _) | ("auto", Some("bfloat16")) => Ok(()),
        ("auto", other) => Err(Refusal::not_modelled(format!(
            "config.json's dtype is {}; DeepSeek V4 is modelled with bfloat16 only",
            other.unwrap_or("not given")
        ))),
        (other, _) => Err(Refusal::not_modelled(format!(
            "dtype={other} is not modelled; DeepSeek V4 is modelled with bfloat16 only"
        ))),
    }
}

/// The longest request, and whether it is to be shortened to what fits.
/// Mirrors `vllm/config/model.py` `_get_and_verify_max_len` and
/// `ModelConfig.validate_model_config_after`.
pub(super) fn max_model_len(request: &Request, model: &Model) -> Result<(u64, bool), Refusal> {
    let asked = request.args.max_model_len;
    let mut errors = FieldErrors::new("ModelConfig");
    errors.at_least("max_model_len", asked, -1);
    check_fields(&errors)?;
    let derived = model.max_position_embeddings();
    let length = match asked {
        None => return Ok((derived, false)),
        Some(-1) => return Ok((derived, true)),
        Some(length) => u64::try_from(length).unwrap_or(0),
    };
    if length > derived && !request.env.allow_long_max_model_len {
        #[allow(clippy::cast_precision_loss)] // vLLM prints a float there
        let derived = python_float(derived as f64);
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
    let mut errors = FieldErrors::new("CacheConfig");
    if let Some(size) = args.block_size.filter(|size| *size <= 0) {
        errors.out_of_bounds(
            "block_size",
            Bound::GreaterThan(0),
            &size.to_string(),
            "int",
        );
    }
    if let Some(fraction) = args.gpu_memory_utilization {
        if !fraction.is_finite() {
            return Err(Refusal::BadCase(
                "gpu_memory_utilization: expected a finite number".into(),
            ));
        }
        let (shown, kind) = if fraction.fract() == 0.0 && fraction.abs() < 1e15 {
            (format!("{fraction:.0}"), "int")
        } else {
            (python_float(fraction), "float")
        };
        if fraction > 1.0 {
            errors.out_of_bounds("gpu_memory_utilization", Bound::AtMost(1), &shown, kind);
        } else if fraction <= 0.0 {
            errors.out_of_bounds(
                "gpu_memory_utilization",
                Bound::GreaterThan(0),
                &shown,
                kind,
            );
        }
    }
    check_fields(&errors)
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
    let mut errors = FieldErrors::new("ParallelConfig");
    errors.at_least("tensor_parallel_size", args.tensor_parallel_size, 1);
    errors.at_least("data_parallel_size", args.data_parallel_size, 1);
    errors.at_least(
        "decode_context_parallel_size",
        args.decode_context_parallel_size,
        1,
    );
    check_fields(&errors)?;
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
    let mut errors = FieldErrors::new("SchedulerConfig");
    let fields = [
        ("max_num_batched_tokens", batch.max_num_batched_tokens),
        ("max_num_seqs", batch.max_num_seqs),
    ];
    for (field, value) in fields.into_iter().filter(|(_, value)| *value < 1) {
        errors.out_of_bounds(field, Bound::AtLeast(1), &value.to_string(), "int");
    }
    check_fields(&errors)?;
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
pub(super) fn float_cache(dtype: CacheDtype, profile: &Profile) -> Result<(), Refusal> {
    if profile.checks_float16_clash && dtype == CacheDtype::Float16 {
        return Err(invalid(
            "kv_cache_dtype=\"float16\" is incompatible with dtype=\"bfloat16\". Please set \
             `--kv-cache-dtype` to `auto` or `bfloat16`.",
        ));
    }
    Ok(())
}

/// Mirrors `vllm/config/model.py` `ModelConfig.verify_with_parallel_config`.
pub(super) fn heads(args: &EngineArgs, model: &Model) -> Result<(), Refusal> {
    let heads = model.num_attention_heads();
    let tensor = super::or_one(args.tensor_parallel_size);
    if heads % tensor != 0 {
        return Err(invalid(format!(
            "Total number of attention heads ({heads}) must be divisible by tensor parallel size \
             ({tensor})."
        )));
    }
    Ok(())
}

/// Mirrors `vllm/config/vllm.py` `VllmConfig.validate_nvfp4_kv_cache_with_mla`.
pub(super) fn nvfp4_with_mla(dtype: CacheDtype, profile: &Profile) -> Result<(), Refusal> {
    if !dtype.is_plain_nvfp4() {
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
