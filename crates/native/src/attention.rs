//! The sparse-MLA decode step on a host. Mirrors what `flash_mla_with_kvcache` is given and returns in
//! `vllm/models/deepseek_v4/nvidia/flashmla.py` `_forward_decode`: a row is key and value at once, and a sink joins the
//! softmax's sum alone.

use crate::error::MemoryError;
use crate::memory::{DecodeStep, Memory};

/// A step's outputs, its rows read from this memory.
pub(crate) fn attend(memory: &impl Memory, step: &DecodeStep<'_>) -> Result<Vec<f32>, MemoryError> {
    let Some(first) = step.selections.first() else {
        return Ok(vec![0.0; step.tokens * step.heads * step.value_elements]);
    };
    let row = usize::try_from(first.layer.format.row_elements).unwrap_or(usize::MAX);
    let mut outputs = vec![0.0; step.tokens * step.heads * step.value_elements];
    if outputs.is_empty() {
        return Ok(outputs);
    }
    let each = step.heads * step.value_elements;
    for (token, outputs) in outputs.chunks_mut(each).enumerate() {
        let mut rows = Vec::new();
        for selection in step.selections {
            let width = selection.slots.len() / step.tokens;
            let slots = &selection.slots[token * width..(token + 1) * width];
            let chosen: Vec<i64> = slots.iter().copied().filter(|slot| *slot >= 0).collect();
            rows.extend(memory.load(selection.layer, &chosen)?);
        }
        let queries = &step.queries[token * step.heads * row..(token + 1) * step.heads * row];
        let heads = queries
            .chunks(row)
            .zip(outputs.chunks_mut(step.value_elements));
        for (head, (query, output)) in heads.enumerate() {
            let sink = step.sinks.map(|sinks| sinks[head]);
            weigh(query, &rows, step.scale, sink, output);
        }
    }
    Ok(outputs)
}

/// One head: scores, softmax, sum.
fn weigh(query: &[f32], rows: &[f32], scale: f32, sink: Option<f32>, output: &mut [f32]) {
    let dot = |row: &[f32]| row.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
    let rows = || rows.chunks(query.len());
    let scores: Vec<f32> = rows().map(|row| dot(row) * scale).collect();
    if scores.is_empty() {
        return;
    }
    let sinks = sink.iter().copied();
    let highest = scores.iter().copied().chain(sinks).fold(f32::MIN, f32::max);
    let weights: Vec<f32> = scores.iter().map(|score| (score - highest).exp()).collect();
    let share = sink.map_or(0.0, |sink| (sink - highest).exp());
    let sum = weights.iter().sum::<f32>() + share;
    for (weight, row) in weights.iter().zip(rows()) {
        for (output, value) in output.iter_mut().zip(row) {
            *output += weight / sum * value;
        }
    }
}
