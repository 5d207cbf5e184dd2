//! Vision towers and what joins them to the language model.

use super::linear::{Linear, Quant};
use super::sheet::{Part, Sheet, product};
use super::{Rank, Uncounted, not_modelled};
use crate::model::parameters::{Size, Sizes};

const PART: Part = Part::Tower;

struct Tower<'a> {
    sizes: &'a Sizes,
    sheet: &'a mut Sheet,
}

impl<'a> Tower<'a> {
    fn of(rank: &Rank<'a>, sheet: &'a mut Sheet) -> Result<Self, Uncounted> {
        match &rank.common.parameters.tower {
            Some(sizes) => Ok(Self { sizes, sheet }),
            None => not_modelled("a vision tower that config.json leaves to defaults"),
        }
    }

    fn size(&self, size: Size) -> Result<u64, Uncounted> {
        match self.sizes.get(size) {
            Some(number) => Ok(number),
            None => not_modelled(format!(
                "config.json's vision_config has no `{}`",
                size.wire()
            )),
        }
    }

    /// Of Kimi's towers: the width of a state, the number of blocks, the width of an
    /// MLP, and the ranks that share a block.
    fn kimi(&self, rank: &Rank) -> Result<(u64, u64, u64, u64), Uncounted> {
        let width = self.size(Size::VtHiddenSize)?;
        let depth = self.size(Size::VtNumHiddenLayers)?;
        let inner = self.size(Size::VtIntermediateSize)?;
        let heads = self.size(Size::VtNumAttentionHeads)?;
        // where its heads do not divide, each rank has a whole tower
        let divides = heads.is_multiple_of(rank.ranks);
        Ok((width, depth, inner, if divides { rank.ranks } else { 1 }))
    }

    /// So many elements.
    fn own(&mut self, factors: &[u64]) {
        self.sheet.own(PART, product(factors));
    }
}

/// Qwen3-VL's and Qwen3.5's. Mirrors `vllm/model_executor/models/qwen3_vl.py`
/// `Qwen3_VisionTransformer`.
pub(super) fn qwen3(rank: &Rank, sheet: &mut Sheet) -> Result<(), Uncounted> {
    let (ranks, deeper) = (rank.ranks, rank.common.parameters.deepstack);
    let mut tower = Tower::of(rank, sheet)?;
    let (width, depth) = (tower.size(Size::HiddenSize)?, tower.size(Size::Depth)?);
    let (inner, out) = (
        tower.size(Size::IntermediateSize)?,
        tower.size(Size::OutHiddenSize)?,
    );
    let (patch, heads) = (tower.size(Size::PatchSize)?, tower.size(Size::NumHeads)?);
    let frames = tower.size(Size::TemporalPatchSize)?;
    let channels = tower.size(Size::InChannels)?;
    tower.own(&[
        width,
        product(&[channels, frames, patch, patch]).saturating_add(1),
    ]);
    let positions = tower.size(Size::NumPositionEmbeddings)?;
    tower.own(&[positions, width]);
    blocks(tower.sheet, depth, width, inner, ranks);
    let merge = tower.size(Size::SpatialMergeSize)?;
    let merged = product(&[width, merge, merge]);
    // the last merger's norm is narrow, those of deeper layers are not
    tower.own(&[2, width]);
    tower.own(&[2, deeper, merged]);
    linear(tower.sheet, 1 + deeper, merged, merged / ranks);
    linear(tower.sheet, 1 + deeper, merged / ranks, out);
    // half of a head is turned, over 8,192 positions
    tower.own(&[8192, width / heads.max(1) / 2]);
    Ok(())
}

/// Kimi K2.5's. Mirrors `vllm/model_executor/models/kimi_k25_vit.py`.
pub(super) fn kimi_k25(rank: &Rank, sheet: &mut Sheet) -> Result<(), Uncounted> {
    let hidden = rank.hidden()?;
    let mut tower = Tower::of(rank, sheet)?;
    let (width, depth, inner, ranks) = tower.kimi(rank)?;
    let patch = tower.sizes.get(Size::PatchSize).unwrap_or(14);
    tower.own(&[width, product(&[3, patch, patch]).saturating_add(1)]);
    let (rows, columns) = (
        tower.size(Size::InitPosEmbHeight)?,
        tower.size(Size::InitPosEmbWidth)?,
    );
    tower.own(&[rows, columns, width]);
    // the tower is cast to the model's dtype where nothing quantises it, by vLLM's word
    let cast = rank.parameters().casts_tower;
    let frames = product(&[tower.size(Size::InitPosEmbTime)?, width]);
    let element = if cast { tower.sheet.element } else { 4 };
    tower.sheet.of(PART, frames, element);
    blocks(tower.sheet, depth, width, inner, ranks);
    // norms at the end and before the projector, and the projector of four patches
    tower.own(&[4, width]);
    linear(tower.sheet, 1, 4 * width, 4 * width);
    linear(tower.sheet, 1, 4 * width, hidden);
    Ok(())
}

