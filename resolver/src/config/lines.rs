//! The lines of the start-up log that the configuration prints.

use super::batch::is_second_runner;
use super::{EngineConfig, or_one};
use crate::args::EngineArgs;
use crate::backend::flash_attention::is_quantised;
use crate::dtype::CacheDtype;
use crate::log::{CONFIG, CONFIG_WARNING, MODEL};
use crate::model::{Common, Model};
use crate::release::{MambaMode, PcpRunner, Profile};
use crate::request::Usage;
use crate::speculation::{Runner, Speculation};
use crate::trace::Trace;

use super::checks::ModelDtype;

/// The step's tokens that `vllm serve` never speaks of.
const SWALLOWED_TOKENS: u64 = 2048;

/// GPUs of one engine.
pub(crate) fn gpus(args: &EngineArgs) -> u64 {
    [
        args.tensor_parallel_size,
        args.pipeline_parallel_size,
        args.prefill_context_parallel_size,
    ]
    .into_iter()
    .map(or_one)
    .fold(1, u64::saturating_mul)
}

/// Mirrors `vllm/config/model.py` `ModelConfig.__post_init__`.
pub(super) fn architecture(model: &Common, trace: &mut Trace) {
    trace.say(CONFIG, || {
        ["Resolved architecture: ", &model.architecture].concat()
    });
}

/// That the weights' dtype is another than config.json's; where it names none, vLLM
/// looks into the checkpoint, which is not read here.
/// Mirrors `vllm/config/model.py` `_get_and_verify_dtype`.
pub(super) fn model_dtype(dtype: ModelDtype, model: &Common, trace: &mut Trace) {
    let Some(own) = model.dtype.as_deref().filter(|own| *own != dtype.as_str()) else {
        return;
    };
    let (kind, verb) = match (dtype, own) {
        (ModelDtype::Float32, _) => (CONFIG, "Upcasting"),
        (_, "float32") => (CONFIG, "Downcasting"),
        _ => (CONFIG_WARNING, "Casting"),
    };
    trace.say(kind, || {
        [verb, " torch.", own, " to torch.", dtype.as_str(), "."].concat()
    });
}

/// Mirrors `vllm/config/model.py` `ModelConfig.get_and_verify_max_len`.
pub(super) fn max_model_len(tokens: u64, trace: &mut Trace) {
    trace.say(CONFIG, || {
        ["Using max model len ", &tokens.to_string()].concat()
    });
}

/// Mirrors `vllm/config/cache.py` `CacheConfig._validate_cache_dtype`.
pub(super) fn cache_dtype(dtype: CacheDtype, profile: &Profile, trace: &mut Trace) {
    let ends = if dtype.as_str().ends_with("per_token_head") {
        "Dynamic per-token-head scales will be computed at runtime."
    } else if is_quantised(dtype, profile.backend_rules) {
        "Meanwhile, it may cause accuracy drop without a proper scaling factor"
    } else {
        return;
    };
    trace.say(CONFIG, || {
        [
            "Using ",
            dtype.as_str(),
            " data type to store kv cache. It reduces the GPU memory footprint and boosts the \
             performance. ",
            ends,
        ]
        .concat()
    });
}

/// Mirrors `vllm/config/cache.py` `CacheConfig._validate_mamba_cache_mode`.
pub(super) fn deprecated_mode(args: &EngineArgs, profile: &Profile, trace: &mut Trace) {
    if profile.log.deprecates_all_states && args.mamba_cache_mode.as_deref() == Some("all") {
        trace.say(CONFIG_WARNING, || {
            "Mamba cache mode 'all' is deprecated and will be removed in an upcoming release. If \
             this is a problem, please open an issue at https://github.com/vllm-project/vllm/issues."
                .to_owned()
        });
    }
}

/// Mirrors `vllm/config/scheduler.py` `SchedulerConfig.__post_init__`. `vllm serve`
/// makes one of 2,048 tokens while it builds its parser, silently
/// (`vllm/engine/arg_utils.py` `_compute_kwargs`), and the line is logged once.
pub(super) fn chunked_prefill(tokens: u64, usage: Usage, trace: &mut Trace) {
    if usage == Usage::Server && tokens == SWALLOWED_TOKENS {
        return;
    }
    trace.say(CONFIG, || {
        [
            "Chunked prefill is enabled with max_num_batched_tokens=",
            &tokens.to_string(),
            ".",
        ]
        .concat()
    });
}

/// How a model with states caches them.
/// Mirrors `vllm/model_executor/models/config.py` `MambaModelConfig.verify_and_update_config`.
pub(super) fn state_mode(args: &EngineArgs, model: &Common, profile: &Profile, trace: &mut Trace) {
    if !model.is_hybrid {
        return;
    }
    let asked = match profile.mamba_mode {
        MambaMode::Ignored => None,
        MambaMode::MayBeAll | MambaMode::FollowsCaching => args.mamba_cache_mode.as_deref(),
    };
    let caches = args.enable_prefix_caching.unwrap_or(true);
    match (caches, asked) {
        (true, None | Some("none")) => trace.say(CONFIG, || {
            [
                "Mamba cache mode is set to 'align' for ",
                &model.architecture,
                " by default when prefix caching is enabled",
            ]
            .concat()
        }),
        // none of those that are answered here can
        (true, Some("all")) => trace.say(CONFIG_WARNING, || {
            "Hybrid or mamba-based model detected without support for prefix caching with Mamba \
             cache 'all' mode: falling back to 'align' mode."
                .to_owned()
        }),
        (false, Some("align" | "all")) => trace.say(CONFIG_WARNING, || {
            "Mamba cache mode is set to 'none' when prefix caching is disabled".to_owned()
        }),
        _ => {}
    }
}

/// Mirrors `vllm/config/vllm.py` `VllmConfig.__post_init__`.
pub(super) fn async_scheduling(is_on: bool, profile: &Profile, trace: &mut Trace) {
    if profile.log.announces_async {
        let state = if is_on { "enabled." } else { "disabled." };
        trace.say(CONFIG, || ["Asynchronous scheduling is ", state].concat());
    }
}

/// Mirrors `vllm/config/vllm.py` `VllmConfig.__post_init__`.
pub(super) fn slow_chunks(trace: &mut Trace) {
    trace.say(CONFIG_WARNING, || {
        "There is a latency regression when using chunked local attention with the hybrid KV \
         cache manager. Disabling it, by default. To enable it, set the environment \
         VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=1."
            .to_owned()
    });
}

/// Which runner the workers take.
/// Mirrors `vllm/config/vllm.py` `VllmConfig.use_v2_model_runner`.
pub(super) fn runs_second(
    model: &Model,
    speculation: Option<&Speculation>,
    prefill_ranks: u64,
    profile: &Profile,
) -> bool {
    let by_itself = match speculation {
        Some(drafts) => drafts.runner == Runner::V2,
        None => is_second_runner(model, profile),
    };
    by_itself || prefill_ranks > 1 && profile.context.runner != PcpRunner::First
}

/// Mirrors `vllm/v1/worker/gpu_worker.py` `Worker.init_device`.
pub(crate) fn runner(config: &EngineConfig, trace: &mut Trace) {
    if config.runs_second {
        trace.say(MODEL, || "Using V2 Model Runner".to_owned());
    }
}
