//! In a real browser: the page mounts.

#![cfg(target_arch = "wasm32")]

use kv_explorer::App;
use leptos::prelude::*;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_browser);

#[wasm_bindgen_test]
fn the_page_mounts() {
    leptos::mount::mount_to_body(App);
    let heading = document().query_selector("h1").unwrap().unwrap();
    assert_eq!(heading.text_content().as_deref(), Some("KV Explorer"));
}
