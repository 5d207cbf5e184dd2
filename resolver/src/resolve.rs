//! The pipeline: one direction, each step a pure function.

mod deepseek_v4;
mod rows;
mod stages;
mod weights;

use deepseek_v4::deepseek_v4;
use rows::{draft_layers, layer_rows};

use crate::backend::rules::Target;
use crate::config::{self, EngineConfig};
use crate::context_parallel::{Checks, Family};
use crate::error::{Outcome, Refusal, Stage, StartupError};
use crate::gpu::Arch;
use crate::layout::{self, KvCacheLayout};
use crate::memory::pinned;
use crate::model::decoder::{LayerKind, LinearKernel, WindowSource};
use crate::model::{Common, Decoder, Kind, Model, ModelError};
use crate::plan::{self, LayerRange, Plan};
use crate::release::{InFlight, MambaMode};
use crate::request::Request;
use crate::resolution::{Note, Resolution, SlotBytes};
use crate::spec;
use crate::spec::decoder::{Built, Context};
use crate::trace::Trace;
use crate::weights::{Rank, WeightBytes};
use crate::{advice, log, notes};

/// What vLLM would do with the KV cache, and why.
///
/// A pure function: the same request has the same answer, on every machine. Without a pool
/// ([`Request::available_memory`]) the answer has no [`capacity`](Resolution::capacity), and
/// [`Resolution::fit`] asks it for any pool afterwards, without planning anew:
///
/// ```
/// use kv_resolver::catalog::{find_gpu, find_model};
/// use kv_resolver::units::GIB;
/// use kv_resolver::{Outcome, Request, resolve};
///
/// let model = find_model("openai/gpt-oss-120b").expect("it is in the catalog");
/// let gpu = find_gpu("h200").expect("it is in the catalog").gpu();
/// let answer = resolve(&Request::new(serde_json::from_str(model.config_json)?, gpu))?;
/// assert!(answer.capacity.is_none());
///
/// let fit = answer.fit(40 * GIB)?;
/// assert_eq!(fit.requests.shown(), "7.89");
/// let refusal = answer.fit(GIB).unwrap_err(); // too little for one request of that length
/// assert_eq!(refusal.outcome(), Outcome::DoesNotFit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// vLLM's own refusal, with its stage, class and text, and what works instead;
/// or [`Refusal::NotModelled`] where there is no rule.
pub fn resolve(request: &Request) -> Result<Resolution, StartupError> {
    let mut trace = Trace::default();
    let mut notes = Vec::new();
    let model = read(request);
    match run(request, &model, &mut notes, &mut trace) {
        Ok(mut resolution) => {
            let (steps, lines) = trace.into_parts();
            resolution.notes = notes;
            resolution.log = log::by_process(lines, config::gpus(&request.args));
            resolution.trace = steps;
            Ok(resolution)
        }
        Err(refusal) => {
            notes::on_refusal(&refusal, request, &mut notes);
            let (steps, lines) = trace.into_parts();
            let lines = log::by_process(lines, config::gpus(&request.args));
            Err(StartupError {
                advice: advice::advise(request, &model, &refusal),
                log: log::before(&refusal, lines),
                refusal: *refusal,
                notes,
                trace: steps,
            })
        }
    }
}

/// The same without trace, notes and advice: for matrices and searches.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_quietly(request: &Request) -> Result<Resolution, Box<Refusal>> {
    resolve_read(request, &read(request))
}

/// A question's model, or why its config.json is not answered for.
pub(crate) type ReadModel = Result<Model, Box<ModelError>>;

/// Reads the model.
pub(crate) fn read(request: &Request) -> ReadModel {
    Model::from_config(&request.hf_config)
}

/// [`resolve_quietly`] of a question whose model is read: of many about one model.
pub(crate) fn resolve_read(
    request: &Request,
    model: &ReadModel,
) -> Result<Resolution, Box<Refusal>> {
    run(request, model, &mut Vec::new(), &mut Trace::silent())
}

