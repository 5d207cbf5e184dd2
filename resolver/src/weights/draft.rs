//! A drafter's own weights.

use super::{
    Rank, Sheet, Uncounted, deepseek_v4, hybrid, mla, not_modelled, of_decoder, rope, told, windows,
};
use crate::model::DeepseekV4;
use crate::model::draft::Drafter;
use crate::speculation::Method;

/// Weights of DeepSeek V4's own draft layers.
pub(crate) fn of_v4_draft(
    rank: &Rank,
    model: &DeepseekV4,
    count: u64,
    attention: &deepseek_v4::Built,
    fills_blocks: bool,
) -> Result<Sheet, Uncounted> {
    told(rank)?;
    usual(rank)?;
    deepseek_v4::draft(rank, model, count, attention, fills_blocks)
}

/// A drafter's own weights, beside those of the target's that it takes. `rank` is the
/// target's.
pub(crate) fn of_drafter(
    rank: &Rank,
    drafter: &Drafter,
    method: Method,
) -> Result<Sheet, Uncounted> {
    told(rank)?;
    usual(rank)?;
    if !rank.profile.weights.families {
        return not_modelled("weights of this family on this release");
    }
    match method {
        Method::Mtp => {
            let rank = Rank {
                plain: rank.parameters().plain_draft,
                ..*rank
            };
            if !rank.plain && !rank.is_uniform() {
                return not_modelled("MTP layers of a checkpoint of several schemes");
            }
            let decoder = &drafter.decoder;
            match rank.parameters().model_type.as_str() {
                "deepseek_v3" | "deepseek_v32" | "glm_moe_dsa" => mla::mtp(&rank, decoder),
                "qwen3_5" | "qwen3_5_moe" => hybrid::qwen3_5_mtp(&rank, decoder),
                "mimo_v2_flash" => windows::mimo_v2_mtp(&rank, decoder),
                other => not_modelled(format!("MTP layers of {other}")),
            }
        }
        Method::DraftModel => {
            if drafter.common.dtype != rank.common.dtype {
                return not_modelled("a draft model of another dtype");
            }
            let (own, targets) = (&drafter.common.parameters, rank.parameters());
            let own_rank = Rank {
                common: &drafter.common,
                ..*rank
            };
            let shares_table = own.turned_by == targets.turned_by
                && rope::rows(&own_rank)? == rope::rows(rank)?
                && rope::turned(&own_rank, drafter.common.head_size)
                    == rope::turned(rank, rank.common.head_size)
                && drafter.common.head_size == rank.common.head_size;
            let rank = Rank {
                shares_table,
                ..own_rank
            };
            of_decoder(&rank, &drafter.decoder)
        }
        Method::Ngram
        | Method::NgramGpu
        | Method::Suffix
        | Method::CustomClass
        | Method::ExtractHiddenStates
        | Method::Eagle
        | Method::Eagle3
        | Method::Dflash
        | Method::Dspark => not_modelled(
            "whether its embedding and head are its own is told by its checkpoint's weights",
        ),
    }
}

/// A drafter as its checkpoint has it.
fn usual(rank: &Rank) -> Result<(), Uncounted> {
    match rank.odd_draft {
        Some(field) => not_modelled(format!("speculative_config.{field}")),
        None => Ok(()),
    }
}
