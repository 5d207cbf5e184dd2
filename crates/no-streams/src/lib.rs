//! Stands in for the package of this name, which comes with Leptos for the bodies of its server functions.
//!
//! The page has no server functions, so nothing here is ever called, and the linker leaves it out. It cannot do so
//! with the real one: that exports classes to JavaScript, which keep all of it in the page.

use futures_util::Stream;
use futures_util::stream::{Empty, empty};
use wasm_bindgen::JsValue;

/// A stream that nobody opens.
#[derive(Debug)]
pub struct ReadableStream(());

const NEVER: &str = "the page has no server functions, and no streams for them";

impl ReadableStream {
    /// # Panics
    /// Always.
    #[must_use]
    pub fn from_raw(_: web_sys::ReadableStream) -> Self {
        panic!("{NEVER}")
    }

    /// # Panics
    /// Always.
    pub fn from_stream<S>(_: S) -> Self
    where
        S: Stream<Item = Result<JsValue, JsValue>> + 'static,
    {
        panic!("{NEVER}")
    }

    /// # Panics
    /// Always.
    #[must_use]
    pub fn into_raw(self) -> web_sys::ReadableStream {
        panic!("{NEVER}")
    }

    /// Nothing: there is no such stream to ask.
    pub fn into_stream(self) -> Empty<Result<JsValue, JsValue>> {
        empty()
    }
}
