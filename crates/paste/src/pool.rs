//! A pool as people have it: lines of vLLM's own log.

use kv_resolver::memory::{PrintedPool, printed_gib};

use crate::clean::{Squeezed, lines, without_escapes};

// without blanks, as the text is searched
pub(crate) const AVAILABLE: &str = "AvailableKVcachememory:";
/// In errors, and in what auto-fit says: the GiB follow the bracket.
pub(crate) const IN_BRACKETS: &str = "vailableKVcachememory(";
pub(crate) const SIZE: &str = "KVcachesize:";
pub(crate) const CONCURRENCY: &str = "Maximumconcurrencyfor";

/// Reads lines of a log; `None` if none of them is about the pool. Of several start-ups in
/// it, the last counts.
#[must_use]
pub fn printed_pool(text: &str) -> Option<PrintedPool> {
    let text = without_escapes(text);
    printed(&Squeezed::new(lines(&text)).text)
}

/// The same of a text without blanks.
pub(crate) fn printed(text: &str) -> Option<PrintedPool> {
    let (before, after) = match text.rfind(SIZE) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let later = least(after);
    if later.is_some() {
        // another start-up began, and has not come so far
        return later;
    }
    // of the start-up that these tokens are of: what follows the tokens of one before
    let of_start = before.rfind(SIZE).map_or(before, |at| &before[at..]);
    let (mut available, mut tokens) = (least(of_start), count(after, SIZE));
    if available.is_none() && least(before).is_some() {
        // several engines at once: whose tokens these are is not told
        (available, tokens) = (least(before), None);
    }
    let found = PrintedPool {
        tokens,
        max_model_len: count(after, CONCURRENCY),
        ..available.unwrap_or_default()
    };
    (found.available.is_some() || found.tokens.is_some()).then_some(found)
}

/// The least of what workers say is available. What stands in brackets is counted where no worker says it.
fn least(text: &str) -> Option<PrintedPool> {
    let least_of = |words: &str| {
        let places = text.match_indices(words);
        let found = places.filter_map(|(at, _)| gib(&text[at + words.len()..]));
        found.map(printed_gib).min_by_key(|pool| pool.low)
    };
    let pool = |available, is_usable| PrintedPool {
        available: Some(available),
        is_usable,
        ..PrintedPool::default()
    };
    let by_workers = least_of(AVAILABLE).map(|available| pool(available, false));
    by_workers.or_else(|| Some(pool(least_of(IN_BRACKETS)?, true)))
}

/// `47.4 GiB` as 4,740.
pub(crate) fn gib(text: &str) -> Option<i64> {
    let (number, rest) = leading_number(text)?;
    // cut off, or in another unit, it is another figure
    if !rest.trim_start_matches(' ').starts_with("GiB") {
        return None;
    }
    hundredths(number)
}

/// A whole number after some words.
fn count(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let (number, rest) = leading_number(rest)?;
    if !rest.trim_start_matches(' ').starts_with("token") {
        return None;
    }
    number.replace(',', "").parse().ok()
}

/// The digits that a text begins with, with what parts them, and what follows.
pub(crate) fn leading_number(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '.' | '-')));
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    (!number.is_empty()).then_some((number, rest))
}

pub(crate) fn hundredths(number: &str) -> Option<i64> {
    if let Some(below) = number.strip_prefix('-') {
        return hundredths(below).map(|hundredths| -hundredths);
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
    let fraction: i64 = format!("{fraction:0<2}").parse().ok()?;
    Some(whole.parse::<i64>().ok()? * 100 + fraction)
}

#[cfg(test)]
mod tests {
    use kv_resolver::memory::Interval;

    use super::*;

    fn available(text: &str) -> Option<Interval> {
        printed_pool(text).and_then(|pool| pool.available)
    }

    #[test]
    fn lines_of_a_log_are_read_and_others_are_not() {
        let log = "\u{1b}[0;36m(EngineCore_0 pid=7)\u{1b}[0;0m INFO 11-29 12:00:01 [gpu_worker.py:770] Available KV cache memory: 47.43 GiB\n\
                   (Worker_TP1 pid=8) INFO [gpu_worker.py:770] Available KV cache memory: 47.4 GiB\n\
                   INFO [kv_cache_utils.py:1] GPU KV cache size: 1,457,780 tokens, Maximum concurrency for 262,144 tokens per request: 5.56x";
        let pool = printed_pool(log).unwrap();
        assert_eq!(pool.available, Some(printed_gib(4740)));
        assert_eq!(pool.tokens, Some(1_457_780));
        assert_eq!(pool.max_model_len, Some(262_144));
        let below = available("Available KV cache memory: -3.50 GiB").unwrap();
        assert_eq!(below, printed_gib(-350));
        assert!(below.high < 0);
        for text in [
            "",
            "40",
            "Available KV cache memory: lots",
            "Available KV cache memory: 12.3 MiB",
            "Available KV cache memory: 1e9 GiB",
            "Available KV cache memory: 35",
            "GPU KV cache size: tokens",
        ] {
            assert_eq!(printed_pool(text), None, "{text}");
        }
    }

    #[test]
    fn an_error_says_what_was_available() {
        assert_eq!(
            available(
                "ValueError: To serve at least one request with the model's max seq len (262144), (7.19 GiB KV cache \
                 is needed, which is larger than the available KV cache memory (7.1 GiB). Based on the available \
                 memory, the estimated maximum model length is 234240."
            ),
            Some(printed_gib(710))
        );
    }

    #[test]
    fn of_several_start_ups_the_last_counts() {
        let line = |gib: &str| format!("Available KV cache memory: {gib} GiB\n");
        let size = |tokens: &str| format!("GPU KV cache size: {tokens} tokens\n");
        let twice = [line("20.12"), size("1"), line("35.12"), size("383,616")].concat();
        let pool = printed_pool(&twice).unwrap();
        assert_eq!(
            (pool.available, pool.tokens),
            (Some(printed_gib(3512)), Some(383_616))
        );
        let cut = [line("20.12"), size("1"), line("35.12")].concat();
        let pool = printed_pool(&cut).unwrap();
        assert_eq!(
            (pool.available, pool.tokens),
            (Some(printed_gib(3512)), None)
        );
        // data-parallel engines: the tokens may be either's
        let engines = [line("91.9"), line("91.8"), size("7"), size("8")].concat();
        let pool = printed_pool(&engines).unwrap();
        assert_eq!(
            (pool.available, pool.tokens),
            (Some(printed_gib(9180)), None)
        );
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
            "KV cache size:KV cache size:",
        ] {
            assert_eq!(printed_pool(text), None, "{text}");
        }
    }
}
