//! What vLLM fills in, and what it checks before it builds anything, in its
//! own order. Mirrors `vllm/engine/arg_utils.py` `EngineArgs.create_engine_config`
//! and the classes under `vllm/config/`.

mod architectures;
pub(crate) mod batch;
mod checks;
mod drafting;
pub(crate) mod length;
mod lines;
mod parallel;

pub(crate) use architectures::unknown_architecture;
pub use checks::{ModelDtype, StateDtype};
pub(crate) use checks::{model_fields, own_code};
pub(crate) use drafting::cache_dtype as drafter_dtype;
pub(crate) use lines::{gpus, runner as runner_line};
pub use parallel::{CommBackend, ContextParallel};

use crate::args::EngineArgs;
use crate::backend::AttentionBackend;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::gpu::Arch;
use crate::log;
use crate::model::decoder::{Boundary, DecoderLayer, DtypeHook, LayerKind, WindowSource};
use crate::model::{AutoCacheDtype, Common, Kind, Model};
use crate::release::Profile;
use crate::request::Request;
use crate::speculation::{self, Speculation};
use crate::trace::Trace;
use crate::units::mul;

/// `CacheConfig.gpu_memory_utilization`
pub(crate) const DEFAULT_GPU_MEMORY_UTILIZATION: f64 = 0.92;

/// The settled configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// As asked.
    pub requested_cache_dtype: CacheDtype,
    /// As the config leaves it; the model may write back another.
    pub cache_dtype: CacheDtype,
    /// Of the weights and activations.
    pub model_dtype: ModelDtype,
    /// Ranks that share each layer.
    pub tensor_parallel_size: u64,
    /// Stages that share out the layers.
    pub pipeline_parallel_size: u64,
    /// Ranks that a layer's experts are sliced over.
    pub expert_slices: u64,
    /// Ranks that share one request's KV in decoding.
    pub decode_context_parallel_size: u64,
    /// How ranks share one request, and when they are asked.
    pub context: ContextParallel,
    /// Tokens of the longest request.
    pub max_model_len: u64,
    /// Whether `max_model_len` is to be shortened to what fits.
    pub auto_fit: bool,
    /// Tokens in one step.
    pub max_num_batched_tokens: u64,
    /// Requests in one step.
    pub max_num_seqs: u64,
    /// Steps in flight.
    pub max_concurrent_batches: u64,
    /// Tokens that windows reserve for what is scheduled and not yet settled.
    pub max_in_flight_tokens: u64,
    /// Tokens in a block, if the user says so.
    pub block_size: Option<u64>,
    /// The backend that the user chose.
    pub attention_backend: Option<AttentionBackend>,
    /// Fraction of the GPU that vLLM may fill.
    pub gpu_memory_utilization: f64,
    /// Blocks to allocate, whatever fits.
    pub num_gpu_blocks_override: Option<i64>,
    /// Whether common prefixes are reused.
    pub enable_prefix_caching: bool,
    /// Windows are to be kept as if they were full attention.
    pub disable_hybrid_kv_cache_manager: bool,
    /// Layers that keep the model's dtype, by number or as `sliding_window`.
    pub skip_layers: Vec<String>,
    /// Of linear layers' states.
    pub state_dtype: StateDtype,
    /// Of their recurrent states, if apart.
    pub recurrent_dtype: StateDtype,
    /// No layer has a window.
    pub disable_sliding_window: bool,
    /// Tokens in a block of states, if the user says so.
    pub mamba_block_size: Option<i64>,
    /// The drafter.
    pub speculation: Option<Speculation>,
    /// Whether the second model runner serves the model.
    pub runs_second: bool,
}

impl EngineConfig {
    /// Whether several ranks share one request's KV.
    pub(crate) const fn shares_tokens(&self) -> bool {
        self.decode_context_parallel_size > 1 || self.context.prefill_ranks > 1
    }
}

