//! How many blocks a request takes, by its length.

use crate::error::Refusal;
use crate::spec::{LayerSpec, SpecKind};
use crate::units::{add, ceil_div, mul};

/// The blocks of one group that vLLM reserves for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Every token keeps its block. Mirrors `FullAttentionSpec.max_memory_usage_bytes`.
    Full {
        /// Tokens in a block.
        block_size: u64,
        /// Ranks that share the tokens (context parallelism).
        ranks: u64,
    },
    /// A window and what is in flight behind it keep theirs. Mirrors
    /// `SlidingWindowSpec.max_admission_blocks_per_request`.
    Window {
        /// Tokens in a block.
        block_size: u64,
        /// Tokens beyond which the length no longer matters.
        reach: u64,
        /// Those of them that are in flight.
        in_flight: u64,
    },
    /// A chunk and what is in flight keep theirs. Mirrors
    /// `ChunkedLocalAttentionSpec.max_admission_blocks_per_request`.
    Chunk {
        /// Tokens in a block.
        block_size: u64,
        /// Tokens beyond which the length no longer matters.
        reach: u64,
        /// Those of them that are in flight.
        in_flight: u64,
    },
    /// So many blocks, whatever the length. Mirrors `MambaSpec.max_memory_usage_bytes`.
    Constant {
        /// Tokens in a block.
        block_size: u64,
        /// Blocks.
        blocks: u64,
    },
}

impl Demand {
    /// The demand of one layer.
    pub(crate) fn of(
        spec: &LayerSpec,
        max_in_flight_tokens: u64,
        sharing_ranks: u64,
    ) -> Result<Self, Box<Refusal>> {
        let block_size = spec.block_size;
        Ok(match spec.kind {
            SpecKind::SlidingWindow | SpecKind::SlidingWindowMla => Self::Window {
                block_size,
                reach: add(
                    add(
                        spec.sliding_window.unwrap_or(1).saturating_sub(1),
                        spec.extra_retained_tokens,
                    )?,
                    max_in_flight_tokens,
                )?,
                in_flight: max_in_flight_tokens,
            },
            SpecKind::ChunkedLocalAttention => Self::Chunk {
                block_size,
                reach: add(
                    spec.attention_chunk_size.unwrap_or_default(),
                    max_in_flight_tokens,
                )?,
                in_flight: max_in_flight_tokens,
            },
            SpecKind::Mamba => Self::Constant {
                block_size,
                blocks: spec.mamba.map_or(1, |states| states.blocks_per_request),
            },
            SpecKind::FullAttention | SpecKind::MlaAttention | SpecKind::UniformType => {
                Self::Full {
                    block_size,
                    ranks: sharing_ranks,
                }
            }
        })
    }

    /// Tokens in a block.
    pub const fn block_size(self) -> u64 {
        match self {
            Self::Full { block_size, .. }
            | Self::Window { block_size, .. }
            | Self::Chunk { block_size, .. }
            | Self::Constant { block_size, .. } => block_size,
        }
    }

    /// Tokens after which the demand repeats; 1 if it never grows.
    pub(crate) fn period(self) -> Result<u64, Box<Refusal>> {
        match self {
            Self::Full { block_size, ranks } => mul(block_size, ranks),
            Self::Window { block_size, .. } | Self::Chunk { block_size, .. } => Ok(block_size),
            Self::Constant { .. } => Ok(1),
        }
    }

    /// The length past which no more is asked for; 0 if there is none.
    pub const fn reach(self) -> u64 {
        match self {
            Self::Full { .. } | Self::Constant { .. } => 0,
            Self::Window { reach, .. } | Self::Chunk { reach, .. } => reach,
        }
    }

    /// Blocks for a request of this length.
    pub fn blocks(self, length: u64) -> Result<u64, Box<Refusal>> {
        match self {
            Self::Full { block_size, ranks } => ceil_div(ceil_div(length, ranks)?, block_size),
            // one more, for the window may begin inside a block
            Self::Window {
                block_size, reach, ..
            } => add(ceil_div(length.min(reach), block_size)?, 1),
            Self::Chunk {
                block_size, reach, ..
            } => ceil_div(length.min(reach), block_size),
            Self::Constant { blocks, .. } => Ok(blocks),
        }
    }

    /// The same if nothing were in flight: what a request that waits for its next
    /// token holds, at most.
    pub fn blocks_at_rest(self, length: u64) -> Result<u64, Box<Refusal>> {
        match self {
            Self::Window {
                block_size,
                reach,
                in_flight,
            } => Self::Window {
                block_size,
                reach: reach.saturating_sub(in_flight),
                in_flight: 0,
            }
            .blocks(length),
            Self::Chunk {
                block_size,
                reach,
                in_flight,
            } => Self::Chunk {
                block_size,
                reach: reach.saturating_sub(in_flight),
                in_flight: 0,
            }
            .blocks(length),
            Self::Full { .. } | Self::Constant { .. } => self.blocks(length),
        }
    }

    /// Blocks for each further `tokens`, past every reach.
    pub(crate) fn blocks_per(self, tokens: u64) -> Result<u64, Box<Refusal>> {
        match self {
            Self::Full { .. } => self.blocks(tokens),
            Self::Window { .. } | Self::Chunk { .. } | Self::Constant { .. } => Ok(0),
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
            in_flight: 16_384,
        };
        assert_eq!(window.blocks_at_rest(262_144), Ok(3));
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
