//! The order of the physical dimensions: layer, block, head, state, content.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::{Refusal, Stage};
use crate::gpu::Arch;
use crate::log;
use crate::spec::Layers;
use crate::trace::Trace;

/// A permutation of `[L, B, H, N, C]`, outermost first.
/// Mirrors `vllm/v1/kv_cache_layout.py` `KVCacheLayout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is spelled as it is
pub enum KvCacheLayout {
    Lbhnc,
    Lbnhc,
    Lhbnc,
    Blhnc,
    Blnhc,
    Bhlnc,
}

impl KvCacheLayout {
    /// vLLM's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lbhnc => "LBHNC",
            Self::Lbnhc => "LBNHC",
            Self::Lhbnc => "LHBNC",
            Self::Blhnc => "BLHNC",
            Self::Blnhc => "BLNHC",
            Self::Bhlnc => "BHLNC",
        }
    }

    /// Whether all layers' pages of a block lie side by side.
    pub const fn is_block_outermost(self) -> bool {
        match self {
            Self::Blhnc | Self::Blnhc | Self::Bhlnc => true,
            Self::Lbhnc | Self::Lbnhc | Self::Lhbnc => false,
        }
    }

    /// Whether a page's bytes lie together.
    pub const fn is_block_compact(self) -> bool {
        match self {
            Self::Lbhnc | Self::Lbnhc | Self::Blhnc | Self::Blnhc => true,
            Self::Lhbnc | Self::Bhlnc => false,
        }
    }

    /// Whether each layer has a region of its own.
    pub const fn is_layer_outermost(self) -> bool {
        !self.is_block_outermost()
    }

    /// Reads the environment variable's spelling, with its older names.
    const fn from_spelling(spelling: LayoutSpelling) -> Self {
        match spelling {
            LayoutSpelling::Layout(layout) => layout,
            LayoutSpelling::Nhd => Self::Lbnhc,
            LayoutSpelling::Hnd => Self::Lbhnc,
        }
    }
}

impl fmt::Display for KvCacheLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for KvCacheLayout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[derive(Clone, Copy)]
enum LayoutSpelling {
    Layout(KvCacheLayout),
    Nhd,
    Hnd,
}

impl LayoutSpelling {
    /// In the order of vLLM's message. Mirrors `vllm/envs.py`.
    const ALL: [Self; 8] = [
        Self::Layout(KvCacheLayout::Lbnhc),
        Self::Layout(KvCacheLayout::Lbhnc),
        Self::Layout(KvCacheLayout::Lhbnc),
        Self::Nhd,
        Self::Hnd,
        Self::Layout(KvCacheLayout::Blhnc),
        Self::Layout(KvCacheLayout::Blnhc),
        Self::Layout(KvCacheLayout::Bhlnc),
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Layout(layout) => layout.as_str(),
            Self::Nhd => "NHD",
            Self::Hnd => "HND",
        }
    }
}

/// A list of names as Python prints it.
fn python_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// The candidates that specs of several shapes leave.
/// Mirrors the first part of `resolve_kv_cache_layout`.
pub(crate) fn compact(
    candidates: Vec<KvCacheLayout>,
    layers: &Layers,
) -> Result<Vec<KvCacheLayout>, Box<Refusal>> {
    let mut shapes = Vec::new();
    for spec in &layers.specs {
        let shape = (spec.num_heads(), spec.num_states(), spec.page_size_bytes()?);
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    if shapes.len() <= 1 {
        return Ok(candidates);
    }
    Ok(candidates
        .into_iter()
        .filter(|layout| layout.is_block_compact())
        .collect())
}

/// Mirrors `vllm/envs.py` `env_with_choices`.
fn invalid<'a>(stage: Stage, text: &str, options: impl Iterator<Item = &'a str>) -> Box<Refusal> {
    let message = format!(
        "Invalid value '{text}' for VLLM_KV_CACHE_LAYOUT. Valid options: {}.",
        python_list(options)
    );
    Refusal::raised(stage, "ValueError", message)
}

/// Whether a backend sets the order in pages, in a release without a choice of layouts.
/// Mirrors the classes' `get_required_kv_cache_layout`.
pub(crate) fn needs_heads_outside(backend: &str, arch: Arch) -> bool {
    match backend {
        "FLASHINFER" => arch == Arch::Sm100,
        "FLASHINFER_MLA" | "FLASHINFER_MLA_SPARSE" | "TOKENSPEED_MLA" => true,
        _ => false,
    }
}

