//! Blocks through 0.28: slots that one layer of each group takes in turn.
//! Mirrors `get_kv_cache_config_from_groups` in `vllm/v1/core/kv_cache_utils.py`
//! and what it calls for DeepSeek V4.

use super::groups::{self, Group};
use super::packing::Bucket;
use super::stages;
use crate::error::Refusal;
use crate::release::SlotRule;
use crate::resolution::{SharedLayer, SharedTensor};
use crate::spec::{Layer, LayerSpec, Layers};
use crate::units::{add, mul};

/// Bytes of the block that one layer of some groups takes.
struct Slot {
    /// From the start of the block.
    offset: u64,
    /// Of the largest page in it.
    bytes: u64,
    /// The layers, by group.
    members: Vec<(usize, Layer)>,
}

/// A block and its slots.
pub(super) struct Slots {
    /// Bytes of a block.
    pub bytes_per_block: u64,
    /// Bytes of a block as the check of one request counts it: layer tuples,
    /// whatever the block is. Mirrors `_max_memory_usage_bytes_from_groups`.
    pub checked_bytes_per_block: u64,
    /// Bytes of a block as `num_gpu_blocks_override` counts it.
    /// Mirrors `_pool_bytes_per_block`.
    pub pool_bytes_per_block: u64,
    list: Vec<Slot>,
    /// Each slot has an allocation of its own.
    apart: bool,
}

