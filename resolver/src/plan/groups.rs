//! Which layers share a block table.
//! Mirrors `get_kv_cache_groups` and what it calls, in
//! `vllm/v1/core/kv_cache_planning.py` (`kv_cache_utils.py` through 0.31).

use super::packing;
use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::release::Profile;
use crate::spec::{Layer, LayerSpec, Layers, SpecKind};
use crate::trace::Trace;
use crate::units::{add, mul};

pub(super) const FILE: &str = "vllm/v1/core/kv_cache_planning.py";

/// Layers that share a block table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// In the order of the model.
    pub layers: Vec<Layer>,
    /// By spec, in order of first appearance: pages of one shape lie together.
    pub by_spec: Vec<(usize, Vec<Layer>)>,
}

impl Group {
    pub(super) fn new(layers: Vec<Layer>) -> Self {
        let mut by_spec: Vec<(usize, Vec<Layer>)> = Vec::new();
        for layer in &layers {
            match by_spec.iter_mut().find(|(spec, _)| *spec == layer.spec) {
                Some((_, members)) => members.push(*layer),
                None => by_spec.push((layer.spec, vec![*layer])),
            }
        }
        Self { layers, by_spec }
    }

    /// Bytes of its pages, side by side.
    pub(super) fn page_bytes(&self, layers: &Layers) -> Result<u64, Refusal> {
        self.by_spec.iter().try_fold(0, |sum, (spec, members)| {
            let page = layers.specs[*spec].page_size_bytes()?;
            add(sum, mul(page, members.len() as u64)?)
        })
    }
}

/// Groups the layers; with the hybrid manager off, `layers` is changed to what
/// is then allocated.
pub(super) fn split(
    layers: &mut Layers,
    config: &EngineConfig,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Vec<Group>, Refusal> {
    if config.disable_hybrid_kv_cache_manager {
        promote(layers, profile, trace)?;
    }
    let first = layers.list.first().map(|layer| *layers.spec(*layer));
    let one_type = first.is_some_and(|first| layers.specs.iter().all(|spec| first.same_type(spec)));
    let groups = if one_type {
        vec![Group::new(layers.list.clone())]
    } else {
        packing::pack(layers, profile)?
    };
    trace.step(Stage::Plan, FILE, "get_kv_cache_groups", || {
        let sizes: Vec<String> = groups
            .iter()
            .map(|group| {
                let roles: Vec<String> = group
                    .by_spec
                    .iter()
                    .map(|(spec, members)| {
                        format!("{} {}", members.len(), layers.specs[*spec].role.label())
                    })
                    .collect();
                roles.join(" + ")
            })
            .collect();
        format!(
            "{} layers with a cache form {} groups: {}",
            layers.list.len(),
            groups.len(),
            sizes.join("; ")
        )
    });
    Ok(groups)
}

/// `--disable-hybrid-kv-cache-manager`: windows are allocated as if they were
/// full attention. Mirrors `_promote_local_kv_cache_specs`.
fn promote(layers: &mut Layers, profile: &Profile, trace: &mut Trace) -> Result<(), Refusal> {
    if let Some(field) = profile.promotion_fails_on {
        return Err(Refusal::PromotedSpecField(field));
    }
    let mut full = layers
        .specs
        .iter()
        .filter(|spec| spec.kind == SpecKind::MlaAttention)
        .map(|spec| spec.block_size);
    let Some(block_size) = full.next() else {
        return Err(Refusal::not_modelled(
            "disable_hybrid_kv_cache_manager without full-attention layers is not modelled",
        ));
    };
    for spec in &mut layers.specs {
        if spec.kind == SpecKind::SlidingWindowMla {
            *spec = promoted(*spec, block_size)?;
        }
    }
    trace.step(Stage::Plan, FILE, "_promote_local_kv_cache_specs", || {
        format!("the hybrid manager is off: windows and states get blocks of {block_size} tokens for every token")
    });
    Ok(())
}

fn promoted(spec: LayerSpec, block_size: u64) -> Result<LayerSpec, Refusal> {
    let page_size_padded = match spec.page_size_padded {
        None => None,
        Some(padded) => {
            let scaled = mul(spec.unpadded_page_size_bytes()?, block_size)?
                .checked_div(spec.block_size)
                .ok_or(Refusal::ZeroDivision)?;
            Some(padded.max(scaled))
        }
    };
    LayerSpec {
        kind: SpecKind::MlaAttention,
        block_size,
        page_size_padded,
        ..spec
    }
    .aligned()
}
