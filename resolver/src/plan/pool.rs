//! What a pool of some size comes to: blocks, the checks, auto-fit, capacity.
//! Mirrors `get_kv_cache_configs` and what it calls.

use super::demand::Demand;
use super::lines;
use crate::error::{MemoryTexts, Refusal, Stage};
use crate::log;
use crate::release::{AutoFitLog, CapacityRule, Profile};
use crate::resolution::GroupRow;
use crate::trace::Trace;
use crate::units::{add, ceil_div, fixed, mul};

/// What the sizes below follow from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks<'a> {
    /// Bytes of one block.
    pub bytes_per_block: u64,
    /// Bytes of one block as the check of one request counts it.
    pub checked_bytes_per_block: u64,
    /// Each group's demand.
    pub demands: &'a [Demand],
}

/// Blocks of all groups for one request.
fn per_request(demands: &[Demand], length: u64) -> Result<u64, Box<Refusal>> {
    demands
        .iter()
        .try_fold(0, |sum, demand| add(sum, demand.blocks(length)?))
}

impl Blocks<'_> {
    /// Bytes that one request takes.
    pub fn request_bytes(&self, length: u64) -> Result<u64, Box<Refusal>> {
        mul(per_request(self.demands, length)?, self.bytes_per_block)
    }

    /// Bytes that the check asks for. Mirrors `_max_memory_usage_bytes_from_groups`.
    fn checked_bytes(&self, length: u64) -> Result<u64, Box<Refusal>> {
        mul(
            per_request(self.demands, length)?,
            self.checked_bytes_per_block,
        )
    }

    /// The longest request up to `most` tokens that fits; 0 if none does.
    /// Mirrors `_estimate_max_model_len_from_groups`.
    fn longest(&self, available: i128, most: u64) -> Result<u64, Box<Refusal>> {
        let fits = |length| match self.checked_bytes(length) {
            Ok(bytes) => Ok(i128::from(bytes) <= available),
            // past 64 bits it fits nowhere
            Err(refusal) if *refusal == Refusal::TooLarge => Ok(false),
            Err(refusal) => Err(refusal),
        };
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

/// What turns the size of a pool into blocks: all that the checks look at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sizing {
    /// Tokens, before auto-fit.
    pub max_model_len: u64,
    /// Whether they are shortened to what fits.
    pub auto_fit: bool,
    /// Blocks, whatever fits.
    pub num_gpu_blocks_override: Option<i64>,
    /// The checks know of the null block.
    pub reserves_null_block: bool,
    /// How errors are worded.
    pub texts: MemoryTexts,
    /// How auto-fit is.
    pub auto_fit_log: AutoFitLog,
    /// Each group's demand.
    pub demands: Vec<Demand>,
    /// Each stage of the pipeline.
    pub stages: Vec<StageSizing>,
}

/// A stage's part in it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StageSizing {
    /// Bytes of one block.
    pub bytes_per_block: u64,
    /// Bytes of one block as the check of one request counts it.
    pub checked_bytes_per_block: u64,
    /// Bytes of one block as `num_gpu_blocks_override` counts it.
    pub pool_bytes_per_block: u64,
    /// What a stage without layers stops with.
    pub empty: Option<Box<Refusal>>,
}

impl StageSizing {
    /// Beside the demands, which all stages share.
    pub const fn blocks<'a>(&self, demands: &'a [Demand]) -> Blocks<'a> {
        Blocks {
            bytes_per_block: self.bytes_per_block,
            checked_bytes_per_block: self.checked_bytes_per_block,
            demands,
        }
    }
}

/// The outcome for the pools of all stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sized {
    /// After auto-fit.
    pub max_model_len: u64,
    /// Blocks in every pool: as many as fit in the one where fewest do.
    pub num_blocks: u64,
    /// Blocks that fit in each stage's pool.
    pub fitting: Vec<u64>,
    /// What auto-fit says.
    pub auto_fit_line: Option<String>,
}

impl Sizing {
    /// Bytes for requests of one stage, perhaps none.
    fn usable(&self, stage: &StageSizing, pool_bytes: u64) -> Result<i128, Box<Refusal>> {
        let block = i128::from(stage.pool_bytes_per_block);
        let pool = match self.num_gpu_blocks_override {
            // what fits is logged before
            Some(_) if block == 0 => return Err(Box::new(Refusal::ZeroDivision)),
            Some(count) => i128::from(count) * block,
            None => i128::from(pool_bytes),
        };
        // the block pool holds one block back for ever, the null block, which
        // the checks know of since 0.29
        Ok(pool - if self.reserves_null_block { block } else { 0 })
    }

    /// Bytes that no request can use, of the stage with the least and of that with the most; `None` where
    /// `num_gpu_blocks_override` decides what requests can use, whatever the pool.
    pub fn withheld(&self) -> Option<(i64, i64)> {
        if self.num_gpu_blocks_override.is_some() {
            return None;
        }
        let withheld = |stage: &StageSizing| {
            let blocks = if self.reserves_null_block {
                stage.pool_bytes_per_block
            } else {
                0
            };
            i64::try_from(blocks).unwrap_or(i64::MAX)
        };
        let all = self.stages.iter().map(withheld);
        Some((all.clone().min()?, all.max()?))
    }

