//! What kernels make of the weights once they are loaded.

use super::facts::Facts;
use super::{Interval, Part, PartKind};

/// Holes that torch's allocator keeps between what was repacked, in MiB.
const HOLES_MIB: [u64; 3] = [0, 40, 256];

pub(super) fn part(facts: &Facts) -> Part {
    let repacked = facts.base.weights.repacked.unwrap_or_default();
    let [low, likely, high] = HOLES_MIB.map(|mib| mib << 20);
    Part {
        kind: PartKind::Repacked,
        bytes: repacked.plus(Interval::new(low, likely, high)),
        source:
            "copies, padding and orders of their own that kernels of this GPU make on load; and \
                 holes in torch's segments"
                .to_owned(),
    }
}