fn run(
    request: &Request,
    model: &ReadModel,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Resolution, Box<Refusal>> {
    refuse_unmodelled(request)?;
    config::model_fields(&request.args)?;
    let model = model.as_ref().map_err(|error| match &**error {
        ModelError::UnknownToTransformers(_) => {
            Refusal::raised(Stage::Config, "ValidationError", error.to_string())
        }
        ModelError::UnknownToVllm(name) => config::unknown_architecture(name, request.release),
        other => Refusal::not_modelled(other.to_string()),
    })?;
    config::own_code(&request.args, &model.common)?;
    let arch = arch(request)?;
    let config = config::build(request, model, trace)?;
    stages::drafter_on_stages(request, &config)?;
    match &model.kind {
        Kind::DeepseekV4(facts) => {
            deepseek_v4(request, &model.common, facts, &config, arch, notes, trace)
        }
        Kind::Decoder(facts) => decoder(request, &model.common, facts, &config, arch, notes, trace),
    }
}

#[allow(clippy::too_many_lines)] // the pipeline, in its order
fn decoder(
    request: &Request,
    common: &Common,
    decoder: &Decoder,
    config: &EngineConfig,
    arch: Arch,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Resolution, Box<Refusal>> {
    let profile = request.release.profile();
    if !profile.models_all_families {
        return Err(Refusal::not_modelled(format!(
            "{} on vLLM {} is not modelled yet",
            common.architecture, request.release
        )));
    }
    if keeps_all_states(request, decoder, config) {
        return Err(Refusal::not_modelled(format!(
            "mamba_cache_mode=all of {} on vLLM {} is not modelled",
            common.architecture, request.release
        )));
    }
    let without;
    let decoder = if config.disable_sliding_window && decoder.has_windows() {
        if decoder.windows == WindowSource::Own {
            return Err(Refusal::not_modelled(format!(
                "disable_sliding_window on {} is not modelled",
                common.architecture
            )));
        }
        without = decoder.without_windows();
        &without
    } else {
        decoder
    };
    let mut checks = Checks {
        common,
        layers: if decoder.index_topk.is_some() {
            Family::Sparse
        } else {
            Family::Dense
        },
        config,
        cache_dtype: config.cache_dtype,
        profile,
        arch,
    };
    config::runner_line(config, trace);
    checks.before_model()?;
    let context = Context {
        common,
        decoder,
        whole: decoder,
        config,
        target: profile.on(arch),
        capability: request.gpu.capability,
        profile,
        drafts_for: None,
        drafts: true,
        non_causal: false,
    };
    spec::decoder::before_layers(&context)?;
    let ranges = stages::ranges(
        request.env.pp_layer_partition.as_deref(),
        common.num_hidden_layers,
        config.pipeline_parallel_size,
        trace,
    )?;
    let mut built = if ranges.len() == 1 {
        vec![spec::decoder::build(&context, notes, trace)?]
    } else {
        let mut built = Vec::with_capacity(ranges.len());
        for range in &ranges {
            stages::stage_with_experts(common, decoder, range)?;
            let stage = Context {
                decoder: &decoder.stage(range),
                drafts: built.len() + 1 == ranges.len(),
                ..context
            };
            // the first tells how; the others are like it
            let silent = &mut Trace::silent();
            let trace = if built.is_empty() {
                &mut *trace
            } else {
                silent
            };
            let layers = spec::decoder::build(&stage, notes, trace)?;
            stages::fed_by_tower(common, built.len(), range)?;
            built.push(layers);
        }
        once(notes);
        stages::drafter_is_last(config, ranges.len(), trace);
        built
    };
    if !profile.has_layouts {
        let requested = request.env.kv_cache_layout.as_deref();
        for stage in &built {
            layout::check_order_in_page(requested, &stage.backends, arch)?;
        }
    }
    let asked_late = notes::odd_turns(config, notes);
    if let Some(first) = built.first_mut() {
        first.concerns |= asked_late;
        checks.cache_dtype = first.cache_dtype;
    }
    let rank = Rank::of(request, common, config, profile, arch);
    let weights = weights::decoder(&rank, decoder, config.speculation.as_ref(), trace);
    let mut resolution = plan(request, config, (built, &ranges), &checks, notes, trace)?;
    resolution.weights = weights;
    resolution.makings.mla = decoder.mla;
    resolution.makings.states = spec::decoder::linear_states(&context);
    notes::on_any(request, config, &resolution, notes);
    Ok(resolution)
}

/// Whether every block of states is kept (through 0.31), which of the modelled
/// families Mamba 2 alone can: vLLM falls back to what it does by default.
/// Mirrors `vllm/model_executor/models/interfaces.py` `SupportsMambaPrefixCaching`.
fn keeps_all_states(request: &Request, decoder: &Decoder, config: &EngineConfig) -> bool {
    let can = decoder.layers.iter().any(|layer| {
        matches!(layer.kind, LayerKind::Linear(linear) if linear.kernel == LinearKernel::Mamba2)
    });
    let asks = request.args.mamba_cache_mode.as_deref() == Some("all");
    let may = request.release.profile().mamba_mode == MambaMode::MayBeAll;
    asks && may && can && config.enable_prefix_caching
}

/// Each note once, however many stages have made it.
fn once(notes: &mut Vec<Note>) {
    let mut seen: Vec<Note> = Vec::with_capacity(notes.len());
    for note in notes.drain(..) {
        if !seen.contains(&note) {
            seen.push(note);
        }
    }
    *notes = seen;
}

/// Whether the worker of some stage is known to refuse the plan.
fn worker_refuses(
    built: &Built,
    ranges: &[LayerRange],
    plan: &Plan,
    layout: Option<KvCacheLayout>,
    target: Target,
    notes: &mut Vec<Note>,
) -> Result<bool, Box<Refusal>> {
    let mut refuses = false;
    for (stage, sizing) in plan.sizing.stages.iter().enumerate() {
        let of_stage;
        let layers = if ranges.len() == 1 {
            &built.layers
        } else {
            of_stage = built.layers.of_stage(stage);
            &of_stage
        };
        let backends = &built.spec_backends;
        refuses |= spec::decoder::worker_concerns(
            layers,
            backends,
            target,
            layout,
            sizing.bytes_per_block,
            notes,
        )?;
    }
    if ranges.len() > 1 {
        once(notes);
    }
    if let Some((stage, misplaced)) = plan.misplaced {
        refuses = true;
        notes.push(notes::on_misplaced(stage, misplaced));
    }
    Ok(refuses)
}

/// From built layers to the answer. `built` are the stages, with each one's layers.
fn plan(
    request: &Request,
    config: &EngineConfig,
    (built, ranges): (Vec<Built>, &[LayerRange]),
    checks: &Checks,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Resolution, Box<Refusal>> {
    if built.len() > 1 && config.shares_tokens() {
        return Err(Refusal::not_modelled(
            "pipeline_parallel_size beside context parallelism is not modelled",
        ));
    }
    let layouts: Vec<_> = built.iter().map(|stage| stage.layouts.clone()).collect();
    let mut built = stages::join(built)?;
    let requested_layout = request.env.kv_cache_layout.as_deref();
    let profile = request.release.profile();
    let rows = layer_rows(&built.layers, profile.drafting.marks_layers)?;
    let drafted = draft_layers(&built.layers);
    let layout = if profile.has_layouts {
        stages::agree(&layouts)?;
        let candidates = layout::compact(std::mem::take(&mut built.layouts), &built.layers)?;
        Some(layout::resolve(requested_layout, &candidates, trace)?)
    } else {
        None
    };
    checks.before_plan(&built.spec_backends)?;
    let mut plan = plan::plan(
        &mut built.layers,
        ranges,
        layout,
        config,
        profile,
        pool_bytes(request),
        trace,
    )?;
    checks.after_plan(&plan, &built.spec_backends, trace)?;
    let tensors = plan
        .capacity
        .as_mut()
        .map(|capacity| &mut capacity.tensors[..]);
    rows.rename(&mut plan.groups, tensors.unwrap_or_default());
    for stage in &mut plan.stages {
        rows.rename(&mut [], &mut stage.tensors);
    }
    let target = profile.on(checks.arch);
    let worker_refuses = worker_refuses(&built, ranges, &plan, layout, target, notes)?;
    if !worker_refuses {
        plan::group_sizes(&plan, config, profile, trace);
    }
    let outcome = if built.concerns || worker_refuses {
        Outcome::Unverified
    } else if built.cache_dtype == config.requested_cache_dtype {
        Outcome::Works
    } else {
        Outcome::Becomes
    };
    Ok(Resolution {
        makings: rows.makings(&built, request, checks.arch),
        outcome,
        requested_cache_dtype: config.requested_cache_dtype,
        cache_dtype: built.cache_dtype,
        backends: built.backends,
        block_size: built.block_size,
        reported_block_size: plan.reported_block_size,
        kv_cache_layout: layout,
        max_model_len: plan.max_model_len,
        max_num_batched_tokens: config.max_num_batched_tokens,
        max_num_seqs: config.max_num_seqs,
        reserved_in_flight_tokens: config.max_in_flight_tokens,
        max_concurrent_batches: match profile.in_flight {
            InFlight::OneBatch {
                counts_batches: false,
            } => None,
            _ => Some(config.max_concurrent_batches),
        },
        max_in_flight_tokens: match profile.in_flight {
            InFlight::OneBatch { .. } => None,
            InFlight::EveryBatch => Some(config.max_in_flight_tokens),
        },
        gpu_memory_utilization: config.gpu_memory_utilization,
        bytes_per_block: plan.bytes_per_block,
        marginal_bytes_per_token: plan.marginal_bytes_per_token,
        fixed_bytes_per_request: plan.fixed_bytes_per_request,
        request_bytes: plan.request_bytes,
        slot_bytes: rows
            .list
            .iter()
            .map(|row| SlotBytes {
                role: row.role,
                bytes: row.slot_bytes,
                tokens_per_state: row.tokens_per_state,
            })
            .collect(),
        layers: rows.list,
        groups: plan.groups,
        weights: WeightBytes::default(),
        available_memory: pool_bytes(request),
        capacity: plan.capacity,
        stages: plan.stages,
        draft_layers: drafted,
        sizing: plan.sizing,
        notes: Vec::new(),
        log: Vec::new(),
        trace: Vec::new(),
    })
}

/// Flags and variables without a rule are refused by name, never ignored; a
/// flag that the release does not have is refused as `EngineArgs` does.
fn refuse_unmodelled(request: &Request) -> Result<(), Box<Refusal>> {
    let known = request.release.profile().engine_args;
    let flags = &request.args.unmodelled;
    let idle = request.args.idle.iter().copied();
    let named = flags.iter().map(String::as_str).chain(idle);
    if let Some(flag) = named.into_iter().find(|flag| !known.contains(flag)) {
        return Err(Refusal::raised(
            Stage::Config,
            "TypeError",
            format!("EngineArgs.__init__() got an unexpected keyword argument '{flag}'"),
        ));
    }
    if let Some((flag, _)) = request.args.spec_flags.first()
        && !known.contains("spec_method")
    {
        return Err(Refusal::raised(
            Stage::Config,
            "TypeError",
            format!("EngineArgs.__init__() got an unexpected keyword argument 'spec_{flag}'"),
        ));
    }
    if let Some(flag) = flags.first() {
        return Err(Refusal::not_modelled(format!("{flag} is not modelled yet")));
    }
    if let Some(variable) = request.env.unmodelled.first() {
        return Err(Refusal::not_modelled(format!(
            "the environment variable {variable} is not modelled"
        )));
    }
    Ok(())
}

fn arch(request: &Request) -> Result<Arch, Box<Refusal>> {
    request.gpu.capability.arch().ok_or_else(|| {
        Refusal::not_modelled(format!(
            "compute capability {} is not modelled; SM90, SM100/103 and SM120/121 are",
            request.gpu.capability
        ))
    })
}

/// The pool: what the case says, or what the flag pins; 0 pins nothing, for
/// `vllm/v1/worker/gpu_worker.py` `determine_available_memory` asks for its truth.
fn pool_bytes(request: &Request) -> Option<u64> {
    request.available_memory.or_else(|| pinned(request))
}
