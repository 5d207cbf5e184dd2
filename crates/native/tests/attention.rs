//! A decode step against a reference in float64.

mod common;

use common::{V4, V32, plan};
use kv_native::number::from_bfloat16;
use kv_native::{DecodeStep, HostMemory, Memory, Pool, PoolPlan, Selection, TensorScales};
use kv_resolver::spec::LayerRole;
use serde_json::Value;

/// The most that an output may be off, of the largest value that is summed up.
const TOLERANCE: f64 = 2e-6;

/// A number from -1 to 1.
fn noise(at: usize) -> f32 {
    let mixed = (at as u64)
        .wrapping_add(77)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    f32::from(u16::try_from(mixed >> 48).unwrap()) / 32_768.0 - 1.0
}

/// Softmax and sum in float64, of rows as they are read back.
fn reference(step: &DecodeStep<'_>, rows: &[Vec<f32>], width: usize) -> Vec<f64> {
    let row = width;
    let mut outputs = Vec::new();
    for token in 0..step.tokens {
        let rows: Vec<&[f32]> = rows[token].chunks(row).collect();
        for head in 0..step.heads {
            let at = (token * step.heads + head) * row;
            let query = &step.queries[at..at + row];
            let score = |row: &[f32]| -> f64 {
                let products = row.iter().zip(query);
                products
                    .map(|(a, b)| f64::from(*a) * f64::from(*b))
                    .sum::<f64>()
                    * f64::from(step.scale)
            };
            let scores: Vec<f64> = rows.iter().map(|row| score(row)).collect();
            let sink = step.sinks.map(|sinks| f64::from(sinks[head]).exp());
            let weights: Vec<f64> = scores.iter().map(|score| score.exp()).collect();
            let sum = weights.iter().sum::<f64>() + sink.unwrap_or(0.0);
            for element in 0..step.value_elements {
                let parts = weights.iter().zip(&rows);
                outputs.push(
                    parts
                        .map(|(weight, row)| weight / sum * f64::from(row[element]))
                        .sum(),
                );
            }
        }
    }
    outputs
}

fn pool(plan: PoolPlan, roles: &[LayerRole]) -> (Pool<HostMemory>, Vec<usize>) {
    let layers = roles.iter().map(|role| {
        let mut layers = plan.layers.iter();
        layers.position(|layer| layer.role == *role).unwrap()
    });
    let layers: Vec<usize> = layers.collect();
    let mut pool = Pool::on_host(plan).unwrap();
    pool.tables_mut().grow(1, 0, 512).unwrap();
    for layer in &layers {
        let kind = pool.plan().kinds[pool.plan().layers[*layer].kind].clone();
        let states = 512 / kind.tokens_per_state;
        let elements = kind.format.unwrap().token_elements();
        let numbers = usize::try_from(states * elements).unwrap();
        let rows: Vec<f32> = (0..numbers).map(|at| noise(at * 7 + layer)).collect();
        pool.write(*layer, 1, 0, &rows, TensorScales::default())
            .unwrap();
    }
    (pool, layers)
}

/// The slots of each token's chosen states; some of them none.
fn chosen(
    pool: &Pool<HostMemory>,
    layer: usize,
    tokens: usize,
    width: usize,
    states: u64,
) -> Vec<i64> {
    let all = pool.slots(layer, 1, 0..states).unwrap();
    (0..tokens * width)
        .map(|at| {
            if at % 5 == 4 {
                -1
            } else {
                all[(at * 13 + at / width) % all.len()]
            }
        })
        .collect()
}

