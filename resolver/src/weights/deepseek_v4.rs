//! DeepSeek V4. Mirrors `vllm/models/deepseek_v4/nvidia/model.py`, `attention.py`
//! and `compressor.py`.

use super::linear::{Experts, Quant};
use super::sheet::{Part, Sheet, product};
use super::{Head, Rank, Uncounted, VOCAB_PADDING, not_modelled, rope};
use crate::model::DeepseekV4;
use crate::model::deepseek_v4::Compression;
use crate::model::parameters::Size;
use crate::model::scheme::Module;
use crate::model::weights::Fp8Block;
use crate::units::round_up;

/// What of the attention the layers got shows in the weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Built {
    /// Query heads of the rank, as the kernel runs them.
    pub padded_heads: u64,
    /// Each layer has three scales of plain fp8 rows.
    pub scale_buffers: bool,
}

/// What all of its layers share.
struct Layer<'a> {
    rank: &'a Rank<'a>,
    block: Fp8Block,
    quant: Quant,
    hidden: u64,
    q_lora: u64,
    head_dim: u64,
}

pub(super) fn weights(rank: &Rank, model: &DeepseekV4, built: &Built) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let layer = Layer::of(rank, model)?;
    rank.embedding(&mut sheet, Head::Own)?;
    let count = model.layers.len() as u64;
    sheet.norms(1, layer.hidden);
    layer.head_streams(&mut sheet)?;
    layer.attention(&mut sheet, count, built)?;
    for (compression, coefficient) in [(Compression::C4, 2), (Compression::C128, 1)] {
        let times = model
            .layers
            .iter()
            .filter(|one| **one == compression)
            .count() as u64;
        layer.compressor(
            &mut sheet,
            times,
            compression.ratio(),
            coefficient * model.head_dim,
            model.head_dim,
        );
        if compression == Compression::C4 {
            layer.indexer(&mut sheet, times, model)?;
        }
    }
    let hashed = rank.size_or(Size::NumHashLayers, 0).min(count);
    layer.experts(&mut sheet, model, count, hashed)?;
    // one table with YaRN for layers that compress, one without
    let has = |compresses| {
        model
            .layers
            .iter()
            .any(|one| (*one != Compression::None) == compresses)
    };
    if has(true) {
        rope::v4(rank, &mut sheet)?;
    }
    if has(false) {
        layer.plain_table(&mut sheet)?;
    }
    Ok(sheet)
}

/// Draft layers, which do not compress; the embedding and the head are the target's.
/// Mirrors `mtp.py` `DeepSeekV4MultiTokenPredictorLayer` and `dspark.py`
/// `DSparkDeepseekV4Model`.
pub(super) fn draft(
    rank: &Rank,
    model: &DeepseekV4,
    count: u64,
    built: &Built,
    fills_blocks: bool,
) -> Result<Sheet, Uncounted> {
    let mut sheet = rank.sheet();
    let layer = Layer::of(rank, model)?;
    if rank.quant(Module::Experts)? == Quant::Nvfp4 {
        return not_modelled("DeepSeek V4's draft layers beside nvfp4 experts");
    }
    let (hidden, part) = (layer.hidden, Part::Attention);
    if fills_blocks {
        let states = rank.parameters().draft_states;
        if states == 0 {
            return not_modelled("`dspark_target_layer_ids` that is no list");
        }
        sheet.matrix(part, 1, layer.quant, product(&[states, hidden]), &[hidden]);
        let rules = rank.profile.weights.v4_dspark;
        if rules.projects_context {
            let keys = product(&[layer.head_dim, count]);
            sheet.matrix(part, 1, layer.quant, hidden, &[keys]);
        }
        sheet.norms(2, hidden);
        layer.head_streams(&mut sheet)?;
        let (width, rows) = (
            rank.size(Size::DsparkMarkovRank)?,
            rank.size(Size::VocabSize)?,
        );
        let drafted = round_up(rank.size_or(Size::DraftVocabSize, rows), VOCAB_PADDING)?;
        // a table of what each token says, and a head
        let rows = if rules.whole_markov {
            rows.saturating_add(drafted)
        } else {
            round_up(rows, VOCAB_PADDING)?.saturating_add(drafted) / rank.ranks
        };
        sheet.own(part, product(&[rows, width]));
        if rules.is_confident && rank.size_or(Size::EnableConfidenceHead, 1) == 1 {
            sheet.float(part, hidden + width);
        }
    } else {
        // each has projections of the state and of the token, and norms of them
        sheet.matrix(part, 2 * count, layer.quant, hidden, &[hidden]);
        sheet.norms(3 * count, hidden);
        for _ in 0..count {
            layer.head_streams(&mut sheet)?;
        }
    }
    layer.attention(&mut sheet, count, built)?;
    layer.experts(&mut sheet, model, count, 0)?;
    // the table without YaRN is the target's, where any layer of it does not compress
    if !model.layers.contains(&Compression::None) {
        layer.plain_table(&mut sheet)?;
    }
    Ok(sheet)
}

impl<'a> Layer<'a> {
    fn of(rank: &'a Rank<'a>, model: &DeepseekV4) -> Result<Self, Uncounted> {
        let Quant::Fp8Block(block, _) = rank.quant(Module::Attention)? else {
            return not_modelled("DeepSeek V4 without fp8 blocks");
        };
        // `quant_config.py` `is_scale_e8m0`
        let scale = if rank.parameters().fp8_experts { 4 } else { 1 };
        Ok(Self {
            rank,
            block,
            quant: Quant::Fp8Block(block, scale),
            hidden: rank.hidden()?,
            q_lora: rank.size(Size::QLoraRank)?,
            head_dim: model.head_dim,
        })
    }

