//! The KV layouts that backends' kernels read, and those that all of a model's
//! backends read.

use super::layer::LayerBackend;
use super::rules::Target;
use super::table;
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout::{self, Bhlnc, Blhnc, Blnhc, Lbhnc, Lbnhc, Lhbnc};
use crate::python::repr_list;

/// In the order of `vllm/v1/kv_cache_layout.py` `KVCacheLayout`.
pub(super) const ENUM_ORDER: [KvCacheLayout; 6] = [Lbhnc, Lbnhc, Lhbnc, Blhnc, Blnhc, Bhlnc];
/// `vllm/v1/attention/backends/utils.py` `_DEFAULT_LAYOUT_PREFERENCE`
pub(crate) const DEFAULT_PREFERENCE: &[KvCacheLayout] = &[Lbnhc, Lbhnc, Blnhc, Blhnc, Bhlnc, Lhbnc];

/// The layouts that a backend declares, most preferred first; `None` for any.
/// Mirrors the classes' `supported_kv_cache_layouts`; of DeepSeek V4's backends
/// it is the indexers that declare.
pub(super) fn declared(backend: LayerBackend, target: Target) -> Option<&'static [KvCacheLayout]> {
    match backend {
        LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend) => {
            table::row(backend, target, None)?.layouts
        }
        LayerBackend::Fixed(_) => None,
    }
}

/// The layouts that every backend reads, most preferred first. `backends` are
/// the distinct ones of all layers, in the order of the layers.
/// Mirrors `vllm/v1/attention/backends/utils.py` `get_supported_kv_cache_layouts`.
pub(crate) fn layout_candidates(
    backends: &[LayerBackend],
    target: Target,
) -> Result<Vec<KvCacheLayout>, Box<Refusal>> {
    let sets: Vec<&[KvCacheLayout]> = backends
        .iter()
        .filter_map(|backend| declared(*backend, target))
        .collect();
    let Some((first, rest)) = sets.split_first() else {
        return Ok(DEFAULT_PREFERENCE.to_vec());
    };
    if rest.iter().all(|set| set == first) {
        return Ok(first.to_vec());
    }
    let mut common: Vec<KvCacheLayout> = ENUM_ORDER
        .into_iter()
        .filter(|layout| sets.iter().all(|set| set.contains(layout)))
        .collect();
    if common.is_empty() {
        let sets: Vec<String> = sets
            .iter()
            .map(|set| repr_list(set.iter().map(|layout| layout.as_str())))
            .collect();
        return Err(Refusal::raised(
            Stage::Plan,
            "ValueError",
            format!(
                "No KV cache layout satisfies every supported set: [{}].",
                sets.join(", ")
            ),
        ));
    }
    let votes = |layout: &KvCacheLayout| {
        sets.iter()
            .filter(|set| set.first() == Some(layout))
            .count()
    };
    common.sort_by_key(|layout| std::cmp::Reverse(votes(layout)));
    Ok(common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::AttentionBackend as B;
    use crate::backend::layer::FixedBackend;
    use crate::backend::rules;
    use crate::gpu::Arch;

    fn names(backends: &[LayerBackend], arch: Arch) -> Result<Vec<&'static str>, String> {
        let target = Target {
            arch,
            rules: &rules::V0_33_0,
        };
        layout_candidates(backends, target)
            .map(|layouts| layouts.into_iter().map(KvCacheLayout::as_str).collect())
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn backends_agree_on_a_layout_or_not() {
        let flashinfer = LayerBackend::Selected(B::Flashinfer);
        let turboquant = LayerBackend::Selected(B::Turboquant);
        let gdn = LayerBackend::Fixed(FixedBackend::GdnAttn);
        assert_eq!(
            names(&[gdn, flashinfer], Arch::Sm90),
            Ok(vec!["LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC"])
        );
        assert_eq!(
            names(&[gdn, flashinfer], Arch::Sm100),
            Ok(vec!["LBHNC", "BLHNC"])
        );
        let composite = LayerBackend::Selected(B::TritonFlashAttn);
        assert_eq!(
            names(&[composite, turboquant], Arch::Sm90),
            Ok(vec!["LBNHC"])
        );
        assert_eq!(
            names(&[flashinfer, turboquant], Arch::Sm100),
            Err(
                "No KV cache layout satisfies every supported set: [['LBHNC', 'BLHNC'], \
                 ['LBNHC']]."
                    .to_owned()
            )
        );
    }
}