/// Runs vLLM's checks in its order and fills in what the user leaves open.
pub(crate) fn build(
    request: &Request,
    model: &Model,
    trace: &mut Trace,
) -> Result<EngineConfig, Box<Refusal>> {
    let args = &request.args;
    let profile = request.release.profile();

    let (dtype, max_model_len, auto_fit) = of_model(request, &model.common, trace)?;
    strict_window(args, model, profile)?;
    let asked = checks::cache_dtype(args, profile)?;
    let mut cache_dtype = by_scheme(asked, model, trace);
    lines::cache_dtype(cache_dtype, profile, trace);
    lines::deprecated_mode(args, profile, trace);
    checks::cache_fields(args, profile)?;
    packed_hybrid(cache_dtype, model)?;
    checks::skipped_numbers(args, cache_dtype, profile)?;
    parallel::parallel(args, profile)?;
    let target = speculation::Target {
        model,
        max_model_len,
        tensor_parallel_size: or_one(args.tensor_parallel_size),
    };
    let mut speculation = speculation::settle(request, &target)?;
    let batch = batch::limits(request, &model.common, max_model_len);
    let (max_num_batched_tokens, max_num_seqs) = checks::scheduler(args, &batch, |tokens| {
        lines::chunked_prefill(tokens, request.usage, trace);
    })?;
    trace.step(
        Stage::Config,
        "vllm/engine/arg_utils.py",
        "EngineArgs.get_batch_defaults",
        || batch::explain(request, &batch),
    );
    let attention_backend = args
        .attention_backend
        .as_deref()
        .map(|name| AttentionBackend::parse(name, profile))
        .transpose()?
        .flatten();
    if hook(&mut cache_dtype, model, request, trace)?
        && profile.drafting.glm_draft_stays_auto
        && let Some(speculation) = &mut speculation
    {
        speculation.keep_auto();
    }
    lines::state_mode(args, &model.common, profile, trace);
    let disable_hybrid_kv_cache_manager =
        checks::hybrid_manager_off(request, &model.common, speculation.as_ref(), trace)?;
    checks::float_cache(cache_dtype, dtype, profile)?;
    parallel::heads(args, model, profile)?;
    checks::activation_scheme(&model.common, profile)?;
    checks::quantised_dtype(dtype, &model.common)?;
    parallel::prefill(args, &model.common, speculation.as_ref(), profile)?;
    let drafts = speculation.as_ref();
    let max_model_len = drafting::length(max_model_len, drafts, trace);
    let async_scheduling = drafting::async_scheduling(args, drafts, profile)?;
    lines::async_scheduling(async_scheduling, profile, trace);
    let limits = (max_num_batched_tokens, max_num_seqs);
    drafting::slots(limits, drafts, profile, trace)?;
    checks::nvfp4_with_mla(cache_dtype, &model.common, profile)?;
    checks::mamba_block_size(args, max_model_len)?;

    let (max_concurrent_batches, max_in_flight_tokens) = batch::in_flight(
        args,
        model,
        (async_scheduling, max_num_batched_tokens),
        profile,
        trace,
    )?;

    Ok(EngineConfig {
        requested_cache_dtype: asked,
        cache_dtype,
        model_dtype: dtype,
        tensor_parallel_size: or_one(args.tensor_parallel_size),
        pipeline_parallel_size: or_one(args.pipeline_parallel_size),
        expert_slices: expert_slices(args)?,
        decode_context_parallel_size: or_one(args.decode_context_parallel_size),
        context: ContextParallel::of(args, model, profile),
        max_model_len,
        auto_fit,
        max_num_batched_tokens,
        max_num_seqs,
        max_concurrent_batches,
        max_in_flight_tokens,
        block_size: args.block_size.and_then(|size| u64::try_from(size).ok()),
        attention_backend,
        gpu_memory_utilization: args
            .gpu_memory_utilization
            .unwrap_or(DEFAULT_GPU_MEMORY_UTILIZATION),
        num_gpu_blocks_override: args.num_gpu_blocks_override,
        enable_prefix_caching: args.enable_prefix_caching.unwrap_or(true),
        disable_hybrid_kv_cache_manager,
        skip_layers: skip_layers(args, asked, model),
        state_dtype: StateDtype::asked(args.mamba_cache_dtype.as_deref()),
        recurrent_dtype: StateDtype::asked(args.mamba_ssm_cache_dtype.as_deref()),
        disable_sliding_window: args.disable_sliding_window.unwrap_or(false),
        mamba_block_size: args.mamba_block_size,
        runs_second: lines::runs_second(
            model,
            speculation.as_ref(),
            or_one(args.prefill_context_parallel_size),
            profile,
        ),
        speculation,
    })
}

