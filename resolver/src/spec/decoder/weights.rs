//! Weights that do not split over the ranks, by which a start-up ends before
//! any cache is sized.

use super::Context;
use crate::error::{Refusal, Stage};
use crate::model::weights::{Fp8Block, Split, Vision};
use crate::resolution::Note;
use crate::units::{gcd, round_up};

/// Rows that an embedding is padded to.
/// `vllm/model_executor/layers/vocab_parallel_embedding.py`
const VOCAB_PADDING: u64 = 64;
/// The finest blocks that scales of experts are spread to.
const LEAST_REFINED: u64 = 32;
/// Ranks of a usual node, up to which the catalog's models have been built.
const TRIED_RANKS: u64 = 8;

fn assertion(message: String) -> Box<Refusal> {
    Refusal::raised(Stage::Model, "AssertionError", message)
}

/// Mirrors `vllm/distributed/utils.py` `divide`.
fn divide(whole: u64, ranks: u64) -> Result<(), Box<Refusal>> {
    if whole.is_multiple_of(ranks) {
        Ok(())
    } else {
        Err(assertion(format!("{whole} is not divisible by {ranks}")))
    }
}

/// What is built before the layers: a vision tower, the embedding.
pub(super) fn before_layers(context: &Context) -> Result<(), Box<Refusal>> {
    let ranks = context.config.tensor_parallel_size;
    let weights = &context.common.weights;
    match weights.vision {
        Vision::Splits(width) => divide(width, ranks)?,
        Vision::SplitsWithHeads { heads, mlp } if heads.is_multiple_of(ranks) => {
            divide(mlp, ranks)?;
        }
        Vision::None | Vision::SplitsWithHeads { .. } => {}
        Vision::Unknown if ranks.is_power_of_two() => {}
        Vision::Unknown => {
            return Err(Refusal::not_modelled(format!(
                "tensor_parallel_size {ranks} of {}'s vision tower is not modelled",
                context.common.architecture
            )));
        }
    }
    match weights.vocab_size {
        Some(rows) => divide(round_up(rows, VOCAB_PADDING)?, ranks),
        None => Ok(()),
    }
}

/// The first layer's attention.
pub(super) fn attention(context: &Context) -> Result<(), Box<Refusal>> {
    check(context, &context.common.weights.attention)
}

/// What follows it: a dense MLP, or experts.
pub(super) fn mlp(context: &Context) -> Result<(), Box<Refusal>> {
    let weights = &context.common.weights;
    check(context, &weights.mlp)?;
    let Some(width) = weights.expert_width else {
        return Ok(());
    };
    let slices = context.config.expert_slices;
    // `vllm/model_executor/layers/fused_moe/config.py` `FusedMoEConfig.__post_init__`
    if !width.is_multiple_of(slices) {
        return Err(assertion(String::new()));
    }
    match weights.fp8_block {
        Some(block) if context.profile.refines_expert_blocks => {
            experts(width / slices, weights.hidden_size, block)
        }
        // `vllm/model_executor/layers/quantization/fp8.py` `create_weights` of 0.28
        Some(block) if slices == 1 && width.is_multiple_of(block.n) => Ok(()),
        Some(block) => whole_experts(width / slices, block),
        None => Ok(()),
    }
}

/// Mirrors `vllm/model_executor/layers/quantization/utils/fp8_utils.py`
/// `validate_fp8_block_shape`; merged columns are exempt.
fn check(context: &Context, splits: &[Split]) -> Result<(), Box<Refusal>> {
    let ranks = context.config.tensor_parallel_size;
    let Some(block) = context.common.weights.fp8_block.filter(|_| ranks > 1) else {
        return Ok(());
    };
    for split in splits {
        let (part, size, what, which) = match *split {
            Split::Inputs(width) => (
                width / ranks,
                block.k,
                "input_size_per_partition",
                "block_k",
            ),
            Split::Outputs(width) => (width / ranks, block.n, "output_partition_size", "block_n"),
        };
        if !part.is_multiple_of(size) {
            return Err(value_error(format!(
                "Weight {what} = {part} is not divisible by weight quantization {which} = {size}."
            )));
        }
    }
    Ok(())
}

fn value_error(message: String) -> Box<Refusal> {
    Refusal::raised(Stage::Model, "ValueError", message)
}

/// A slice of an expert that is no whole block has its scales spread to finer
/// ones, if there are such. Mirrors
/// `vllm/model_executor/layers/fused_moe/oracle/fp8.py` `refine_fp8_moe_block_shape`
/// and `fp8_utils.py` `validate_fp8_block_shape_moe`.
fn experts(width: u64, hidden_size: u64, block: Fp8Block) -> Result<(), Box<Refusal>> {
    let whole = |size| width.is_multiple_of(size);
    if whole(block.n) && whole(block.k) {
        return Ok(());
    }
    let finer = gcd(gcd(block.n, block.k), gcd(width, hidden_size));
    if finer >= LEAST_REFINED {
        return Ok(());
    }
    whole_experts(width, block)
}

/// A slice of an expert must be whole blocks.
fn whole_experts(width: u64, block: Fp8Block) -> Result<(), Box<Refusal>> {
    let whole = |size| width.is_multiple_of(size);
    if whole(block.n) && whole(block.k) {
        return Ok(());
    }
    Err(value_error(if whole(block.n) {
        format!(
            "The input_size of down's weight = {width} is not divisible by weight quantization \
             block_k = {}.",
            block.k
        )
    } else {
        format!(
            "The output_size of gate's and up's weight = {width} is not divisible by weight \
             quantization block_n = {}.",
            block.n
        )
    }))
}

/// Whether some weight may yet not split: only the embedding, the vision tower
/// and the quantised linear layers of some families are checked here.
pub(super) fn concern(context: &Context, notes: &mut Vec<Note>) -> bool {
    let ranks = context.config.tensor_parallel_size;
    if ranks.is_power_of_two() && ranks <= TRIED_RANKS {
        return false;
    }
    notes.push(Note::new(
        "weights-over-ranks",
        format!(
            "Whether every weight of {} splits over {ranks} ranks is not known: KV Explorer \
             checks the heads, the embedding, the vision tower's first split and block-quantised \
             linear layers. The cache is as shown if vLLM can build the model.",
            context.common.architecture
        ),
    ));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_sliced_by_whole_blocks_or_finer_ones() {
        let block = Fp8Block { n: 128, k: 128 };
        assert_eq!(experts(256, 2048, block), Ok(()));
        assert_eq!(experts(96, 2048, block), Ok(()));
        assert_eq!(
            experts(48, 2048, block).unwrap_err().to_string(),
            "The output_size of gate's and up's weight = 48 is not divisible by weight \
             quantization block_n = 128."
        );
        // whole rows are no whole blocks where those are longer, and 16 is finer than any scale is spread to
        let long = Fp8Block { n: 16, k: 64 };
        for refused in [experts(48, 2048, long), whole_experts(48, long)] {
            assert_eq!(
                refused.unwrap_err().to_string(),
                "The input_size of down's weight = 48 is not divisible by weight quantization \
                 block_k = 64."
            );
        }
        assert_eq!(whole_experts(64, long), Ok(()));
        assert_eq!(
            divide(32_000, 3).unwrap_err().to_string(),
            "32000 is not divisible by 3"
        );
    }
}
