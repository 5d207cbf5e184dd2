//! gpt-oss, MiMo V2, Gemma 4 and Llama 4. Mirrors their files under
//! `vllm/model_executor/models/`.

use super::dense::{QkNorm, attention, kinds};
use super::linear::{Experts, Quant};
use super::sheet::{Part, Sheet, product};
use super::{Head, Rank, Uncounted, not_modelled, rope, tower};
use crate::gpu::Arch;
use crate::model::Decoder;
use crate::model::parameters::Size;
use crate::model::scheme::Module;
use crate::units::round_up;

/// The embedding, two norms to each layer and one at the end.
fn frame(rank: &Rank, decoder: &Decoder, head: Head) -> Result<(Sheet, u64, u64), Uncounted> {
    let mut sheet = rank.sheet();
    rank.embedding(&mut sheet, head)?;
    let hidden = rank.hidden()?;
    let layers = decoder.layers.len() as u64;
    sheet.norms(1, hidden);
    sheet.norms(layers, 2 * hidden);
    Ok((sheet, hidden, layers))
}

pub(super) fn gpt_oss(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let (mut sheet, hidden, layers) = frame(rank, decoder, Head::Own)?;
    let part = Part::Experts;
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::None, true)?;
        sheet.own(Part::Attention, product(&[times, rank.heads()]));
        // the table is asked for in float32
        rope::table(rank, &mut sheet, one.head_dim, 4)?;
    }
    let experts = rank.size(Size::NumLocalExperts)?;
    sheet.own(part, product(&[layers, experts, hidden]));
    sheet.own(part, product(&[layers, experts]));
    let quant = rank.quant(Module::Experts)?;
    if quant != Quant::Mxfp4 {
        return not_modelled("gpt-oss without mxfp4");
    }
    // `fused_moe/oracle/mxfp4.py` `mxfp4_round_up_hidden_size_and_intermediate_size`:
    // of Triton's kernels, FlashInfer's and Marlin's
    let (width, padded) = match rank.arch {
        Arch::Sm90 => (64, 1),
        Arch::Sm100 | Arch::Sm120 => (128, 256),
    };
    let slice = rank.size(Size::IntermediateSize)?.div_ceil(rank.slices);
    rank.routed(
        layers,
        &mut sheet,
        quant,
        Experts {
            held: experts,
            shards: 2,
            hidden: round_up(hidden, padded)?,
            width: round_up(slice, width)?,
            bias: true,
        },
    );
    Ok(sheet)
}

pub(super) fn mimo_v2(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let (mut sheet, hidden, layers) = frame(rank, decoder, Head::Own)?;
    let part = Part::Experts;
    if rank.size_or(Size::AttentionBias, 0) != 0 {
        return not_modelled("`attention_bias`");
    }
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::None, false)?;
        if one.sinks {
            sheet.own(Part::Attention, product(&[times, rank.heads()]));
        }
        // each kind turns by a base of its own
        rope::tables(rank, &mut sheet, 1, rope::turned(rank, one.head_dim))?;
    }
    let Some(sparse) = rank.parameters().expert_layers else {
        return not_modelled("`moe_layer_freq` that is no list");
    };
    let width = rank.size(Size::IntermediateSize)? / rank.ranks;
    sheet.mlp(
        layers.saturating_sub(sparse),
        rank.quant(Module::Dense)?,
        hidden,
        width,
    );
    let experts = rank.size(Size::NRoutedExperts)?;
    sheet.float(part, product(&[sparse, experts, hidden + 1]));
    rank.gated_experts(
        sparse,
        &mut sheet,
        experts,
        hidden,
        Size::MoeIntermediateSize,
    )?;
    Ok(sheet)
}

