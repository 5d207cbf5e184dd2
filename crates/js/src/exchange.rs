//! Between JavaScript's values and JSON text, with nothing lost on the way: what a number of one side cannot be on the
//! other is thrown.

use js_sys::{Array, JSON, Object, RangeError, TypeError};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};

use crate::Thrown;
use crate::numbers::{MOST_EXACT, inexact};

/// Parts of a case in which any number may stand: no rule reads those that JSON or a double cannot hold.
const CONFIGS: [&str; 2] = ["hf_config", "draft_hf_config"];

/// A case's JSON: the text itself, or what the object is written as.
pub fn case_text(case: &JsValue) -> Thrown<String> {
    if let Some(text) = case.as_string() {
        return Ok(text);
    }
    // by typeof, for an object of another realm is no instance of this one's
    if !case.is_object() || Array::is_array(case) {
        return Err(wrong_type("a case is an object or its JSON text", case));
    }
    let case: &Object = case.unchecked_ref();
    let checked = Closure::<dyn Fn(JsValue, JsValue) -> Thrown<JsValue>>::new(number_checked);
    let mut parts = Vec::new();
    for entry in Object::entries(case) {
        let part = Object::from_entries(&Array::of1(&entry))?;
        let name = entry.unchecked_into::<Array>().get(0).as_string();
        let written = if CONFIGS.contains(&name.unwrap_or_default().as_str()) {
            JSON::stringify(&part)?
        } else {
            JSON::stringify_with_replacer(&part, checked.as_ref())?
        };
        let written = written.as_string().unwrap_or_default();
        // of what JSON has no word for, such as undefined, there is no entry
        let inner = written
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        parts.extend(inner.filter(|inner| !inner.is_empty()).map(str::to_owned));
    }
    Ok(["{", &parts.join(","), "}"].concat())
}

/// JSON would write `null` for the one and other digits for the other.
#[allow(clippy::needless_pass_by_value)] // as a closure for JavaScript takes them
fn number_checked(key: JsValue, value: JsValue) -> Thrown<JsValue> {
    let name = key.as_string().unwrap_or_default();
    if value.is_bigint() {
        return Err(RangeError::new(&format!(
            "{name}: JSON has no BigInt; pass a number, or the whole case as JSON text"
        ))
        .into());
    }
    match value.as_f64() {
        Some(number) if !number.is_finite() => {
            Err(RangeError::new(&format!("{name}: NaN and Infinity are no JSON numbers")).into())
        }
        #[allow(clippy::cast_precision_loss)] // it is exact
        Some(number) if number.fract() == 0.0 && number.abs() > MOST_EXACT as f64 => {
            Err(RangeError::new(&format!(
                "{name}: {number} is past 2^53, where JavaScript's numbers are not exact; pass the whole case as JSON text"
            ))
            .into())
        }
        Some(_) | None => Ok(value),
    }
}

/// An argument that has to be a text.
pub fn text_of(name: &str, value: &JsValue) -> Thrown<String> {
    value
        .as_string()
        .ok_or_else(|| wrong_type(&format!("{name} is a string"), value))
}

fn wrong_type(expected: &str, got: &JsValue) -> JsValue {
    let got = if got.is_null() {
        "null".to_owned()
    } else if Array::is_array(got) {
        "an array".to_owned()
    } else {
        got.js_typeof().as_string().unwrap_or_default()
    };
    TypeError::new(&format!("{expected}, not {got}")).into()
}

/// What JSON text is as a value.
pub fn object(json: &str) -> Thrown<JsValue> {
    match inexact(json) {
        None => JSON::parse(json),
        Some(number) => Err(RangeError::new(&format!(
            "the answer has {number}, which is past 2^53, where JavaScript's numbers are not exact; resolveJson gives \
             the answer to a case as text"
        ))
        .into()),
    }
}