    /// Whether the first stage has any; vLLM looks at it before it looks at the layers.
    pub fn has_memory(&self, pool_bytes: u64) -> Result<bool, Box<Refusal>> {
        let mut usable = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            usable.push(self.usable(stage, pool_bytes)?);
        }
        Ok(usable.first().is_some_and(|usable| *usable > 0))
    }

    /// The longest request up to `most` tokens for which every stage has room; 0
    /// if none.
    pub fn longest(&self, pool_bytes: u64, most: u64) -> Result<u64, Box<Refusal>> {
        let mut longest = most;
        for stage in &self.stages {
            let usable = self.usable(stage, pool_bytes)?;
            longest = longest.min(stage.blocks(&self.demands).longest(usable, most)?);
        }
        Ok(longest)
    }

    /// Blocks of one request of so many tokens.
    pub fn blocks_per_request(&self, length: u64) -> Result<u64, Box<Refusal>> {
        per_request(&self.demands, length)
    }

    /// Runs the checks over the stages in turn, and counts the blocks.
    pub fn size(
        &self,
        pool_bytes: u64,
        file: &'static str,
        trace: &mut Trace,
    ) -> Result<Sized, Box<Refusal>> {
        if let Some(count) = self.num_gpu_blocks_override {
            trace.step(Stage::Plan, file, "get_kv_cache_configs", || {
                format!("num_gpu_blocks_override sets the pool to {count} blocks, whatever fits")
            });
        }
        let mut usable = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            usable.push(self.usable(stage, pool_bytes)?);
            lines::overriding(self.num_gpu_blocks_override, stage, pool_bytes, trace);
        }
        let (max_model_len, auto_fit_line) = if self.auto_fit {
            let (fitted, line) = self.fitted(&usable, file, trace)?;
            trace.say(log::POOL, || line.clone());
            (fitted, Some(line))
        } else {
            (self.max_model_len, None)
        };
        for (number, (stage, usable)) in (1_usize..).zip(self.stages.iter().zip(&usable)) {
            let checked = self.check(&stage.blocks(&self.demands), *usable, max_model_len);
            if checked.is_err() && self.stages.len() > 1 {
                trace.step(Stage::Plan, file, "_check_enough_kv_cache_memory", || {
                    format!(
                        "stage {number} is the first that has not enough memory for one request"
                    )
                });
            }
            checked?;
        }
        let mut fitting = Vec::with_capacity(self.stages.len());
        for (number, (stage, usable)) in (1_usize..).zip(self.stages.iter().zip(usable)) {
            if let Some(refusal) = &stage.empty {
                return Err(refusal.clone());
            }
            let num_blocks = match self.num_gpu_blocks_override {
                Some(count) => u64::try_from(count).map_err(|_| Refusal::NoMemory(self.texts))?,
                None => pool_bytes
                    .checked_div(stage.bytes_per_block)
                    .ok_or(Refusal::ZeroDivision)?,
            };
            // what is allocated must be a number, too
            mul(num_blocks, stage.bytes_per_block)?;
            let needed = stage.blocks(&self.demands).checked_bytes(max_model_len)?;
            trace.step(Stage::Plan, file, "get_kv_cache_config_from_groups", || {
                let beside = if self.reserves_null_block {
                    " that remain beside the null block"
                } else {
                    ""
                };
                let which = if self.stages.len() > 1 {
                    format!("stage {number}: ")
                } else {
                    String::new()
                };
                format!(
                    "{which}{num_blocks} blocks of {} B; one request of {max_model_len} tokens is counted as {needed} B of the {usable} B{beside}",
                    stage.bytes_per_block
                )
            });
            fitting.push(num_blocks);
        }
        let num_blocks = fitting.iter().copied().min().unwrap_or(0);
        if self.stages.len() > 1 {
            trace.step(Stage::Plan, file, "get_kv_cache_configs", || {
                format!("every stage takes {num_blocks} blocks, as many as fit where fewest do")
            });
        }
        Ok(Sized {
            max_model_len,
            num_blocks,
            fitting,
            auto_fit_line,
        })
    }

    /// The longest that fits, and what vLLM says of it. Mirrors `_auto_fit_max_model_len`.
    fn fitted(
        &self,
        usable: &[i128],
        file: &'static str,
        trace: &mut Trace,
    ) -> Result<(u64, String), Box<Refusal>> {
        let asked = self.max_model_len;
        let (mut longest, mut deciding) = (asked, usable.first().copied().unwrap_or(0));
        for (stage, usable) in self.stages.iter().zip(usable) {
            let of_stage = stage.blocks(&self.demands).longest(*usable, asked)?;
            if of_stage < longest {
                (longest, deciding) = (of_stage, *usable);
            }
        }
        if longest == 0 {
            return Err(Box::new(Refusal::NothingToAutoFit));
        }
        trace.step(Stage::Plan, file, "_auto_fit_max_model_len", || {
            if longest >= asked {
                format!("the model's full length of {asked} tokens fits")
            } else {
                format!("max_model_len is shortened from {asked} to {longest} tokens, the most that fits")
            }
        });
        Ok((longest, self.auto_fit_log.line(asked, longest, deciding)))
    }

    /// Whether one request fits. Mirrors `_check_enough_kv_cache_memory`.
    fn check(&self, blocks: &Blocks, usable: i128, max_model_len: u64) -> Result<(), Box<Refusal>> {
        if usable <= 0 {
            return Err(Box::new(Refusal::NoMemory(self.texts)));
        }
        let needed = blocks.checked_bytes(max_model_len)?;
        if i128::from(needed) > usable {
            return Err(Box::new(Refusal::RequestDoesNotFit {
                max_model_len,
                needed_bytes: needed,
                available_bytes: usable,
                estimated_max_len: blocks.longest(usable, max_model_len)?,
                texts: self.texts,
            }));
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests;
