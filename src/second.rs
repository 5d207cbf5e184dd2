//! The second half of the program. What is published is split in two (`cargo xtask build`): the first half is what the
//! page takes to be there and to take input, the second all rules. Until the second is here, the page shows the answer to
//! its first question as it was when the page was built. A call into the second half is right at any time; one that comes
//! early waits, and the page with it.

use leptos::prelude::document;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::JsFuture;
use web_sys::js_sys::Promise;

#[wasm_bindgen]
extern "C" {
    /// Kept once the second half is here; not there where the program is whole from the start. `public/boot.js` sets it.
    #[wasm_bindgen(thread_local_v2, js_name = kvSecondHalf)]
    static SECOND_HALF: Option<Promise>;
}

/// Whether it need not be waited for.
pub fn is_here() -> bool {
    SECOND_HALF.with(Option::is_none)
}

/// Ends when it is here.
pub async fn arrival() {
    if let Some(promise) = SECOND_HALF.with(Clone::clone) {
        // it is tried until it comes
        let _ = JsFuture::from(promise).await;
    }
}

/// A part of the first answer, as the page came with it; empty if it came with none.
pub fn first_answer(selector: &str) -> String {
    let found = document().query_selector(&["#boot ", selector].concat());
    found
        .ok()
        .flatten()
        .map_or_else(String::new, |element| element.inner_html())
}
