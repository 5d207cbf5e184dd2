//! What a pool of some size comes to: blocks, the checks, auto-fit, capacity.
//! Mirrors `get_kv_cache_configs` and what it calls.

use super::demand::Demand;
use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::release::{CapacityRule, Profile};
use crate::resolution::GroupRow;
use crate::trace::Trace;
use crate::units::{add, ceil_div, fixed, mul};

/// What the sizes below follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks<'a> {
    /// Bytes of one block.
    pub bytes_per_block: u64,
    /// Bytes of one block as the check of one request counts it.
    pub checked_bytes_per_block: u64,
    /// Bytes of one block as `num_gpu_blocks_override` counts it.
    pub pool_bytes_per_block: u64,
    /// Each group's demand.
    pub demands: &'a [Demand],
}

impl Blocks<'_> {
    /// Blocks of all groups for one request.
    fn per_request(&self, length: u64) -> Result<u64, Box<Refusal>> {
        self.demands
            .iter()
            .try_fold(0, |sum, demand| add(sum, demand.blocks(length)?))
    }

    /// Bytes that one request takes.
    pub fn request_bytes(&self, length: u64) -> Result<u64, Box<Refusal>> {
        mul(self.per_request(length)?, self.bytes_per_block)
    }

    /// Bytes that the check asks for. Mirrors `_max_memory_usage_bytes_from_groups`.
    fn checked_bytes(&self, length: u64) -> Result<u64, Box<Refusal>> {
        mul(self.per_request(length)?, self.checked_bytes_per_block)
    }

    /// The longest request up to `most` tokens that fits; 0 if none does.
    /// Mirrors `_estimate_max_model_len_from_groups`.
    fn longest(&self, available: i128, most: u64) -> Result<u64, Box<Refusal>> {
        let fits =
            |length| Ok::<_, Box<Refusal>>(i128::from(self.checked_bytes(length)?) <= available);
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

/// The pool as the checks see it.
pub(super) struct Pool {
    /// Bytes, as given.
    bytes: u64,
    /// Bytes for requests, perhaps none.
    pub usable: i128,
}

impl Pool {
    pub fn new(
        config: &EngineConfig,
        blocks: &Blocks,
        bytes: u64,
        profile: &Profile,
        trace: &mut Trace,
    ) -> Result<Self, Box<Refusal>> {
        let block = i128::from(blocks.pool_bytes_per_block);
        let pool = match config.num_gpu_blocks_override {
            // what fits is logged before
            Some(_) if block == 0 => return Err(Box::new(Refusal::ZeroDivision)),
            Some(count) => {
                trace.step(
                    Stage::Plan,
                    profile.files.planner,
                    "get_kv_cache_configs",
                    || {
                        format!(
                            "num_gpu_blocks_override sets the pool to {count} blocks, whatever fits"
                        )
                    },
                );
                i128::from(count) * block
            }
            None => i128::from(bytes),
        };
        // the block pool holds one block back for ever, the null block, which
        // the checks know of since 0.29
        let null = if profile.reserves_null_block {
            block
        } else {
            0
        };
        Ok(Self {
            bytes,
            usable: pool - null,
        })
    }
}

/// The outcome for the pools of all stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sized {
    /// After auto-fit.
    pub max_model_len: u64,
    /// Blocks in every pool: as many as fit in the one where fewest do.
    pub num_blocks: u64,
    /// Blocks that fit in each stage's pool.
    pub fitting: Vec<u64>,
}

