//! How many blocks a request takes, by its length.

use crate::error::Refusal;
use crate::spec::{LayerSpec, SpecKind};
use crate::units::{add, ceil_div};

/// The blocks of one group that vLLM reserves for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Every token keeps its block. Mirrors `FullAttentionSpec.max_memory_usage_bytes`.
    Full {
        /// Tokens in a block.
        block_size: u64,
        /// Ranks that share the tokens (decode context parallelism).
        ranks: u64,
    },
    /// A window and what is in flight behind it keep theirs. Mirrors
    /// `SlidingWindowSpec.max_admission_blocks_per_request`.
    Window {
        /// Tokens in a block.
        block_size: u64,
        /// Tokens beyond which the length no longer matters.
        reach: u64,
    },
}

impl Demand {
    /// The demand of one layer.
    pub(crate) fn of(
        spec: &LayerSpec,
        max_in_flight_tokens: u64,
        decode_context_parallel_size: u64,
    ) -> Result<Self, Refusal> {
        match (spec.kind, spec.sliding_window) {
            (SpecKind::SlidingWindowMla, Some(window)) => Ok(Self::Window {
                block_size: spec.block_size,
                reach: add(window.saturating_sub(1), max_in_flight_tokens)?,
            }),
            (SpecKind::MlaAttention | SpecKind::UniformType | SpecKind::SlidingWindowMla, _) => {
                Ok(Self::Full {
                    block_size: spec.block_size,
                    ranks: decode_context_parallel_size,
                })
            }
        }
    }

    /// Tokens in a block.
    pub const fn block_size(self) -> u64 {
        match self {
            Self::Full { block_size, .. } | Self::Window { block_size, .. } => block_size,
        }
    }

    /// The length past which a window asks for no more; 0 without one.
    pub const fn reach(self) -> u64 {
        match self {
            Self::Full { .. } => 0,
            Self::Window { reach, .. } => reach,
        }
    }

    /// Blocks for a request of this length.
    pub fn blocks(self, length: u64) -> Result<u64, Refusal> {
        match self {
            Self::Full { block_size, ranks } => ceil_div(ceil_div(length, ranks)?, block_size),
            // one more, for the window may begin inside a block
            Self::Window { block_size, reach } => add(ceil_div(length.min(reach), block_size)?, 1),
        }
    }

    /// Blocks for each further `tokens`, past every reach.
    pub(crate) fn blocks_per(self, tokens: u64) -> Result<u64, Refusal> {
        match self {
            Self::Full { block_size, ranks } => ceil_div(ceil_div(tokens, ranks)?, block_size),
            Self::Window { .. } => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_stops_asking() {
        let window = Demand::Window {
            block_size: 64,
            reach: 127 + 16_384,
        };
        assert_eq!(window.blocks(1), Ok(2));
        assert_eq!(window.blocks(64), Ok(2));
        assert_eq!(window.blocks(65), Ok(3));
        assert_eq!(window.blocks(262_144), Ok(259));
        assert_eq!(window.blocks_per(256), Ok(0));
    }

    #[test]
    fn full_attention_asks_for_every_token() {
        let full = Demand::Full {
            block_size: 256,
            ranks: 1,
        };
        assert_eq!(full.blocks(0), Ok(0));
        assert_eq!(full.blocks(257), Ok(2));
        assert_eq!(full.blocks(262_144), Ok(1024));
        assert_eq!(full.blocks_per(512), Ok(2));
    }
}
