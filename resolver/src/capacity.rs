//! What a pool holds, and who holds it: of an answer, for any pool.

use serde::Serialize;

use crate::error::Refusal;
use crate::resolution::{GroupRow, Resolution};
use crate::trace::Trace;
use crate::units::{add, fixed, mul};

/// Lengths beyond this are not searched: no model comes near it.
pub const MOST_TOKENS: u64 = 1 << 40;

/// Requests that fit, as an exact ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Blocks of the pool …
    pub num_blocks: u64,
    /// … over those that one request reserves (at least 1).
    pub blocks_per_request: u64,
}

impl Requests {
    /// By way of a double, as vLLM divides.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // Python's own arithmetic
    pub fn as_f64(self) -> f64 {
        self.num_blocks as f64 / self.blocks_per_request.max(1) as f64
    }

    /// With two decimals, as vLLM prints a concurrency.
    #[must_use]
    pub fn shown(self) -> String {
        fixed(self.as_f64(), 2)
    }

    /// Whole requests.
    #[must_use]
    pub const fn whole(self) -> u64 {
        self.num_blocks
            / if self.blocks_per_request == 0 {
                1
            } else {
                self.blocks_per_request
            }
    }
}

/// What some pool comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// Tokens of the longest request that is taken, after auto-fit.
    pub max_model_len: u64,
    /// Requests of that length.
    pub requests: Requests,
}

/// What one group's part of a request at `max_model_len` is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Index into `groups`.
    pub group: usize,
    /// Bytes of its blocks in all: the sum of the three below.
    pub total_bytes: u64,
    /// Pages of its layers that keep tokens or states.
    pub content_bytes: u64,
    /// Pages that are reserved for tokens in flight; a request at rest gives them back.
    pub in_flight_bytes: u64,
    /// The blocks' bytes beside the group's pages, for another group's are wider.
    pub padding_bytes: u64,
}

impl Resolution {
    /// What a pool of so many bytes comes to; equal to the answer for the same
    /// `available_memory`.
    ///
    /// # Errors
    /// vLLM's own, where it stops for want of memory.
    pub fn fit(&self, pool_bytes: u64) -> Result<Fit, Box<Refusal>> {
        let sized = self.sizing.size(pool_bytes, "", &mut Trace::silent())?;
        Ok(Fit {
            max_model_len: sized.max_model_len,
            requests: Requests {
                num_blocks: sized.num_blocks,
                blocks_per_request: self.sizing.blocks_per_request(sized.max_model_len)?,
            },
        })
    }

    /// Whether `max_model_len` is shortened to what fits.
    #[must_use]
    pub const fn is_auto_fit(&self) -> bool {
        self.sizing.auto_fit
    }

    /// Tokens of the longest request that a pool of so many bytes could hold, were
    /// `max_model_len` as long; [`MOST_TOKENS`] where the length does not matter, 0 if none.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`] past 64 bits.
    pub fn longest_request(&self, pool_bytes: u64) -> Result<u64, Box<Refusal>> {
        self.sizing.longest(pool_bytes, MOST_TOKENS)
    }

    /// Requests of so many tokens on average that `num_blocks` blocks hold, each with
    /// what vLLM reserves for it, and no more of them than `max_num_seqs` run at once.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`] past 64 bits.
    pub fn requests_of(&self, num_blocks: u64, length: u64) -> Result<Requests, Box<Refusal>> {
        Ok(Requests {
            num_blocks,
            blocks_per_request: self.sizing.blocks_per_request(length)?.max(1),
        })
    }

    /// Who holds the memory of a request of so many tokens.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`] past 64 bits.
    pub fn shares(&self, length: u64) -> Result<Vec<Share>, Box<Refusal>> {
        let groups = self.groups.iter().enumerate();
        groups
            .map(|(group, row)| self.share(group, row, length))
            .collect()
    }

    /// A name for each group: what its members are, numbered where two groups hold the
    /// same.
    #[must_use]
    pub fn group_names(&self) -> Vec<String> {
        let plain: Vec<String> = self
            .groups
            .iter()
            .map(|group| {
                let labels = group.members.iter().map(|member| member.role.label());
                labels.collect::<Vec<_>>().join(" + ")
            })
            .collect();
        plain
            .iter()
            .enumerate()
            .map(|(index, name)| {
                if plain.iter().filter(|other| *other == name).count() == 1 {
                    name.clone()
                } else {
                    let nth = plain[..=index].iter().filter(|other| *other == name);
                    format!("{name} {}", nth.count())
                }
            })
            .collect()
    }

    fn share(&self, group: usize, row: &GroupRow, length: u64) -> Result<Share, Box<Refusal>> {
        let blocks = row.demand.blocks(length)?;
        let at_rest = row.demand.blocks_at_rest(length)?.min(blocks);
        let padding = row.padding_bytes.min(self.bytes_per_block);
        let pages = self.bytes_per_block - padding;
        let content_bytes = mul(at_rest, pages)?;
        let in_flight_bytes = mul(blocks - at_rest, pages)?;
        let padding_bytes = mul(blocks, padding)?;
        Ok(Share {
            group,
            total_bytes: add(add(content_bytes, in_flight_bytes)?, padding_bytes)?,
            content_bytes,
            in_flight_bytes,
            padding_bytes,
        })
    }
}