fn check(roles: &[LayerRole], plan: PoolPlan, with_sinks: bool, value_elements: usize) {
    let (pool, layers) = pool(plan, roles);
    let (tokens, heads) = (3, 4);
    let scales = TensorScales::default();
    let mut selections = Vec::new();
    let widths = [24, 40];
    let slots: Vec<Vec<i64>> = layers
        .iter()
        .zip(widths)
        .map(|(layer, width)| {
            let kind = pool.plan().layers[*layer].kind;
            let states = 512 / pool.plan().kinds[kind].tokens_per_state;
            chosen(&pool, *layer, tokens, width, states)
        })
        .collect();
    for (layer, slots) in layers.iter().zip(&slots) {
        let layer = pool.slots_of(*layer, scales).unwrap();
        selections.push(Selection { layer, slots });
    }
    let row = usize::try_from(selections[0].layer.format.row_elements).unwrap();
    let queries: Vec<f32> = (0..tokens * heads * row).map(|at| noise(at * 3)).collect();
    let sinks = [0.5, -1.0, 2.0, 0.0];
    let step = DecodeStep {
        queries: &queries,
        tokens,
        heads,
        selections: &selections,
        scale: 0.0442,
        sinks: with_sinks.then_some(&sinks[..]),
        value_elements,
    };
    let rows: Vec<Vec<f32>> = (0..tokens)
        .map(|token| {
            let of_each = selections.iter().flat_map(|selection| {
                let width = selection.slots.len() / tokens;
                let slots = &selection.slots[token * width..(token + 1) * width];
                let some: Vec<i64> = slots.iter().copied().filter(|slot| *slot >= 0).collect();
                pool.memory().load(selection.layer, &some).unwrap()
            });
            of_each.collect()
        })
        .collect();
    let expected = reference(&step, &rows, row);
    let outputs = pool.memory().attend(step).unwrap();
    assert_eq!(outputs.len(), expected.len());
    let mut worst = 0.0_f64;
    for (here, expected) in outputs.iter().zip(&expected) {
        worst = worst.max((f64::from(*here) - expected).abs());
    }
    println!("{roles:?}: the worst is off by {worst:e}");
    assert!(worst <= TOLERANCE, "{worst:e}");
    assert!(expected.iter().any(|value| value.abs() > 0.01));
}

#[test]
fn v4_over_the_window_and_the_compressed() {
    let plan = plan(V4, "h200", 256 << 20);
    check(&[LayerRole::Window, LayerRole::C4], plan.clone(), true, 512);
    check(
        &[LayerRole::Window, LayerRole::C128],
        plan.clone(),
        true,
        512,
    );
    check(&[LayerRole::Window], plan, false, 512);
}

#[test]
fn v32_sums_the_latent_vector_alone() {
    check(&[LayerRole::Mla], plan(V32, "h200", 256 << 20), false, 512);
}

