//! Figures that only a start-up measures: as wide as what is known of them.

use serde::Serialize;

/// Bytes between two ends, with the likeliest between them. Signed, for what is
/// left of a budget may be less than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Interval {
    /// At least.
    pub low: i64,
    /// Most likely.
    pub likely: i64,
    /// At most.
    pub high: i64,
}

impl Interval {
    /// An exact figure; past 63 bits the largest there is.
    #[must_use]
    pub fn exact(bytes: u64) -> Self {
        Self::new(bytes, bytes, bytes)
    }

    /// Three figures in any order of size.
    #[must_use]
    pub fn new(low: u64, likely: u64, high: u64) -> Self {
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        let (least, most) = (low.min(high), low.max(high));
        Self {
            low: signed(least.min(likely)),
            likely: signed(likely.clamp(least, most)),
            high: signed(most.max(likely)),
        }
    }

    /// Two ends and their middle.
    #[must_use]
    pub fn between(low: u64, high: u64) -> Self {
        Self::new(low, low.midpoint(high), high)
    }

    /// What bytes are more where so many are made of others, exactly; less, below 0.
    #[must_use]
    pub fn change(from: u64, to: u64) -> Self {
        Self::exact(to).less(Self::exact(from))
    }

    /// The same, and so many bytes more at most.
    #[must_use]
    pub fn and_perhaps(self, more: u64) -> Self {
        self.plus(Self::new(0, 0, more))
    }

    /// The same, unless it is nothing at all.
    #[must_use]
    pub fn or_nothing(self) -> Self {
        Self {
            low: self.low.min(0),
            likely: self.likely,
            high: self.high.max(0),
        }
    }

    /// Whether it is one figure.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        self.low == self.high
    }

    /// The sum, end by end.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            low: self.low.saturating_add(other.low),
            likely: self.likely.saturating_add(other.likely),
            high: self.high.saturating_add(other.high),
        }
    }

    /// What remains: at least where most is taken away.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self {
            low: self.low.saturating_sub(other.high),
            likely: self.likely.saturating_sub(other.likely),
            high: self.high.saturating_sub(other.low),
        }
    }

    /// Each end as a pool's bytes; vLLM says the same of nothing and of less.
    #[must_use]
    pub fn pools(self) -> [u64; 3] {
        [self.low, self.likely, self.high].map(|end| u64::try_from(end).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_least_where_most_is_taken() {
        let left = Interval::new(90, 95, 100).less(Interval::new(10, 20, 30));
        assert_eq!(
            left,
            Interval {
                low: 60,
                likely: 75,
                high: 90
            }
        );
        assert!(Interval::exact(7).is_exact());
        assert_eq!(Interval::exact(u64::MAX).likely, i64::MAX);
        let more = Interval::change(5, 3).and_perhaps(4).or_nothing();
        assert_eq!((more.low, more.likely, more.high), (-2, -2, 2));
        assert_eq!(Interval::exact(5).or_nothing().low, 0);
        let below = Interval::exact(1).less(Interval::exact(3));
        assert_eq!((below.likely, below.pools()[1]), (-2, 0));
    }
}
