//! Latent attention with experts: DeepSeek V3 and V3.2, GLM-5, Kimi K2. Mirrors
//! `vllm/model_executor/models/deepseek_v2.py` and
//! `vllm/models/deepseek_v32/nvidia/model.py`.

use super::linear::Quant;
use super::sheet::{Part, Sheet, product};
use super::{Head, Rank, Uncounted, not_modelled, rope, tower};
use crate::memory::Interval;
use crate::model::Decoder;
use crate::model::decoder::{LayerKind, MlaDims};
use crate::model::parameters::Size;
use crate::model::scheme::Module;

pub(super) fn weights(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let kind = rank.parameters().model_type.as_str();
    let Some(dims) = decoder.mla else {
        return not_modelled("latent attention without its dimensions");
    };
    rank.embedding(&mut sheet, Head::Own)?;
    let hidden = rank.hidden()?;
    let layers = decoder.layers.len() as u64;
    sheet.norms(1, hidden);
    sheet.norms(layers, 2 * hidden);
    attention(rank, &mut sheet, layers, dims)?;
    let indexers = decoder
        .layers
        .iter()
        .filter(|layer| layer.kind == LayerKind::Mla { indexer: true })
        .count() as u64;
    indexer(rank, &mut sheet, indexers, decoder)?;
    let sparse = matches!(kind, "deepseek_v32" | "glm_moe_dsa");
    // an indexer turns its keys in its own way, unless it is told to interleave them
    let apart = indexers > 0 && rank.size_or(Size::IndexerRopeInterleave, 0) != 1;
    rope::deepseek(
        rank,
        &mut sheet,
        if apart { 2 } else { 1 },
        sparse && !rank.profile.weights.compiles_sparse_mla || rank.eager,
    )?;
    let dense = rank.size_or(Size::FirstKDenseReplace, 0).min(layers);
    if dense > 0 {
        // V3.2's model shares out the tokens before the first experts, too
        let as_v3 = kind == "glm_moe_dsa" && rank.profile.weights.glm_as_deepseek_v3;
        let ranks = if sparse && !as_v3 {
            rank.shared_ranks()
        } else {
            rank.ranks
        };
        let width = rank.size(Size::IntermediateSize)? / ranks;
        sheet.mlp(dense, rank.quant(Module::Dense)?, hidden, width);
    }
    experts(rank, &mut sheet, layers - dense)?;
    if kind == "kimi_k25" {
        tower::kimi_k25(rank, &mut sheet)?;
    }
    Ok(sheet)
}

/// MTP layers: a whole layer with experts, over a projection of the state and the token.
/// Mirrors `vllm/model_executor/models/deepseek_mtp.py` and
/// `vllm/models/deepseek_v32/nvidia/mtp.py`.
pub(super) fn mtp(rank: &Rank, decoder: &Decoder) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let Some(dims) = decoder.mla else {
        return not_modelled("latent attention without its dimensions");
    };
    let hidden = rank.hidden()?;
    let layers = decoder.layers.len() as u64;
    sheet.norms(5 * layers, hidden);
    sheet.matrix(Part::Attention, layers, Quant::Plain, 2 * hidden, &[hidden]);
    attention(rank, &mut sheet, layers, dims)?;
    if decoder.index_topk.is_some() {
        indexer(rank, &mut sheet, layers, decoder)?;
    }
    experts(rank, &mut sheet, layers)?;
    Ok(sheet)
}

fn attention(rank: &Rank, sheet: &mut Sheet, times: u64, dims: MlaDims) -> Result<(), Uncounted> {
    let quant = rank.quant(Module::Attention)?;
    gated_attention(rank, sheet, times, dims, quant, None)
}

/// The same with a gate of so many outputs beside what is projected down.
pub(super) fn gated_attention(
    rank: &Rank,
    sheet: &mut Sheet,
    times: u64,
    dims: MlaDims,
    quant: Quant,
    gate: Option<u64>,
) -> Result<(), Uncounted> {
    let (part, hidden) = (Part::Attention, rank.hidden()?);
    let (q_lora, heads) = (rank.size(Size::QLoraRank)?, rank.heads());
    let down: Vec<u64> = [q_lora, dims.row()].into_iter().chain(gate).collect();
    sheet.matrix(part, times, quant, hidden, &down);
    sheet.norms(times, q_lora + dims.kv_lora_rank);
    let query = dims.qk_nope_head_dim + dims.qk_rope_head_dim;
    sheet.matrix(part, times, quant, q_lora, &[heads * query]);
    let both = dims.qk_nope_head_dim + dims.v_head_dim;
    sheet.matrix(part, times, quant, dims.kv_lora_rank, &[heads * both]);
    if quant != Quant::Plain {
        // attention reads it as it was before it was quantised, and the layer stays:
        // vllm/model_executor/layers/attention/mla_attention.py
        // `MLAAttention.process_weights_after_loading`
        let copy = product(&[times, heads, both, dims.kv_lora_rank, rank.element]);
        sheet.repack(Interval::exact(copy));
    }
    sheet.matrix(part, times, quant, heads * dims.v_head_dim, &[hidden]);
    rank.scales(sheet, times, true);
    Ok(())
}

/// `vllm/models/deepseek_v32/nvidia/model.py` `Indexer`
fn indexer(rank: &Rank, sheet: &mut Sheet, times: u64, decoder: &Decoder) -> Result<(), Uncounted> {
    if times == 0 {
        return Ok(());
    }
    let part = Part::Attention;
    let (heads, dim) = (rank.size(Size::IndexNHeads)?, decoder.index_head_dim);
    let (q_lora, hidden) = (rank.size(Size::QLoraRank)?, rank.hidden()?);
    let quant = rank.quant(Module::Attention)?;
    sheet.matrix(part, times, quant, q_lora, &[product(&[heads, dim])]);
    sheet.matrix(part, times, Quant::Plain, hidden, &[dim, heads]);
    sheet.float(part, product(&[times, 2, dim]));
    Ok(())
}

fn experts(rank: &Rank, sheet: &mut Sheet, times: u64) -> Result<(), Uncounted> {
    let (hidden, part) = (rank.hidden()?, Part::Experts);
    let experts = rank.size(Size::NRoutedExperts)?;
    sheet.own(part, product(&[times, experts, hidden]));
    if rank.parameters().corrects_scores {
        sheet.float(part, product(&[times, experts]));
    }
    let width = rank.size(Size::MoeIntermediateSize)?;
    let shared = rank.size_or(Size::NSharedExperts, 0);
    if shared > 0 {
        let width = product(&[width, shared]) / rank.shared_ranks();
        sheet.mlp(times, rank.quant(Module::Shared)?, hidden, width);
    }
    rank.gated_experts(times, sheet, experts, hidden, Size::MoeIntermediateSize)
}
