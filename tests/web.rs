//! In a real browser: the answers are the native ones, and the page does what it should.

#![cfg(target_arch = "wasm32")]

#[path = "web/page.rs"]
mod page;

use std::fmt::Write as _;

use kv_cases::{answer, resolve_line};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_browser);

/// By vector file: its name, its cases, and kvx's answers to them. `cargo xtask test vectors` writes them.
const NATIVE: &[(&str, &str, &str)] = include!(concat!(env!("KV_NATIVE_ANSWERS"), "/files.rs"));

#[wasm_bindgen_test]
fn answers_are_the_native_bytes() {
    let mut count = 0;
    for (file, cases, answers) in NATIVE {
        assert_eq!(cases.lines().count(), answers.lines().count(), "{file}");
        for (index, (case, native)) in cases.lines().zip(answers.lines()).enumerate() {
            let here = resolve_line(case, index + 1);
            // Not assert_eq!, which would print two answers of thousands of bytes and hide the place.
            if here != native {
                let at = here
                    .bytes()
                    .zip(native.bytes())
                    .take_while(|(a, b)| a == b)
                    .count();
                let part = |text: &str| {
                    text.get(at..)
                        .unwrap_or_default()
                        .chars()
                        .take(80)
                        .collect::<String>()
                };
                panic!(
                    "{file}:{}: from byte {at} native has {:?} and wasm {:?}",
                    index + 1,
                    part(native),
                    part(&here)
                );
            }
            count += 1;
        }
    }
    assert!(count > 0, "no vector was compared");
    console_log!("{count} answers equal, byte for byte");
}

/// A case, and the plan of it that memory obeys (`kvx native --plan`), which `cargo xtask test vectors` writes, too.
const PLAN_CASE: &str = include_str!(concat!(env!("KV_NATIVE_ANSWERS"), "/plan.case.json"));
const PLAN: &str = include_str!(concat!(env!("KV_NATIVE_ANSWERS"), "/plan.txt"));

#[wasm_bindgen_test]
fn the_plan_is_the_one_that_memory_obeys() {
    let resolution = answer(PLAN_CASE, 1).result.expect("it starts");
    let capacity = resolution.capacity.as_ref().expect("a pool");
    let mut here = format!(
        "allocation {} {} {}\n",
        capacity.allocated_bytes, capacity.num_blocks, resolution.bytes_per_block
    );
    for place in resolution.placements() {
        let page = resolution.anatomy_of(place.layer).expect("its page").page;
        let _ = writeln!(
            here,
            "{} {} {} {} {}",
            place.name, place.group, place.offset, place.block_stride, page.bytes
        );
    }
    assert!(here == PLAN, "the native pool has another plan");
    console_log!("one plan: {} layers", PLAN.lines().count() - 1);
}
