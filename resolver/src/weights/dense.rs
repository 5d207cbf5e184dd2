//! Llama, Qwen3 and what is built like them, dense or with experts. Mirrors
//! `vllm/model_executor/models/llama.py`, `qwen3.py`, `qwen3_moe.py`, `mixtral.py`,
//! `minimax_m2.py`, `nemotron_nas.py` and `qwen3_vl.py`.

use super::linear::Linear;
use super::sheet::{Part, Sheet, product};
use super::{Head, Rank, Uncounted, not_modelled, rope, tower};
use crate::model::Decoder;
use crate::model::decoder::{Attention, LayerKind};
use crate::model::parameters::Size;
use crate::model::scheme::Module;

/// Layers with attention, by what they keep.
pub(super) fn kinds(decoder: &Decoder) -> Vec<(Attention, u64)> {
    let mut kinds: Vec<(Attention, u64)> = Vec::new();
    for layer in &decoder.layers {
        let LayerKind::Attention(attention) = layer.kind else {
            continue;
        };
        let attention = Attention {
            window: None,
            chunk: None,
            ..attention
        };
        match kinds.iter_mut().find(|(kind, _)| *kind == attention) {
            Some((_, count)) => *count += 1,
            None => kinds.push((attention, 1)),
        }
    }
    kinds
}

/// Norms of Q and K.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QkNorm {
    None,
    /// One head wide.
    Head,
    /// As wide as the rank's heads.
    Heads,
}

/// Projections, norms and scales of layers alike.
pub(super) fn attention(
    rank: &Rank,
    sheet: &mut Sheet,
    times: u64,
    one: &Attention,
    norm: QkNorm,
    bias: bool,
) -> Result<(), Uncounted> {
    let part = Part::Attention;
    let (quant, hidden) = (rank.quant(Module::Attention)?, rank.hidden()?);
    let (heads, kv) = (rank.heads(), rank.kv_heads(one.kv_heads));
    // a gate beside each query, in Qwen3.5
    let gates = if rank.size_or(Size::AttnOutputGate, 0) == 1 {
        2
    } else {
        1
    };
    let (queries, keys) = (heads * one.head_dim, kv * one.head_dim);
    let inputs = |outputs, inputs| Linear {
        inputs,
        outputs,
        bias,
    };
    let outputs = [queries * gates, keys, kv * one.head_dim_v];
    sheet.linear(part, times, quant, inputs(&outputs, hidden));
    sheet.linear(
        part,
        times,
        quant,
        inputs(&[hidden], heads * one.head_dim_v),
    );
    match norm {
        QkNorm::None => {}
        QkNorm::Head => sheet.norms(times, 2 * one.head_dim),
        QkNorm::Heads => sheet.norms(times, queries + keys),
    }
    rank.scales(sheet, times, false);
    Ok(())
}

pub(super) fn weights(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let parameters = rank.parameters();
    if rank.size_or(Size::AttentionBias, 0) != 0 {
        return not_modelled("`attention_bias`");
    }
    let kind = parameters.model_type.as_str();
    let head = match kind {
        "minimax_m2" => Head::Own,
        _ => Head::TiedIfSaid,
    };
    rank.embedding(&mut sheet, head)?;
    let hidden = rank.hidden()?;
    let layers = decoder.layers.len() as u64;
    // a block that is left out has no norm
    let blocks = layers
        + parameters
            .block_widths
            .as_ref()
            .map_or(layers, |all| all.len() as u64);
    sheet.norms(1 + blocks, hidden);
    let norm = match kind {
        "qwen3" | "qwen3_moe" | "qwen3_vl" | "qwen3_vl_moe" => QkNorm::Head,
        "minimax_m2" => QkNorm::Heads,
        _ => QkNorm::None,
    };
    let kinds = kinds(decoder);
    for (one, times) in &kinds {
        attention(rank, &mut sheet, *times, one, norm, false)?;
    }
    let head_dim = kinds.first().map_or(0, |(one, _)| one.head_dim);
    let width = match rank.parameters().sizes.get(Size::RotaryDim) {
        // a part of the head that is named counts before it
        Some(width) if kind == "minimax_m2" && parameters.rotary_part.is_none() => width,
        _ => rope::turned(rank, head_dim),
    };
    rope::tables(rank, &mut sheet, 1, width)?;
    mlps(rank, &mut sheet, layers)?;
    if matches!(kind, "qwen3_vl" | "qwen3_vl_moe") {
        tower::qwen3(rank, &mut sheet)?;
    }
    Ok(sheet)
}

fn mlps(rank: &Rank, sheet: &mut Sheet, layers: u64) -> Result<(), Uncounted> {
    let (parameters, hidden) = (rank.parameters(), rank.hidden()?);
    let kind = parameters.model_type.as_str();
    let (count, width) = match kind {
        "qwen3_moe" | "qwen3_vl_moe" => (Size::NumExperts, Size::MoeIntermediateSize),
        "mixtral" | "minimax_m2" => (Size::NumLocalExperts, Size::IntermediateSize),
        _ => {
            let quant = rank.quant(Module::Dense)?;
            if let Some(widths) = &parameters.block_widths {
                for width in widths {
                    sheet.mlp(1, quant, hidden, width / rank.ranks);
                }
                return Ok(());
            }
            let width = rank.size(Size::IntermediateSize)? / rank.ranks;
            sheet.mlp(layers, quant, hidden, width);
            return Ok(());
        }
    };
    if rank.size_or(Size::DecoderSparseStep, 1) != 1 || parameters.dense_layers > 0 {
        return not_modelled("experts in some layers");
    }
    let experts = rank.size(count)?;
    if rank.size_or(Size::SharedExpertIntermediateSize, 0) > 0 {
        return not_modelled("a shared expert of this family");
    }
    let gate = product(&[layers, experts, hidden]);
    if kind == "minimax_m2" {
        sheet.float(Part::Experts, gate);
        if rank.size_or(Size::UseRoutingBias, 0) == 1 {
            sheet.float(Part::Experts, product(&[layers, experts]));
        }
    } else {
        sheet.own(Part::Experts, gate);
    }
    rank.gated_experts(layers, sheet, experts, hidden, width)
}
