//! Blocks as vLLM's own KVCacheManager hands them out (`tests/oracle/golden_traffic.py`), step by step.

mod common;

use common::{V4, plan};
use kv_native::BlockError;
use kv_native::blocks::NULL_BLOCK;
use kv_native::tables::BlockTables;
use serde_json::Value;

const TRAFFIC: &str = include_str!("golden/traffic.json");

fn numbers(of: &Value) -> Vec<u64> {
    let list = of.as_array().unwrap().iter();
    list.map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn blocks_are_those_of_vllm() {
    let traffic: Value = serde_json::from_str(TRAFFIC).unwrap();
    assert_eq!(traffic["release"], "0.33.0");
    // the groups are the resolver's; the windows with them
    let mut plan = plan(V4, "h200", 192 << 20);
    plan.num_blocks = traffic["blocks"].as_u64().unwrap();
    let mut tables = BlockTables::new(&plan).unwrap();
    let (mut grown, mut full, mut behind) = (0, 0, 0);
    for (number, step) in traffic["steps"].as_array().unwrap().iter().enumerate() {
        match numbers(&step["step"])[..] {
            [request] => tables.end(request).unwrap(),
            [request, computed, tokens] => match tables.grow(request, computed, tokens) {
                Ok(new) => {
                    let answer = &step["answer"];
                    let vllm = answer["new"].as_array().unwrap().iter().map(numbers);
                    let new = new
                        .iter()
                        .map(|of| of.iter().copied().map(u64::from).collect());
                    assert!(vllm.eq(new.collect::<Vec<Vec<u64>>>()), "step {number}");
                    for (group, count) in numbers(&answer["behind"]).into_iter().enumerate() {
                        let table = tables.table(request, group).unwrap();
                        let nulls = table.iter().filter(|block| **block == NULL_BLOCK);
                        assert_eq!(nulls.count() as u64, count, "step {number}, group {group}");
                        behind += count;
                    }
                    grown += 1;
                }
                Err(BlockError::OutOfBlocks { .. }) => {
                    assert!(step["answer"].is_null(), "step {number}");
                    full += 1;
                }
                Err(error) => panic!("step {number}: {error}"),
            },
            _ => panic!("step {number} is none"),
        }
        assert_eq!(
            Some(tables.pool().free_blocks()),
            step["free"].as_u64(),
            "step {number}"
        );
        let next: Vec<u64> = tables.pool().queue().take(6).map(u64::from).collect();
        assert_eq!(next, numbers(&step["next"]), "step {number}");
    }
    assert!(
        grown > 50 && full > 3 && behind > 100,
        "{grown} {full} {behind}"
    );
}
