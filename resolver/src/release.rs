//! vLLM releases, and what sets one apart: a profile of named behaviours.
//! Nothing outside this file compares versions.

mod context;
pub(crate) mod drafting;
pub mod engine_args;
mod log;
pub(crate) mod masks;
mod memory;
pub mod options;
mod profile;
mod profiles;
mod tables;
mod weights;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::units::quoted;

pub use context::*;
pub(crate) use drafting::Drafting;
pub use log::*;
pub use memory::MemoryRules;
pub use profile::*;
pub(crate) use weights::WeightRules;

/// A release that is modelled, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// `0.20.2`
    V0_20_2,
    /// `0.21.0`
    V0_21_0,
    /// `0.22.1`
    V0_22_1,
    /// `0.23.0`
    V0_23_0,
    /// `0.24.0`
    V0_24_0,
    /// `0.25.1`
    V0_25_1,
    /// `0.26.0`
    V0_26_0,
    /// `0.27.1`
    V0_27_1,
    /// `0.28.0`
    V0_28_0,
    /// `0.29.0`
    V0_29_0,
    /// `0.30.0`
    V0_30_0,
    /// `0.31.0`
    V0_31_0,
    /// `0.32.0`
    V0_32_0,
    /// `0.33.0`
    V0_33_0,
}

/// A release that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReleaseError {
    /// A version without rules in the resolver.
    #[error("vLLM {0} is not modelled; modelled: {list}", list = Release::list())]
    NotModelled(String),
    /// Not a version.
    #[error("unknown vLLM release {}; modelled: {list}", quoted(.0), list = Release::list())]
    Unknown(String),
}

impl Release {
    /// Every modelled release, oldest first.
    pub const ALL: [Self; 14] = [
        Self::V0_20_2,
        Self::V0_21_0,
        Self::V0_22_1,
        Self::V0_23_0,
        Self::V0_24_0,
        Self::V0_25_1,
        Self::V0_26_0,
        Self::V0_27_1,
        Self::V0_28_0,
        Self::V0_29_0,
        Self::V0_30_0,
        Self::V0_31_0,
        Self::V0_32_0,
        Self::V0_33_0,
    ];
    /// The newest modelled release.
    pub const LATEST: Self = Self::V0_33_0;

    /// The version, as `vllm.__version__` prints it.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::V0_20_2 => "0.20.2",
            Self::V0_21_0 => "0.21.0",
            Self::V0_22_1 => "0.22.1",
            Self::V0_23_0 => "0.23.0",
            Self::V0_24_0 => "0.24.0",
            Self::V0_25_1 => "0.25.1",
            Self::V0_26_0 => "0.26.0",
            Self::V0_27_1 => "0.27.1",
            Self::V0_28_0 => "0.28.0",
            Self::V0_29_0 => "0.29.0",
            Self::V0_30_0 => "0.30.0",
            Self::V0_31_0 => "0.31.0",
            Self::V0_32_0 => "0.32.0",
            Self::V0_33_0 => "0.33.0",
        }
    }

    /// The options that its `vllm serve` takes.
    #[must_use]
    pub const fn options(self) -> options::Options {
        options::Options::of(self.profile().engine_args, self as u32)
    }

    fn list() -> String {
        Self::ALL.map(Self::version).join(", ")
    }

    /// What this release does where releases differ.
    #[must_use]
    pub const fn profile(self) -> &'static Profile {
        match self {
            Self::V0_20_2 => &profiles::V0_20_2,
            Self::V0_21_0 => &profiles::V0_21_0,
            Self::V0_22_1 => &profiles::V0_22_1,
            Self::V0_23_0 => &profiles::V0_23_0,
            Self::V0_24_0 => &profiles::V0_24_0,
            Self::V0_25_1 => &profiles::V0_25_1,
            Self::V0_26_0 => &profiles::V0_26_0,
            Self::V0_27_1 => &profiles::V0_27_1,
            Self::V0_28_0 => &profiles::V0_28_0,
            Self::V0_29_0 => &profiles::V0_29_0,
            Self::V0_30_0 => &profiles::V0_30_0,
            Self::V0_31_0 => &profiles::V0_31_0,
            Self::V0_32_0 => &profiles::V0_32_0,
            Self::V0_33_0 => &profiles::V0_33_0,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

impl FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let version = text.trim().trim_start_matches('v');
        Self::ALL
            .into_iter()
            .find(|release| release.version() == version)
            .ok_or_else(|| {
                let shown: String = version.chars().take(40).collect();
                let looks_right = |c: char| c.is_ascii_alphanumeric() || ".+-".contains(c);
                if version.starts_with(|c: char| c.is_ascii_digit())
                    && version.contains('.')
                    && version.chars().all(looks_right)
                {
                    ReleaseError::NotModelled(shown)
                } else {
                    ReleaseError::Unknown(shown)
                }
            })
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::CacheDtype;

    #[test]
    fn the_latest_release_knows_every_cache_dtype_in_this_order() {
        assert_eq!(
            Release::LATEST.profile().cache_dtypes,
            CacheDtype::ALL.as_slice()
        );
    }

    #[test]
    fn releases_parse_or_say_why() {
        for release in Release::ALL {
            assert_eq!(release.to_string().parse(), Ok(release));
        }
        assert_eq!("v0.33.0".parse(), Ok(Release::V0_33_0));
        assert_eq!(
            "0.28.1".parse::<Release>().unwrap_err().to_string(),
            "vLLM 0.28.1 is not modelled; modelled: 0.20.2, 0.21.0, 0.22.1, 0.23.0, 0.24.0, \
             0.25.1, 0.26.0, 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0, 0.32.0, 0.33.0"
        );
        assert!(matches!(
            "latest".parse::<Release>(),
            Err(ReleaseError::Unknown(_))
        ));
    }
}