/// Kimi K3's, without biases. Mirrors the same file.
pub(super) fn kimi_k3(rank: &Rank, sheet: &mut Sheet) -> Result<(), Uncounted> {
    let hidden = rank.hidden()?;
    let tower = Tower::of(rank, sheet)?;
    let (width, depth, inner, ranks) = tower.kimi(rank)?;
    let (inner, split) = (inner / ranks, tower.size(Size::QkvHiddenSize)? / ranks);
    let patch = tower.size(Size::PatchSize)?;
    let positions = product(&[
        tower.size(Size::InitPosEmbHeight)?,
        tower.size(Size::InitPosEmbWidth)?,
    ]);
    let frames = tower.size(Size::InitPosEmbTime)?;
    let sheet = tower.sheet;
    // patches, positions, and a norm at the end
    sheet.own(
        PART,
        product(&[width, product(&[3, patch, patch]) + positions + 1]),
    );
    sheet.own(PART, product(&[depth, width, 4 * split + 2 * inner + 2]));
    sheet.float(PART, product(&[frames, width]));
    // the projector of four patches, and its norm
    let four = 4 * width;
    sheet.own(PART, product(&[four, four + hidden]));
    sheet.own(PART, hidden);
    Ok(())
}

/// Gemma 4's, which is whole on each rank: transformers' own.
/// Mirrors `vllm/model_executor/models/gemma4_mm.py`.
pub(super) fn gemma4(rank: &Rank, sheet: &mut Sheet) -> Result<(), Uncounted> {
    let hidden = rank.hidden()?;
    let mut tower = Tower::of(rank, sheet)?;
    let (width, depth) = (
        tower.size(Size::HiddenSize)?,
        tower.size(Size::NumHiddenLayers)?,
    );
    let (inner, patch) = (
        tower.size(Size::IntermediateSize)?,
        tower.size(Size::PatchSize)?,
    );
    let head = tower.size(Size::HeadDim)?;
    let positions = tower.size(Size::PositionEmbeddingSize)?;
    tower.own(&[2, positions, width]);
    tower.own(&[width, product(&[3, patch, patch])]);
    tower.own(&[depth, width, 4 * width + 3 * inner + 4]);
    tower.own(&[depth, 2, head]);
    tower.own(&[hidden, width]);
    if tower.sizes.get(Size::Standardize) == Some(1) {
        tower.own(&[2, width]);
    }
    // two tables of frequencies, of a quarter of a head
    tower.sheet.float(PART, 2 * (head / 4));
    Ok(())
}

/// Llama 4's, of transformers' default sizes where config.json has none. Mirrors
/// `vllm/model_executor/models/mllama4.py`.
pub(super) fn llama4(rank: &Rank, sheet: &mut Sheet) -> Result<(), Uncounted> {
    let (hidden, ranks) = (rank.hidden()?, rank.ranks);
    let given = rank.common.parameters.tower.as_ref();
    let size = |size, absent| given.and_then(|sizes| sizes.get(size)).unwrap_or(absent);
    let (width, depth) = (size(Size::HiddenSize, 768), size(Size::NumHiddenLayers, 34));
    let (inner, patch) = (
        size(Size::IntermediateSize, 5632),
        size(Size::PatchSize, 14),
    );
    let (image, heads) = (
        size(Size::ImageSize, 448),
        size(Size::NumAttentionHeads, 16),
    );
    let middle = size(Size::ProjectorInputDim, 4096) / ranks;
    let out = size(Size::ProjectorOutputDim, 4096);
    let across = image / patch.max(1);
    let positions = product(&[across, across]) + 1;
    let own = |sheet: &mut Sheet, factors: &[u64]| sheet.own(PART, product(factors));
    // the class, positions, patches, and norms of a weight and a bias before and after
    own(sheet, &[width, 1 + positions + 4]);
    own(sheet, &[width / ranks, product(&[3, patch, patch])]);
    blocks(sheet, depth, width, inner, ranks);
    own(sheet, &[inner, middle]);
    own(sheet, &[middle, out]);
    own(sheet, &[hidden / ranks, size(Size::VisionOutputDim, 7680)]);
    // complex numbers of 8 bytes, for half of a head
    let turned = product(&[positions, width / heads.max(1) / 2]);
    sheet.of(PART, turned, 8);
    Ok(())
}

/// Layers of attention and an MLP with biases, and two norms of a weight and a bias.
fn blocks(sheet: &mut Sheet, depth: u64, width: u64, inner: u64, ranks: u64) {
    let (split, inner) = (width / ranks, inner / ranks);
    for (inputs, outputs) in [
        (width, 3 * split),
        (split, width),
        (width, inner),
        (inner, width),
    ] {
        linear(sheet, depth, inputs, outputs);
    }
    sheet.own(PART, product(&[depth, 4, width]));
}

/// A linear layer with a bias.
fn linear(sheet: &mut Sheet, times: u64, inputs: u64, outputs: u64) {
    let layer = Linear {
        inputs,
        outputs: &[outputs],
        bias: true,
    };
    sheet.linear(PART, times, Quant::Plain, layer);
}
