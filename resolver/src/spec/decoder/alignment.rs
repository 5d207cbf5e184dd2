//! The block size, and what makes vLLM raise it.
//! Mirrors `vllm/platforms/interface.py` `update_block_size_for_backend`.

use super::backends::Chosen;
use super::{Context, SPECS, rows};
use crate::backend::AttentionBackend;
use crate::backend::block_size::{self, DEFAULT_BLOCK_SIZE};
use crate::backend::kernel_block::{Asking, smallest};
use crate::backend::layer::LayerBackend;
use crate::backend::select::Surroundings;
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::log;
use crate::model::decoder::{LayerKind, LinearKernel};
use crate::spec::{LayerRole, LayerSpec, SpecKind};
use crate::trace::Trace;
use crate::units::{ceil_div, lcm, mul, round_up};

const FILE: &str = "vllm/platforms/interface.py";

/// The block of a model.
pub(super) struct Block {
    /// Tokens.
    pub tokens: u64,
    /// The page that windows are padded to, in bytes.
    pub window_page: Option<u64>,
    /// The page that states are padded to, in bytes.
    pub state_page: Option<u64>,
    /// Tokens in a block of states.
    pub state_tokens: u64,
}

/// Rows of GDN's prefill chunk in FlashInfer.
const GDN_CHUNK_TOKENS: u64 = 64;
/// Rows of KDA's prefill chunk.
const KDA_CHUNK_TOKENS: u64 = 16;
/// MLA's decode kernels beside states take physical blocks of so many tokens.
const MLA_HYBRID_TOKENS: u64 = 128;

pub(super) fn block_size(
    context: &Context,
    chosen: &Chosen,
    distinct: &[LayerBackend],
    around: &Surroundings,
    trace: &mut Trace,
) -> Result<Block, Box<Refusal>> {
    let asking: Vec<LayerBackend> = distinct
        .iter()
        .copied()
        .filter(|backend| !backend.is_ssm())
        .collect();
    if asking.is_empty() {
        return without_attention(context);
    }
    let asked = match asking.get(..1) {
        Some(first) if !context.profile.block_suits_all => first,
        _ => &asking[..],
    };
    let before = match context.config.block_size {
        Some(tokens) => tokens,
        None => block_size::common_block_size(asked, around)?,
    };
    trace.step(SPECS, FILE, "update_block_size_for_backend", || {
        let names: Vec<&str> = asked.iter().map(|backend| backend.as_str()).collect();
        if context.config.block_size.is_some() {
            format!("the block size is {before}, as asked")
        } else {
            format!(
                "the block size is {before}, which suits {}",
                names.join(" and ")
            )
        }
    });
    if context.config.block_size.is_none() && before != DEFAULT_BLOCK_SIZE {
        trace.say(log::SPECS_EACH, || {
            let names: Vec<&str> = asking.iter().map(|backend| backend.as_str()).collect();
            log::block_size(before, &names, &context.profile.log)
        });
    }
    let mut block = Block {
        tokens: before,
        window_page: None,
        state_page: None,
        state_tokens: state_block(context, before),
    };
    if context.common.is_hybrid {
        for_states(context, &asking, around, &mut block, trace)?;
    }
    if context.skips_layers() {
        for_skipped(context, chosen, &asking, around, &mut block, trace)?;
    }
    if block.tokens != before && context.profile.checks_aligned_block {
        block_size::check_aligned(&asking, block.tokens, around)?;
    }
    Ok(block)
}

/// A stage without attention: nothing is asked and nothing aligned.
fn without_attention(context: &Context) -> Result<Block, Box<Refusal>> {
    if context.config.mamba_block_size.is_some() {
        return Err(Refusal::not_modelled(
            "mamba_block_size with a stage that has no attention is not modelled",
        ));
    }
    let tokens = context.config.block_size.unwrap_or(DEFAULT_BLOCK_SIZE);
    Ok(Block {
        tokens,
        window_page: None,
        state_page: None,
        state_tokens: state_block(context, tokens),
    })
}

/// Tokens in a block of states before any alignment: with prefix caching they
/// follow the block, without it a block holds a whole request.
fn state_block(context: &Context, block: u64) -> u64 {
    if context.config.enable_prefix_caching {
        block
    } else {
        context.config.max_model_len
    }
}

/// Bytes of one token of one full-attention layer of the model's own size.
fn token_page(
    context: &Context,
    first: LayerBackend,
    dtype: CacheDtype,
) -> Result<u64, Box<Refusal>> {
    let row = context.row_dtype(dtype);
    let mode = dtype.quant_mode();
    let tensor = context.config.tensor_parallel_size;
    if context.common.use_mla {
        let spec = LayerSpec {
            head_size: context.common.head_size,
            ..LayerSpec::plain(LayerRole::Mla, SpecKind::MlaAttention, 1, row)
        };
        return spec.page_size_bytes();
    }
    let plain = |row, mode| LayerSpec {
        num_kv_heads: (context.common.num_key_value_heads / tensor).max(1),
        head_size: context.common.head_size,
        head_size_v: context.common.head_size,
        kv_quant_mode: mode,
        ..LayerSpec::plain(LayerRole::Attention, SpecKind::FullAttention, 1, row)
    };
    // packed dtypes ask their own backend, whichever serves the first layer
    let packing = match dtype {
        CacheDtype::Ultraquant4bit => Some(AttentionBackend::Ultraquant),
        _ if dtype.skips_boundary_layers() => Some(AttentionBackend::Turboquant),
        _ => None,
    };
    let backend = packing.map_or(first, LayerBackend::Selected);
    let page = context
        .customize(backend, plain(row, mode))?
        .page_size_bytes()?;
    if packing.is_none() || !context.skips_layers() {
        return Ok(page);
    }
    let auto = CacheDtype::Auto;
    let skipped = plain(context.row_dtype(auto), auto.quant_mode());
    lcm(page, skipped.page_size_bytes()?)
}

