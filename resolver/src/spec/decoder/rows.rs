//! Each layer's spec.

use super::alignment::Block;
use super::backends::Chosen;
use super::{Context, SPECS};
use crate::anatomy::{LinearStates, StateRows};
use crate::backend::block_size::window_block_size;
use crate::backend::kernel_block::{Asking, KernelBlock, kernel_blocks};
use crate::backend::layer::{FixedBackend, LayerBackend};
use crate::dtype::{CacheDtype, TorchDtype};
use crate::error::Refusal;
use crate::gpu::Arch;
use crate::model::decoder::{Attention, HeadSharing, LayerKind, Linear, LinearKernel};
use crate::release::{Checkpoints, WindowBlock};
use crate::spec::{LayerRole, LayerSpec, Layers, MambaStates, SpecKind};
use crate::trace::Trace;
use crate::units::{add, mul};

/// Elements of a key that FlashInfer's GDN kernel takes beyond SM90.
const FLASHINFER_GDN_KEYS: u64 = 128;
/// Elements of an indexer key that share an fp32 scale.
const INDEXER_QUANT_BLOCK: u64 = 128;
/// A packed row of `fp8_ds_mla`: 512 B of latent in fp8, 16 B of scales, 128 B
/// of RoPE in bf16. `vllm/v1/kv_cache_interface.py`
const FP8_DS_MLA_SLOT_BYTES: u64 = 656;
/// A packed row of `nvfp4_ds_mla`.
const NVFP4_DS_MLA_SLOT_BYTES: u64 = 352;

const INDEXER_BACKEND: LayerBackend = LayerBackend::Fixed(FixedBackend::DeepseekV32Indexer);

/// Every layer's spec, in the order of the model, and each spec's backend.
pub(super) fn layers(
    context: &Context,
    chosen: &Chosen,
    block: &Block,
    trace: &mut Trace,
) -> Result<(Layers, Vec<LayerBackend>), Box<Refusal>> {
    let mut layers = Layers::new(context.decoder.prefix);
    // of each distinct spec, as it first appears
    let mut backends: Vec<LayerBackend> = Vec::new();
    let mut known: Vec<((LayerKind, LayerBackend, CacheDtype), LayerSpec)> = Vec::new();
    for (layer, (backend, dtype)) in context.decoder.layers.iter().zip(&chosen.layers) {
        if layer.kind == (LayerKind::Mla { indexer: true }) {
            let indexer = indexer(context, block)?;
            layers.push(layer.index, "self_attn.indexer.k_cache", indexer);
            backends.resize(layers.specs.len(), INDEXER_BACKEND);
        }
        let key = (layer.kind, *backend, *dtype);
        let same = known.iter().find(|(other, _)| *other == key);
        let spec = if let Some((_, spec)) = same {
            *spec
        } else {
            let spec = spec_of(context, key, block)?;
            known.push((key, spec));
            spec
        };
        layers.push(layer.index, layer.suffix, spec);
        backends.resize(layers.specs.len(), *backend);
    }
    for spec in &layers.specs {
        let (slot, page) = (spec.slot_bytes()?, spec.page_size_bytes()?);
        trace.step(SPECS, file_of(spec.role), "get_kv_cache_spec", || {
            if spec.kind == SpecKind::Mamba {
                format!(
                    "{}: {slot} B a request, padded to {page} B",
                    spec.role.label()
                )
            } else {
                format!(
                    "{}: {} heads × {} states × {slot} B = {page} B for {} tokens",
                    spec.role.label(),
                    spec.num_heads(),
                    spec.num_states(),
                    spec.block_size
                )
            }
        });
    }
    Ok((layers, backends))
}

fn spec_of(
    context: &Context,
    (kind, backend, dtype): (LayerKind, LayerBackend, CacheDtype),
    block: &Block,
) -> Result<LayerSpec, Box<Refusal>> {
    match kind {
        LayerKind::Attention(attention) => {
            attention_spec(context, attention, backend, dtype, block)
        }
        LayerKind::Mla { indexer } => mla_spec(context, indexer, backend, dtype, block),
        LayerKind::Linear(linear) => linear_spec(context, linear, block),
    }
}

const fn file_of(role: LayerRole) -> &'static str {
    match role {
        LayerRole::Mla | LayerRole::Indexer => {
            "vllm/model_executor/layers/attention/mla_attention.py"
        }
        LayerRole::LinearState => "vllm/model_executor/layers/mamba/abstract.py",
        _ => "vllm/model_executor/layers/attention/attention.py",
    }
}

