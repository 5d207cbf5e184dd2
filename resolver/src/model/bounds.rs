//! How large what a config.json says may be, so that no figure that follows is past 64 bits unnoticed and no list takes
//! long to read. Each bound is far beyond any model.
//!
//! Two widths make no more than 2^40 and three no more than 2^60: sums of a few such products are taken as they are.
//! Whatever has more factors, or one of the user's (tokens, blocks, ranks, bytes), is asked of
//! [`mul`](crate::units::mul) and [`add`](crate::units::add), which refuse; estimates and sums of weights stay at the largest number instead. Ranks are
//! bounded by vLLM itself: 64 in a node.

use super::ModelError;
use crate::value::Value;

/// Decoder layers.
pub(super) const MOST_LAYERS: u64 = 1024;
/// Heads, head sizes, widths and windows.
pub(super) const MOST_WIDTH: u64 = 1 << 20;
/// Context lengths, in tokens.
pub(super) const MOST_TOKENS: u64 = 1 << 32;
/// How much RoPE stretches them.
pub(super) const MOST_FACTOR: f64 = 65_536.0;
/// Keys of an object: the most that a model has is 401.
const MOST_KEYS: usize = 1 << 11;
/// Entries of a list: the most that a model has is 712, names of what is not quantised.
const MOST_ENTRIES: usize = 1 << 14;

/// Refuses objects and lists that are longer than any model's.
pub(super) fn bounded(config: &Value) -> Result<(), Box<ModelError>> {
    match config {
        Value::Object(entries) => {
            within("an object", entries.len(), MOST_KEYS)?;
            entries.iter().try_for_each(|(_, value)| bounded(value))
        }
        Value::Array(items) => {
            within("a list", items.len(), MOST_ENTRIES)?;
            items.iter().try_for_each(bounded)
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {
            Ok(())
        }
    }
}

fn within(what: &'static str, got: usize, most: usize) -> Result<(), Box<ModelError>> {
    if got <= most {
        return Ok(());
    }
    Err(Box::new(ModelError::TooMany { what, got, most }))
}
