//! Pages that vLLM's own kernels wrote (`tests/oracle/golden_pages.py`), equalled byte for byte.

mod common;

use std::fs;
use std::path::Path;

use common::{LLAMA, LLAMA_FP8, V3, V3_FP8, V4, V32, answer, case};
use kv_native::number::{bfloat16, from_bfloat16};
use kv_native::{Memory, Pool, PoolPlan, TensorScales};
use kv_resolver::spec::LayerRole;
use serde_json::Value;

/// Which layer's pages a set is held against: a case, a GPU, a role; the environment.
type Whose = (&'static str, &'static str, LayerRole, &'static str);

const NHD: &str = r#""VLLM_KV_CACHE_LAYOUT":"LBNHC""#;
const HND: &str = r#""VLLM_KV_CACHE_LAYOUT":"LBHNC""#;

fn whose(name: &str) -> Whose {
    match name {
        "v4_window" | "v4_window_cpu" => (V4, "h200", LayerRole::Window, ""),
        "v4_c4" => (V4, "h200", LayerRole::C4, ""),
        "v4_c128" => (V4, "h200", LayerRole::C128, ""),
        "v4_indexer" => (V4, "h200", LayerRole::Indexer, ""),
        "v4_indexer_mx" => (V4, "b200", LayerRole::Indexer, ""),
        "v4_c4_state" => (V4, "h200", LayerRole::C4State, ""),
        "v32_mla" => (V32, "h200", LayerRole::Mla, ""),
        "v32_indexer" => (V32, "h200", LayerRole::Indexer, ""),
        "v32_indexer_mx" => (V32, "b200", LayerRole::Indexer, ""),
        "mla_bf16" => (V3, "h200", LayerRole::Mla, ""),
        "mla_fp8" => (V3_FP8, "h200", LayerRole::Mla, ""),
        "attention_bf16" => (LLAMA, "h200", LayerRole::Attention, NHD),
        "attention_fp8" => (LLAMA_FP8, "h200", LayerRole::Attention, HND),
        _ => panic!("whose pages are {name}?"),
    }
}

struct Golden {
    name: String,
    rows: Vec<f32>,
    slots: Vec<i64>,
    pages: Vec<u8>,
    page_bytes: usize,
    scales: TensorScales,
}

#[allow(clippy::cast_possible_truncation)] // written as a float32
fn golden() -> (u8, Vec<Golden>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let index = fs::read_to_string(folder.join("index.json")).expect("an index");
    let index: Value = serde_json::from_str(&index).expect("JSON");
    assert_eq!(index["release"], "0.33.0");
    let untouched = u8::try_from(index["untouched"].as_u64().unwrap()).unwrap();
    let sets = index["pages"].as_array().unwrap().iter().map(|set| {
        let name = set["name"].as_str().unwrap().to_owned();
        let rows = fs::read(folder.join(format!("{name}.rows"))).unwrap();
        let rows = rows.chunks(4);
        let slots = set["slots"].as_array().unwrap();
        let scale = |key: &str| set[key].as_f64().map(|scale| scale as f32);
        let k = scale("scale").unwrap_or(1.0);
        Golden {
            rows: rows
                .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
                .collect(),
            slots: slots.iter().map(|slot| slot.as_i64().unwrap()).collect(),
            pages: fs::read(folder.join(format!("{name}.pages"))).unwrap(),
            page_bytes: usize::try_from(set["page_bytes"].as_u64().unwrap()).unwrap(),
            scales: TensorScales {
                k,
                v: scale("scale_v").unwrap_or(k),
            },
            name,
        }
    });
    (untouched, sets.collect())
}

fn pool(name: &str) -> (Pool<kv_native::HostMemory>, usize) {
    let (model, gpu, role, env) = whose(name);
    let plan = PoolPlan::new(&answer(&case(model, gpu, 160 << 20, env))).unwrap();
    let layer = plan.layers.iter().rposition(|layer| layer.role == role);
    let layer = layer.unwrap_or_else(|| panic!("{name}: no such layer"));
    (Pool::on_host(plan).unwrap(), layer)
}

/// Every byte of the allocation: the pages are vLLM's, the rest is untouched.
#[test]
fn pages_are_those_of_vllm_byte_for_byte() {
    let (untouched, sets) = golden();
    assert_eq!(sets.len(), 14, "sets of pages");
    for set in sets {
        let (mut pool, layer) = pool(&set.name);
        pool.memory_mut().fill(untouched).unwrap();
        pool.store(layer, &set.slots, &set.rows, set.scales)
            .unwrap();
        let mut expected = vec![untouched; pool.memory().bytes().len()];
        for (block, page) in (0..).zip(set.pages.chunks(set.page_bytes)) {
            let view = pool.page(layer, block).unwrap();
            let at = usize::try_from(view.offset).unwrap();
            let bytes = usize::try_from(view.bytes).unwrap();
            assert_eq!(bytes, page.len(), "{}: bytes of a page", set.name);
            expected[at..at + bytes].copy_from_slice(page);
        }
        if expected != pool.memory().bytes() {
            let mut bytes = expected.iter().zip(pool.memory().bytes());
            let differs = bytes.position(|(vllm, here)| vllm != here);
            panic!("{}: byte {differs:?} is not vLLM's", set.name);
        }
    }
}

/// What is read back is what was written, within half a step of the format.
#[test]
fn pages_of_vllm_are_read_back() {
    let (_, sets) = golden();
    for set in sets {
        let (mut pool, layer) = pool(&set.name);
        for (block, page) in (0..).zip(set.pages.chunks(set.page_bytes)) {
            let view = pool.page(layer, block).unwrap();
            pool.memory_mut().write(view.offset, page).unwrap();
        }
        let slots = pool.slots_of(layer, set.scales).unwrap();
        let rows = pool.memory().load(slots, &set.slots).unwrap();
        assert_eq!(rows.len(), set.rows.len());
        let all = set.rows.iter().map(|value| value.abs());
        let largest = all.fold(0.0, f32::max);
        let pairs = rows.chunks(128).zip(set.rows.chunks(128));
        for (part, (here, written)) in pairs.enumerate() {
            // K of a head, then V; of MLA both scales are one
            let tensor = [set.scales.k, set.scales.v][part % 2];
            for (value, written) in here.iter().zip(written) {
                let (written, bound) = bound(&set.name, *written, largest, tensor);
                let error = (value - written).abs();
                assert!(error <= bound, "{}: {written} as {value}", set.name);
            }
        }
    }
}

/// A number as its format has it at best, and how far that may be off.
fn bound(name: &str, written: f32, largest: f32, tensor: f32) -> (f32, f32) {
    const HALF_A_STEP: f32 = 1.0 / 16.0;
    match name {
        "v4_c4_state" => (written, 0.0),
        "mla_fp8" | "attention_fp8" => {
            // past 448 steps a number stays there
            let most = 448.0 * tensor;
            let held = written.clamp(-most, most);
            (held, held.abs() * HALF_A_STEP + tensor / 1024.0)
        }
        // codes have four bits, the least of them 2^-9 of a scale; before them 1 in 512 may be lost
        _ => {
            let least = largest * 2.0_f32.powi(-17);
            (written, written.abs() * (HALF_A_STEP + 1.0 / 256.0) + least)
        }
    }
}

/// Rows in bfloat16 come back as they were.
#[test]
fn plain_rows_lose_their_last_bits_alone() {
    let (_, sets) = golden();
    for set in sets.iter().filter(|set| set.name.ends_with("_bf16")) {
        let (mut pool, layer) = pool(&set.name);
        pool.store(layer, &set.slots, &set.rows, set.scales)
            .unwrap();
        let slots = pool.slots_of(layer, set.scales).unwrap();
        let rows = pool.memory().load(slots, &set.slots).unwrap();
        let rounded = set.rows.iter().map(|value| from_bfloat16(bfloat16(*value)));
        assert!(rows.into_iter().eq(rounded), "{}", set.name);
    }
}