/// The weights' dtype, the longest request, and whether that is shortened to what fits.
/// Mirrors `vllm/config/model.py` `ModelConfig`.
fn of_model(
    request: &Request,
    model: &Common,
    trace: &mut Trace,
) -> Result<(ModelDtype, u64, bool), Box<Refusal>> {
    let args = &request.args;
    lines::architecture(model, trace);
    let dtype = checks::model_dtype(args, model)?;
    lines::model_dtype(dtype, model, trace);
    let (max_model_len, auto_fit) = length::max_model_len(request, model)?;
    lines::max_model_len(max_model_len, trace);
    checks::quant_method(model)?;
    trace.step(
        Stage::Config,
        "vllm/config/model.py",
        "_get_and_verify_max_len",
        || explain_length(args.max_model_len, max_model_len),
    );
    Ok((dtype, max_model_len, auto_fit))
}

/// What the checkpoint's scheme makes of `auto`.
fn by_scheme(asked: CacheDtype, model: &Model, trace: &mut Trace) -> CacheDtype {
    match (asked, model.common.auto_cache_dtype) {
        (CacheDtype::Auto, AutoCacheDtype::Scheme(scheme)) => {
            trace.step(
                Stage::Config,
                "vllm/utils/torch_utils.py",
                "resolve_kv_cache_dtype_string",
                || format!("the checkpoint's scheme makes auto {scheme}"),
            );
            scheme
        }
        (asked, _) => asked,
    }
}

fn explain_length(asked: Option<i64>, length: u64) -> String {
    match asked {
        None => format!("max_model_len is the model's own, {length}"),
        Some(-1) => format!(
            "max_model_len starts at the model's own, {length}, and is shortened to what fits"
        ),
        Some(_) => format!("max_model_len is {length}, as asked"),
    }
}

/// `--disable-sliding-window` empties a field of the model's class, which some
/// classes of transformers do not allow. Mirrors `vllm/config/model.py`
/// `ModelConfig.__post_init__`.
fn strict_window(args: &EngineArgs, model: &Model, profile: &Profile) -> Result<(), Box<Refusal>> {
    let strict = match &model.kind {
        Kind::Decoder(decoder) => decoder.windows == WindowSource::Strict,
        Kind::DeepseekV4(_) => profile.v4_window_is_strict,
    };
    if !strict || args.disable_sliding_window != Some(true) {
        return Ok(());
    }
    Err(Refusal::raised(
        Stage::Config,
        "StrictDataclassFieldValidationError",
        "Validation error for field 'sliding_window':\n    TypeError: Field 'sliding_window' \
         expected int, got NoneType (value: None)",
    ))
}

/// Layers that keep the model's dtype: those that are named, and with packed dtypes the first and last two, unless the
/// model is a hybrid. Mirrors `vllm/engine/arg_utils.py` `EngineArgs.create_engine_config` and
/// `vllm/model_executor/layers/quantization/turboquant/config.py` `TurboQuantConfig.get_boundary_skip_layers`.
fn skip_layers(args: &EngineArgs, cache_dtype: CacheDtype, model: &Model) -> Vec<String> {
    let mut names = args.kv_cache_dtype_skip_layers.clone().unwrap_or_default();
    let has_ends = match &model.kind {
        Kind::Decoder(decoder) => decoder.boundary == Boundary::Ends,
        Kind::DeepseekV4(_) => false,
    };
    if cache_dtype.skips_boundary_layers() && has_ends {
        let count = model.common.num_hidden_layers;
        let ends = 2.min(count / 2);
        names.extend(
            (0..ends)
                .chain(count - ends..count)
                .map(|number| number.to_string()),
        );
    }
    names
}

