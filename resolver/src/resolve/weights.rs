//! Weights, beside the answer on the cache.

use crate::backend::deepseek_v4::{self as dsv4_backend, Implementation};
use crate::dtype::TorchDtype;
use crate::error::Refusal;
use crate::model::draft::Draft;
use crate::model::{Decoder, DeepseekV4};
use crate::speculation::Speculation;
use crate::trace::Trace;
use crate::weights::{Rank, WeightBytes, of_decoder, of_deepseek_v4, of_drafter, of_v4_draft};
use crate::{config::EngineConfig, weights::v4_attention};

/// A decoder's, and its drafter's.
pub(super) fn decoder(
    rank: &Rank,
    decoder: &Decoder,
    speculation: Option<&Speculation>,
    trace: &mut Trace,
) -> WeightBytes {
    let mut weights = WeightBytes::of(of_decoder(rank, decoder), trace);
    if let Some(speculation) = speculation
        && let Some(Draft::Decoder(drafter)) = &speculation.draft
    {
        let sheet = of_drafter(rank, drafter, speculation.method);
        weights.add_draft(sheet, trace);
    }
    weights
}

/// DeepSeek V4's, by the attention and the rows that its layers got, and those of
/// its draft layers, of which there are so many.
pub(super) fn deepseek_v4(
    rank: &Rank,
    model: &DeepseekV4,
    config: &EngineConfig,
    (implementation, rows): (Implementation, TorchDtype),
    draft: Option<(Implementation, TorchDtype, u64)>,
    trace: &mut Trace,
) -> Result<WeightBytes, Box<Refusal>> {
    let built = |implementation, rows| {
        let heads = dsv4_backend::padded_heads(config, model, implementation, rank.profile)?;
        let plain_fp8 = rows == TorchDtype::Float8E4m3fn;
        Ok::<_, Box<Refusal>>(v4_attention(implementation, heads, plain_fp8))
    };
    let attention = built(implementation, rows)?;
    let mut weights = WeightBytes::of(of_deepseek_v4(rank, model, &attention), trace);
    if let (Some((implementation, rows, count)), Some(speculation)) = (draft, &config.speculation) {
        let attention = built(implementation, rows)?;
        let fills_blocks = speculation.method.fills_blocks();
        let sheet = of_v4_draft(rank, model, count, &attention, fills_blocks);
        weights.add_draft(sheet, trace);
    }
    Ok(weights)
}
