//! Linear attention and Mamba among full attention. Mirrors
//! `vllm/model_executor/models/qwen3_5.py`, `nemotron_h.py` and
//! `vllm/model_executor/layers/mamba/`.

use super::dense::{QkNorm, attention, kinds};
use super::linear::{Experts, Quant};
use super::sheet::{Part, Sheet, product};
use super::{Head, Rank, Uncounted, not_modelled, rope, tower};
use crate::gpu::Arch;
use crate::model::Decoder;
use crate::model::decoder::{LayerKind, Linear};
use crate::model::parameters::Size;
use crate::model::scheme::Module;

/// The state of linear layers, and how many there are.
fn linears(decoder: &Decoder) -> Option<(Linear, u64)> {
    let mut all = decoder.layers.iter().filter_map(|layer| match layer.kind {
        LayerKind::Linear(linear) => Some(linear),
        LayerKind::Attention(_) | LayerKind::Mla { .. } => None,
    });
    let first = all.next()?;
    Some((first, 1 + all.count() as u64))
}

pub(super) fn qwen3_5(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    rank.embedding(&mut sheet, Head::TiedIfSaid)?;
    let (hidden, part) = (rank.hidden()?, Part::Attention);
    let layers = decoder.layers.len() as u64;
    sheet.norms(1, hidden);
    sheet.norms(layers, 2 * hidden);
    if let Some((linear, times)) = linears(decoder) {
        let quant = rank.quant(Module::Linear)?;
        let values = product(&[linear.heads, linear.rows]) / rank.ranks;
        let keys = (linear.conv_dim / rank.ranks).saturating_sub(values) / 2;
        let heads = linear.heads / rank.ranks;
        sheet.matrix(part, times, quant, hidden, &[keys, keys, values, values]);
        sheet.matrix(part, times, Quant::Plain, hidden, &[heads, heads]);
        sheet.matrix(part, times, quant, values, &[hidden]);
        let convolution = linear.conv_dim / rank.ranks * (linear.conv_len + 1);
        // the convolution, `dt_bias` and a norm; `A_log`
        sheet.own(part, product(&[times, convolution + heads + linear.rows]));
        sheet.float(part, product(&[times, heads]));
    }
    let mut head_dim = 0;
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::Head, false)?;
        head_dim = one.head_dim;
    }
    rope::tables(rank, &mut sheet, 1, rope::turned(rank, head_dim))?;
    mlps(rank, &mut sheet, layers)?;
    tower::qwen3(rank, &mut sheet)?;
    Ok(sheet)
}

/// Layers of attention over the state and the token.
/// Mirrors `vllm/model_executor/models/qwen3_5_mtp.py`.
pub(super) fn qwen3_5_mtp(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let hidden = rank.hidden()?;
    let layers = decoder.layers.len() as u64;
    let joined = [hidden / rank.ranks];
    sheet.matrix(Part::Attention, 1, Quant::Plain, 2 * hidden, &joined);
    sheet.norms(3 + 2 * layers, hidden);
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::Head, false)?;
    }
    mlps(rank, &mut sheet, layers)?;
    Ok(sheet)
}

/// `vllm/model_executor/models/qwen3_next.py` `Qwen3NextSparseMoeBlock`, or an MLP.
pub(super) fn mlps(rank: &Rank, sheet: &mut Sheet, layers: u64) -> Result<(), Uncounted> {
    let hidden = rank.hidden()?;
    let experts = rank.size_or(Size::NumExperts, 0);
    if experts == 0 {
        let width = rank.size(Size::IntermediateSize)? / rank.ranks;
        sheet.mlp(layers, rank.quant(Module::Dense)?, hidden, width);
        return Ok(());
    }
    if rank.parameters().dense_layers > 0 {
        return not_modelled("experts in some layers");
    }
    sheet.own(Part::Experts, product(&[layers, experts, hidden]));
    let shared = rank.size_or(Size::SharedExpertIntermediateSize, 0);
    if shared > 0 {
        let width = shared / rank.shared_ranks();
        sheet.mlp(layers, rank.quant(Module::Shared)?, hidden, width);
        sheet.own(Part::Mlp, product(&[layers, hidden]));
    }
    rank.gated_experts(layers, sheet, experts, hidden, Size::MoeIntermediateSize)
}

