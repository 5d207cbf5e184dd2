//! Rotary tables, which are buffers of the model. Mirrors
//! `vllm/model_executor/layers/rotary_embedding/`.

use super::sheet::{Part, Sheet, product};
use super::{Rank, Uncounted, not_modelled};
use crate::model::parameters::{Rope, Size};

/// Of a head's width, what is turned: in pairs, the last of which may be half.
pub(super) fn turned(rank: &Rank, head_dim: u64) -> u64 {
    rank.parameters().turned(head_dim).next_multiple_of(2)
}

/// Positions of a table.
pub(super) fn rows(rank: &Rank) -> Result<u64, Uncounted> {
    match rank.parameters().rope {
        Rope::Whole => rank.size(Size::MaxPositionEmbeddings),
        Rope::Sections => {
            let kind = rank.parameters().model_type.as_str();
            if !kind.starts_with("qwen3_vl") && !kind.starts_with("qwen3_5") {
                return not_modelled("this kind of rotary embedding");
            }
            // room for long videos, which these models no longer take:
            // `MRotaryEmbedding`, vllm/model_executor/models/qwen3_vl.py `mrope_positions_factor`
            let times = if rank.profile.weights.long_mrope {
                4
            } else {
                1
            };
            Ok(product(&[rank.size(Size::MaxPositionEmbeddings)?, times]))
        }
        Rope::Yarn(rows) => Ok(rows),
        Rope::Unknown => not_modelled("this kind of rotary embedding"),
    }
}

/// So many tables of the model's dtype, which layers share.
pub(super) fn tables(
    rank: &Rank,
    sheet: &mut Sheet,
    times: u64,
    width: u64,
) -> Result<(), Uncounted> {
    table(rank, sheet, product(&[times, width]), rank.element)
}

/// Tables so wide together, in elements of so many bytes, unless they are the target's.
pub(super) fn table(
    rank: &Rank,
    sheet: &mut Sheet,
    width: u64,
    element: u64,
) -> Result<(), Uncounted> {
    if !rank.shares_table {
        sheet.of(Part::Rest, product(&[rows(rank)?, width]), element);
    }
    Ok(())
}

/// DeepSeek V4's table with YaRN, in float32.
pub(super) fn v4(rank: &Rank, sheet: &mut Sheet) -> Result<(), Uncounted> {
    let width = rank.size(Size::QkRopeHeadDim)?;
    sheet.float(Part::Rest, product(&[rows(rank)?, width]));
    Ok(())
}

/// DeepSeek's kind of YaRN: in float32 where FlashInfer's kernel is to read it,
/// which is where custom kernels are on. `deepseek_scaling_rope.py`
pub(super) fn deepseek(
    rank: &Rank,
    sheet: &mut Sheet,
    times: u64,
    kernels: bool,
) -> Result<(), Uncounted> {
    let width = rank.size(Size::QkRopeHeadDim)?;
    let elements = product(&[times, rows(rank)?, width]);
    let is_yarn = matches!(rank.parameters().rope, Rope::Yarn(_));
    let bytes = if is_yarn && kernels && rank.element == 2 && matches!(width, 64 | 128 | 256 | 512)
    {
        4
    } else {
        rank.element
    };
    sheet.of(Part::Rest, elements, bytes);
    Ok(())
}

/// A table of the model's dtype over every position, however it is turned.
pub(super) fn whole(rank: &Rank, sheet: &mut Sheet, width: u64) -> Result<(), Uncounted> {
    let rows = rank.size(Size::MaxPositionEmbeddings)?;
    sheet.own(Part::Rest, product(&[rows, width]));
    Ok(())
}
