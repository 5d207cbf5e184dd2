//! What is known: models, GPUs, releases.

use kv_resolver::catalog::{GPUS, MODELS};
use kv_resolver::{Arch, CacheDtype, Release};
use serde::{Deserialize, Serialize};

/// A model of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelRow {
    /// Its Hugging Face id, by which a case names it.
    pub id: &'static str,
    /// Its architecture, by vLLM's name.
    pub architecture: String,
}

/// A GPU of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuRow {
    /// The key by which a case names it.
    pub key: &'static str,
    /// Shorter keys, which a case may use as well.
    pub aliases: &'static [&'static str],
    /// The driver's name.
    pub name: &'static str,
    /// The name for people.
    pub label: &'static str,
    /// Its architecture.
    pub arch: Option<Arch>,
    /// Its compute capability, major and minor.
    pub cc: (u8, u8),
    /// NVML's total memory in MiB, as nvidia-smi prints it.
    pub memory_mib: u64,
    /// Whether that figure is inferred.
    pub memory_is_inferred: bool,
}

/// A release of vLLM that has rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReleaseRow {
    /// Its version.
    pub release: Release,
    /// Whether every modelled architecture has rules in it; otherwise DeepSeek V4 alone.
    pub models_all_families: bool,
    /// The spellings that its `--kv-cache-dtype` takes.
    pub cache_dtypes: &'static [CacheDtype],
}

/// The catalog's models, in its order.
pub fn models() -> Vec<ModelRow> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        architectures: Vec<String>,
    }
    let row = |id, json| {
        let config: Option<Config> = serde_json::from_str(json).ok();
        let names = config.map(|config| config.architectures);
        ModelRow {
            id,
            architecture: names
                .unwrap_or_default()
                .into_iter()
                .next()
                .unwrap_or_default(),
        }
    };
    MODELS
        .iter()
        .map(|model| row(model.id, model.config_json))
        .collect()
}

/// The catalog's GPUs, in its order.
pub fn gpus() -> Vec<GpuRow> {
    let row = |gpu: &kv_resolver::catalog::CatalogGpu| GpuRow {
        key: gpu.key,
        aliases: gpu.aliases,
        name: gpu.name,
        label: gpu.label,
        arch: gpu.capability.arch(),
        cc: (gpu.capability.major, gpu.capability.minor),
        memory_mib: gpu.nvml_total_mib,
        memory_is_inferred: gpu.nvml_inferred,
    };
    GPUS.iter().map(row).collect()
}

/// The releases, oldest first.
pub fn releases() -> Vec<ReleaseRow> {
    let row = |release: Release| ReleaseRow {
        release,
        models_all_families: release.profile().models_all_families,
        cache_dtypes: release.profile().cache_dtypes,
    };
    Release::ALL.map(row).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_its_architecture() {
        for model in models() {
            assert!(!model.architecture.is_empty(), "{}", model.id);
        }
    }
}
