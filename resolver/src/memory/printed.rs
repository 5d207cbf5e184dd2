//! What vLLM's own log says of a pool: a GiB of two decimals, tokens, or both.

use serde::Serialize;

use super::{Interval, without_pool};
use crate::error::Refusal;
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::resolve_quietly;
use crate::units::GIB;

/// Pools beyond this are not searched.
const MOST_POOL_BYTES: u64 = 1 << 50;

/// What a log says of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrintedPool {
    /// "Available KV cache memory", of several workers the least: it decides. Or what an
    /// error says is available.
    pub available: Option<Interval>,
    /// It is what an error or auto-fit says, which is what requests can use: since 0.29
    /// less the null block.
    pub is_usable: bool,
    /// "GPU KV cache size", in tokens.
    pub tokens: Option<u64>,
    /// "Maximum concurrency for … tokens per request": those tokens.
    pub max_model_len: Option<u64>,
}

impl PrintedPool {
    /// The pools that it may mean: those of its GiB, of them those that come to its
    /// tokens where any does; or those of its tokens. `None` if there is none.
    ///
    /// # Errors
    /// What stops the question whatever the pool.
    pub fn pool(self, request: &Request) -> Result<Option<Interval>, Box<Refusal>> {
        let available = self.available(request)?;
        let of_tokens = match self.tokens {
            Some(tokens) => pool_of_tokens(request, tokens)?,
            None => None,
        };
        Ok(match (available, of_tokens) {
            (Some(available), Some(of_tokens)) => {
                let low = available.low.max(of_tokens.low);
                let high = available.high.min(of_tokens.high);
                Some(if low <= high {
                    Interval {
                        low,
                        likely: low.midpoint(high),
                        high,
                    }
                } else {
                    available
                })
            }
            (available, of_tokens) => available.or(of_tokens),
        })
    }

    /// The pools of its GiB.
    ///
    /// # Errors
    /// What stops the question whatever the pool.
    pub fn available(self, request: &Request) -> Result<Option<Interval>, Box<Refusal>> {
        if self.available.is_none() || !self.is_usable {
            return Ok(self.available);
        }
        let base = resolve_quietly(&without_pool(request))?;
        Ok(self.available_beside(&base))
    }

    /// The same, with the answer that the question has without a pool.
    #[must_use]
    pub fn available_beside(self, base: &Resolution) -> Option<Interval> {
        if !self.is_usable {
            return self.available;
        }
        let Interval { low, likely, high } = self.available?;
        // which stage of a pipeline said so is not told
        let (least, most) = base.sizing.withheld()?;
        Some(Interval {
            low: low.saturating_add(least),
            likely: likely.saturating_add(least.midpoint(most)),
            high: high.saturating_add(most),
        })
    }

    /// Its tokens, held against its GiB; against `pool` where it says no GiB and no pool
    /// comes to its tokens. Tokens alone that lead to a pool say nothing against it.
    #[must_use]
    pub fn check(self, request: &Request, pool: Interval, is_of_log: bool) -> Option<PrintedCheck> {
        let against = match self.available(request).ok()? {
            Some(available) => available,
            None if is_of_log => return None,
            None => pool,
        };
        check_printed(request, against, self.tokens?).ok()
    }
}

/// Every pool that is printed as so many hundredths of a GiB.
/// Mirrors `vllm/utils/mem_utils.py` `format_gib`, which rounds to the nearest.
#[must_use]
pub fn printed_gib(hundredths: i64) -> Interval {
    let gib = i128::from(GIB);
    let twice = i128::from(hundredths) * 2;
    let bytes = |bytes: i128| {
        let most = if bytes < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(bytes).unwrap_or(most)
    };
    let low = bytes(-((1 - twice) * gib).div_euclid(200));
    let high = bytes(((twice + 1) * gib).div_euclid(200));
    Interval {
        low,
        likely: low.midpoint(high),
        high,
    }
}

/// Tokens that vLLM prints for a pool, held against those that it did print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PrintedCheck {
    /// Tokens as printed.
    pub printed: u64,
    /// Tokens that the least of the pools comes to.
    pub least: u64,
    /// Tokens that the most of them comes to.
    pub most: u64,
}

impl PrintedCheck {
    /// Whether some pool in the interval comes to what was printed.
    #[must_use]
    pub const fn agrees(self) -> bool {
        self.least <= self.printed && self.printed <= self.most
    }
}

/// Holds printed tokens against a pool.
///
/// # Errors
/// What stops the question at an end of the interval.
pub fn check_printed(
    request: &Request,
    pool: Interval,
    printed: u64,
) -> Result<PrintedCheck, Box<Refusal>> {
    let [least, _, most] = pool.pools();
    Ok(PrintedCheck {
        printed,
        least: tokens(request, least)?,
        most: tokens(request, most)?,
    })
}

/// The pools for which vLLM prints so many tokens; `None` if it does for none.
///
/// # Errors
/// What stops the question whatever the pool.
pub fn pool_of_tokens(request: &Request, printed: u64) -> Result<Option<Interval>, Box<Refusal>> {
    tokens(request, MOST_POOL_BYTES)?;
    // too small a pool prints nothing, and so less
    let prints = |pool: u64| tokens(request, pool).unwrap_or(0);
    let first = |at_least: u64| {
        let (mut below, mut above) = (0, MOST_POOL_BYTES);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if prints(middle) >= at_least {
                above = middle;
            } else {
                below = middle;
            }
        }
        above
    };
    let least = first(printed);
    if printed == 0 || prints(least) != printed {
        return Ok(None);
    }
    let most = first(printed.saturating_add(1)) - 1;
    Ok(Some(Interval::between(least, most)))
}

/// Tokens in the log line for a pool.
fn tokens(request: &Request, pool_bytes: u64) -> Result<u64, Box<Refusal>> {
    let mut sized = without_pool(request);
    sized.available_memory = Some(pool_bytes);
    let resolution = resolve_quietly(&sized)?;
    Ok(resolution
        .capacity
        .map_or(0, |capacity| capacity.printed_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::format_gib;

    #[test]
    fn every_pool_of_the_interval_is_printed_so_and_none_beside_it() {
        for (hundredths, text) in [(4743, "47.43"), (4740, "47.4"), (1, "0.01"), (-350, "-3.5")] {
            let Interval { low, high, .. } = printed_gib(hundredths);
            let prints = |bytes: i64| format_gib(i128::from(bytes));
            assert_eq!(prints(low + 1), text);
            assert_eq!(prints(high - 1), text);
            assert_ne!(prints(high + 1), text);
            assert_ne!(prints(low - 2), text);
        }
    }
}
