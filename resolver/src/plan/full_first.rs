//! Groups of DeepSeek V4 through 0.28: every full-attention layer in one group,
//! windows split to fit beside it.
//! Mirrors `group_and_unify_kv_cache_specs` and
//! `_get_kv_cache_groups_uniform_groups` in `vllm/v1/core/kv_cache_utils.py`.

use super::groups::Group;
use super::packing::{Bucket, approximate_gcd};
use crate::error::{Refusal, Stage};
use crate::spec::{Layer, Layers, SpecKind};
use crate::units::ceil_div;

/// Splits the layers. With `raises_pages` (through 0.26) each window's page is
/// raised to the next page size of the full group, so that they take turns in
/// the same bytes.
pub(super) fn split(layers: &mut Layers, raises_pages: bool) -> Result<Vec<Group>, Box<Refusal>> {
    let (full, windows) = lots(layers);
    if full.is_empty() {
        return Err(assertion());
    }
    let full = Bucket::new(full, layers)?;
    // counted before any page is raised
    let mut repeats = vec![full.repeats()];
    for lot in &windows {
        repeats.push(Bucket::new(lot.clone(), layers)?.repeats());
    }
    let per_group = approximate_gcd(&repeats, full.repeats());

    if raises_pages {
        let sizes: Vec<u64> = full.by_page.iter().map(|(page, _)| *page).collect();
        for lot in &windows {
            raise(layers, lot, &sizes)?;
        }
    }
    let mut groups = vec![Group::uniform_type(full.layers)];
    for lot in windows {
        let bucket = Bucket::new(lot, layers)?;
        if !bucket.is_balanced() {
            return Err(assertion());
        }
        groups.extend(bucket.split(ceil_div(bucket.repeats(), per_group)?));
    }
    Ok(groups)
}

/// The full-attention layers, and the windows by block size and reach, in order
/// of first appearance.
fn lots(layers: &Layers) -> (Vec<Layer>, Vec<Vec<Layer>>) {
    let mut full = Vec::new();
    let mut windows: Vec<Vec<Layer>> = Vec::new();
    for layer in &layers.list {
        let spec = layers.spec(*layer);
        if spec.kind != SpecKind::SlidingWindowMla {
            full.push(*layer);
            continue;
        }
        let home = windows.iter_mut().find(|lot| {
            let other = layers.spec(lot[0]);
            (other.block_size, other.sliding_window) == (spec.block_size, spec.sliding_window)
        });
        match home {
            Some(lot) => lot.push(*layer),
            None => windows.push(vec![*layer]),
        }
    }
    (full, windows)
}

/// Raises the pages of these layers to the nearest of `sizes`; vLLM asserts
/// without a word that there is one.
fn raise(layers: &mut Layers, lot: &[Layer], sizes: &[u64]) -> Result<(), Box<Refusal>> {
    for layer in lot {
        let spec = &mut layers.specs[layer.spec];
        let page = spec.page_size_bytes()?;
        let nearest = sizes.iter().copied().filter(|size| *size >= page).min();
        spec.page_size_padded = Some(nearest.ok_or_else(assertion)?);
    }
    Ok(())
}

fn assertion() -> Box<Refusal> {
    Refusal::raised(Stage::Plan, "AssertionError", "")
}