    /// The rotary table of layers that do not compress.
    fn plain_table(&self, sheet: &mut Sheet) -> Result<(), Uncounted> {
        let rows = self.rank.size(Size::MaxPositionEmbeddings)?;
        let width = self.rank.size(Size::QkRopeHeadDim)?;
        sheet.float(Part::Rest, product(&[rows, width]));
        Ok(())
    }

    /// What joins the streams at the end.
    fn head_streams(&self, sheet: &mut Sheet) -> Result<(), Uncounted> {
        let streams = self.rank.size(Size::HcMult)?;
        sheet.float(Part::Rest, product(&[streams, streams, self.hidden]));
        sheet.float(Part::Rest, streams + 1);
        Ok(())
    }

    fn attention(&self, sheet: &mut Sheet, times: u64, built: &Built) -> Result<(), Uncounted> {
        let (rank, part) = (self.rank, Part::Attention);
        let (groups, o_lora) = (rank.size(Size::OGroups)?, rank.size(Size::OLoraRank)?);
        sheet.float(part, product(&[times, built.padded_heads]));
        sheet.matrix(
            part,
            times,
            self.quant,
            self.hidden,
            &[self.q_lora, self.head_dim],
        );
        let heads = rank.heads() * self.head_dim;
        sheet.matrix(part, times, self.quant, self.q_lora, &[heads]);
        let grouped = product(&[rank.common.num_attention_heads, self.head_dim]) / groups.max(1);
        let lora = product(&[groups, o_lora]) / rank.ranks;
        sheet.matrix(part, times, self.quant, grouped, &[lora]);
        sheet.matrix(part, times, self.quant, lora, &[self.hidden]);
        sheet.norms(times, self.q_lora);
        sheet.norms(times, self.head_dim);
        sheet.norms(times, 2 * self.hidden);
        if built.scale_buffers {
            sheet.float(Part::Rest, product(&[3, times]));
        }
        let streams = rank.size(Size::HcMult)?;
        let mixes = product(&[2 + streams, streams]);
        let each = product(&[mixes, streams, self.hidden]).saturating_add(mixes.saturating_add(3));
        sheet.float(Part::Rest, product(&[2, times, each]));
        Ok(())
    }

    fn compressor(&self, sheet: &mut Sheet, times: u64, ratio: u64, width: u64, head_dim: u64) {
        let part = Part::Attention;
        sheet.float(part, product(&[times, ratio, width]));
        sheet.matrix(part, times, Quant::Plain, self.hidden, &[width, width]);
        sheet.norms(times, head_dim);
    }

    fn indexer(&self, sheet: &mut Sheet, times: u64, model: &DeepseekV4) -> Result<(), Uncounted> {
        let (rank, part) = (self.rank, Part::Attention);
        let (heads, dim) = (rank.size(Size::IndexNHeads)?, model.index_head_dim);
        sheet.matrix(
            part,
            times,
            self.quant,
            self.q_lora,
            &[product(&[heads, dim])],
        );
        sheet.matrix(part, times, Quant::Plain, self.hidden, &[heads]);
        self.compressor(sheet, times, Compression::C4.ratio(), 2 * dim, dim);
        if rank.profile.weights.v4_norms_keys {
            sheet.float(part, product(&[times, 2, dim]));
        }
        Ok(())
    }

    /// Routers, shared experts and routed ones; the first layers route by a table.
    fn experts(
        &self,
        sheet: &mut Sheet,
        model: &DeepseekV4,
        count: u64,
        hashed: u64,
    ) -> Result<(), Uncounted> {
        let rank = self.rank;
        let experts = rank.size(Size::NRoutedExperts)?;
        let part = Part::Experts;
        sheet.own(part, product(&[count, experts, self.hidden]));
        let table = product(&[
            rank.size(Size::VocabSize)?,
            rank.size(Size::NumExpertsPerTok)?,
        ]);
        sheet.of(part, product(&[hashed, table]), 4);
        if rank.parameters().corrects_scores {
            sheet.float(part, product(&[count - hashed, experts]));
        }
        if model.n_shared_experts > 0 {
            let width = product(&[model.moe_intermediate_size, model.n_shared_experts]);
            let part = if rank.whole_shared && rank.profile.weights.v4_whole_shared {
                width
            } else if rank.profile.pads_shared_experts {
                (width / self.block.n).div_ceil(rank.ranks) * self.block.n
            } else {
                width / rank.ranks
            };
            sheet.mlp(count, self.quant, self.hidden, part);
        }
        let slice = model.moe_intermediate_size / rank.slices;
        let (quant, width, hidden) = if rank.parameters().fp8_experts {
            (Quant::Fp8Block(self.block, 4), slice, self.hidden)
        } else if rank.quant(Module::Experts)? == Quant::Nvfp4 {
            (Quant::Nvfp4, slice, self.hidden)
        } else {
            let (width, hidden) = rank.mxfp4_tile();
            (
                Quant::Mxfp4,
                round_up(slice, width)?,
                round_up(self.hidden, hidden)?,
            )
        };
        rank.routed(
            count,
            sheet,
            quant,
            Experts {
                held: experts,
                shards: 2,
                hidden,
                width,
                bias: false,
            },
        );
        Ok(())
    }
}