/// Mirrors `Attention.get_kv_cache_spec`.
fn attention_spec(
    context: &Context,
    attention: Attention,
    backend: LayerBackend,
    dtype: CacheDtype,
    block: &Block,
) -> Result<LayerSpec, Box<Refusal>> {
    let tensor = context.config.tensor_parallel_size;
    let heads = attention.kv_heads / tensor;
    let (role, kind) = match (attention.window, attention.chunk) {
        (Some(_), _) => (LayerRole::SlidingWindow, SpecKind::SlidingWindow),
        (None, Some(_)) => (LayerRole::ChunkedLocal, SpecKind::ChunkedLocalAttention),
        (None, None) => (LayerRole::Attention, SpecKind::FullAttention),
    };
    let spec = LayerSpec {
        num_kv_heads: match attention.sharing {
            HeadSharing::Asserted | HeadSharing::AtLeastOne => heads.max(1),
            HeadSharing::Quotient => heads,
        },
        head_size: attention.head_dim,
        head_size_v: attention.head_dim_v,
        sliding_window: attention.window,
        attention_chunk_size: attention.chunk,
        kv_quant_mode: dtype.quant_mode(),
        ..LayerSpec::plain(role, kind, block.tokens, context.row_dtype(dtype))
    };
    if attention.window.is_none() {
        return context.customize(backend, spec);
    }
    window_spec(context, spec, backend, block)
}

/// A window's block is the largest that its backend takes within the model's.
fn window_spec(
    context: &Context,
    spec: LayerSpec,
    backend: LayerBackend,
    block: &Block,
) -> Result<LayerSpec, Box<Refusal>> {
    let token = context
        .customize(
            backend,
            LayerSpec {
                block_size: 1,
                ..spec
            },
        )?
        .unpadded_page_size_bytes()?;
    let mut sizes = kernel_blocks(backend, Asking::Layer(&spec, context.target));
    let budget = match (block.window_page, context.profile.window_block) {
        (Some(page), _) => page,
        (None, WindowBlock::Smallest) => 0,
        (None, _) => mul(token, block.tokens)?,
    };
    if context.profile.window_block == WindowBlock::Smallest {
        sizes = whole_sizes(sizes);
    }
    let tokens = window_block_size(&sizes, token, budget, block.tokens)?;
    context.customize(
        backend,
        LayerSpec {
            block_size: tokens,
            page_size_padded: block.window_page,
            ..spec
        },
    )
}

/// Through 0.29 sizes are taken as they are listed, multiples as their base and
/// only where there are no others.
fn whole_sizes(sizes: Vec<KernelBlock>) -> Vec<KernelBlock> {
    let exact = |size: &KernelBlock| matches!(size, KernelBlock::Exact(_));
    let has_exact = sizes.iter().any(exact);
    sizes
        .into_iter()
        .filter(|size| !has_exact || exact(size))
        .map(|size| KernelBlock::Exact(size.base()))
        .collect()
}

/// Mirrors `MLAAttention.get_kv_cache_spec`.
fn mla_spec(
    context: &Context,
    leads: bool,
    backend: LayerBackend,
    dtype: CacheDtype,
    block: &Block,
) -> Result<LayerSpec, Box<Refusal>> {
    let row = context
        .decoder
        .mla
        .map_or(0, crate::model::decoder::MlaDims::row);
    let spec = LayerSpec {
        head_size: row,
        state_content_bytes: match dtype {
            CacheDtype::Fp8DsMla => Some(FP8_DS_MLA_SLOT_BYTES),
            CacheDtype::Nvfp4DsMla => Some(NVFP4_DS_MLA_SLOT_BYTES),
            _ => None,
        },
        cache_dtype: Some(dtype),
        kv_quant_mode: dtype.quant_mode(),
        topk_buffer_width: context.decoder.index_topk,
        index_group_leader: leads && context.profile.leaders_have_specs,
        ..LayerSpec::plain(
            LayerRole::Mla,
            SpecKind::MlaAttention,
            block.tokens,
            context.row_dtype(dtype),
        )
    };
    context.customize(backend, spec)
}

/// Mirrors `DeepseekV32IndexerCache.get_kv_cache_spec`.
fn indexer(context: &Context, block: &Block) -> Result<LayerSpec, Box<Refusal>> {
    let dim = context.decoder.index_head_dim;
    let spec = LayerSpec {
        head_size: add(dim, dim / INDEXER_QUANT_BLOCK * 4)?,
        ..LayerSpec::plain(
            LayerRole::Indexer,
            SpecKind::MlaAttention,
            block.tokens,
            TorchDtype::Uint8,
        )
    };
    context.customize(INDEXER_BACKEND, spec)
}

