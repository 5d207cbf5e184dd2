//! What a drafter costs: an answer beside that of the same question without one.

use super::{Method, Speculation};
use crate::config;
use crate::model::Model;
use crate::request::Request;
use crate::resolution::{BytesPerToken, Resolution};
use crate::resolve::resolve_quietly;
use crate::trace::Trace;

/// The drafter of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drafter {
    /// How tokens are drafted, as vLLM settles it.
    pub method: Method,
    /// Tokens drafted in a step.
    pub num_speculative_tokens: u64,
    /// What it costs; `None` where the same question without it does not start.
    pub cost: Option<Cost>,
}

/// How an answer differs from that of the same question without the drafter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of one more token, and of every request whatever its length; `None`
    /// beside pipeline stages, whose figures are the first stage's and the drafter
    /// the last one's.
    pub bytes: Option<(Extra<BytesPerToken>, Extra<u64>)>,
    /// Requests that fit without it and with it, as vLLM prints such figures;
    /// `None` without a pool, or where the longest request is not the same.
    pub requests: Option<[String; 2]>,
}

impl Cost {
    /// Whether neither a token nor a request takes more, or less: then the
    /// drafter's pages lie where blocks have room for them, or there are none.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        matches!(&self.bytes, Some((token, request)) if token.by.bytes == 0 && request.by == 0)
    }
}

/// A difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extra<T> {
    /// Whether it is less, not more.
    pub is_less: bool,
    /// How much.
    pub by: T,
}

impl<T> Extra<T> {
    /// `+` or `−`.
    #[must_use]
    pub const fn sign(&self) -> &'static str {
        if self.is_less { "−" } else { "+" }
    }
}

/// The drafter of a question that `resolution` answers, if there is one.
#[must_use]
pub fn drafter(request: &Request, resolution: &Resolution) -> Option<Drafter> {
    let Speculation {
        method,
        num_speculative_tokens,
        ..
    } = settled(request)?;
    let mut without = request.clone();
    without.args.speculative_config = None;
    without.args.spec_flags.clear();
    let without = resolve_quietly(&without).ok();
    Some(Drafter {
        method,
        num_speculative_tokens,
        cost: without.and_then(|without| cost(&without, resolution)),
    })
}

fn settled(request: &Request) -> Option<Speculation> {
    if request.args.speculative_config.is_none() && request.args.spec_flags.is_empty() {
        return None;
    }
    let model = Model::from_config(&request.hf_config).ok()?;
    let config = config::build(request, &model, &mut Trace::silent()).ok()?;
    config.speculation
}

fn cost(without: &Resolution, with: &Resolution) -> Option<Cost> {
    let requests = without.capacity.as_ref().zip(with.capacity.as_ref());
    let before = without.fixed_bytes_per_request;
    let after = with.fixed_bytes_per_request;
    let fixed = Extra {
        is_less: after < before,
        by: after.abs_diff(before),
    };
    let marginal = extra(
        without.marginal_bytes_per_token,
        with.marginal_bytes_per_token,
    )?;
    Some(Cost {
        bytes: with.stages.is_empty().then_some((marginal, fixed)),
        requests: requests
            .filter(|_| without.max_model_len == with.max_model_len)
            .map(|(without, with)| [without, with].map(|capacity| capacity.requests.clone())),
    })
}

/// `after` less `before`; `None` past 64 bits.
fn extra(before: BytesPerToken, after: BytesPerToken) -> Option<Extra<BytesPerToken>> {
    // of 64 bits each, so that no product overflows
    let [a, b] = [before, after].map(|ratio| (ratio.bytes, ratio.tokens.max(1)));
    let times = |bytes: u64, tokens: u64| u128::from(bytes) * u128::from(tokens);
    let (was, is) = (times(a.0, b.1), times(b.0, a.1));
    let (bytes, tokens) = (is.abs_diff(was), times(a.1, b.1));
    let common = greatest_common_divisor(bytes, tokens);
    Some(Extra {
        is_less: is < was,
        by: BytesPerToken {
            bytes: u64::try_from(bytes / common).ok()?,
            tokens: u64::try_from(tokens / common).ok()?,
        },
    })
}

/// Of two numbers of which the second is above 0.
const fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(bytes: u64, tokens: u64) -> BytesPerToken {
        BytesPerToken { bytes, tokens }
    }

    #[test]
    fn differences_of_ratios_are_exact() {
        let more = extra(ratio(7, 2), ratio(16, 3)).unwrap();
        assert_eq!((more.sign(), more.by), ("+", ratio(11, 6)));
        let less = extra(ratio(16, 3), ratio(14, 3)).unwrap();
        assert_eq!((less.sign(), less.by), ("−", ratio(2, 3)));
        let same = extra(ratio(5, 1), ratio(10, 2)).unwrap();
        assert_eq!((same.sign(), same.by), ("+", ratio(0, 1)));
        assert!(extra(ratio(u64::MAX, u64::MAX), ratio(u64::MAX, 1)).is_some());
        assert!(extra(ratio(1, u64::MAX), ratio(u64::MAX, u64::MAX - 1)).is_none());
    }
}
