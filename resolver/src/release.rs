//! vLLM releases, and what sets one apart: a profile of named behaviours.
//! Nothing outside this file compares versions.

pub mod engine_args;
pub(crate) mod masks;
#[expect(dead_code, reason = "not every release that is dumped is modelled")]
mod tables;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::backend::{AttentionBackend, registry};
use crate::dtype::CacheDtype;
use engine_args::FlagNames;

/// A release that is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// `0.29.0`
    V0_29_0,
    /// `0.30.0`
    V0_30_0,
    /// `0.33.0`
    V0_33_0,
}

/// Releases that exist, have an oracle and are not modelled yet.
const UNMODELLED: [&str; 11] = [
    "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0",
    "0.31.0", "0.32.0",
];

/// A release that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReleaseError {
    /// It exists; its rules are not in the resolver.
    #[error("vLLM {0} is not modelled yet; modelled: {list}", list = Release::list())]
    NotModelled(String),
    /// No such release is known.
    #[error("unknown vLLM release {0:?}; modelled: {list}", list = Release::list())]
    Unknown(String),
}

impl Release {
    /// Every modelled release, oldest first.
    pub const ALL: [Self; 3] = [Self::V0_29_0, Self::V0_30_0, Self::V0_33_0];
    /// The newest modelled release.
    pub const LATEST: Self = Self::V0_33_0;

    /// The version, as `vllm.__version__` prints it.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::V0_29_0 => "0.29.0",
            Self::V0_30_0 => "0.30.0",
            Self::V0_33_0 => "0.33.0",
        }
    }

    fn list() -> String {
        Self::ALL.map(Self::version).join(", ")
    }

    /// What this release does where releases differ.
    #[must_use]
    pub const fn profile(self) -> &'static Profile {
        match self {
            Self::V0_29_0 => &V0_29_0,
            Self::V0_30_0 => &V0_30_0,
            Self::V0_33_0 => &V0_33_0,
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
                if UNMODELLED.contains(&version) {
                    ReleaseError::NotModelled(version.to_owned())
                } else {
                    ReleaseError::Unknown(text.chars().take(40).collect())
                }
            })
    }
}

impl Serialize for Release {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.version())
    }
}

/// The behaviours of a release. Each names the version that brought it.
#[derive(Debug)]
pub struct Profile {
    /// Whether the families beside DeepSeek V4 have rules here.
    pub models_all_families: bool,
    /// Names that `EngineArgs` takes.
    pub engine_args: FlagNames,
    /// Spellings that `--kv-cache-dtype` takes, in the order of vLLM's list.
    pub cache_dtypes: &'static [CacheDtype],
    /// Who stops a spelling that does not exist.
    pub unknown_dtype: UnknownDtype,
    /// DeepSeek V4's packed layout and a dtype that is not fp8.
    pub packed_dtype_rule: PackedDtypeRule,
    /// A float16 or bfloat16 cache against a model of another dtype is refused
    /// when the config is checked (since 0.33); before, it goes on to the model.
    pub checks_float_clash: bool,
    /// A GB10 gets the batch defaults of small GPUs (since 0.33).
    pub gb10_is_small: bool,
    /// Names that `--attention-backend` takes, in the order of vLLM's enum.
    pub attention_backends: &'static [AttentionBackend],
    /// Under YaRN the longest sequence is its original length times its factor,
    /// a whole number (through 0.29); since then `max_position_embeddings`, a float.
    pub length_is_yarns: bool,
    /// With `nvfp4_ds_mla`, DeepSeek V4's window is packed even where its other
    /// rows are plain (since 0.31).
    pub nvfp4_packs_window: bool,
    /// Sliding windows that no repeating pattern splits are split to fit the
    /// block (since 0.30); before, only Mamba states were.
    pub windows_split_to_fit: bool,
    /// Blocks that are split into kernel blocks keep each of them whole
    /// (`block_stride_alignment`, since 0.32).
    pub aligns_block_stride: bool,
    /// `--disable-hybrid-kv-cache-manager` on this family: the field that
    /// `replace_as` passes on and the full-attention spec does not take (since 0.31).
    pub promotion_fails_on: Option<&'static str>,
}

/// Who stops a `--kv-cache-dtype` that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownDtype {
    /// The command line's parser, with its list of choices (through 0.32).
    Parser,
    /// The config's own check (since 0.33).
    Config,
}

/// What DeepSeek V4's packed layout makes of the dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedDtypeRule {
    /// Anything but `fp8…` fails an assertion, `auto` included (through 0.29).
    AssertFp8,
    /// `auto` is `fp8`; others get a ValueError with advice (since 0.30).
    AutoIsFp8,
}

const V0_33_0: Profile = Profile {
    models_all_families: true,
    engine_args: tables::V0_33_0.engine_args,
    cache_dtypes: tables::V0_33_0.cache_dtypes,
    unknown_dtype: UnknownDtype::Config,
    packed_dtype_rule: PackedDtypeRule::AutoIsFp8,
    checks_float_clash: true,
    gb10_is_small: true,
    attention_backends: registry::V0_33_0,
    length_is_yarns: false,
    nvfp4_packs_window: true,
    windows_split_to_fit: true,
    aligns_block_stride: true,
    promotion_fails_on: Some("bounded_replay"),
};

const V0_30_0: Profile = Profile {
    models_all_families: false,
    engine_args: tables::V0_30_0.engine_args,
    cache_dtypes: tables::V0_30_0.cache_dtypes,
    unknown_dtype: UnknownDtype::Parser,
    packed_dtype_rule: PackedDtypeRule::AutoIsFp8,
    checks_float_clash: false,
    gb10_is_small: false,
    attention_backends: registry::V0_30_0,
    length_is_yarns: false,
    nvfp4_packs_window: false,
    windows_split_to_fit: true,
    aligns_block_stride: false,
    promotion_fails_on: None,
};

const V0_29_0: Profile = Profile {
    models_all_families: false,
    engine_args: tables::V0_29_0.engine_args,
    cache_dtypes: tables::V0_29_0.cache_dtypes,
    unknown_dtype: UnknownDtype::Parser,
    packed_dtype_rule: PackedDtypeRule::AssertFp8,
    checks_float_clash: false,
    gb10_is_small: false,
    attention_backends: registry::V0_29_0,
    length_is_yarns: true,
    nvfp4_packs_window: false,
    windows_split_to_fit: false,
    aligns_block_stride: false,
    promotion_fails_on: None,
};

#[cfg(test)]
mod tests {
    use super::*;

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
            "0.28.0".parse::<Release>().unwrap_err().to_string(),
            "vLLM 0.28.0 is not modelled yet; modelled: 0.29.0, 0.30.0, 0.33.0"
        );
        assert!(matches!(
            "1.0".parse::<Release>(),
            Err(ReleaseError::Unknown(_))
        ));
    }
}
