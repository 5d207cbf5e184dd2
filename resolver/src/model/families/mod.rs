//! One room for each kind of family: config.json to a [`Decoder`](super::Decoder).

pub(super) mod dense;
pub(super) mod linear;
pub(super) mod mla;
pub(super) mod nas;
pub(super) mod windows;

/// Decoder layers beyond any model.
pub(super) const MOST_LAYERS: u64 = 1024;
/// Heads, head sizes and windows beyond any model.
pub(super) const MOST_WIDTH: u64 = 1 << 20;
