//! What a pool of some size comes to: blocks, the checks, auto-fit, capacity.
//! Mirrors `get_kv_cache_configs` and what it calls.

use super::demand::Demand;
use super::groups::FILE;
use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::trace::Trace;
use crate::units::{add, mul};

/// What the sizes below follow from.
pub(super) struct Blocks<'a> {
    /// Bytes of one block.
    pub bytes_per_block: u64,
    /// Each group's demand.
    pub demands: &'a [Demand],
}

impl Blocks<'_> {
    /// Blocks of all groups for one request.
    pub fn per_request(&self, length: u64) -> Result<u64, Box<Refusal>> {
        self.demands
            .iter()
            .try_fold(0, |sum, demand| add(sum, demand.blocks(length)?))
    }

    /// Bytes of one request. Mirrors `_max_memory_usage_bytes_from_groups`.
    pub fn request_bytes(&self, length: u64) -> Result<u64, Box<Refusal>> {
        mul(self.per_request(length)?, self.bytes_per_block)
    }

    /// The longest request up to `most` tokens that fits; 0 if none does.
    /// Mirrors `_estimate_max_model_len_from_groups`.
    pub fn longest(&self, available: i128, most: u64) -> Result<u64, Box<Refusal>> {
        let fits =
            |length| Ok::<_, Box<Refusal>>(i128::from(self.request_bytes(length)?) <= available);
        if !fits(1)? {
            return Ok(0);
        }
        let (mut longest, mut too_long) = (1, most.saturating_add(1));
        while too_long - longest > 1 {
            let middle = longest + (too_long - longest) / 2;
            if fits(middle)? {
                longest = middle;
            } else {
                too_long = middle;
            }
        }
        Ok(longest)
    }
}

/// The outcome for a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sized {
    /// After auto-fit.
    pub max_model_len: u64,
    /// Blocks in the pool.
    pub num_blocks: u64,
}

/// Runs the checks and counts the blocks.
pub(super) fn size(
    config: &EngineConfig,
    blocks: &Blocks,
    pool_bytes: u64,
    trace: &mut Trace,
) -> Result<Sized, Box<Refusal>> {
    let block = i128::from(blocks.bytes_per_block);
    let pool = match config.num_gpu_blocks_override {
        Some(count) => {
            trace.step(Stage::Plan, FILE, "get_kv_cache_configs", || {
                format!("num_gpu_blocks_override sets the pool to {count} blocks, whatever fits")
            });
            i128::from(count) * block
        }
        None => i128::from(pool_bytes),
    };
    // the block pool holds one block back for ever: the null block
    let usable = pool - block;

    let mut max_model_len = config.max_model_len;
    if config.auto_fit {
        let longest = blocks.longest(usable, max_model_len)?;
        if longest == 0 {
            return Err(Box::new(Refusal::NothingToAutoFit));
        }
        trace.step(Stage::Plan, FILE, "_auto_fit_max_model_len", || {
            if longest >= max_model_len {
                format!("the model's full length of {max_model_len} tokens fits")
            } else {
                format!("max_model_len is shortened from {max_model_len} to {longest} tokens, the most that fits")
            }
        });
        max_model_len = longest;
    }
    if usable <= 0 {
        return Err(Box::new(Refusal::NoMemory));
    }
    let needed = blocks.request_bytes(max_model_len)?;
    if i128::from(needed) > usable {
        return Err(Box::new(Refusal::RequestDoesNotFit {
            max_model_len,
            needed_bytes: needed,
            available_bytes: usable,
            estimated_max_len: blocks.longest(usable, max_model_len)?,
        }));
    }
    let num_blocks = match config.num_gpu_blocks_override {
        Some(count) => u64::try_from(count).map_err(|_| Refusal::NoMemory)?,
        None => pool_bytes / blocks.bytes_per_block,
    };
    trace.step(Stage::Plan, FILE, "get_kv_cache_config_from_groups", || {
        format!(
            "{num_blocks} blocks of {} B; one request of {max_model_len} tokens takes {} B of the {usable} B that remain beside the null block",
            blocks.bytes_per_block, needed
        )
    });
    Ok(Sized {
        max_model_len,
        num_blocks,
    })
}

/// vLLM's two figures: tokens and concurrency, by way of a double as there.
/// Mirrors `vllm/v1/core/kv_cache_utils.py` `get_kv_cache_capacity`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // Python's own arithmetic
pub(super) fn capacity(num_blocks: u64, per_request: u64, max_model_len: u64) -> (u64, f64) {
    let concurrency = num_blocks as f64 / per_request.max(1) as f64;
    ((concurrency * max_model_len as f64) as u64, concurrency)
}