/// Bytes of a linear layer's states on one rank.
pub(super) fn state_bytes(context: &Context, linear: Linear) -> Result<u64, Box<Refusal>> {
    let (conv, recurrent) = states(context, linear)?;
    add(
        mul(conv.count, conv.bytes)?,
        mul(recurrent.count, recurrent.bytes)?,
    )
}

/// What the model's linear layers carry over on one rank, if it has such: they are
/// all alike.
pub(crate) fn linear_states(context: &Context) -> Option<LinearStates> {
    let linear = context
        .decoder
        .layers
        .iter()
        .find_map(|layer| match layer.kind {
            LayerKind::Linear(linear) => Some(linear),
            LayerKind::Attention(_) | LayerKind::Mla { .. } => None,
        });
    let (conv, recurrent) = states(context, linear?).ok()?;
    Some(LinearStates { conv, recurrent })
}

/// A linear layer's states on one rank: the convolution's and the recurrent one.
/// Mirrors `vllm/model_executor/layers/mamba/mamba_utils.py` `MambaStateShapeCalculator`
/// and `MambaStateDtypeCalculator`.
fn states(context: &Context, linear: Linear) -> Result<(StateRows, StateRows), Box<Refusal>> {
    let tensor = context.config.tensor_parallel_size;
    let config = context.config;
    let model = config.model_dtype.torch();
    let element = config.state_dtype.torch().unwrap_or(model);
    let is_set = linear.kernel != LinearKernel::Kda || context.profile.kda_state_is_set;
    let asked = is_set.then(|| config.recurrent_dtype.torch()).flatten();
    let recurrent = asked.or(linear.state_dtype).unwrap_or(element);
    let width = match linear.groups {
        None => linear.conv_dim,
        Some((groups, of_each)) => {
            // one group is copied to every rank
            let groups = if groups.is_multiple_of(tensor) {
                groups
            } else {
                tensor
            };
            add(linear.conv_dim, mul(groups, of_each)?)?
        }
    };
    Ok((
        StateRows {
            count: add(linear.conv_len, drafted_tokens(context))?,
            bytes: mul(width / tensor, element.size_bytes())?,
            dtype: element,
        },
        StateRows {
            count: linear.heads / tensor,
            bytes: mul(mul(linear.rows, linear.columns)?, recurrent.size_bytes())?,
            dtype: recurrent,
        },
    ))
}

/// Tokens drafted in a step, by whatever method: a state is kept for each.
fn drafted_tokens(context: &Context) -> u64 {
    let drafts = context.config.speculation.as_ref();
    drafts.map_or(0, |drafts| drafts.num_speculative_tokens)
}

/// Whether prefills give out states on their way: GDN's do in FlashInfer's kernel, which beyond SM90 takes keys of one
/// width. Mirrors `vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py` `_resolve_gdn_prefill_backend`.
pub(super) fn gives_states(context: &Context, linear: Linear) -> bool {
    linear.kernel != LinearKernel::Gdn
        || context.target.arch == Arch::Sm90
        || linear.columns == FLASHINFER_GDN_KEYS
}

/// Mirrors `MambaBase.get_kv_cache_spec`.
fn linear_spec(
    context: &Context,
    linear: Linear,
    block: &Block,
) -> Result<LayerSpec, Box<Refusal>> {
    let caching = context.config.enable_prefix_caching;
    let checkpoints = match (linear.kernel, context.profile.checkpoints) {
        (LinearKernel::Kda, Checkpoints::Kda)
        | (LinearKernel::Kda | LinearKernel::Mamba2, Checkpoints::KdaAndMamba2)
        | (_, Checkpoints::All)
            if gives_states(context, linear) =>
        {
            1
        }
        _ => 0,
    };
    Ok(LayerSpec {
        tokens_per_state: -1,
        page_size_padded: block.state_page,
        mamba: Some(MambaStates {
            state_bytes: state_bytes(context, linear)?,
            blocks_per_request: add(
                if caching { 2 + checkpoints } else { 1 },
                drafted_tokens(context),
            )?,
        }),
        ..LayerSpec::plain(
            LayerRole::LinearState,
            SpecKind::Mamba,
            block.state_tokens,
            context.config.model_dtype.torch(),
        )
    })
}
