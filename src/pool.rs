//! The pool as it is asked for: estimated, given, or as vLLM's log prints it.

use kv_paste::printed_pool;
use kv_resolver::memory::PrintedPool;

/// More than any GPU will have.
const MOST_POOL_BYTES: u64 = 1_000_000 << 30;

/// Where the pool of a question comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedPool {
    /// From the GPU: what a start-up would leave.
    Estimated,
    /// From the user, in bytes.
    Given(u64),
    /// From lines of vLLM's log.
    Printed(PrintedPool),
}

impl AskedPool {
    /// Reads the field: nothing, GiB, or lines of a log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        if let Some(printed) = printed_pool(text) {
            return Ok(Self::Printed(printed));
        }
        Ok(gib(text)?.map_or(Self::Estimated, Self::Given))
    }
}

/// Reads GiB as bytes; `None` if there is nothing to read.
///
/// # Errors
/// What is wrong with the text.
pub fn gib(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.strip_suffix("GiB").map_or(text, str::trim_end);
    match decimal_gib(number) {
        Some(bytes) if bytes <= MOST_POOL_BYTES => Ok(Some(bytes)),
        Some(_) => Err("Expected at most 1,000,000 GiB.".to_owned()),
        None if text.starts_with('-') => Err("There cannot be less than 0 GiB.".to_owned()),
        None => Err(
            "Expected a number of GiB, such as 40 or 12.5, or a line of vLLM's log that says what \
             was available."
                .to_owned(),
        ),
    }
}

/// `12.5` GiB in bytes, rounded down.
fn decimal_gib(text: &str) -> Option<u64> {
    const MOST_DECIMALS: usize = 9;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(MOST_DECIMALS)];
    let bytes = |digits: &str| {
        // more digits than a number has are more bytes than there are
        let number = digits.parse::<u64>().unwrap_or(u64::MAX);
        number.saturating_mul(1 << 30)
    };
    let part = bytes(fraction) / 10_u64.pow(u32::try_from(fraction.len()).unwrap_or(0));
    Some(bytes(whole).saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools() {
        assert_eq!(gib(""), Ok(None));
        assert_eq!(gib(" 0.5 "), Ok(Some(1 << 29)));
        assert_eq!(gib("40 GiB"), Ok(Some(40 << 30)));
        assert_eq!(gib("12.3"), Ok(Some(13_207_024_435)));
        assert_eq!(gib("0.000000000999"), Ok(Some(0)));
        let long = "9".repeat(400);
        for bad in ["x", "-1", "NaN", "inf", "1e300", "40 GB", ".", "1.", &long] {
            assert!(gib(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_of_a_log_is_a_pool() {
        let line =
            "(Worker pid=7) INFO 11-29 [gpu_worker.py:770] Available KV cache memory: 47.43 GiB";
        assert!(matches!(
            AskedPool::read(line),
            Ok(AskedPool::Printed(PrintedPool {
                available: Some(_),
                tokens: None,
                ..
            }))
        ));
        assert_eq!(AskedPool::read("  "), Ok(AskedPool::Estimated));
        assert_eq!(AskedPool::read("1"), Ok(AskedPool::Given(1 << 30)));
    }
}
