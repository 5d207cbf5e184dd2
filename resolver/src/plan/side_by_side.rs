//! Blocks since 0.29: the widest group's pages, side by side.

use super::groups::Group;
use super::stages;
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout;
use crate::release::{EmptyBlock, Profile};
use crate::resolution::TensorRun;
use crate::spec::{Layer, LayerSpec, Layers};
use crate::units::{add, lcm, mul, round_up};

/// Bytes of a block; 0 where a stage has no layer with a cache and only later
/// trips over it. Mirrors `_get_kv_cache_bytes_per_block` and
/// `validate_kv_cache_layout`.
pub(super) fn bytes_per_block(
    layers: &Layers,
    groups: &[Group],
    layout: KvCacheLayout,
    profile: &Profile,
) -> Result<u64, Box<Refusal>> {
    if stages::is_empty(groups) {
        return of_empty_stage(groups, layout, profile);
    }
    let pages = page_sizes(layers, groups)?;
    if pages.len() > 1 && !takes_several(layout, groups) {
        return Err(cannot_express(layout, &pages));
    }
    let mut widest = 0;
    let mut alignment = 1;
    for group in groups {
        let bytes = if layout.is_block_outermost() {
            group.all_pages(layers, LayerSpec::page_size_bytes)?
        } else {
            group.all_pages(layers, LayerSpec::padded_page_bytes)?
        };
        widest = bytes.max(widest);
        if group.layers.is_empty() {
            continue;
        }
        for (spec, _) in &group.by_spec {
            let spec = &layers.specs[*spec];
            let of_spec = if layout.is_block_outermost() {
                spec.block_stride_alignment()?
            } else {
                spec.whole_block_alignment()
            };
            alignment = lcm(alignment, of_spec)?;
        }
    }
    let bytes = round_up(widest, alignment)?;
    if bytes == 0 {
        return Err(Box::new(Refusal::ZeroDivision));
    }
    Ok(bytes)
}

/// Whether the layout lets pages of several sizes lie side by side.
fn takes_several(layout: KvCacheLayout, groups: &[Group]) -> bool {
    layout.is_block_compact() && !(groups.len() > 1 && layout.is_layer_outermost())
}

fn cannot_express(layout: KvCacheLayout, pages: &[u64]) -> Box<Refusal> {
    let pages: Vec<String> = pages.iter().map(u64::to_string).collect();
    Refusal::raised(
        Stage::Plan,
        "ValueError",
        format!(
            "KV cache layout {layout} cannot express this model's mixed page sizes ([{}]); a \
             backend should declare block-outermost supported layouts (e.g. BLHNC), or set \
             VLLM_KV_CACHE_LAYOUT=BLHNC.",
            pages.join(", ")
        ),
    )
}

/// The block of a stage without layers: 0 where it only later stops.
fn of_empty_stage(
    groups: &[Group],
    layout: KvCacheLayout,
    profile: &Profile,
) -> Result<u64, Box<Refusal>> {
    let assertion = || Err(Refusal::raised(Stage::Plan, "AssertionError", ""));
    match profile.empty_block {
        EmptyBlock::Asserted => assertion(),
        EmptyBlock::Divided if layout.is_block_outermost() => assertion(),
        EmptyBlock::Divided => Ok(0),
        EmptyBlock::Tried if !takes_several(layout, groups) => Err(cannot_express(layout, &[])),
        EmptyBlock::Tried if layout.is_block_outermost() => assertion(),
        EmptyBlock::Tried => Err(Box::new(Refusal::ZeroDivision)),
    }
}

/// What stops such a stage when its blocks are counted.
pub(super) fn no_blocks(groups: &[Group], layout: KvCacheLayout) -> Box<Refusal> {
    if takes_several(layout, groups) {
        Box::new(Refusal::ZeroDivision)
    } else {
        cannot_express(layout, &[])
    }
}