/// Packed dtypes look for the full-attention layers of a hybrid by its config's
/// lists. Mirrors `vllm/model_executor/layers/quantization/turboquant/config.py`
/// `TurboQuantConfig.get_boundary_skip_layers`.
fn packed_hybrid(cache_dtype: CacheDtype, model: &Model) -> Result<(), Box<Refusal>> {
    let listed = match &model.kind {
        Kind::Decoder(decoder) => match decoder.boundary {
            Boundary::Ends => true,
            Boundary::Unlisted => false,
            Boundary::None => {
                let attends = |layer: &DecoderLayer| matches!(layer.kind, LayerKind::Attention(_));
                decoder.layers.iter().any(attends)
            }
        },
        Kind::DeepseekV4(_) => true,
    };
    if listed || !cache_dtype.skips_boundary_layers() {
        return Ok(());
    }
    Err(Refusal::raised(
        Stage::Config,
        "NotImplementedError",
        "TurboQuant KV cache requires identifiable full-attention layers, but none were found in \
         the hybrid model config.",
    ))
}

/// What the architecture's own hook does to the cache dtype; whether it has made
/// `auto` fp8. Mirrors `vllm/model_executor/models/config.py`.
fn hook(
    cache_dtype: &mut CacheDtype,
    model: &Model,
    request: &Request,
    trace: &mut Trace,
) -> Result<bool, Box<Refusal>> {
    let Kind::Decoder(decoder) = &model.kind else {
        return Ok(false);
    };
    // `DeepseekV32ForCausalLM` asserts that its config has `index_topk`
    if decoder.dtype_hook == DtypeHook::BfloatIsAuto && decoder.index_topk.is_none() {
        return Err(checks::invalid(""));
    }
    let on_sm100 = request.gpu.capability.arch() == Some(Arch::Sm100)
        && request.release.profile().glm_is_fp8_on_sm100;
    let (becomes, line) = match (decoder.dtype_hook, *cache_dtype) {
        (DtypeHook::BfloatIsAuto, CacheDtype::Bfloat16) => {
            let line = "Using bfloat16 kv-cache for DeepSeekV3.2";
            (CacheDtype::Auto, line)
        }
        (DtypeHook::AutoIsFp8OnSm100, CacheDtype::Auto) if on_sm100 => {
            let line = "Using fp8 kv-cache for GlmMoeDsaForCausalLM on SM10x";
            (CacheDtype::Fp8E4m3, line)
        }
        _ => return Ok(false),
    };
    trace.say(log::CONFIG, || line.to_owned());
    trace.step(
        Stage::Config,
        "vllm/model_executor/models/config.py",
        "verify_and_update_config",
        || {
            format!(
                "{} takes {cache_dtype} as {becomes}",
                model.common.architecture
            )
        },
    );
    *cache_dtype = becomes;
    Ok(becomes == CacheDtype::Fp8E4m3)
}

/// With expert parallelism each rank holds whole experts.
/// Mirrors `vllm/model_executor/layers/fused_moe/config.py` `FusedMoEParallelConfig.make`.
fn expert_slices(args: &EngineArgs) -> Result<u64, Box<Refusal>> {
    let replicas = mul(
        or_one(args.prefill_context_parallel_size),
        or_one(args.data_parallel_size),
    )?;
    let ranks = mul(or_one(args.tensor_parallel_size), replicas)?;
    Ok(if args.enable_expert_parallel == Some(true) {
        1
    } else {
        ranks
    })
}

/// A size that the checks have found to be at least 1.
pub(crate) fn or_one(size: Option<i64>) -> u64 {
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(1)
}