/// The one MTP layer: attention with a window, and an MLP without experts.
/// Mirrors `vllm/model_executor/models/mimo_v2_mtp.py`.
pub(super) fn mimo_v2_mtp(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let (hidden, part) = (rank.hidden()?, Part::Attention);
    let layers = decoder.layers.len() as u64;
    sheet.norms(5 * layers, hidden);
    sheet.matrix(part, layers, Quant::Plain, 2 * hidden, &[hidden]);
    let quant = rank.quant(Module::Attention)?;
    for (one, times) in kinds(decoder) {
        let (heads, kv) = (rank.heads(), rank.kv_heads(one.kv_heads));
        let outputs = [heads * one.head_dim, kv * one.head_dim, kv * one.head_dim_v];
        sheet.matrix(part, times, quant, hidden, &outputs);
        // the output is left unquantised
        sheet.matrix(part, times, Quant::Plain, heads * one.head_dim_v, &[hidden]);
        if one.sinks {
            sheet.own(part, product(&[times, heads]));
        }
        rank.scales(&mut sheet, times, false);
    }
    let width = rank.size(Size::IntermediateSize)? / rank.ranks;
    sheet.mlp(layers, rank.quant(Module::Dense)?, hidden, width);
    Ok(sheet)
}

pub(super) fn gemma4(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let (mut sheet, hidden, layers) = frame(rank, decoder, Head::TiedUnlessSaid)?;
    if layers != rank.common.num_hidden_layers {
        return not_modelled("layers that share a cache");
    }
    let odd = [Size::HiddenSizePerLayerInput, Size::UseDoubleWideMlp];
    if odd.iter().any(|size| rank.size_or(*size, 0) != 0) {
        return not_modelled("embeddings of each layer and wider MLPs of Gemma 4");
    }
    if rank.element != 2 {
        return not_modelled("Gemma 4's tower beside a float32 language model");
    }
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::Head, false)?;
        rope::whole(rank, &mut sheet, one.head_dim)?;
    }
    // two more norms to a layer, a scale to each, and what normalises the embedding
    sheet.norms(layers, 2 * hidden + 1);
    sheet.norms(1, 1);
    let width = rank.size(Size::IntermediateSize)? / rank.ranks;
    sheet.mlp(layers, rank.quant(Module::Dense)?, hidden, width);
    let experts = rank.size_or(Size::NumExperts, 0);
    if experts > 0 {
        // three norms around them; the router's scales, and its root
        sheet.norms(layers, 3 * hidden);
        let router = product(&[experts + 1, hidden]).saturating_add(experts + 1);
        sheet.own(Part::Experts, product(&[layers, router]));
        let quant = rank.quant(Module::Experts)?;
        let width = rank.size(Size::MoeIntermediateSize)?;
        rank.routed(
            layers,
            &mut sheet,
            quant,
            Experts {
                held: experts,
                shards: 2,
                hidden,
                width: rank.expert_slice(width, quant)?,
                bias: false,
            },
        );
    }
    tower::gemma4(rank, &mut sheet)?;
    Ok(sheet)
}

pub(super) fn llama4(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let (mut sheet, hidden, layers) = frame(rank, decoder, Head::TiedIfSaid)?;
    let mut head_dim = 0;
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::None, false)?;
        head_dim = one.head_dim;
    }
    rope::tables(rank, &mut sheet, 1, head_dim)?;
    let step = rank.size_or(Size::InterleaveMoeLayerStep, 1).max(1);
    let sparse = layers / step;
    let width = rank.size(Size::IntermediateSize)?;
    if sparse < layers {
        let dense = rank.size(Size::IntermediateSizeMlp)? / rank.ranks;
        sheet.mlp(layers - sparse, rank.quant(Module::Dense)?, hidden, dense);
    }
    let experts = rank.size(Size::NumLocalExperts)?;
    sheet.own(Part::Experts, product(&[sparse, experts, hidden]));
    sheet.mlp(
        sparse,
        rank.quant(Module::Shared)?,
        hidden,
        width / rank.shared_ranks(),
    );
    rank.gated_experts(sparse, &mut sheet, experts, hidden, Size::IntermediateSize)?;
    tower::llama4(rank, &mut sheet)?;
    Ok(sheet)
}
