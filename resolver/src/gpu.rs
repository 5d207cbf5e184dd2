//! The GPU as vLLM sees it: compute capability, name and NVML's total memory.

use std::fmt;

use serde::{Serialize, Serializer};

/// The architectures that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// `SM90`: Hopper.
    Sm90,
    /// `SM100`: data-centre Blackwell, with SM103.
    Sm100,
    /// `SM120`: RTX Blackwell, with SM121 (GB10).
    Sm120,
}

impl Arch {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Sm90, Self::Sm100, Self::Sm120];

    /// NVIDIA's name of the generation.
    #[must_use]
    pub const fn generation(self) -> &'static str {
        match self {
            Self::Sm90 => "Hopper",
            Self::Sm100 => "Blackwell",
            Self::Sm120 => "RTX Blackwell",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sm90 => "SM90",
            Self::Sm100 => "SM100",
            Self::Sm120 => "SM120",
        })
    }
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A CUDA compute capability, such as 10.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ComputeCapability {
    /// The family: 9, 10 or 12.
    pub major: u8,
    /// The variant within it.
    pub minor: u8,
}

impl ComputeCapability {
    /// `major.minor`
    #[must_use]
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// The architecture, or `None` for one that is not modelled.
    #[must_use]
    pub const fn arch(self) -> Option<Arch> {
        match (self.major, self.minor) {
            (9, 0) => Some(Arch::Sm90),
            (10, 0 | 3) => Some(Arch::Sm100),
            (12, 0 | 1) => Some(Arch::Sm120),
            _ => None,
        }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One GPU, as vLLM's platform code asks about it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Gpu {
    /// The driver's name, such as `NVIDIA H200`; some defaults look at it.
    pub name: String,
    /// Compute capability.
    pub capability: ComputeCapability,
    /// NVML's total memory in bytes, which vLLM's defaults compare with 70 GiB.
    pub total_memory_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_map_to_archs() {
        assert_eq!(ComputeCapability::new(9, 0).arch(), Some(Arch::Sm90));
        assert_eq!(ComputeCapability::new(10, 3).arch(), Some(Arch::Sm100));
        assert_eq!(ComputeCapability::new(12, 1).arch(), Some(Arch::Sm120));
        assert_eq!(ComputeCapability::new(8, 9).arch(), None);
        assert_eq!(ComputeCapability::new(11, 0).arch(), None);
    }
}
