//! The GPU as vLLM sees it: compute capability, name and NVML's total memory.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::release::Release;
use crate::units::GIB;

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
    /// torch's total memory in bytes, of which vLLM takes its budget, from the least
    /// to the most that drivers leave; `None` where only NVML's is known.
    pub torch_total_bytes: Option<(u64, u64)>,
}

/// What vLLM takes a GPU for, by its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryTier {
    /// At least 160 GiB.
    Huge,
    /// At least 70 GiB, with exceptions.
    Large,
    /// Anything else.
    Small,
}

const HUGE_BYTES: u64 = 160 * GIB;
const LARGE_BYTES: u64 = 70 * GIB;
/// DGX Spark's chip: much memory, little compute.
pub(crate) const GB10: ComputeCapability = ComputeCapability::new(12, 1);

impl MemoryTier {
    /// Mirrors `vllm/engine/arg_utils.py` `EngineArgs.get_batch_defaults`.
    pub fn of(gpu: &Gpu, release: Release) -> Self {
        let held_small = gpu.name.to_ascii_lowercase().contains("a100")
            || (release.profile().gb10_is_small && gpu.capability == GB10);
        match gpu.total_memory_bytes {
            HUGE_BYTES.. if release.profile().has_huge_tier => Self::Huge,
            LARGE_BYTES.. if !held_small => Self::Large,
            _ => Self::Small,
        }
    }
}

/// All that any rule of a release looks at in a GPU: GPUs of one class get the
/// same answers (their traces may name them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuClass {
    /// Compute capability.
    pub capability: ComputeCapability,
    /// By memory, with the exceptions by name.
    pub tier: MemoryTier,
}

impl GpuClass {
    /// The class of a GPU.
    pub fn of(gpu: &Gpu, release: Release) -> Self {
        Self {
            capability: gpu.capability,
            tier: MemoryTier::of(gpu, release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str, capability: (u8, u8), gib: u64) -> Gpu {
        Gpu {
            name: name.to_owned(),
            capability: ComputeCapability::new(capability.0, capability.1),
            total_memory_bytes: gib * GIB,
            torch_total_bytes: None,
        }
    }

    #[test]
    fn tiers_follow_memory_and_name() {
        let tier =
            |name, capability, gib| MemoryTier::of(&gpu(name, capability, gib), Release::V0_33_0);
        assert_eq!(tier("NVIDIA B200", (10, 0), 179), MemoryTier::Huge);
        assert_eq!(tier("NVIDIA H100", (9, 0), 79), MemoryTier::Large);
        assert_eq!(tier("NVIDIA H100", (9, 0), 69), MemoryTier::Small);
        assert_eq!(tier("my A100", (9, 0), 80), MemoryTier::Small);
        assert_eq!(tier("NVIDIA GB10", (12, 1), 119), MemoryTier::Small);
        assert_eq!(
            MemoryTier::of(&gpu("NVIDIA GB10", (12, 1), 119), Release::V0_30_0),
            MemoryTier::Large
        );
    }

    #[test]
    fn capabilities_map_to_archs() {
        assert_eq!(ComputeCapability::new(9, 0).arch(), Some(Arch::Sm90));
        assert_eq!(ComputeCapability::new(10, 3).arch(), Some(Arch::Sm100));
        assert_eq!(ComputeCapability::new(12, 1).arch(), Some(Arch::Sm120));
        assert_eq!(ComputeCapability::new(8, 9).arch(), None);
        assert_eq!(ComputeCapability::new(11, 0).arch(), None);
    }
}
