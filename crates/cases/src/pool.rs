//! A pool as people have it: a figure, or lines of vLLM's own log.

use kv_resolver::memory::{Interval, printed_gib};

/// What a log says of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrintedPool {
    /// "Available KV cache memory", of several workers the least: it decides.
    pub available: Option<Interval>,
    /// "GPU KV cache size", in tokens.
    pub tokens: Option<u64>,
    /// "Maximum concurrency for … tokens per request": those tokens.
    pub max_model_len: Option<u64>,
}

const AVAILABLE: &str = "Available KV cache memory:";
const SIZE: &str = "GPU KV cache size:";
const CONCURRENCY: &str = "Maximum concurrency for";

/// Reads lines of a log; `None` if none of them is about the pool.
#[must_use]
pub fn printed_pool(text: &str) -> Option<PrintedPool> {
    let text = without_escapes(text);
    let mut found = PrintedPool::default();
    for (at, _) in text.match_indices(AVAILABLE) {
        let gib = leading_number(&text[at + AVAILABLE.len()..]).and_then(hundredths);
        let pool = gib.map(printed_gib);
        found.available = match (found.available, pool) {
            (Some(least), Some(pool)) if least.low <= pool.low => Some(least),
            (least, None) => least,
            (_, pool) => pool,
        };
    }
    let count = |after: &str| {
        let (_, rest) = text.rsplit_once(after)?;
        leading_number(rest)?.replace(',', "").parse().ok()
    };
    found.tokens = count(SIZE);
    found.max_model_len = count(CONCURRENCY);
    (found.available.is_some() || found.tokens.is_some()).then_some(found)
}

/// The digits that a text begins with, with what parts them.
fn leading_number(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '.' | '-')));
    let number = text[..end.unwrap_or(text.len())].trim_end_matches([',', '.']);
    (!number.is_empty()).then_some(number)
}

/// `47.4` as 4,740; what is less than nothing is nothing.
fn hundredths(number: &str) -> Option<u64> {
    if let Some(below) = number.strip_prefix('-') {
        return hundredths(below).map(|_| 0);
    }
    let number = number.replace(',', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 9
        || fraction.len() > 2
        || !is_number(whole)
        || !is_number(fraction)
    {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<2}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 100 + fraction)
}

/// Without the sequences by which terminals colour text.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // up to the letter that ends it
            rest.find(char::is_ascii_alphabetic);
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_are_read_and_others_are_not() {
        let log = "\u{1b}[0;36m(EngineCore_0 pid=7)\u{1b}[0;0m INFO 11-29 12:00:01 [gpu_worker.py:770] Available KV cache memory: 47.43 GiB\n\
                   (Worker_TP1 pid=8) INFO [gpu_worker.py:770] Available KV cache memory: 47.4 GiB\n\
                   INFO [kv_cache_utils.py:1] GPU KV cache size: 1,457,780 tokens, Maximum concurrency for 262,144 tokens per request: 5.56x";
        let pool = printed_pool(log).unwrap();
        assert_eq!(pool.available, Some(printed_gib(4740)));
        assert_eq!(pool.tokens, Some(1_457_780));
        assert_eq!(pool.max_model_len, Some(262_144));
        assert_eq!(
            printed_pool("Available KV cache memory: -3.2 GiB")
                .unwrap()
                .available,
            Some(printed_gib(0))
        );
        for text in [
            "",
            "40",
            "Available KV cache memory: lots",
            "GPU KV cache size: tokens",
        ] {
            assert_eq!(printed_pool(text), None, "{text}");
        }
    }

    #[test]
    fn no_text_panics() {
        for text in [
            "Available KV cache memory: 99999999999999999999 GiB",
            "Available KV cache memory: 1.2.3 GiB",
            "GPU KV cache size: ,, tokens",
            "\u{1b}",
            "GPU KV cache size: 99999999999999999999999 tokens",
            "Available KV cache memory: é",
        ] {
            assert_eq!(printed_pool(text), None, "{text}");
        }
    }
}
