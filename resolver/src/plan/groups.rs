//! Which layers share a block table.
//! Mirrors `get_kv_cache_groups` and what it calls, in
//! `vllm/v1/core/kv_cache_planning.py` (`kv_cache_utils.py` through 0.32).

use super::{full_first, packing, paging};
use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout;
use crate::release::{Grouping, Profile};
use crate::spec::{Layer, LayerSpec, Layers, SpecKind};
use crate::trace::Trace;
use crate::units::{add, mul};

/// Layers that share a block table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The spec that stands for all; `None` where pages differ.
    pub merged: Option<LayerSpec>,
    /// In the order of the model.
    pub layers: Vec<Layer>,
    /// By spec, in order of first appearance: pages of one shape lie together.
    pub by_spec: Vec<(usize, Vec<Layer>)>,
}

impl Group {
    /// Layers whose pages may differ.
    pub(super) fn uniform_type(layers: Vec<Layer>) -> Self {
        Self {
            merged: None,
            by_spec: sorted(&layers, |spec| spec),
            layers,
        }
    }

    /// Layers that one spec stands for.
    pub(super) fn merged(spec: LayerSpec, layers: Vec<Layer>) -> Self {
        let first = layers.first().map(|layer| layer.spec);
        Self {
            merged: Some(spec),
            by_spec: first
                .map(|first| (first, layers.clone()))
                .into_iter()
                .collect(),
            layers,
        }
    }

    /// The spec that its demand follows from.
    pub(super) fn spec<'a>(&'a self, layers: &'a Layers) -> Option<&'a LayerSpec> {
        let first = self.by_spec.first().map(|(spec, _)| &layers.specs[*spec]);
        self.merged.as_ref().or(first)
    }

    /// vLLM's class of the group's spec.
    pub(super) fn kind(&self) -> SpecKind {
        self.merged.map_or(SpecKind::UniformType, |spec| spec.kind)
    }

    /// Bytes of its pages, side by side: none where a stage has none of its layers.
    pub(super) fn all_pages(
        &self,
        layers: &Layers,
        page: impl Fn(&LayerSpec) -> Result<u64, Box<Refusal>>,
    ) -> Result<u64, Box<Refusal>> {
        if self.layers.is_empty() {
            return Ok(0);
        }
        self.spec_pages(layers, page)
    }

    /// Bytes of all pages that its spec knows of.
    pub(super) fn spec_pages(
        &self,
        layers: &Layers,
        page: impl Fn(&LayerSpec) -> Result<u64, Box<Refusal>>,
    ) -> Result<u64, Box<Refusal>> {
        self.by_spec.iter().try_fold(0, |sum, (spec, members)| {
            add(sum, mul(page(&layers.specs[*spec])?, members.len() as u64)?)
        })
    }
}

/// The layers by a number of their specs, in order of first appearance.
pub(super) fn sorted<N: PartialEq>(
    layers: &[Layer],
    of_spec: impl Fn(usize) -> N,
) -> Vec<(N, Vec<Layer>)> {
    let mut lots: Vec<(N, Vec<Layer>)> = Vec::new();
    for layer in layers {
        let number = of_spec(layer.spec);
        let known = lots.iter().position(|(other, _)| *other == number);
        let lot = known.unwrap_or_else(|| {
            // room for most models' layers: to grow takes longer than all else here
            lots.push((number, Vec::with_capacity(layers.len().min(128))));
            lots.len() - 1
        });
        lots[lot].1.push(*layer);
    }
    lots
}

/// Bytes of the widest group's pages, side by side.
pub(super) fn widest(layers: &Layers, groups: &[Group]) -> Result<u64, Box<Refusal>> {
    groups.iter().try_fold(0, |widest, group| {
        let pages = group.all_pages(layers, LayerSpec::page_size_bytes)?;
        Ok(pages.max(widest))
    })
}

/// Groups the layers. `layers` is changed to what is allocated, where that is
/// not what the layers report.
pub(super) fn split(
    layers: &mut Layers,
    layout: Option<KvCacheLayout>,
    config: &EngineConfig,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Vec<Group>, Box<Refusal>> {
    if config.disable_hybrid_kv_cache_manager {
        paging::promote_windows(layers, profile, trace)?;
    }
    let specs: Vec<&LayerSpec> = layers.specs.iter().collect();
    let groups = if let Some(merged) = LayerSpec::merge(&specs)? {
        vec![Group::merged(merged, layers.list.clone())]
    } else if one_type(layers) {
        vec![Group::uniform_type(layers.list.clone())]
    } else if paging::page_sizes(layers)?.len() > 1 {
        match profile.grouping {
            Grouping::Packed if layout.is_some_and(KvCacheLayout::is_block_outermost) => {
                packing::pack(layers, profile)?
            }
            Grouping::FullFirst { raises_pages } if has_packed_windows(layers) => {
                full_first::split(layers, raises_pages)?
            }
            Grouping::Packed | Grouping::FullFirst { .. } => {
                paging::by_page(layers, profile, trace)?
            }
        }
    } else {
        paging::by_page(layers, profile, trace)?
    };
    trace.step(
        Stage::Plan,
        profile.files.planner,
        "get_kv_cache_groups",
        || explain(layers, &groups),
    );
    Ok(groups)
}

pub(super) fn one_type(layers: &Layers) -> bool {
    let first = layers.list.first().map(|layer| layers.spec(*layer));
    first.is_some_and(|first| layers.specs.iter().all(|spec| first.same_type(spec)))
}

fn has_packed_windows(layers: &Layers) -> bool {
    let mut specs = layers.specs.iter();
    specs.any(|spec| spec.kind == SpecKind::SlidingWindowMla)
}

fn explain(layers: &Layers, groups: &[Group]) -> String {
    let describe = |group: &Group| {
        let roles: Vec<String> = group
            .by_spec
            .iter()
            .map(|(spec, members)| {
                format!("{} {}", members.len(), layers.specs[*spec].role.label())
            })
            .collect();
        roles.join(" + ")
    };
    let sizes: Vec<String> = groups.iter().map(describe).collect();
    format!(
        "{} layers with a cache form {}: {}",
        layers.list.len(),
        if groups.len() == 1 {
            "one group".to_owned()
        } else {
            format!("{} groups", groups.len())
        },
        sizes.join("; ")
    )
}
