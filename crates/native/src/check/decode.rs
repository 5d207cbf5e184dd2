//! A decode step, held against float64.

use kv_resolver::spec::LayerRole;

use super::{ATTENTION_TOLERANCE, CheckError, Noise, SCALES, one_of_each};
use crate::memory::{DecodeStep, Memory, Selection};
use crate::pool::Pool;

/// A decode step in each kind of layer that attention reads so, against float64.
pub(super) fn attention<M: Memory>(pool: &mut Pool<M>) -> Result<Option<(f64, usize)>, CheckError> {
    const HEADS: usize = 8;
    let layers = one_of_each(pool.plan()).into_iter();
    let attends = |role| {
        matches!(
            role,
            LayerRole::Window | LayerRole::C4 | LayerRole::C128 | LayerRole::Mla
        )
    };
    let mut noise = Noise(2);
    let mut worst = None;
    for layer in layers {
        let place = pool.plan().layers[layer].clone();
        if !attends(place.role) {
            continue;
        }
        let name = &place.name;
        // slots of blocks that traffic wrote, and of some that it did not
        let slots = pool.slots_of(layer, SCALES)?;
        let count = slots.slots().min(96);
        let chosen: Vec<i64> = (0..count)
            .map(|slot| {
                if slot % 7 == 6 {
                    -1
                } else {
                    slot.cast_signed()
                }
            })
            .collect();
        let elements = slots.format.token_elements();
        let values = usize::try_from(elements).unwrap_or(0).min(512);
        let rows = noise.rows(elements * count);
        pool.store(layer, &chosen, &rows, SCALES)?;
        let slots = pool.slots_of(layer, SCALES)?;
        let queries = noise.rows(elements * HEADS as u64);
        let sinks = noise.rows(HEADS as u64);
        let step = DecodeStep {
            queries: &queries,
            tokens: 1,
            heads: HEADS,
            selections: &[Selection {
                layer: slots,
                slots: &chosen,
            }],
            scale: 0.044_194,
            sinks: Some(&sinks),
            value_elements: values,
        };
        let outputs = pool.memory().attend(step)?;
        let some: Vec<i64> = chosen.iter().copied().filter(|slot| *slot >= 0).collect();
        let rows = pool.memory().load(slots, &some)?;
        let error = furthest(&step, &rows, &outputs);
        if error > ATTENTION_TOLERANCE {
            let layer = name.clone();
            return Err(CheckError::Attention { layer, error });
        }
        let (before, kinds) = worst.unwrap_or((0.0, 0));
        worst = Some((error.max(before), kinds + 1));
    }
    Ok(worst)
}

/// How far outputs of one token are from those in float64.
fn furthest(step: &DecodeStep<'_>, rows: &[f32], outputs: &[f32]) -> f64 {
    let size = step.queries.len() / step.heads;
    let mut worst = 0.0_f64;
    for head in 0..step.heads {
        let query = &step.queries[head * size..(head + 1) * size];
        let score = |row: &[f32]| {
            let products = row.iter().zip(query);
            let dot: f64 = products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            (dot * f64::from(step.scale)).exp()
        };
        let weights: Vec<f64> = rows.chunks(size).map(score).collect();
        let sink = step.sinks.map_or(0.0, |sinks| f64::from(sinks[head]).exp());
        let sum: f64 = weights.iter().sum::<f64>() + sink;
        for element in 0..step.value_elements {
            let parts = weights.iter().zip(rows.chunks(size));
            let exact: f64 = parts
                .map(|(weight, row)| weight / sum * f64::from(row[element]))
                .sum();
            let here = outputs[head * step.value_elements + element];
            worst = worst.max((f64::from(here) - exact).abs());
        }
    }
    worst
}
