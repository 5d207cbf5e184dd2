//! A drafter's layers beside the target's.

use super::alignment::Block;
use super::backends::{self, Chosen};
use super::{Context, rows};
use crate::backend::block_size::DEFAULT_BLOCK_SIZE;
use crate::backend::layer::LayerBackend;
use crate::config::{EngineConfig, drafter_dtype};
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::model::decoder::{LayerKind, WindowSource};
use crate::model::draft::{Draft, Drafter};
use crate::model::{Common, Decoder};
use crate::python::{repr, repr_list};
use crate::resolution::Note;
use crate::spec::Layers;
use crate::speculation::{DraftBackend, DraftDtype, Method, Runner, Speculation};
use crate::trace::Trace;

/// What a drafter's class refuses when the runner makes it, before any layer.
pub(crate) fn before_target(config: &EngineConfig) -> Result<(), Box<Refusal>> {
    let refused = config
        .speculation
        .as_ref()
        .and_then(|drafts| drafts.refused_first);
    refused.map_or(Ok(()), |text| Err(raise("ValueError", text)))
}

fn raise(class: &'static str, text: impl Into<String>) -> Box<Refusal> {
    Refusal::raised(Stage::Model, class, text)
}

/// Targets that cannot hand intermediate states to a drafter.
/// Mirrors `vllm/model_executor/models/interfaces.py` `supports_eagle3`.
fn lacks_states(architecture: &str) -> bool {
    matches!(architecture, "DeciLMForCausalLM" | "MixtralForCausalLM")
}

/// Whether the target hands over the states that the drafter reads.
fn states(architecture: &str, speculation: &Speculation) -> Result<(), Box<Refusal>> {
    if !speculation.wants_states || !lacks_states(architecture) {
        return Ok(());
    }
    Err(raise(
        "RuntimeError",
        match speculation.runner {
            Runner::V2 => "Model does not support EAGLE3 interface",
            Runner::V1 => {
                "Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested"
            }
        },
    ))
}

/// The drafter's layers, their backends chosen.
pub(super) struct Drafted<'a> {
    drafter: &'a Drafter,
    config: EngineConfig,
    pub chosen: Chosen,
    /// The target's cache dtype, as the drafter leaves it.
    pub written_back: CacheDtype,
}

/// Builds the drafter after the target.
pub(super) fn choose<'a>(
    context: &Context<'a>,
    target: &Chosen,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Option<Drafted<'a>>, Box<Refusal>> {
    let Some(speculation) = context
        .config
        .speculation
        .as_ref()
        .filter(|_| context.drafts)
    else {
        return Ok(None);
    };
    if speculation.runner == Runner::V2 {
        states(&context.common.architecture, speculation)?;
    }
    let drafter = match &speculation.draft {
        None => return Ok(None),
        Some(Draft::Decoder(drafter)) => drafter,
        Some(Draft::Windows { .. }) => {
            return Err(Refusal::not_modelled(
                "DeepSeek V4's draft layers under another model",
            ));
        }
    };
    let (around, own) = (
        window_of_all(context.whole),
        window_of_all(&drafter.decoder),
    );
    let differs = match speculation.method {
        Method::DraftModel => own != around,
        // some name windows of their own
        _ => own.is_none() && around.is_some(),
    };
    if differs {
        return Err(Refusal::not_modelled(
            "a drafter beside a model whose layers all have another window is not modelled",
        ));
    }
    let mut config = context.config.clone();
    let own = own_dtype(speculation, context, &drafter.common)?;
    // `vllm/model_executor/models/llama.py` `LlamaAttention.__init__`, over all ranks whatever the drafter asks
    let heads = drafter.common.num_attention_heads;
    if !heads.is_multiple_of(context.config.tensor_parallel_size) {
        return Err(raise("AssertionError", ""));
    }
    config.cache_dtype = own.unwrap_or(target.cache_dtype);
    if own.is_some() {
        // the config that is made anew takes its default for the user's word
        config.block_size = config.block_size.or(Some(DEFAULT_BLOCK_SIZE));
    }
    if let DraftBackend::Own(backend) = speculation.backend {
        config.attention_backend = backend;
    }
    let chosen = backends::choose(
        &of_drafter(drafter, &config, context, speculation),
        notes,
        trace,
    )?;
    let written_back = if own.is_some() {
        target.cache_dtype
    } else {
        chosen.cache_dtype
    };
    if speculation.runner == Runner::V1 {
        states(&context.common.architecture, speculation)?;
    }
    local_argmax(speculation)?;
    Ok(Some(Drafted {
        drafter,
        config,
        chosen,
        written_back,
    }))
}