#[test]
fn a_token_of_no_slots_is_zero_and_a_sink_takes_its_share() {
    let (pool, layers) = pool(plan(V4, "h200", 256 << 20), &[LayerRole::Window]);
    let layer = pool.slots_of(layers[0], TensorScales::default()).unwrap();
    let queries = vec![0.0; 2 * 512];
    let slot = pool.slots(layers[0], 1, 500..501).unwrap()[0];
    let slots = [-1, slot];
    let step = DecodeStep {
        queries: &queries,
        tokens: 2,
        heads: 1,
        selections: &[Selection {
            layer,
            slots: &slots,
        }],
        scale: 1.0,
        // of a score of 0: an equal share
        sinks: Some(&[0.0]),
        value_elements: 512,
    };
    let outputs = pool.memory().attend(step).unwrap();
    assert!(outputs[..512].iter().all(|value| *value == 0.0));
    let row = pool.memory().load(layer, &[slot]).unwrap();
    for (output, value) in outputs[512..].iter().zip(&row) {
        assert!((output - value / 2.0).abs() < 1e-6);
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let (pool, layers) = pool(plan(V4, "h200", 256 << 20), &[LayerRole::Window]);
    let layer = pool.slots_of(layers[0], TensorScales::default()).unwrap();
    let queries = vec![0.0; 512];
    let step = DecodeStep {
        queries: &queries,
        tokens: 1,
        heads: 1,
        selections: &[Selection { layer, slots: &[0] }],
        scale: 1.0,
        sinks: None,
        value_elements: 512,
    };
    assert!(pool.memory().attend(step).is_ok());
    assert!(
        pool.memory()
            .attend(DecodeStep { heads: 2, ..step })
            .is_err()
    );
    assert!(
        pool.memory()
            .attend(DecodeStep {
                value_elements: 513,
                ..step
            })
            .is_err()
    );
    let past = i64::try_from(layer.slots()).unwrap();
    let selections = [Selection {
        layer,
        slots: &[past],
    }];
    assert!(
        pool.memory()
            .attend(DecodeStep {
                selections: &selections,
                ..step
            })
            .is_err()
    );
}

/// vLLM's own decode kernel (`tests/oracle/golden_pages.py` `decode`): the same outputs as far as bfloat16 tells, and with
/// sinks what its sums make of them.
#[test]
fn outputs_are_those_of_vllms_kernel() {
    let index: Value = serde_json::from_str(include_str!("golden/index.json")).unwrap();
    let decode = &index["decode"];
    let count = |key: &str| usize::try_from(decode[key].as_u64().unwrap()).unwrap();
    let (tokens, heads) = (count("tokens"), count("heads"));
    let rows = [
        bfloat16(include_bytes!("golden/decode.window")),
        bfloat16(include_bytes!("golden/decode.compressed")),
    ];
    let queries = bfloat16(include_bytes!("golden/decode.queries"));
    let expected = bfloat16(include_bytes!("golden/decode.outputs"));
    let lse = decode["lse"].as_array().unwrap().iter();
    let lse: Vec<f64> = lse.map(|value| value.as_f64().unwrap()).collect();

    // the rows in block 1 of a layer each
    let plan = plan(V4, "h200", 256 << 20);
    let mut pool = Pool::on_host(plan).unwrap();
    let layers = [LayerRole::Window, LayerRole::C4].map(|role| {
        let mut layers = pool.plan().layers.iter();
        layers.position(|layer| layer.role == role).unwrap()
    });
    let window = rows[0].len() / 512;
    for (layer, rows) in layers.into_iter().zip(&rows) {
        let slots: Vec<i64> = (64..).take(rows.len() / 512).collect();
        pool.store(layer, &slots, rows, TensorScales::default())
            .unwrap();
    }
    let mut slots = [Vec::new(), Vec::new()];
    for chosen in decode["chosen"].as_array().unwrap() {
        for row in chosen.as_array().unwrap() {
            let row = row.as_i64().unwrap();
            let past = row - i64::try_from(window).unwrap();
            slots[0].push(if row >= 0 && past < 0 { 64 + row } else { -1 });
            slots[1].push(if past >= 0 { 64 + past } else { -1 });
        }
    }
    let selections = [0, 1].map(|at| Selection {
        layer: pool.slots_of(layers[at], TensorScales::default()).unwrap(),
        slots: &slots[at],
    });
    #[allow(clippy::cast_possible_truncation)] // as the kernel is given it
    let step = DecodeStep {
        queries: &queries,
        tokens,
        heads,
        selections: &selections,
        scale: decode["scale"].as_f64().unwrap() as f32,
        sinks: None,
        value_elements: 512,
    };
    let close = |here: f32, vllm: f64| (f64::from(here) - vllm).abs() <= vllm.abs() / 256.0 + 1e-6;
    let outputs = pool.memory().attend(step).unwrap();
    assert_eq!(outputs.len(), expected.len());
    for (here, vllm) in outputs.iter().zip(&expected) {
        assert!(close(*here, f64::from(*vllm)), "{here} and {vllm}");
    }
    let sinks = [4.0, -2.0, 3.5, 0.0];
    let step = DecodeStep {
        sinks: Some(&sinks),
        ..step
    };
    let outputs = pool.memory().attend(step).unwrap();
    for (at, (here, vllm)) in outputs.iter().zip(&expected).enumerate() {
        let head = at / 512;
        let share = 1.0 / (1.0 + (f64::from(sinks[head % heads]) - lse[head]).exp());
        assert!(
            close(*here, f64::from(*vllm) * share),
            "{here} and {vllm} x {share}"
        );
    }
}

fn bfloat16(bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.chunks_exact(2);
    halves
        .map(|bytes| from_bfloat16(u16::from_le_bytes([bytes[0], bytes[1]])))
        .collect()
}
