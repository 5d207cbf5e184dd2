//! The flags of a release.

use super::masks::ReleaseBit;
use super::tables::ENGINE_ARGS;

/// Every name that any release takes, in no order.
pub fn every_name() -> impl Iterator<Item = &'static str> {
    ENGINE_ARGS.iter().flat_map(|(_, names)| names.lines())
}

/// Names that a release's `EngineArgs` takes.
#[derive(Debug, Clone, Copy)]
pub struct FlagNames(ReleaseBit);

impl FlagNames {
    pub(super) const fn of(release: ReleaseBit) -> Self {
        Self(release)
    }

    /// Whether the release takes it.
    #[must_use]
    pub fn contains(self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Every name, in no order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        ENGINE_ARGS
            .iter()
            .filter(move |(releases, _)| self.0.is_in(*releases))
            .flat_map(|(_, names)| names.lines())
    }
}