pub(super) fn nemotron_h(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let parameters = rank.parameters();
    rank.embedding(&mut sheet, Head::Own)?;
    let hidden = rank.hidden()?;
    sheet.norms(1 + parameters.pattern.all, hidden);
    if let Some((linear, times)) = linears(decoder) {
        mamba(rank, &mut sheet, times, &linear)?;
    }
    for (one, times) in kinds(decoder) {
        attention(rank, &mut sheet, times, &one, QkNorm::None, false)?;
    }
    let plain = parameters.pattern.mlps;
    if plain > 0 {
        let width = rank.size(Size::IntermediateSize)? / rank.ranks;
        let quant = rank.quant(Module::Dense)?;
        sheet.matrix(Part::Mlp, plain, quant, hidden, &[width]);
        sheet.matrix(Part::Mlp, plain, quant, width, &[hidden]);
    }
    if parameters.pattern.experts > 0 {
        latent_experts(rank, &mut sheet, parameters.pattern.experts)?;
    }
    Ok(sheet)
}

/// `vllm/model_executor/layers/mamba/mamba_mixer2.py`
fn mamba(rank: &Rank, sheet: &mut Sheet, times: u64, linear: &Linear) -> Result<(), Uncounted> {
    let (part, hidden) = (Part::Attention, rank.hidden()?);
    let Some((groups, twice_state)) = linear.groups else {
        return not_modelled("Mamba without groups");
    };
    // groups that do not divide are replicated: one to a rank
    let groups = if groups.is_multiple_of(rank.ranks) {
        groups / rank.ranks
    } else {
        1
    };
    let (inner, heads) = (linear.conv_dim / rank.ranks, linear.heads / rank.ranks);
    let states = groups * twice_state;
    let convolution = inner + states;
    let quant = rank.quant(Module::Linear)?;
    let outputs = [inner, inner, states / 2, states / 2, heads];
    sheet.matrix(part, times, quant, hidden, &outputs);
    sheet.matrix(part, times, quant, inner, &[hidden]);
    // the convolution and its bias, the same once more as the kernel reads it; `D`,
    // `dt_bias` and a norm; `A`
    let rows = 2 * (linear.conv_len + 1) + 1;
    let own = product(&[convolution, rows]) + 2 * heads + inner;
    sheet.own(part, product(&[times, own]));
    sheet.float(part, product(&[times, heads]));
    Ok(())
}

/// Experts without a gate, in a narrower space if there is one.
fn latent_experts(rank: &Rank, sheet: &mut Sheet, times: u64) -> Result<(), Uncounted> {
    let (hidden, part) = (rank.hidden()?, Part::Experts);
    let experts = rank.size(Size::NRoutedExperts)?;
    // `gate_linear.py`: float32 where there is no kernel that computes in it
    let router = match rank.arch {
        Arch::Sm90 | Arch::Sm100 => rank.element,
        Arch::Sm120 => 4,
    };
    sheet.of(part, product(&[times, experts, hidden]), router);
    sheet.float(part, product(&[times, experts]));
    let shared = rank.size_or(Size::NSharedExperts, 0);
    if shared > 0 {
        let width = product(&[rank.size(Size::MoeSharedExpertIntermediateSize)?, shared]);
        let width = width / rank.shared_ranks();
        let quant = rank.quant(Module::Shared)?;
        sheet.matrix(Part::Mlp, times, quant, hidden, &[width]);
        sheet.matrix(Part::Mlp, times, quant, width, &[hidden]);
    }
    let inner = match rank.size_or(Size::MoeLatentSize, 0) {
        0 => hidden,
        latent => {
            sheet.matrix(part, times, Quant::Plain, hidden, &[latent]);
            sheet.matrix(part, times, Quant::Plain, latent, &[hidden]);
            latent
        }
    };
    let quant = rank.quant(Module::Experts)?;
    let width = rank.size(Size::MoeIntermediateSize)?;
    rank.routed(
        times,
        sheet,
        quant,
        Experts {
            held: experts,
            shards: 1,
            hidden: inner,
            width: rank.expert_slice(width, quant)?,
            bias: false,
        },
    );
    Ok(())
}
