//! GPUs and models that need not be described by hand.

mod gpus;
mod models;

pub use gpus::GPUS;
pub use models::MODELS;

use crate::gpu::{ComputeCapability, Gpu};
use crate::units::MIB;

/// A GPU of the catalog, as its driver reports it. Figures that nobody printed are marked as inferred.
///
/// ```
/// use kv_resolver::catalog::find_gpu;
/// use kv_resolver::{Arch, ComputeCapability, Gpu};
///
/// let row = find_gpu("H200").expect("it is in the catalog");
/// assert_eq!((row.name, row.nvml_total_mib), ("NVIDIA H200", 143_771));
/// assert_eq!(row.capability.arch(), Some(Arch::Sm90));
///
/// // one that is not in it is described by hand
/// let gpu = Gpu {
///     name: "NVIDIA H300".to_owned(),
///     capability: ComputeCapability::new(9, 0),
///     total_memory_bytes: 192 << 30,
///     torch_total_bytes: None,
/// };
/// assert!(gpu.total_memory_bytes > row.gpu().total_memory_bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogGpu {
    /// The key in cases and URLs.
    pub key: &'static str,
    /// Shorter keys.
    pub aliases: &'static [&'static str],
    /// The driver's name.
    pub name: &'static str,
    /// The name for people.
    pub label: &'static str,
    /// Compute capability.
    pub capability: ComputeCapability,
    /// NVML's total memory in MiB, as nvidia-smi prints it.
    pub nvml_total_mib: u64,
    /// Whether that figure is inferred.
    pub nvml_inferred: bool,
    /// Whether the compute capability is inferred.
    pub capability_inferred: bool,
    /// torch's total memory in MiB, from the least to the most that drivers leave.
    pub torch_total_mib: (u64, u64),
    /// Whether that range is inferred.
    pub torch_inferred: bool,
    /// The vendor's figure in GB.
    pub vendor_memory_gb: Option<u64>,
}

impl CatalogGpu {
    /// As the resolver takes it.
    pub fn gpu(&self) -> Gpu {
        Gpu {
            name: self.name.to_owned(),
            capability: self.capability,
            total_memory_bytes: self.nvml_total_mib * MIB,
            torch_total_bytes: Some((self.torch_total_mib.0 * MIB, self.torch_total_mib.1 * MIB)),
        }
    }
}

/// The GPU of this key or alias, whatever its case.
pub fn find_gpu(key: &str) -> Option<&'static CatalogGpu> {
    let key = key.trim().to_ascii_lowercase();
    GPUS.iter()
        .find(|gpu| gpu.key == key || gpu.aliases.contains(&key.as_str()))
}

/// A model of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogModel {
    /// Its Hugging Face id.
    pub id: &'static str,
    /// Its config.json, as far as rules read it.
    pub config_json: &'static str,
}

/// The model of this id, whatever its case.
pub fn find_model(id: &str) -> Option<&'static CatalogModel> {
    let id = id.trim();
    MODELS
        .iter()
        .find(|model| model.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_is_whole_and_unique() {
        let mut keys = HashSet::new();
        for gpu in &GPUS {
            assert!(gpu.capability.arch().is_some(), "{}", gpu.key);
            assert!(gpu.name.starts_with("NVIDIA "), "{}", gpu.key);
            assert!(!gpu.label.is_empty(), "{}", gpu.key);
            for key in gpu.aliases.iter().chain([&gpu.key]) {
                assert!(keys.insert(*key), "{key} twice");
                assert_eq!(find_gpu(key), Some(gpu));
                assert_eq!(**key, key.to_ascii_lowercase(), "{key}");
            }
            // torch sees a little less than NVML, never more
            let (low, high) = gpu.torch_total_mib;
            assert!(low <= high && high <= gpu.nvml_total_mib, "{}", gpu.key);
            assert!(low * 100 >= gpu.nvml_total_mib * 96, "{}", gpu.key);
            // a vendor's GB lie between 10^9 bytes and GiB
            if let Some(vendor) = gpu.vendor_memory_gb {
                let gib = gpu.nvml_total_mib / 1024;
                assert!(gib <= vendor && vendor * 9 <= gib * 10, "{}", gpu.key);
            }
        }
    }

    #[test]
    fn models_are_found_by_id() {
        for model in &MODELS {
            assert_eq!(find_model(model.id), Some(model));
        }
        assert_eq!(
            find_model("deepseek-ai/deepseek-v4-flash").map(|model| model.id),
            Some("deepseek-ai/DeepSeek-V4-Flash")
        );
        assert_eq!(find_model("no/such"), None);
    }
}
