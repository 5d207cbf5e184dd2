//! Groups of one page size, and layers that are allocated as what they are not.

use super::groups::{self, Group};
use super::lines;
use crate::error::{Refusal, Stage};
use crate::release::Profile;
use crate::spec::{Layer, LayerSpec, Layers, SpecKind};
use crate::trace::Trace;
use crate::units::{ceil_div, mul};

/// The distinct page sizes in bytes, ascending.
pub(super) fn page_sizes(layers: &Layers) -> Result<Vec<u64>, Box<Refusal>> {
    let sizes = layers.specs.iter().map(LayerSpec::page_size_bytes);
    let mut sizes: Vec<u64> = sizes.collect::<Result<_, _>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Brings all pages to one size and splits the layers into groups of as many
/// layers each.
pub(super) fn by_page(
    layers: &mut Layers,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Vec<Group>, Box<Refusal>> {
    match unified(layers, profile)? {
        Unified::Specs(specs) => layers.specs = specs,
        Unified::Rigid(spec) => return as_full_attention(layers, spec, profile, trace),
    }
    let mut groups = Vec::new();
    let buckets = buckets(layers)?;
    let counts = buckets.iter().map(|(_, members)| members.len() as u64);
    let (least, most) = (counts.clone().min().unwrap_or(1), counts.max().unwrap_or(1));
    // up to half as many again are padded rather than split
    let size = if most * 2 < least * 3 { most } else { least };
    for (spec, members) in buckets {
        let layers = members.len() as u64;
        let padding = layers.next_multiple_of(size) - layers;
        if padding > 0 {
            lines::padding(padding, layers, trace);
        }
        let count = usize::try_from(ceil_div(layers, size)?).unwrap_or(1);
        for start in 0..count {
            let of_group = members.iter().skip(start).step_by(count).copied().collect();
            groups.push(Group::merged(spec, of_group));
        }
    }
    Ok(groups)
}

/// Layers that one spec can stand for, each lot joining the first that takes it.
/// Mirrors `_get_kv_cache_groups_uniform_page_size`.
fn buckets(layers: &Layers) -> Result<Vec<(LayerSpec, Vec<Layer>)>, Box<Refusal>> {
    let mut lots: Vec<(Vec<&LayerSpec>, Vec<Layer>)> = Vec::new();
    for (index, spec) in layers.specs.iter().enumerate() {
        let members = layers.list.iter().filter(|layer| layer.spec == index);
        let home = lots.iter_mut().find(|(specs, _)| {
            let together: Vec<&LayerSpec> = specs.iter().copied().chain([spec]).collect();
            matches!(LayerSpec::merge(&together), Ok(Some(_)))
        });
        if let Some((specs, layers)) = home {
            specs.push(spec);
            layers.extend(members);
        } else {
            lots.push((vec![spec], members.copied().collect()));
        }
    }
    lots.into_iter()
        .map(|(specs, members)| match LayerSpec::merge(&specs)? {
            Some(merged) => Ok((merged, members)),
            None => Err(Refusal::not_modelled("layers of a group that do not merge")),
        })
        .collect()
}

/// What becomes of pages of several sizes.
#[derive(Debug, PartialEq, Eq)]
enum Unified {
    /// Every spec has the largest page.
    Specs(Vec<LayerSpec>),
    /// The page of this spec does not divide the largest and cannot be padded.
    Rigid(usize),
}

/// Mirrors `unify_kv_cache_spec_page_size`.
fn unified(layers: &Layers, profile: &Profile) -> Result<Unified, Box<Refusal>> {
    let most = page_sizes(layers)?.last().copied().unwrap_or_default();
    let mut specs = Vec::with_capacity(layers.specs.len());
    for (index, spec) in layers.specs.iter().enumerate() {
        let page = spec.page_size_bytes()?;
        let mut spec = *spec;
        if page == most {
        } else if spec.kind == SpecKind::Mamba {
            spec.page_size_padded = Some(most);
        } else if most.checked_rem(page).ok_or(Refusal::ZeroDivision)? == 0 {
            spec.block_size = mul(spec.block_size, most / page)?;
            if spec.page_size_bytes()? != most {
                return Err(Refusal::raised(Stage::Plan, "AssertionError", ""));
            }
        } else if is_rigid(&spec, profile) {
            return Ok(Unified::Rigid(index));
        } else {
            spec.page_size_padded = Some(most);
        }
        specs.push(spec);
    }
    Ok(Unified::Specs(specs))
}

/// MLA beside plain windows: those are allocated for every token instead, if all layers are then of one type.
/// Mirrors `_try_get_full_allocation_fallback_groups`, since 0.27.1; without it, vLLM stops at the `rigid` spec.
fn as_full_attention(
    layers: &mut Layers,
    rigid: usize,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Vec<Group>, Box<Refusal>> {
    let refusal = rigid_page(layers, rigid, profile);
    let has = |kind| layers.specs.iter().any(|spec| spec.kind == kind);
    if has(SpecKind::SlidingWindowMla)
        || has(SpecKind::ChunkedLocalAttention)
        || !has(SpecKind::MlaAttention)
        || !has(SpecKind::SlidingWindow)
    {
        return Err(refusal);
    }
    promote(layers)?;
    if !groups::one_type(layers) {
        return Err(refusal);
    }
    lines::windows_as_full(trace);
    Ok(vec![Group::uniform_type(layers.list.clone())])
}

/// Whether the page cannot be padded.
fn is_rigid(spec: &LayerSpec, profile: &Profile) -> bool {
    if profile.pads_by_block_stride {
        !spec.indexes_by_block_stride
    } else {
        spec.kind == SpecKind::MlaAttention
    }
}

/// vLLM goes by the layers: the first of the first such spec.
fn rigid_page(layers: &Layers, rigid: usize, profile: &Profile) -> Box<Refusal> {
    let first = layers.list.iter().find(|layer| layer.spec == rigid);
    let which = if profile.pads_by_block_stride {
        "attention layers whose backend indexes KV pages by the block stride \
         (indexes_kv_by_block_stride is True)"
    } else {
        "non-MLA attention layers"
    };
    Refusal::raised(
        Stage::Plan,
        "NotImplementedError",
        format!(
            "Layer {}: page size is not divisible by the maximum page size and cannot be padded. \
             Padding is only supported for {which}.",
            first.map(|layer| layers.name(*layer)).unwrap_or_default()
        ),
    )
}

/// `--disable-hybrid-kv-cache-manager`: windows and chunks are allocated as if
/// they were full attention. Mirrors `unify_hybrid_kv_cache_specs`.
pub(super) fn promote_windows(
    layers: &mut Layers,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<(), Box<Refusal>> {
    let specs: Vec<&LayerSpec> = layers.specs.iter().collect();
    if LayerSpec::merge(&specs)?.is_some() || groups::one_type(layers) {
        return Ok(());
    }
    let has_full = layers.specs.iter().any(|spec| spec.kind.is_full());
    let packed_windows = layers
        .specs
        .iter()
        .any(|spec| spec.kind == SpecKind::SlidingWindowMla);
    if let (true, true, Some(field)) = (has_full, packed_windows, profile.promotion_fails_on) {
        return Err(Box::new(Refusal::PromotedSpecField(field)));
    }
    let first = profile.log.warns_before_promoting;
    let before = layers.specs.clone();
    if first {
        lines::hybrid_manager_off(trace);
    }
    promote(layers)?;
    if !first && layers.specs != before {
        lines::hybrid_manager_off(trace);
    }
    let specs: Vec<&LayerSpec> = layers.specs.iter().collect();
    if LayerSpec::merge(&specs)?.is_none() && !groups::one_type(layers) {
        return Err(Refusal::raised(
            Stage::Plan,
            "ValueError",
            "Failed to promote local KV cache specs to one unified type.",
        ));
    }
    trace.step(
        Stage::Plan,
        profile.files.planner,
        "_promote_local_kv_cache_specs",
        || "the hybrid manager is off: windows and chunks keep blocks for every token".to_owned(),
    );
    Ok(())
}

/// Mirrors `_promote_local_kv_cache_specs`.
fn promote(layers: &mut Layers) -> Result<(), Box<Refusal>> {
    let full = layers.specs.iter().filter(|spec| spec.kind.is_full());
    let mut blocks = full.map(|spec| spec.block_size);
    let Some(first) = blocks.next() else {
        return Ok(());
    };
    let common = blocks.all(|block| block == first).then_some(first);
    for spec in &mut layers.specs {
        let kind = match spec.kind {
            SpecKind::SlidingWindowMla => SpecKind::MlaAttention,
            SpecKind::SlidingWindow | SpecKind::ChunkedLocalAttention => SpecKind::FullAttention,
            SpecKind::FullAttention
            | SpecKind::MlaAttention
            | SpecKind::Mamba
            | SpecKind::UniformType => continue,
        };
        let block_size = common.unwrap_or(spec.block_size);
        let page_size_padded = match spec.page_size_padded {
            None => None,
            Some(padded) => {
                let scaled = mul(spec.unpadded_page_size_bytes()?, block_size)?
                    .checked_div(spec.block_size)
                    .ok_or(Refusal::ZeroDivision)?;
                Some(padded.max(scaled))
            }
        };
        *spec = LayerSpec {
            kind,
            block_size,
            page_size_padded,
            ..*spec
        }
        .aligned()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