/// Raises the block until a page of it holds a state, and pads states to it.
/// Mirrors `_align_hybrid_block_size`.
fn for_states(
    context: &Context,
    asking: &[LayerBackend],
    around: &Surroundings,
    block: &mut Block,
    trace: &mut Trace,
) -> Result<(), Box<Refusal>> {
    let Some(first) = asking.first().copied() else {
        return Ok(());
    };
    // the model's class is asked, whatever the stage has
    let linear = context
        .whole
        .layers
        .iter()
        .find_map(|layer| match layer.kind {
            LayerKind::Linear(linear) => Some(linear),
            LayerKind::Attention(_) | LayerKind::Mla { .. } => None,
        });
    let Some(linear) = linear else {
        return Ok(());
    };
    let state = rows::state_bytes(context, linear)?;
    let token = token_page(context, first, around.cache_dtype)?;
    let mut granule = smallest(first, Asking::Platform(around)).max(block.tokens);
    if context.common.use_mla {
        granule = granule.max(MLA_HYBRID_TOKENS);
    }
    // prefill chunks are those of the layers that the stage has
    let layers = &context.decoder.layers;
    let has_states = layers.iter().any(|layer| match layer.kind {
        LayerKind::Linear(_) => true,
        LayerKind::Attention(_) | LayerKind::Mla { .. } => false,
    });
    if context.config.enable_prefix_caching
        && context.profile.state_block_suits_prefill
        && has_states
    {
        let chunk = match linear.kernel {
            LinearKernel::Gdn if !rows::gives_states(context, linear) => 1,
            LinearKernel::Gdn => GDN_CHUNK_TOKENS,
            LinearKernel::Kda => KDA_CHUNK_TOKENS,
            LinearKernel::Mamba2 => 1,
        };
        granule = lcm(granule, chunk)?;
    }
    let mut common = 1;
    let all = context.profile.state_block_suits_all;
    for backend in asking.iter().filter(|_| all) {
        common = lcm(common, smallest(*backend, Asking::Platform(around)))?;
    }
    let needed = mul(granule, ceil_div(state, mul(granule, token)?)?)?;
    let needed = round_up(needed, common)?;
    if block.tokens < needed {
        trace.say(log::SPECS_EACH, || {
            [
                "Setting attention block size to ",
                &needed.to_string(),
                " tokens to ensure that attention page size is >= mamba page size.",
            ]
            .concat()
        });
    }
    block.tokens = block.tokens.max(needed);
    block.state_tokens = state_block(context, block.tokens);
    let page = mul(block.tokens, token)?;
    block.state_page = (page != state).then_some(page);
    if page != state {
        trace.say(log::SPECS_EACH, || {
            [
                "Padding mamba page size by ",
                &log::percent_more(page, state),
                "% to ensure that mamba page size and attention page size are exactly equal.",
            ]
            .concat()
        });
    }
    let tokens = block.tokens;
    trace.step(SPECS, FILE, "_align_hybrid_block_size", || {
        format!(
            "a state of {state} B needs blocks of {tokens} tokens, whose page of {page} B it is padded to"
        )
    });
    Ok(())
}

/// Raises the block until a page of it holds a page of the layers that are left
/// unquantised. Mirrors `_align_heterogeneous_kv_block_size`.
fn for_skipped(
    context: &Context,
    chosen: &Chosen,
    asking: &[LayerBackend],
    around: &Surroundings,
    block: &mut Block,
    trace: &mut Trace,
) -> Result<(), Box<Refusal>> {
    let Some(first) = asking.first().copied() else {
        return Ok(());
    };
    let page = |dtype: CacheDtype| -> Result<u64, Box<Refusal>> {
        // always as K and V, even for MLA
        let tensor = context.config.tensor_parallel_size;
        let spec = LayerSpec {
            num_kv_heads: (context.common.num_key_value_heads / tensor).max(1),
            head_size: context.common.head_size,
            head_size_v: context.common.head_size,
            kv_quant_mode: dtype.quant_mode(),
            ..LayerSpec::plain(
                LayerRole::Attention,
                SpecKind::FullAttention,
                1,
                context.row_dtype(dtype),
            )
        };
        context.customize(first, spec)?.page_size_bytes()
    };
    let primary = page(chosen.cache_dtype)?;
    let padded = page(CacheDtype::Auto)?;
    if padded < primary {
        return Err(Refusal::raised(
            Stage::Specs,
            "AssertionError",
            format!(
                "padded-spec per-token page ({padded}B) < primary ({primary}B); a \
                 higher-precision padded spec must not be smaller than the quantized primary."
            ),
        ));
    }
    if padded == primary {
        return Ok(());
    }
    let kernel = smallest(first, Asking::Platform(around));
    let granule = kernel.max(block.tokens);
    // and of states that are padded already
    let needed = mul(padded, kernel)?.max(block.state_page.unwrap_or(0));
    let tokens = mul(granule, ceil_div(needed, mul(granule, primary)?)?)?;
    if block.tokens < tokens {
        trace.say(log::SPECS_EACH, || log::skipped_block_size(tokens));
    }
    block.tokens = block.tokens.max(tokens);
    let shared = mul(block.tokens, primary)?;
    block.window_page = Some(shared);
    block.state_page = block.state_page.map(|_| shared);
    let tokens = block.tokens;
    trace.step(SPECS, FILE, "_align_heterogeneous_kv_block_size", || {
        format!(
            "some layers stay unquantised at {padded} B a token against {primary} B, so blocks have {tokens} tokens"
        )
    });
    Ok(())
}
