//! Numbers and names as people read them.

use kv_resolver::catalog::CatalogGpu;
use kv_resolver::resolution::{BytesPerToken, human_bytes};
use kv_resolver::units::{fixed, thousands};
use kv_resolver::{Outcome, Refusal, Stage};

/// `3,915 B`
pub fn per_token(bytes: BytesPerToken) -> String {
    format!("{bytes} B")
}

/// `7.19 GiB`; exact below 10 KiB.
pub fn bytes(bytes: u64) -> String {
    human_bytes(bytes)
}

/// `7,723,261,440 B`
pub fn exact_bytes(bytes: u64) -> String {
    format!("{} B", thousands(bytes))
}

/// `40 GiB`, without decimals that say nothing.
#[allow(clippy::cast_precision_loss)] // only printed
pub fn gib(bytes: u64) -> String {
    let text = fixed(bytes as f64 / 1_073_741_824.0, 2);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} GiB")
}

/// `103.2`: GiB without the unit, as closely as an estimate deserves.
#[allow(clippy::cast_precision_loss)] // only printed
pub fn gib_short(bytes: u64) -> String {
    fixed(bytes as f64 / 1_073_741_824.0, 1)
}

/// `262,144`
pub fn number(value: u64) -> String {
    thousands(value)
}

/// `1 token`, `256 tokens`
pub fn tokens(count: u64) -> String {
    counted(count, "token")
}

/// `1 layer`, `21 layers`
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

/// A length on the chart's axis: `4k`, `1M`.
pub fn short_tokens(count: u64) -> String {
    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    if count >= M && count.is_multiple_of(M) {
        format!("{}M", count / M)
    } else if count >= K && count.is_multiple_of(K) {
        format!("{}k", count / K)
    } else {
        thousands(count)
    }
}

/// A GPU's memory, unless its label says it: the vendor's GB, or what the driver reports.
pub fn gpu_memory(gpu: &CatalogGpu) -> Option<String> {
    if gpu.label.contains(" GB") {
        return None;
    }
    Some(match gpu.vendor_memory_gb {
        Some(gb) => format!("{gb} GB"),
        None => format!("{} GiB", gpu.nvml_total_mib / 1024),
    })
}

/// What a refusal amounts to here: a question that cannot be put is none that vLLM refuses.
pub const fn outcome_of(refusal: &Refusal) -> Outcome {
    if matches!(refusal, Refusal::BadCase(_)) {
        Outcome::Unmodelled
    } else {
        refusal.outcome()
    }
}

/// The sign beside an outcome's word, so that it is not told by colour alone.
pub const fn glyph(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Works => "✓",
        Outcome::Becomes => "→",
        Outcome::Unverified => "?",
        Outcome::DoesNotFit => "▲",
        Outcome::Refused => "✕",
        Outcome::Unmodelled => "○",
    }
}

/// The outcome's class in the style sheet.
pub const fn outcome_class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Works => "works",
        Outcome::Becomes => "becomes",
        Outcome::Unverified => "unverified",
        Outcome::DoesNotFit => "does-not-fit",
        Outcome::Refused => "refused",
        Outcome::Unmodelled => "unmodelled",
    }
}

/// The class of a cell with that outcome.
pub const fn cell_class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Works => "cell works",
        Outcome::Becomes => "cell becomes",
        Outcome::Unverified => "cell unverified",
        Outcome::DoesNotFit => "cell does-not-fit",
        Outcome::Refused => "cell refused",
        Outcome::Unmodelled => "cell unmodelled",
    }
}

/// In place of the requests that fit: the GPU has less memory than the pool.
pub const POOL_EXCEEDS: &str = "pool > GPU";

/// Where a start-up stops, short enough for a cell.
pub const fn short_stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Args => "command line",
        Stage::Config => "configuration",
        Stage::Model => "building the model",
        Stage::Specs => "KV specs",
        Stage::Plan => "planning the cache",
        Stage::Engine => "starting the engine",
        Stage::Unmodelled => "no rule here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vllm_was_never_asked_is_none_of_its_refusals() {
        let bad = Refusal::BadCase("gpu_memory_utilization: expected a finite number".to_owned());
        assert_eq!(outcome_of(&bad), Outcome::Unmodelled);
        assert_eq!(outcome_of(&Refusal::ZeroDivision), Outcome::Refused);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(gib(40 << 30), "40 GiB");
        assert_eq!(gib((1 << 29) + (40 << 30)), "40.5 GiB");
        assert_eq!(short_tokens(262_144), "256k");
        assert_eq!(short_tokens(1 << 20), "1M");
        assert_eq!(short_tokens(1000), "1,000");
        assert_eq!(tokens(1), "1 token");
        assert_eq!(
            per_token(BytesPerToken {
                bytes: 7,
                tokens: 2
            }),
            "3.5 B"
        );
    }
}
