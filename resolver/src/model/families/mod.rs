//! One room for each kind of family: config.json to a [`Decoder`](super::Decoder).

pub(super) mod dense;
pub(super) mod linear;
pub(super) mod mla;
pub(super) mod nas;
pub(super) mod windows;

use super::ModelError;
use super::bounds::MOST_LAYERS;
use super::fields::integer;
use crate::value::Value;

/// Decoder layers.
pub(super) fn count(config: &Value) -> Result<u32, Box<ModelError>> {
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}
