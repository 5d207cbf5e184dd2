//! Pages that vLLM's own kernels wrote (`tests/oracle/golden_pages.py`), equalled byte for byte.

use kv_native::golden::{Golden, V4_WINDOW_READ, sets};
use kv_native::number::{bfloat16, from_bfloat16};
use kv_native::{HostMemory, Memory, Pool};

fn golden() -> (u8, Vec<Golden>) {
    sets().unwrap()
}

fn pool(set: &Golden) -> (Pool<HostMemory>, usize) {
    set.pool(HostMemory::new).unwrap()
}

/// Every byte of the allocation: the pages are vLLM's, the rest is untouched.
#[test]
fn pages_are_those_of_vllm_byte_for_byte() {
    let (untouched, sets) = golden();
    assert_eq!(sets.len(), 14, "sets of pages");
    let mut pages = 0;
    for set in sets {
        let equal = set.check(untouched, HostMemory::new).unwrap();
        println!("{}: {equal} pages of {}", set.name, set.source);
        pages += equal;
    }
    assert_eq!(pages, 28);
}

/// A byte that is not vLLM's is found, in a page and beside it.
#[test]
fn another_byte_is_found() {
    let (untouched, sets) = golden();
    for set in &sets {
        let other = Golden {
            rows: set.rows.iter().map(|number| number * 1.5 + 0.1).collect(),
            ..set.clone()
        };
        let error = other.check(untouched, HostMemory::new).unwrap_err();
        assert!(error.to_string().contains("is not vLLM's"), "{error}");
    }
    // the padding of a page is told by what it was before
    assert!(sets[0].check(untouched ^ 1, HostMemory::new).is_err());
}

/// What is read back is what was written, within half a step of the format.
#[test]
fn pages_of_vllm_are_read_back() {
    let (_, sets) = golden();
    for set in sets {
        let (mut pool, layer) = pool(&set);
        for (block, page) in (0..).zip(set.pages.chunks(usize::try_from(set.page_bytes).unwrap())) {
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

/// What is read of a page is what vLLM's gather reads, to the bit.
#[test]
fn rows_are_read_as_vllm_reads_them() {
    let (_, sets) = golden();
    let set = &sets[0];
    assert_eq!(set.name, "v4_window");
    let (mut pool, layer) = pool(set);
    for (block, page) in (0..).zip(set.pages.chunks(usize::try_from(set.page_bytes).unwrap())) {
        let view = pool.page(layer, block).unwrap();
        pool.memory_mut().write(view.offset, page).unwrap();
    }
    let slots = pool.slots_of(layer, set.scales).unwrap();
    let rows = pool.memory().load(slots, &set.slots).unwrap();
    let vllm = V4_WINDOW_READ.chunks_exact(2);
    let vllm: Vec<f32> = vllm
        .map(|bytes| from_bfloat16(u16::from_le_bytes([bytes[0], bytes[1]])))
        .collect();
    assert_eq!(rows.len(), vllm.len());
    assert!(
        rows.iter()
            .zip(&vllm)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
}

/// Rows in bfloat16 come back as they were.
#[test]
fn plain_rows_lose_their_last_bits_alone() {
    let (_, sets) = golden();
    for set in sets.iter().filter(|set| set.name.ends_with("_bf16")) {
        let (mut pool, layer) = pool(set);
        pool.store(layer, &set.slots, &set.rows, set.scales)
            .unwrap();
        let slots = pool.slots_of(layer, set.scales).unwrap();
        let rows = pool.memory().load(slots, &set.slots).unwrap();
        let rounded = set.rows.iter().map(|value| from_bfloat16(bfloat16(*value)));
        assert!(rows.into_iter().eq(rounded), "{}", set.name);
    }
}
