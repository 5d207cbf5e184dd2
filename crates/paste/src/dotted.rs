//! Options whose JSON is passed key by key: `--speculative-config.method mtp`. Mirrors `vllm/utils/argparse_utils.py`
//! `FlexibleArgumentParser.parse_args`.

use kv_resolver::{Flag, Value};

/// More keys than any configuration is deep.
const MOST_KEYS: usize = 16;

/// The option, the keys behind its first dot, and the value behind `=`; `None` of a word without such keys.
#[must_use]
pub fn dotted(word: &str) -> Option<(&str, &str, Option<&str>)> {
    if !word.starts_with('-') {
        return None;
    }
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let (option, keys) = name.split_once('.')?;
    // a negative number is no name
    (!is_negative(name)).then_some((option, keys, value))
}

/// An object with one value, below these keys; of `key+` that is a list.
#[must_use]
pub fn nested(keys: &str, text: &str) -> Value {
    let (keys, value) = match keys.strip_suffix('+') {
        Some(keys) => (keys, list(text)),
        None => (keys, loose(text)),
    };
    keys.rsplit('.').take(MOST_KEYS).fold(value, |value, key| {
        Value::Object(vec![(key.to_owned(), value)])
    })
}

/// Objects key by key, lists one behind the other; of anything else the last stays.
pub fn merge(into: &mut Value, update: Value) {
    match (into, update) {
        (Value::Object(known), Value::Object(new)) => {
            for (key, value) in new {
                match known.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, known)) => merge(known, value),
                    None => known.push((key, value)),
                }
            }
        }
        (Value::Array(known), Value::Array(new)) => known.extend(new),
        (known, new) => *known = new,
    }
}

/// `^-\d+$|^-\d*\.\d+$`
pub(crate) fn is_negative(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = text.strip_prefix('-') else {
        return false;
    };
    match number.split_once('.') {
        Some((whole, fraction)) => digits(whole) && !fraction.is_empty() && digits(fraction),
        None => !number.is_empty() && digits(number),
    }
}

/// `key+ a,b`
fn list(text: &str) -> Value {
    let words = text.split(',').map(|word| Value::String(word.to_owned()));
    Value::Array(words.collect())
}

/// JSON, or a number such as `1k`, or else text.
fn loose(text: &str) -> Value {
    serde_json::from_str(text)
        .ok()
        // which flag it is asked of does not matter: it reads any whole number
        .or_else(|| Flag::MaxNumBatchedTokens.parse_text(text).ok())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}