/// The variable in a release without a choice of layouts: it permutes what is
/// inside a page, and is read by the first layer whose backend asks for it,
/// unless a chosen backend has set its own.
/// Mirrors `vllm/v1/attention/backends/utils.py` `get_kv_cache_layout` and
/// `vllm/v1/attention/selector.py`.
pub(crate) fn check_order_in_page(
    requested: Option<&str>,
    backends: &[&str],
    arch: Arch,
) -> Result<(), Box<Refusal>> {
    let sets_its_own = |backend: &&str| needs_heads_outside(backend, arch);
    let reads = |backend: &&str| {
        [
            "FLASH_ATTN",
            "FLASH_ATTN_DIFFKV",
            "FLASHINFER",
            "TRITON_ATTN",
            "TRITON_ATTN_DIFFKV",
        ]
        .contains(backend)
    };
    match requested {
        None | Some("NHD" | "HND") => Ok(()),
        Some(text) if backends.iter().any(reads) && !backends.iter().any(sets_its_own) => {
            Err(invalid(Stage::Specs, text, ["NHD", "HND"].into_iter()))
        }
        Some(_) => Ok(()),
    }
}

/// Whether pages have all states of a head together in a release without a choice
/// of layouts. Mirrors `vllm/v1/attention/backends/utils.py` `get_kv_cache_layout`.
pub(crate) fn heads_first(requested: Option<&str>, backends: &[&str], arch: Arch) -> bool {
    let sets = |backend: &&str| needs_heads_outside(backend, arch);
    !backends.contains(&"HPC_ATTN") && (backends.iter().any(sets) || requested == Some("HND"))
}

/// Picks the layout for the whole model.
///
/// `candidates` is what every backend supports, most preferred first.
/// Mirrors `vllm/v1/attention/backends/utils.py` `resolve_kv_cache_layout`.
pub(crate) fn resolve(
    requested: Option<&str>,
    candidates: &[KvCacheLayout],
    trace: &mut Trace,
) -> Result<KvCacheLayout, Box<Refusal>> {
    let raise = |message| Err(Refusal::raised(Stage::Plan, "ValueError", message));
    let layout = if let Some(text) = requested {
        let Some(spelling) = LayoutSpelling::ALL.into_iter().find(|s| s.as_str() == text) else {
            let options = LayoutSpelling::ALL.iter().map(|s| s.as_str());
            return Err(invalid(Stage::Plan, text, options));
        };
        let layout = KvCacheLayout::from_spelling(spelling);
        if !candidates.contains(&layout) {
            return raise(format!(
                "VLLM_KV_CACHE_LAYOUT={text} does not satisfy every supported set; valid \
                 layouts: {}.",
                python_list(candidates.iter().map(|layout| layout.as_str()))
            ));
        }
        layout
    } else {
        let Some(layout) = candidates.first() else {
            return Err(Refusal::not_modelled(
                "no KV cache layout satisfies every backend",
            ));
        };
        *layout
    };
    trace.say(log::PLAN, || {
        ["Using ", layout.as_str(), " KV cache layout."].concat()
    });
    trace.step(
        Stage::Plan,
        "vllm/v1/attention/backends/utils.py",
        "resolve_kv_cache_layout",
        || {
            format!(
                "the KV cache layout is {layout}, of {}",
                python_list(candidates.iter().map(|layout| layout.as_str()))
            )
        },
    );
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: [KvCacheLayout; 2] = [KvCacheLayout::Blhnc, KvCacheLayout::Blnhc];

    #[test]
    fn the_variable_is_held_against_the_candidates() {
        let ask = |text| resolve(text, &V4, &mut Trace::silent());
        assert_eq!(ask(None), Ok(KvCacheLayout::Blhnc));
        assert_eq!(ask(Some("BLNHC")), Ok(KvCacheLayout::Blnhc));
        assert_eq!(
            ask(Some("NHD")).unwrap_err().to_string(),
            "VLLM_KV_CACHE_LAYOUT=NHD does not satisfy every supported set; valid layouts: \
             ['BLHNC', 'BLNHC']."
        );
        assert_eq!(
            ask(Some("XYZ")).unwrap_err().to_string(),
            "Invalid value 'XYZ' for VLLM_KV_CACHE_LAYOUT. Valid options: ['LBNHC', 'LBHNC', \
             'LHBNC', 'NHD', 'HND', 'BLHNC', 'BLNHC', 'BHLNC']."
        );
    }

    #[test]
    fn an_order_in_pages_is_asked_for_by_some_backends() {
        let ask = |text, backends: &[&str], arch| check_order_in_page(Some(text), backends, arch);
        assert_eq!(
            ask("BLHNC", &["FLASH_ATTN"], Arch::Sm90)
                .unwrap_err()
                .to_string(),
            "Invalid value 'BLHNC' for VLLM_KV_CACHE_LAYOUT. Valid options: ['NHD', 'HND']."
        );
        assert!(ask("BLHNC", &["FLASHINFER"], Arch::Sm120).is_err());
        assert_eq!(ask("BLHNC", &["FLASHINFER"], Arch::Sm100), Ok(()));
        assert_eq!(ask("BLHNC", &["FLASHMLA_SPARSE"], Arch::Sm90), Ok(()));
        assert_eq!(ask("HND", &["FLASH_ATTN"], Arch::Sm90), Ok(()));
    }
}