/// The distinct page sizes in bytes, ascending.
fn page_sizes(layers: &Layers, groups: &[Group]) -> Result<Vec<u64>, Box<Refusal>> {
    let with_layers = groups.iter().filter(|group| !group.layers.is_empty());
    let specs = with_layers.flat_map(|group| &group.by_spec);
    let sizes = specs.map(|(spec, _)| layers.specs[*spec].page_size_bytes());
    let mut sizes: Vec<u64> = sizes.collect::<Result<_, _>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Where each page lies: groups alias from byte 0, for a block belongs to one
/// of them at a time. Mirrors `get_kv_cache_config_from_groups` and
/// `compute_layout_strides`.
pub(super) fn tensors(
    layers: &Layers,
    groups: &[Group],
    layout: KvCacheLayout,
    bytes_per_block: u64,
    num_blocks: u64,
) -> Result<Vec<TensorRun>, Box<Refusal>> {
    let size = mul(bytes_per_block, num_blocks)?;
    let mut rows = Vec::new();
    for (group, members) in groups.iter().enumerate() {
        let mut offset = 0;
        for (spec, of_spec) in &members.by_spec {
            let shape = &layers.specs[*spec];
            let page = shape.page_size_bytes()?;
            let row_bytes = mul(shape.num_states(), shape.slot_bytes()?)?;
            let (layer_stride, block_stride) = match layout {
                KvCacheLayout::Blhnc | KvCacheLayout::Blnhc => (page, bytes_per_block),
                KvCacheLayout::Bhlnc => (row_bytes, bytes_per_block),
                KvCacheLayout::Lbhnc | KvCacheLayout::Lbnhc => {
                    let block = shape.padded_page_bytes()?;
                    (mul(block, num_blocks)?, block)
                }
                KvCacheLayout::Lhbnc => (mul(page, num_blocks)?, row_bytes),
            };
            let (prefix, suffix) = of_spec
                .first()
                .map_or(("", ""), |layer| (layer.prefix, layer.suffix));
            // a drafter's layers come after the target's
            let is_alike = |layer: &&Layer| (layer.prefix, layer.suffix) == (prefix, suffix);
            let (alike, others) = of_spec.split_at(of_spec.iter().take_while(is_alike).count());
            rows.push(TensorRun {
                group,
                layer: *spec,
                layers: of_spec.len(),
                other_names: others.iter().map(|layer| layers.name(*layer)).collect(),
                layer_indices: alike.iter().map(|layer| layer.index).collect(),
                name_prefix: prefix,
                name_suffix: suffix,
                offset,
                layer_stride,
                block_stride,
                size,
            });
            let step = if layout.is_block_outermost() {
                page
            } else {
                layer_stride
            };
            offset = add(offset, mul(step, of_spec.len() as u64)?)?;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Release;

    /// `validate_kv_cache_layout`: pages of several sizes lie side by side where a page's bytes lie together, and in one
    /// group alone where each layer has a region of its own.
    #[test]
    fn not_every_layout_takes_pages_of_several_sizes() {
        let layers = Layers::of(&[32, 64].map(LayerSpec::latent));
        let group = |layers: &[_]| Group::uniform_type(layers.to_vec());
        let one = [group(&layers.list)];
        let two = [group(&layers.list[..1]), group(&layers.list[1..])];
        let profile = Release::LATEST.profile();
        let bytes = |groups: &[Group], layout| {
            let bytes = bytes_per_block(&layers, groups, layout, profile);
            bytes.map_err(|refusal| refusal.to_string())
        };
        assert_eq!(bytes(&one, KvCacheLayout::Blnhc), Ok(3072));
        assert_eq!(bytes(&two, KvCacheLayout::Blnhc), Ok(2048));
        assert_eq!(bytes(&one, KvCacheLayout::Lbnhc), Ok(3072));
        let error = |layout| {
            Err(format!(
                "KV cache layout {layout} cannot express this model's mixed page sizes ([1024, 2048]); \
                 a backend should declare block-outermost supported layouts (e.g. BLHNC), or set \
                 VLLM_KV_CACHE_LAYOUT=BLHNC."
            ))
        };
        assert_eq!(bytes(&two, KvCacheLayout::Lbnhc), error("LBNHC"));
        assert_eq!(bytes(&one, KvCacheLayout::Bhlnc), error("BHLNC"));
        assert_eq!(bytes(&one, KvCacheLayout::Lhbnc), error("LHBNC"));
        assert_eq!(bytes(&two[..1], KvCacheLayout::Lhbnc), Ok(1024));
    }

    /// `_get_kv_cache_bytes_per_block` and what calls it, of a stage whose layers have no cache.
    #[test]
    fn a_stage_without_layers_stops_as_its_release_does() {
        let layers = Layers::new("model.layers");
        let groups = [(); 2].map(|()| Group::uniform_type(Vec::new()));
        let stop = |release: Release, layout, groups: &[Group]| {
            let bytes = bytes_per_block(&layers, groups, layout, release.profile());
            bytes.map_err(|refusal| match *refusal {
                Refusal::ZeroDivision => "a division".to_owned(),
                other => format!("{} {other}", other.error_type()),
            })
        };
        let assertion = Err("AssertionError ".to_owned());
        for layout in [KvCacheLayout::Blhnc, KvCacheLayout::Lbnhc] {
            assert_eq!(stop(Release::V0_31_0, layout, &groups), assertion);
        }
        assert_eq!(
            stop(Release::V0_32_0, KvCacheLayout::Blhnc, &groups),
            assertion
        );
        assert_eq!(stop(Release::V0_32_0, KvCacheLayout::Lbnhc, &groups), Ok(0));
        let none = no_blocks(&groups[..1], KvCacheLayout::Lbnhc);
        assert_eq!(*none, Refusal::ZeroDivision);
        let latest = |layout, count: usize| stop(Release::V0_33_0, layout, &groups[..count]);
        assert_eq!(latest(KvCacheLayout::Blhnc, 2), assertion);
        assert_eq!(
            latest(KvCacheLayout::Lbnhc, 1),
            Err("a division".to_owned())
        );
        let error = |layout| Err(format!("ValueError {}", cannot_express(layout, &[])));
        assert_eq!(latest(KvCacheLayout::Lbnhc, 2), error(KvCacheLayout::Lbnhc));
        assert_eq!(latest(KvCacheLayout::Bhlnc, 1), error(KvCacheLayout::Bhlnc));
        assert_eq!(
            no_blocks(&groups, KvCacheLayout::Lbnhc).to_string(),
            cannot_express(KvCacheLayout::Lbnhc, &[]).to_string()
        );
    }
}
