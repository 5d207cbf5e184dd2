//! Where the lines of the start-up log differ between releases.

/// A release's words and times.
#[derive(Debug, Clone, Copy)]
pub struct LogRules {
    /// The line on the cache of DeepSeek V4's indexer, in which 0.20 has a slip.
    pub indexer: &'static str,
    /// Whom the line on the block size names.
    pub block_backends: BlockBackends,
    /// Layers are grouped before the memory is measured (since 0.33); before, after.
    pub groups_before_memory: bool,
    /// How the groups' block sizes are said.
    pub group_sizes: GroupSizes,
    /// That the hybrid manager is off is said before windows are promoted, whether
    /// that changes them or not (through 0.30); since then, after, if it does.
    pub warns_before_promoting: bool,
    /// `mamba_cache_mode` `all` is said to be on its way out (0.30 and 0.31).
    pub deprecates_all_states: bool,
    /// Whether steps are scheduled ahead is said (through 0.26).
    pub announces_async: bool,
}

/// Whom the line on the block size names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockBackends {
    /// The first backend (through 0.30).
    First,
    /// Every one (since 0.31).
    All,
}

/// How the groups' block sizes are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSizes {
    /// Not at all (through 0.29).
    Unsaid,
    /// As a list (0.30 and 0.31).
    List,
    /// As a tuple (since 0.32).
    Tuple,
}

pub(super) const V0_33_0: LogRules = LogRules {
    indexer: "Using FP8 indexer cache for Lightning Indexer.",
    block_backends: BlockBackends::All,
    groups_before_memory: true,
    group_sizes: GroupSizes::Tuple,
    warns_before_promoting: false,
    deprecates_all_states: false,
    announces_async: false,
};

pub(super) const V0_32_0: LogRules = LogRules {
    groups_before_memory: false,
    ..V0_33_0
};

pub(super) const V0_31_0: LogRules = LogRules {
    group_sizes: GroupSizes::List,
    deprecates_all_states: true,
    ..V0_32_0
};

pub(super) const V0_30_0: LogRules = LogRules {
    block_backends: BlockBackends::First,
    warns_before_promoting: true,
    ..V0_31_0
};

pub(super) const V0_29_0: LogRules = LogRules {
    group_sizes: GroupSizes::Unsaid,
    deprecates_all_states: false,
    ..V0_30_0
};

pub(super) const V0_26_0: LogRules = LogRules {
    announces_async: true,
    ..V0_29_0
};

pub(super) const V0_20_2: LogRules = LogRules {
    indexer: "Using FP8 indexer cache for Lighening Indexer.",
    ..V0_26_0
};
