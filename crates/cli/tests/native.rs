//! One plan: `kvx resolve`'s answer, the native pool's views in memory, and what the page answers are the same bytes.
//!
//! The page's part of it is `tests/web.rs`, which holds every vector's answer in Chromium against `kvx resolve`'s; the
//! cases here are among them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use kv_cases::{parse_case, resolve_line};
use kv_native::{HostMemory, Memory as _, Pool, PoolPlan};
use kv_resolver::resolve;
use serde_json::Value;

/// vLLM's own answers, of which the plan is a part.
const VECTORS: [&str; 2] = [
    include_str!("../../../tests/vectors/v0.33.0-deepseek-v4.jsonl"),
    include_str!("../../../tests/vectors/v0.33.0-families.jsonl"),
];

/// What `kvx resolve` answers to cases, line by line.
fn kvx(cases: &str) -> Vec<String> {
    let mut kvx = Command::new(env!("CARGO_BIN_EXE_kvx"))
        .arg("resolve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = kvx.stdin.take().unwrap();
    let cases = cases.to_owned();
    let writer = std::thread::spawn(move || input.write_all(cases.as_bytes()));
    let output = kvx.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Each layer's offset and block stride, as an answer tells them.
fn told(answer: &Value) -> BTreeMap<String, (u64, u64)> {
    let number = |of: &Value| of.as_u64().unwrap();
    let mut places = BTreeMap::new();
    for run in answer["tensors"].as_array().unwrap() {
        let prefix = run["name_prefix"].as_str().unwrap();
        let suffix = run["name_suffix"].as_str().unwrap();
        let indices = run["layer_indices"].as_array().unwrap().iter();
        let names = indices.map(|index| format!("{prefix}.{index}.{suffix}"));
        let others = run["other_names"].as_array().into_iter().flatten();
        let others = others.map(|name| name.as_str().unwrap().to_owned());
        for (layer, name) in (0..).zip(names.chain(others)) {
            let offset = number(&run["offset"]) + layer * number(&run["layer_stride"]);
            places.insert(name, (offset, number(&run["block_stride"])));
        }
    }
    places
}

#[test]
fn the_pool_obeys_the_very_answer_that_kvx_prints() {
    let mut cases = String::new();
    for line in VECTORS.iter().flat_map(|vectors| vectors.lines()) {
        let vector: Value = serde_json::from_str(line).unwrap();
        cases.push_str(&vector["case"].to_string());
        cases.push('\n');
    }
    let answers = kvx(&cases);
    assert_eq!(answers.len(), cases.lines().count());
    let (mut plans, mut refused) = (0, BTreeMap::new());
    for (number, (case, answer)) in cases.lines().zip(&answers).enumerate() {
        assert_eq!(*answer, resolve_line(case, number + 1), "{case}");
        let told_by_kvx: Value = serde_json::from_str(answer).unwrap();
        if told_by_kvx["ok"] != true || told_by_kvx["num_blocks"].is_null() {
            continue;
        }
        let resolution = resolve(&parse_case(case).1.unwrap()).unwrap();
        let plan = match PoolPlan::new(&resolution) {
            Ok(plan) => plan,
            Err(error) => {
                *refused.entry(error.to_string()).or_insert(0) += 1;
                continue;
            }
        };
        assert_eq!(
            Some(plan.allocated_bytes),
            told_by_kvx["allocated_bytes"].as_u64()
        );
        assert_eq!(Some(plan.num_blocks), told_by_kvx["num_blocks"].as_u64());
        let here = plan.layers.iter();
        let here = here.map(|layer| (layer.name.clone(), (layer.offset, layer.block_stride)));
        assert_eq!(
            here.collect::<BTreeMap<_, _>>(),
            told(&told_by_kvx),
            "{case}"
        );
        plans += 1;
    }
    println!("{plans} plans, refused: {refused:#?}");
    assert!(plans > 100, "{plans} plans were compared; {refused:#?}");
}

#[test]
fn the_views_in_memory_are_where_the_answer_says() {
    let case = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"kv_cache_dtype":"fp8","tensor_parallel_size":8,"max_model_len":1024,"max_num_batched_tokens":64,"max_num_seqs":2},"available_memory":268435456}"#;
    let answers = kvx(case);
    let answer: Value = serde_json::from_str(&answers[0]).unwrap();
    let plan = PoolPlan::new(&resolve(&parse_case(case).1.unwrap()).unwrap()).unwrap();
    let pool: Pool<HostMemory> = Pool::on_host(plan).unwrap();
    let start = pool.memory().bytes().as_ptr() as u64;
    let allocated = pool.memory().allocated_bytes();
    assert_eq!(Some(allocated), answer["allocated_bytes"].as_u64());
    assert_eq!(allocated, pool.memory().bytes().len() as u64);
    let places = told(&answer);
    let last = u32::try_from(pool.plan().num_blocks - 1).unwrap();
    for (number, layer) in pool.plan().layers.iter().enumerate() {
        let (offset, stride) = places[&layer.name];
        for block in [0, 1, last] {
            let view = pool.page(number, block).unwrap();
            assert_eq!(view.address - start, offset + u64::from(block) * stride);
            assert!(view.address + view.bytes <= start + allocated);
        }
    }
    assert_eq!(pool.plan().layers.len(), places.len());
}
