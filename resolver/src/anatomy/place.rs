//! Where pages lie in the allocation.

use crate::Resolution;
use crate::layout::KvCacheLayout;
use crate::resolution::{SharedTensor, TensorRow};
use crate::spec::LayerSpec;

/// Where the pages of one kind of layer lie that are of one group: layer `l` (counted
/// among them), block `b` starts at `offset + l × layer_stride + b × block_stride`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Index into `groups`.
    pub group: usize,
    /// Layers.
    pub layers: u64,
    /// The first one's name, where a pool is given.
    pub first: Option<String>,
    /// Bytes from the start of the allocation to the first page; `None` where it
    /// follows from the pool, and none is given.
    pub offset: Option<u64>,
    /// Bytes from one layer's page to the next layer's; `None` where that follows
    /// from the pool, or where they are not evenly apart.
    pub layer_stride: Option<u64>,
    /// Bytes from one block to the next.
    pub block_stride: Option<u64>,
    /// Whether each layer has an allocation of its own.
    pub is_apart: bool,
}

/// The places of a kind of layer, in the order of the groups.
pub(super) fn places(resolution: &Resolution, layer: usize, spec: &LayerSpec) -> Vec<Place> {
    match &resolution.capacity {
        Some(capacity) => {
            let mut places = Vec::new();
            let mut shared = Vec::new();
            for tensor in &capacity.tensors {
                match tensor {
                    TensorRow::Run(run) if run.layer == layer => places.push(Place {
                        group: run.group,
                        layers: run.layers as u64,
                        first: run.names().next(),
                        offset: Some(run.offset),
                        layer_stride: Some(run.layer_stride),
                        block_stride: Some(run.block_stride),
                        is_apart: false,
                    }),
                    TensorRow::Run(_) => {}
                    TensorRow::Shared(tensor) => shared.push(tensor),
                }
            }
            share(&shared, layer, capacity.num_blocks, &mut places);
            places
        }
        None => planned(resolution, layer, spec),
    }
}

/// Through 0.28 each layer is named by itself.
fn share(tensors: &[&SharedTensor], layer: usize, num_blocks: u64, places: &mut Vec<Place>) {
    // where each group's last layer lies
    let mut lasts: Vec<u64> = Vec::new();
    for tensor in tensors {
        for shared in tensor.shared_by.iter().filter(|of| of.layer == layer) {
            let view = tensor.block_stride.filter(|stride| *stride > 0);
            let offset = tensor.offset.unwrap_or(0);
            let mut known = places.iter_mut().zip(&mut lasts);
            let Some((place, last)) = known.find(|(place, _)| place.group == shared.group) else {
                places.push(Place {
                    group: shared.group,
                    layers: 1,
                    first: Some(shared.name.clone()),
                    offset: Some(offset),
                    layer_stride: None,
                    block_stride: view.or_else(|| tensor.size.checked_div(num_blocks)),
                    is_apart: view.is_none(),
                });
                lasts.push(offset);
                continue;
            };
            let step = offset.checked_sub(*last).filter(|_| !place.is_apart);
            place.layer_stride = match place.layers {
                1 => step,
                _ => place.layer_stride.filter(|stride| Some(*stride) == step),
            };
            place.layers += 1;
            *last = offset;
        }
    }
}

/// What is known before there is a pool: where blocks are outermost all of it, since
/// the pages of a group lie side by side.
fn planned(resolution: &Resolution, layer: usize, spec: &LayerSpec) -> Vec<Place> {
    let Some(layout) = resolution.kv_cache_layout else {
        return Vec::new();
    };
    let mut places = Vec::new();
    for (number, group) in resolution.groups.iter().enumerate() {
        let mut offset: u64 = 0;
        for member in &group.members {
            let is_first = offset == 0;
            let bytes = member.page_size_bytes.saturating_mul(member.count as u64);
            if member.layer == layer {
                let row = || spec.num_states().checked_mul(spec.slot_bytes().ok()?);
                let (offset, layer_stride, block_stride) = match layout {
                    KvCacheLayout::Blhnc | KvCacheLayout::Blnhc => (
                        Some(offset),
                        Some(member.page_size_bytes),
                        Some(resolution.bytes_per_block),
                    ),
                    KvCacheLayout::Bhlnc => (Some(offset), row(), Some(resolution.bytes_per_block)),
                    KvCacheLayout::Lbhnc | KvCacheLayout::Lbnhc => {
                        (is_first.then_some(0), None, spec.padded_page_bytes().ok())
                    }
                    KvCacheLayout::Lhbnc => (is_first.then_some(0), None, row()),
                };
                places.push(Place {
                    group: number,
                    layers: member.count as u64,
                    first: None,
                    offset,
                    layer_stride,
                    block_stride,
                    is_apart: false,
                });
            }
            offset = offset.saturating_add(bytes);
        }
    }
    places
}