/// Runs the checks over the stages in turn, and counts the blocks. `empty` is
/// what a stage without layers stops with.
pub(super) fn size(
    config: &EngineConfig,
    stages: &[(Blocks, Pool, Option<Box<Refusal>>)],
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Sized, Box<Refusal>> {
    let file = profile.files.planner;
    let mut max_model_len = config.max_model_len;
    if config.auto_fit {
        let mut longest = max_model_len;
        for (blocks, pool, _) in stages {
            let of_stage = blocks.longest(pool.usable, max_model_len)?;
            longest = longest.min(of_stage);
        }
        if longest == 0 {
            return Err(Box::new(Refusal::NothingToAutoFit));
        }
        trace.step(Stage::Plan, file, "_auto_fit_max_model_len", || {
            if longest >= max_model_len {
                format!("the model's full length of {max_model_len} tokens fits")
            } else {
                format!("max_model_len is shortened from {max_model_len} to {longest} tokens, the most that fits")
            }
        });
        max_model_len = longest;
    }
    for (number, (blocks, pool, _)) in (1_usize..).zip(stages) {
        let checked = check(blocks, pool.usable, max_model_len, profile);
        if checked.is_err() && stages.len() > 1 {
            trace.step(Stage::Plan, file, "_check_enough_kv_cache_memory", || {
                format!("stage {number} is the first that has not enough memory for one request")
            });
        }
        checked?;
    }
    let mut fitting = Vec::with_capacity(stages.len());
    for (number, (blocks, pool, empty)) in (1_usize..).zip(stages) {
        if let Some(refusal) = empty {
            return Err(refusal.clone());
        }
        let num_blocks = match config.num_gpu_blocks_override {
            Some(count) => {
                u64::try_from(count).map_err(|_| Refusal::NoMemory(profile.memory_texts))?
            }
            None => pool
                .bytes
                .checked_div(blocks.bytes_per_block)
                .ok_or(Refusal::ZeroDivision)?,
        };
        let needed = blocks.checked_bytes(max_model_len)?;
        trace.step(Stage::Plan, file, "get_kv_cache_config_from_groups", || {
            let beside = if profile.reserves_null_block {
                " that remain beside the null block"
            } else {
                ""
            };
            let stage = if stages.len() > 1 {
                format!("stage {number}: ")
            } else {
                String::new()
            };
            format!(
                "{stage}{num_blocks} blocks of {} B; one request of {max_model_len} tokens is counted as {needed} B of the {} B{beside}",
                blocks.bytes_per_block, pool.usable
            )
        });
        fitting.push(num_blocks);
    }
    let num_blocks = fitting.iter().copied().min().unwrap_or(0);
    if stages.len() > 1 {
        trace.step(Stage::Plan, file, "get_kv_cache_configs", || {
            format!("every stage takes {num_blocks} blocks, as many as fit where fewest do")
        });
    }
    Ok(Sized {
        max_model_len,
        num_blocks,
        fitting,
    })
}

/// Whether one request fits. Mirrors `_check_enough_kv_cache_memory`.
fn check(
    blocks: &Blocks,
    usable: i128,
    max_model_len: u64,
    profile: &Profile,
) -> Result<(), Box<Refusal>> {
    if usable <= 0 {
        return Err(Box::new(Refusal::NoMemory(profile.memory_texts)));
    }
    let needed = blocks.checked_bytes(max_model_len)?;
    if i128::from(needed) > usable {
        return Err(Box::new(Refusal::RequestDoesNotFit {
            max_model_len,
            needed_bytes: needed,
            available_bytes: usable,
            estimated_max_len: blocks.longest(usable, max_model_len)?,
            texts: profile.memory_texts,
        }));
    }
    Ok(())
}

/// What a pool holds, as vLLM states it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Held {
    /// Requests of `max_model_len`.
    pub concurrency: f64,
    /// The same in tokens.
    pub tokens: u64,
}

impl Held {
    /// By way of a double, as Python computes it.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )] // Python's own arithmetic
    fn new(sized: &Sized, blocks_per_request: u64) -> Self {
        let concurrency = sized.num_blocks as f64 / blocks_per_request.max(1) as f64;
        Self {
            concurrency,
            tokens: (concurrency * sized.max_model_len as f64) as u64,
        }
    }

    /// As the log line prints it.
    pub fn shown(self) -> String {
        fixed(self.concurrency, 2)
    }
}

/// vLLM's figures: what it prints, and what its metrics and scheduler take, which
/// through 0.23 have none. Mirrors `vllm/v1/core/kv_cache_utils.py`
/// `get_max_concurrency_for_kv_cache_config` and `get_kv_cache_capacity`.
pub(super) fn capacity(
    profile: &Profile,
    groups: &[GroupRow],
    sized: &Sized,
    trace: &mut Trace,
) -> Result<(Held, Option<Held>), Box<Refusal>> {
    let (per_request, of_metric) = match profile.capacity_rule {
        CapacityRule::WholeBlocks => {
            let blocks = blocks_per_request(groups)?;
            (blocks, Some(blocks))
        }
        CapacityRule::BytesOverFirstGroup { has_metric } => {
            let printed = over_first(groups, |group| group.page_size_bytes)?;
            // the scheduler's copy of a group knows its first layer's page alone
            let first = |group: &GroupRow| {
                let member = group.members.first();
                member.map_or(0, |member| member.page_size_bytes)
            };
            let metric = has_metric.then(|| over_first(groups, first)).transpose()?;
            (printed, metric)
        }
    };
    let printed = Held::new(sized, per_request);
    trace.step(
        Stage::Plan,
        "vllm/v1/core/kv_cache_utils.py",
        "get_max_concurrency_for_kv_cache_config",
        || {
            format!(
                "{} blocks / {per_request} blocks per request = {} requests; times {} tokens = {}",
                sized.num_blocks,
                printed.shown(),
                sized.max_model_len,
                printed.tokens
            )
        },
    );
    Ok((printed, of_metric.map(|blocks| Held::new(sized, blocks))))
}

fn blocks_per_request(groups: &[GroupRow]) -> Result<u64, Box<Refusal>> {
    groups
        .iter()
        .try_fold(0, |sum, group| add(sum, group.blocks_per_request))
}

/// What the pool holds by the blocks that requests reserve, whatever vLLM says.
pub(super) fn whole_blocks(groups: &[GroupRow], sized: &Sized) -> Result<Held, Box<Refusal>> {
    Ok(Held::new(sized, blocks_per_request(groups)?))
}

/// The bytes of one request's pages in pages of the first group.
fn over_first(groups: &[GroupRow], bytes: impl Fn(&GroupRow) -> u64) -> Result<u64, Box<Refusal>> {
    let total = groups.iter().try_fold(0, |sum, group| {
        add(sum, mul(group.blocks_per_request, bytes(group))?)
    })?;
    ceil_div(total, groups.first().map_or(1, bytes))
}