/// The window that every layer of a model takes from the cache's config, which is the target's.
/// Mirrors `vllm/model_executor/layers/attention/attention.py` `Attention.__init__`.
fn window_of_all(decoder: &Decoder) -> Option<u64> {
    if decoder.windows != WindowSource::Config {
        return None;
    }
    let mut windows = decoder.layers.iter().filter_map(|layer| match layer.kind {
        LayerKind::Attention(attention) => Some(attention.window),
        LayerKind::Mla { .. } | LayerKind::Linear(_) => None,
    });
    let first = windows.next()??;
    windows.all(|window| window == Some(first)).then_some(first)
}

/// The context in which the drafter is built: the target's, its own layers put in.
fn of_drafter<'a>(
    drafter: &'a Drafter,
    config: &'a EngineConfig,
    context: &Context<'a>,
    speculation: &Speculation,
) -> Context<'a> {
    Context {
        common: &drafter.common,
        decoder: &drafter.decoder,
        config,
        // a draft model is a model by itself
        drafts_for: (speculation.method != Method::DraftModel)
            .then_some((context.common, context.decoder)),
        non_causal: drafter.non_causal,
        ..*context
    }
}

/// The drafter's own cache dtype, which is checked when its config is made.
fn own_dtype(
    speculation: &Speculation,
    context: &Context,
    drafter: &Common,
) -> Result<Option<CacheDtype>, Box<Refusal>> {
    match &speculation.cache_dtype {
        None => Ok(None),
        Some(DraftDtype::Known(dtype)) => {
            let (config, profile) = (context.config, context.profile);
            let apart = speculation.method == Method::DraftModel;
            if !apart || speculation.runner == Runner::V1 {
                drafter_dtype(*dtype, config, context.common, profile)?;
            }
            if apart {
                drafter_dtype(*dtype, config, drafter, profile)?;
            }
            Ok(Some(*dtype))
        }
        Some(DraftDtype::Unknown(name)) => Err(unknown_dtype(name, context.profile.cache_dtypes)),
    }
}

/// Mirrors `vllm/config/cache.py` `CacheConfig._validate_cache_dtype`.
pub(crate) fn unknown_dtype(name: &str, known: &[CacheDtype]) -> Box<Refusal> {
    let names = known.iter().map(|dtype| dtype.as_str());
    raise(
        "ValidationError",
        format!(
            "Invalid kv_cache_dtype: {}. Valid values are: {}",
            repr(name),
            repr_list(names)
        ),
    )
}

/// Mirrors `_validate_local_argmax_reduction`.
pub(crate) fn local_argmax(speculation: &Speculation) -> Result<(), Box<Refusal>> {
    if !speculation.wants_local_argmax {
        return Ok(());
    }
    match speculation.class {
        "Qwen3_5MTP" | "DeepseekV32MTP" => Ok(()),
        "" => Err(Refusal::not_modelled(
            "use_local_argmax_reduction with this drafter is not modelled",
        )),
        class => Err(raise(
            "ValueError",
            format!(
                "use_local_argmax_reduction is enabled but draft model {class} does not implement \
                 get_top_tokens()."
            ),
        )),
    }
}

impl Drafted<'_> {
    /// The distinct backends, in the order of the layers.
    pub fn distinct(&self) -> Vec<LayerBackend> {
        self.chosen.distinct(&self.drafter.decoder)
    }

    /// Appends the drafter's layers to the target's, and to each new spec its backend.
    pub(super) fn add_layers(
        &self,
        context: &Context,
        block: &Block,
        layers: &mut Layers,
        spec_backends: &mut Vec<LayerBackend>,
        trace: &mut Trace,
    ) -> Result<(), Box<Refusal>> {
        let Some(speculation) = &self.config.speculation else {
            return Ok(());
        };
        let own = of_drafter(self.drafter, &self.config, context, speculation);
        let (draft, backends) = rows::layers(&own, &self.chosen, block, trace)?;
        for (spec, backend) in draft.specs.iter().zip(backends) {
            if !layers.specs.contains(spec) {
                spec_backends.push(backend);
            }
        }
        trace.step(
            Stage::Model,
            "vllm/v1/worker/gpu/spec_decode/speculator.py",
            "DraftModelSpeculator.load_model",
            || {
                format!(
                    "{} adds to the layers with a cache: {}, grouped as the target's are",
                    speculation.method,
                    draft.list.len()
                )
            },
        );
        layers.append(&draft);
        Ok(())
    }
}
