//! Under random traffic: no block in two tables, nothing outside its page, everything free at the end.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use common::{V4, V32, plan};
use kv_native::blocks::NULL_BLOCK;
use kv_native::tables::BlockTables;
use kv_native::{BlockError, Memory, Pool, PoolPlan, TensorScales};
use proptest::prelude::*;

static V4_PLAN: LazyLock<PoolPlan> = LazyLock::new(|| plan(V4, "h200", 160 << 20));
static V32_PLAN: LazyLock<PoolPlan> = LazyLock::new(|| plan(V32, "h200", 160 << 20));

/// What a request does next.
#[derive(Debug, Clone)]
enum Step {
    /// So many tokens more.
    Grow(u64, u64),
    /// It ends.
    End(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..5, 1_u64..90).prop_map(|(request, tokens)| Step::Grow(request, tokens)),
        1 => (0_u64..5).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..60)
}

/// Every block is free, or in one place of one table of one request.
fn check_blocks(tables: &BlockTables, groups: usize) -> BTreeSet<u32> {
    let mut held = BTreeSet::new();
    for request in tables.requests() {
        for group in 0..groups {
            let table = tables.table(request, group).unwrap();
            for block in table.iter().filter(|block| **block != NULL_BLOCK) {
                assert!(held.insert(*block), "block {block} is in two places");
                assert_eq!(tables.pool().holders(*block), Ok(1));
            }
        }
    }
    let free: Vec<u32> = tables.pool().queue().collect();
    for block in &free {
        assert!(!held.contains(block), "block {block} is free and held");
        assert_ne!(*block, NULL_BLOCK);
    }
    assert_eq!(free.len() as u64, tables.pool().free_blocks());
    let all = tables.pool().num_blocks() - 1;
    assert_eq!(
        free.len() as u64 + held.len() as u64,
        all,
        "blocks are lost"
    );
    held
}

/// What a request's window still reaches has a block, and no more than that and the blocks ahead.
fn check_reach(tables: &BlockTables, plan: &PoolPlan, request: u64, computed: u64, tokens: u64) {
    for (number, group) in plan.groups.iter().enumerate() {
        let table = tables.table(request, number).unwrap();
        let size = group.tokens_per_block;
        assert_eq!(table.len() as u64, tokens.div_ceil(size));
        let behind = group.keeps.skipped(computed) / size;
        for (at, block) in (0..).zip(table) {
            assert_eq!(
                *block == NULL_BLOCK,
                at < behind,
                "group {number}, block {at}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_block_is_in_two_tables(steps in steps()) {
        let plan = &*V4_PLAN;
        let mut tables = BlockTables::new(plan).unwrap();
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Grow(request, more) => {
                    let computed = lengths.get(&request).copied().unwrap_or(0);
                    match tables.grow(request, computed, computed + more) {
                        Ok(_) => {
                            lengths.insert(request, computed + more);
                            check_reach(&tables, plan, request, computed, computed + more);
                        }
                        Err(BlockError::OutOfBlocks { needed, free }) => {
                            prop_assert!(needed > free);
                            prop_assert_eq!(free, tables.pool().free_blocks());
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Step::End(request) => {
                    let known = lengths.remove(&request).is_some();
                    prop_assert_eq!(tables.end(request).is_ok(), known);
                }
            }
            check_blocks(&tables, plan.groups.len());
        }
        for request in lengths.into_keys() {
            tables.end(request).unwrap();
        }
        prop_assert_eq!(tables.pool().free_blocks(), plan.num_blocks - 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_written_outside_its_page(
        is_v4 in any::<bool>(),
        layer in any::<prop::sample::Index>(),
        before in 0_u64..40,
        count in 1_u64..20,
        seed in any::<u32>(),
    ) {
        const BACKGROUND: u8 = 0x5c;
        let plan = if is_v4 { V4_PLAN.clone() } else { V32_PLAN.clone() };
        let layer = layer.index(plan.layers.len());
        let mut pool = Pool::on_host(plan).unwrap();
        pool.memory_mut().fill(BACKGROUND).unwrap();
        let kind = pool.plan().kinds[pool.plan().layers[layer].kind].clone();
        // so many tokens have room
        let states = 352 / kind.tokens_per_state;
        let before = before % states;
        let count = 1 + (count - 1) % (states - before);
        let tokens = (before + count) * kind.tokens_per_state;
        // in steps, so that blocks are not in order
        for request in [1, 2, 1] {
            let has = if request == 1 { tokens / 2 } else { 0 };
            pool.tables_mut().grow(request, 0, has.max(1)).unwrap();
        }
        pool.tables_mut().grow(1, 0, tokens).unwrap();
        let elements = kind.format.as_ref().unwrap().token_elements();
        let rows: Vec<f32> = (0..elements * count)
            .map(|at| noise(seed, at) * 3.0)
            .collect();
        let scales = TensorScales::default();
        pool.write(layer, 1, before, &rows, scales).unwrap();

        let slots = pool.slots(layer, 1, before..before + count).unwrap();
        let pages: BTreeSet<u32> = slots
            .iter()
            .map(|slot| u32::try_from(slot.cast_unsigned() / kind.states_per_block).unwrap())
            .collect();
        let mut outside = pool.memory().bytes().to_vec();
        for page in &pages {
            let view = pool.page(layer, *page).unwrap();
            let (at, bytes) = (index(view.offset), index(view.bytes));
            // the padding behind the page's content stays as it was
            let content = index(kind.format.as_ref().unwrap().kernel_block_bytes);
            prop_assert!(outside[at + content..at + bytes].iter().all(|byte| *byte == BACKGROUND));
            outside[at..at + bytes].fill(BACKGROUND);
        }
        prop_assert!(outside == vec![BACKGROUND; outside.len()]);
        let gathered = pool.gather(layer, 1, before..before + count, scales).unwrap();
        prop_assert_eq!(gathered.len(), rows.len());
        for (here, written) in gathered.iter().zip(&rows) {
            prop_assert!((here - written).abs() <= written.abs() / 14.0 + 0.001);
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// A number from -1 to 1.
fn noise(seed: u32, at: u64) -> f32 {
    let mixed = (at.wrapping_add(u64::from(seed) << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = u16::try_from(mixed >> 48).unwrap();
    f32::from(bits) / 32_768.0 - 1.0
}
