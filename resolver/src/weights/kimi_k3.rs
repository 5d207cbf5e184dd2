//! Kimi K3: Kimi delta attention beside latent attention, and experts in a narrower
//! space. Mirrors `vllm/models/kimi_k3/nvidia/model.py`, `kda.py` and `mla.py`.

use super::linear::{Experts, Quant};
use super::mla::gated_attention;
use super::sheet::{Part, Sheet, product};
use super::{Head, Rank, Uncounted, not_modelled, tower};
use crate::gpu::Arch;
use crate::model::Decoder;
use crate::model::decoder::{LayerKind, Linear, MlaDims};
use crate::model::parameters::Size;
use crate::model::scheme::Module;
use crate::units::round_up;

/// Heads of a rank that the fused kernel of a decoding step takes, and on SM100
/// FlashInfer's too. `kda.py` `is_fused_kda_decode_supported`
const FUSED_HEADS: [u64; 4] = [12, 24, 48, 96];
const FLASHINFER_HEADS: u64 = 32;
/// A slice of an expert is at least so wide. `min_moe_intermediate_per_partition`
const LEAST_SLICE: u64 = 256;

pub(super) fn weights(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let Some(dims) = decoder.mla else {
        return not_modelled("latent attention without its dimensions");
    };
    if rank.drafts || !rank.usual_states || rank.element != 2 {
        return not_modelled("Kimi K3 with a drafter, states of another dtype, or in float32");
    }
    if rank.quant(Module::Attention)? != Quant::Plain || rank.quant(Module::Linear)? != Quant::Plain
    {
        return not_modelled("quantised attention of Kimi K3");
    }
    rank.embedding(&mut sheet, Head::Own)?;
    let hidden = rank.hidden()?;
    let layers = decoder.layers.len() as u64;
    // two norms and two that weigh residuals, each with what projects to one number
    sheet.norms(6 * layers + 3, hidden);
    let latent = decoder
        .layers
        .iter()
        .filter(|layer| matches!(layer.kind, LayerKind::Mla { .. }))
        .count() as u64;
    mla(rank, &mut sheet, latent, dims)?;
    if let Some(linear) = decoder.layers.iter().find_map(|layer| match layer.kind {
        LayerKind::Linear(linear) => Some(linear),
        LayerKind::Attention(_) | LayerKind::Mla { .. } => None,
    }) {
        kda(rank, &mut sheet, layers - latent, &linear)?;
    }
    let dense = rank.size_or(Size::FirstKDenseReplace, 0).min(layers);
    if dense > 0 {
        let width = rank.size(Size::IntermediateSize)? / rank.shared_ranks();
        sheet.mlp(dense, rank.quant(Module::Dense)?, hidden, width);
    }
    experts(rank, &mut sheet, layers - dense)?;
    tower::kimi_k3(rank, &mut sheet)?;
    Ok(sheet)
}

fn mla(rank: &Rank, sheet: &mut Sheet, times: u64, dims: MlaDims) -> Result<(), Uncounted> {
    let has_gate = rank.size_or(Size::MlaUseOutputGate, 0) == 1;
    let gate = has_gate.then(|| rank.heads() * dims.v_head_dim);
    gated_attention(rank, sheet, times, dims, Quant::Plain, gate)?;
    sheet.float(Part::Rest, times);
    Ok(())
}

fn kda(rank: &Rank, sheet: &mut Sheet, times: u64, linear: &Linear) -> Result<(), Uncounted> {
    let (part, plain, hidden) = (Part::Attention, Quant::Plain, rank.hidden()?);
    let (heads, dim) = (linear.heads / rank.ranks, linear.rows);
    let inner = heads * dim;
    let taps = linear.conv_len + 1;
    // queries, keys, values and gates; what leads to the decay; the step, to a row of 16
    let outputs = round_up(4 * inner + dim + heads, 16)?;
    sheet.matrix(part, times, plain, hidden, &[outputs]);
    sheet.matrix(part, times, plain, dim, &[inner]);
    sheet.matrix(part, times, plain, inner, &[hidden]);
    sheet.norms(times, dim);
    // the convolution, `dt_bias` and `A_log`
    sheet.float(part, product(&[times, 3 * inner * taps + inner + heads]));
    let fuses =
        FUSED_HEADS.contains(&heads) || rank.arch == Arch::Sm100 && heads == FLASHINFER_HEADS;
    if fuses && dim == 128 && taps == 4 {
        sheet.float(part, product(&[times, 3 * inner * taps + dim]));
    }
    Ok(())
}

fn experts(rank: &Rank, sheet: &mut Sheet, times: u64) -> Result<(), Uncounted> {
    let (part, hidden) = (Part::Experts, rank.hidden()?);
    let (experts, inner) = (
        rank.size(Size::NumExperts)?,
        rank.size(Size::RoutedExpertHiddenSize)?,
    );
    sheet.own(part, product(&[times, experts, hidden]));
    sheet.float(part, product(&[times, experts]));
    let width = rank.size(Size::MoeIntermediateSize)?;
    let shared = rank.size_or(Size::NumSharedExperts, 0);
    if shared > 0 {
        let width = product(&[width, shared]) / rank.shared_ranks();
        sheet.mlp(times, rank.quant(Module::Shared)?, hidden, width);
    }
    sheet.own(part, product(&[times, 2, hidden, inner]));
    if rank.size_or(Size::LatentMoeUseNorm, 0) == 1 {
        sheet.norms(times, inner);
    }
    let quant = rank.quant(Module::Experts)?;
    if quant != Quant::Mxfp4 {
        return not_modelled("Kimi K3 without mxfp4");
    }
    let padded = if rank.ranks > 1 && rank.spread == 1 && width / rank.ranks < LEAST_SLICE {
        LEAST_SLICE * rank.ranks
    } else {
        width
    };
    let tile = rank.mxfp4_tile();
    rank.routed(
        times,
        sheet,
        quant,
        Experts {
            held: experts,
            shards: 2,
            hidden: round_up(inner, tile.1)?,
            width: round_up(padded / rank.slices, tile.0)?,
            bias: false,
        },
    );
    Ok(())
}