impl Slots {
    pub fn new(layers: &Layers, groups: &[Group], rule: SlotRule) -> Result<Self, Box<Refusal>> {
        let page = |layer: &Layer| layers.spec(*layer).page_size_bytes();
        // groups whose layers one spec stands for have pages of one size
        let one_page = groups.iter().any(|group| group.merged.is_some());
        let one_group = groups.len() <= 1 && !one_page;
        let buckets = groups
            .iter()
            .map(|group| Bucket::new(group.layers.clone(), layers))
            .collect::<Result<Vec<_>, _>>()?;
        // what a stage has none of is still in its spec
        let of_specs = groups
            .iter()
            .map(|group| {
                let members = group.by_spec.iter().flat_map(|(_, members)| members);
                Bucket::new(members.copied().collect(), layers)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let slots = match rule {
            _ if one_page => of_one_page(layers, groups)?,
            _ if one_group => of_one_group(groups, page)?,
            SlotRule::LayerTuples => layer_tuples(&buckets, &of_specs)?,
            SlotRule::ByPageSize => by_page_size(&buckets)?,
            SlotRule::ByOffset => by_offset(groups, page)?,
        };
        let apart = one_group || one_page;
        let bytes_per_block = if rule == SlotRule::ByOffset && !apart {
            groups::widest(layers, groups)?
        } else if one_group {
            // even where the stage has none of them
            groups.first().map_or(Ok(0), |group| {
                group.spec_pages(layers, LayerSpec::page_size_bytes)
            })?
        } else {
            slots.iter().try_fold(0, |sum, slot| add(sum, slot.bytes))?
        };
        if bytes_per_block == 0 && !stages::is_empty(groups) {
            return Err(Box::new(Refusal::ZeroDivision));
        }
        let checked_bytes_per_block = if apart {
            bytes_per_block
        } else {
            let tuple = tuple(&of_specs).into_iter().try_fold(0, add)?;
            mul(tuple, repeats(&of_specs) as u64)?
        };
        let pool_bytes_per_block = if rule == SlotRule::LayerTuples && !apart {
            checked_bytes_per_block
        } else {
            bytes_per_block
        };
        Ok(Self {
            bytes_per_block,
            checked_bytes_per_block,
            pool_bytes_per_block,
            list: slots,
            apart,
        })
    }

    /// Layers in all.
    pub fn layers(&self) -> usize {
        self.list.iter().map(|slot| slot.members.len()).sum()
    }

    /// Whether there is no layer in any.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// vLLM's `kv_cache_tensors`: views into one allocation (`one_backing`,
    /// since 0.24), or an allocation a slot.
    pub fn tensors(
        &self,
        layers: &Layers,
        num_blocks: u64,
        one_backing: bool,
    ) -> Result<Vec<SharedTensor>, Box<Refusal>> {
        let views = one_backing && !self.apart;
        self.list
            .iter()
            .map(|slot| {
                let bytes = if views {
                    self.bytes_per_block
                } else {
                    slot.bytes
                };
                let shared_by = slot.members.iter().map(|(group, layer)| SharedLayer {
                    group: *group,
                    layer: layer.spec,
                    name: layers.name(*layer),
                });
                Ok(SharedTensor {
                    layers: slot.members.len(),
                    shared_by: shared_by.collect(),
                    // an allocation of its own has the fields' defaults
                    offset: one_backing.then_some(if views { slot.offset } else { 0 }),
                    block_stride: one_backing.then_some(if views { bytes } else { 0 }),
                    size: mul(bytes, num_blocks)?,
                })
            })
            .collect()
    }
}

/// A slot for the first, the second, … layer of every group: their pages have
/// one size.
fn of_one_page(layers: &Layers, groups: &[Group]) -> Result<Vec<Slot>, Box<Refusal>> {
    let page = match groups.first().and_then(|group| group.spec(layers)) {
        Some(spec) => spec.page_size_bytes()?,
        None => 0,
    };
    let longest = groups.iter().map(|group| group.layers.len()).max();
    let mut slots = Vec::new();
    for place in 0..longest.unwrap_or(0) {
        let layers = groups.iter().enumerate();
        let members = layers.filter_map(|(group, of)| Some((group, *of.layers.get(place)?)));
        append(&mut slots, page, members.collect())?;
    }
    Ok(slots)
}

/// Every layer's page.
fn of_one_group(
    groups: &[Group],
    page: impl Fn(&Layer) -> Result<u64, Box<Refusal>>,
) -> Result<Vec<Slot>, Box<Refusal>> {
    let mut slots = Vec::new();
    for layer in groups.iter().flat_map(|group| &group.layers) {
        append(&mut slots, page(layer)?, vec![(0, *layer)])?;
    }
    Ok(slots)
}

fn append(
    slots: &mut Vec<Slot>,
    bytes: u64,
    members: Vec<(usize, Layer)>,
) -> Result<(), Box<Refusal>> {
    let offset = match slots.last() {
        Some(last) => add(last.offset, last.bytes)?,
        None => 0,
    };
    slots.push(Slot {
        offset,
        bytes,
        members,
    });
    Ok(())
}

/// A page of each size of the full group, as often as the longest run of pages
/// of one size in any group (through 0.22.1). Mirrors `_get_kv_cache_config_deepseek_v4`.
fn layer_tuples(buckets: &[Bucket], of_specs: &[Bucket]) -> Result<Vec<Slot>, Box<Refusal>> {
    let mut slots = Vec::new();
    for repeat in 0..repeats(buckets) {
        for size in tuple(of_specs) {
            append(&mut slots, size, members(buckets, size, repeat))?;
        }
    }
    Ok(slots)
}

/// For each page size as many slots as the group with most such pages has
/// (0.23 to 0.26). Mirrors `_bucket_layers_by_page_size`.
fn by_page_size(buckets: &[Bucket]) -> Result<Vec<Slot>, Box<Refusal>> {
    let mut sizes: Vec<(u64, usize)> = Vec::new();
    for (size, layers) in buckets.iter().flat_map(|bucket| &bucket.by_page) {
        match sizes.iter_mut().find(|(other, _)| other == size) {
            Some((_, count)) => *count = layers.len().max(*count),
            None => sizes.push((*size, layers.len())),
        }
    }
    let mut slots = Vec::new();
    for (size, count) in sizes {
        for repeat in 0..count {
            append(&mut slots, size, members(buckets, size, repeat))?;
        }
    }
    Ok(slots)
}

/// Of each group the layer that comes `repeat`th among those of this page size.
fn members(buckets: &[Bucket], size: u64, repeat: usize) -> Vec<(usize, Layer)> {
    let of_group = |(group, bucket): (usize, &Bucket)| {
        let (_, layers) = bucket.by_page.iter().find(|(page, _)| *page == size)?;
        Some((group, *layers.get(repeat)?))
    };
    buckets.iter().enumerate().filter_map(of_group).collect()
}

/// Each group's pages side by side; where several groups have a page begin, they
/// share a slot (0.27.1 and 0.28). Mirrors `_get_packed_kv_cache_layout`.
fn by_offset(
    groups: &[Group],
    page: impl Fn(&Layer) -> Result<u64, Box<Refusal>>,
) -> Result<Vec<Slot>, Box<Refusal>> {
    let mut slots: Vec<Slot> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let mut offset = 0;
        for layer in &group.layers {
            let bytes = page(layer)?;
            match slots.iter_mut().find(|slot| slot.offset == offset) {
                Some(slot) => {
                    slot.bytes = slot.bytes.max(bytes);
                    slot.members.push((number, *layer));
                }
                None => slots.push(Slot {
                    offset,
                    bytes,
                    members: vec![(number, *layer)],
                }),
            }
            offset = add(offset, bytes)?;
        }
    }
    slots.sort_unstable_by_key(|slot| slot.offset);
    Ok(slots)
}

/// The page sizes of the first group, which holds full attention, ascending.
fn tuple(buckets: &[Bucket]) -> Vec<u64> {
    let mut sizes: Vec<u64> = buckets
        .first()
        .map(|full| full.by_page.iter().map(|(page, _)| *page).collect())
        .unwrap_or_default();
    sizes.sort_unstable();
    sizes
}

/// The longest run of pages of one size in any group.
fn repeats(buckets: &[Bucket]) -> usize {
    let runs = buckets.iter().flat_map(|bucket| &bucket.by_page);
    runs.map(|(_, layers)| layers.len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::*;

    /// `get_kv_cache_config_from_groups` of 0.28: the block of a group whose pages differ is of its whole spec, but a
    /// stage without its layers has no tensor.
    #[test]
    fn a_stage_without_layers_has_a_block_and_no_tensor() {
        let layers = Layers::of(&[32, 64].map(LayerSpec::latent));
        let whole = Group::uniform_type(layers.list.clone());
        let slots = |group: &Group| {
            let groups = std::slice::from_ref(group);
            Slots::new(&layers, groups, SlotRule::ByOffset).unwrap()
        };
        let full = slots(&whole);
        assert_eq!((full.layers(), full.bytes_per_block), (2, 3072));
        assert_eq!(Block::Slots(full).allocated_bytes(7), Ok(7 * 3072));
        let empty = slots(&Group {
            layers: Vec::new(),
            ..whole
        });
        assert_eq!((empty.layers(), empty.bytes_per_block), (0, 3072));
        assert_eq!(empty.tensors(&layers, 7, true), Ok(Vec::new()));
        assert_eq!(Block::Slots(empty).allocated_bytes(7), Ok(0));
    }
}
