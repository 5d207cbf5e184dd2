//! Adding up the weights of one rank.

use super::repacked::Kernels;
use crate::error::Refusal;
use crate::memory::Interval;
use crate::units::{add, mul};

/// What a weight belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The embedding and the head.
    Embedding,
    /// Attention, linear or not, and indexers.
    Attention,
    /// Dense MLPs and shared experts.
    Mlp,
    /// Routed experts and their routers.
    Experts,
    /// A tower and what joins it to the language model.
    Tower,
    /// Norms, rotary tables and the like.
    Rest,
}

impl Part {
    const ALL: [Self; 6] = [
        Self::Embedding,
        Self::Attention,
        Self::Mlp,
        Self::Experts,
        Self::Tower,
        Self::Rest,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding and head",
            Self::Attention => "attention",
            Self::Mlp => "MLP and shared experts",
            Self::Experts => "experts",
            Self::Tower => "vision tower",
            Self::Rest => "norms and rotary tables",
        }
    }
}

/// Bytes and elements, by part. Sums that pass 64 bits stay at their largest,
/// and are refused at the end.
#[derive(Debug, Clone)]
pub(crate) struct Sheet {
    parts: [u64; Part::ALL.len()],
    count: u64,
    repacked: Interval,
    pub kernels: Kernels,
    /// Bytes of an element of the model's dtype.
    pub element: u64,
}

/// A product that stays at the largest number.
pub(super) fn product(factors: &[u64]) -> u64 {
    if factors.contains(&0) {
        return 0;
    }
    factors
        .iter()
        .fold(1, |product: u64, factor| product.saturating_mul(*factor))
}

impl Sheet {
    pub(super) fn new(element: u64, kernels: Kernels) -> Self {
        Self {
            parts: [0; Part::ALL.len()],
            count: 0,
            repacked: Interval::default(),
            kernels,
            element,
        }
    }

    /// So many elements of so many bytes.
    pub(super) fn of(&mut self, part: Part, elements: u64, bytes: u64) {
        let sum = &mut self.parts[part as usize];
        *sum = sum.saturating_add(elements.saturating_mul(bytes));
        self.count = self.count.saturating_add(elements);
    }

    /// Elements of the model's dtype.
    pub(super) fn own(&mut self, part: Part, elements: u64) {
        self.of(part, elements, self.element);
    }

    /// Elements of float32.
    pub(super) fn float(&mut self, part: Part, elements: u64) {
        self.of(part, elements, 4);
    }

    /// Norms: so many of so many elements of the model's dtype.
    pub(super) fn norms(&mut self, times: u64, width: u64) {
        self.own(Part::Rest, product(&[times, width]));
    }

    /// What a kernel adds once weights are loaded, or takes away.
    pub(super) fn repack(&mut self, bytes: Interval) {
        self.repacked = self.repacked.plus(bytes);
    }

    /// The sum of it.
    pub(crate) const fn repacked(&self) -> Interval {
        self.repacked
    }

    /// The whole, and its elements.
    pub(crate) fn total(&self) -> Result<(u64, u64), Box<Refusal>> {
        let mut total = 0;
        for bytes in self.parts {
            total = add(total, bytes)?;
        }
        // the largest number stands for what has passed it
        add(mul(total, 2)?, self.count)?;
        Ok((total, self.count))
    }

    /// The parts that are not nothing.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Part::ALL
            .into_iter()
            .map(|part| (part.name(), self.parts[part as usize]))
            .filter(|(_, bytes)| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_pass_64_bits_are_refused() {
        let mut sheet = Sheet::new(2, Kernels::of_test(crate::gpu::Arch::Sm90));
        sheet.own(Part::Mlp, 3);
        sheet.float(Part::Rest, 1);
        assert_eq!(sheet.total(), Ok((10, 4)));
        let names: Vec<_> = sheet.parts().collect();
        assert_eq!(
            names,
            [
                ("MLP and shared experts", 6),
                ("norms and rotary tables", 4)
            ]
        );
        sheet.own(Part::Experts, product(&[1 << 40, 1 << 40]));
        assert!(sheet.total().is_err());
        assert_eq!(product(&[u64::MAX, 2, 0]), 0);
    }
}
