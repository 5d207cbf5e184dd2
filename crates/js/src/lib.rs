//! What vLLM will do with the KV cache, for JavaScript and TypeScript: `cargo xtask js` makes the npm package
//! `kv-explorer` of it.
//!
//! [`answers`] has the functions, from text to text; here they meet JavaScript's objects. What cannot be read is
//! thrown as an `Error`, and so is what a JavaScript number cannot hold.

pub mod answers;
mod exchange;
pub mod lists;
pub mod numbers;
pub mod pasted;

use js_sys::Error;
use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use exchange::{case_text, object, text_of};

/// A value, or what is thrown.
type Thrown<T> = Result<T, JsValue>;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("../types.d.ts");

fn thrown(why: &str) -> JsValue {
    Error::new(why).into()
}

fn value<T: Serialize>(value: &T) -> Thrown<JsValue> {
    object(&serde_json::to_string(value).map_err(|error| thrown(&error.to_string()))?)
}

/// What vLLM would do with a case: the object that `kvx resolve` writes for it.
///
/// @throws Error where the case cannot be read; RangeError where a whole number of the case or of the answer is past
/// 2^53, which no number of JavaScript holds exactly: `resolveJson` takes and gives it.
#[wasm_bindgen(unchecked_return_type = "Result")]
pub fn resolve(
    #[wasm_bindgen(unchecked_param_type = "Case | string")] question: &JsValue,
) -> Thrown<JsValue> {
    object(&answered(question)?)
}

/// The same as text: the line that `kvx resolve` writes, byte for byte.
///
/// @throws Error where the case cannot be read.
#[wasm_bindgen(js_name = resolveJson)]
pub fn resolve_json(
    #[wasm_bindgen(unchecked_param_type = "Case | string")] question: &JsValue,
) -> Thrown<String> {
    answered(question)
}

fn answered(question: &JsValue) -> Thrown<String> {
    answers::resolved(&case_text(question)?).map_err(|why| thrown(&why))
}

/// Every GPU of the catalog × every cache dtype of the case's release. The case's own `gpu` and `kv_cache_dtype` are
/// not looked at.
///
/// @throws Error where the case cannot be read, or names a model that is not in the catalog.
#[wasm_bindgen(unchecked_return_type = "Matrix")]
pub fn matrix(
    #[wasm_bindgen(unchecked_param_type = "OpenCase | string")] question: &JsValue,
) -> Thrown<JsValue> {
    object(&answers::matrix_of(&case_text(question)?).map_err(|why| thrown(&why))?)
}

/// What changed from one release to another, as `kvx diff --json` writes it: over every GPU and every cache dtype, or
/// those alone that the case names. The case's own `release` is not looked at.
///
/// @throws Error where the case or a release cannot be read, or the model is not in the catalog.
#[wasm_bindgen(unchecked_return_type = "Compared")]
pub fn diff(
    #[wasm_bindgen(unchecked_param_type = "OpenCase | string")] question: &JsValue,
    #[wasm_bindgen(unchecked_param_type = "Release")] from: &JsValue,
    #[wasm_bindgen(unchecked_param_type = "Release")] to: &JsValue,
) -> Thrown<JsValue> {
    let (from, to) = (text_of("from", from)?, text_of("to", to)?);
    object(&answers::changed(&case_text(question)?, &from, &to).map_err(|why| thrown(&why))?)
}

/// A command as it is written in a shell, a container's file or a script: the first start of vLLM in the text. With a
/// GPU, its `case` can be resolved.
///
/// @throws Error where there is no start of vLLM in the text.
#[wasm_bindgen(js_name = parseCommand, unchecked_return_type = "ParsedCommand")]
pub fn parse_command(
    #[wasm_bindgen(unchecked_param_type = "string")] text: &JsValue,
) -> Thrown<JsValue> {
    value(&pasted::command(&text_of("text", text)?).map_err(|why| thrown(&why))?)
}

/// What vLLM's own log says of a start-up: what was asked, the pool that was printed, and how it ended.
///
/// @throws Error where there is no line of vLLM's log in the text.
#[wasm_bindgen(js_name = parseLog, unchecked_return_type = "ParsedLog")]
pub fn parse_log(
    #[wasm_bindgen(unchecked_param_type = "string")] text: &JsValue,
) -> Thrown<JsValue> {
    value(&pasted::log(&text_of("text", text)?).map_err(|why| thrown(&why))?)
}

/// The models that a case can name by id; of others, pass the config.json as `hf_config`.
#[wasm_bindgen(unchecked_return_type = "ModelRow[]")]
pub fn models() -> Thrown<JsValue> {
    value(&lists::models())
}

/// The GPUs that a case can name by key.
#[wasm_bindgen(unchecked_return_type = "GpuRow[]")]
pub fn gpus() -> Thrown<JsValue> {
    value(&lists::gpus())
}

/// The releases of vLLM that have rules, oldest first.
#[wasm_bindgen(unchecked_return_type = "ReleaseRow[]")]
pub fn releases() -> Thrown<JsValue> {
    value(&lists::releases())
}

/// The package's version.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
