//! Of places: every layer has one, in one group, and no two of a group lie over each other.

use std::collections::BTreeSet;

use kv_resolver::layout::KvCacheLayout;
use kv_resolver::resolution::{Capacity, LayerPlacement, TensorRow};
use kv_resolver::{Release, Resolution, resolve_quietly};
use proptest::prelude::*;

use crate::config;
use crate::questions::questions;

/// Where a stage has none of a group's layers, its group has tensors all the same, over which the worker then stops: they
/// are no places (`get_kv_cache_config_from_groups` in `vllm/v1/core/kv_cache_utils.py` since 0.29).
fn placements(r: &Resolution) -> Vec<LayerPlacement> {
    let mut placements = r.placements();
    placements.retain(|place| r.groups[place.group].layers > 0);
    placements
}

/// Pages that no full-attention layer of a stage has get no tensor through 0.22: layers without a place, over which the
/// worker stops (`_get_kv_cache_config_deepseek_v4` in `vllm/v1/core/kv_cache_utils.py`).
fn leaves_layers_out(r: &Resolution) -> bool {
    !r.stages.is_empty() && r.release() < Release::V0_23_0
}

/// The first byte that a page takes and the one behind its last, in which allocation, of how many bytes.
struct Span {
    allocation: usize,
    start: u64,
    end: u64,
    within: u64,
}

/// Where the layer's pages lie: in a block if all layers' pages of a block lie together, else in the whole allocation.
fn span(r: &Resolution, capacity: &Capacity, place: &LayerPlacement) -> Span {
    let page = page_bytes(r, place);
    let (end, within) = match r.kv_cache_layout {
        // each head's rows of all layers lie together: a page is spread over the block
        Some(KvCacheLayout::Bhlnc) => (place.offset, r.bytes_per_block),
        Some(layout) if layout.is_block_outermost() => (place.offset + page, r.bytes_per_block),
        // … or over all blocks
        Some(KvCacheLayout::Lhbnc) => (
            place.offset + page * capacity.num_blocks,
            capacity.allocated_bytes,
        ),
        Some(_) => {
            assert!(page <= place.block_stride);
            let last = place.block_stride * (capacity.num_blocks - 1);
            (place.offset + last + page, capacity.allocated_bytes)
        }
        None => (place.offset + page, place.block_stride),
    };
    Span {
        allocation: place.allocation,
        start: place.offset,
        end,
        within,
    }
}

/// A page as its group allocates it: one spec may stand for layers of several.
fn page_bytes(r: &Resolution, place: &LayerPlacement) -> u64 {
    let members = &r.groups[place.group].members;
    let own = members.iter().find(|member| member.layer == place.layer);
    match (own, members.as_slice()) {
        (Some(member), _) | (None, [member]) => member.page_size_bytes,
        (None, _) => panic!("{} is no member of its group", place.name),
    }
}

/// Bytes of all tensors: those that are views share one allocation.
fn allocated(tensors: &[TensorRow]) -> u64 {
    let sizes = tensors.iter().map(|row| match row {
        TensorRow::Run(run) => (true, run.size),
        TensorRow::Shared(row) => (row.block_stride.is_some_and(|stride| stride > 0), row.size),
    });
    let (views, own): (Vec<_>, Vec<_>) = sizes.partition(|(is_view, _)| *is_view);
    let shared = views.iter().map(|(_, size)| *size).max();
    shared.unwrap_or(0) + own.iter().map(|(_, size)| size).sum::<u64>()
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn every_layer_is_in_one_group(request in questions()) {
        let Ok(r) = resolve_quietly(&request) else { return Ok(()) };
        let placements = placements(&r);
        let names: BTreeSet<&str> = placements.iter().map(|place| place.name.as_str()).collect();
        prop_assert_eq!(names.len(), placements.len());
        let in_groups: usize = r.groups.iter().map(|group| group.layers).sum();
        if leaves_layers_out(&r) {
            prop_assert!(placements.len() <= in_groups);
            return Ok(());
        }
        prop_assert_eq!(in_groups, placements.len());
        for (index, group) in r.groups.iter().enumerate() {
            let placed = placements.iter().filter(|place| place.group == index).count();
            prop_assert_eq!(placed, group.layers);
            let members: usize = group.members.iter().map(|member| member.count).sum();
            prop_assert_eq!(members, group.layers);
        }
        // with stages the groups above are the first one's
        if r.stages.is_empty() {
            let rows: usize = r.layers.iter().map(|row| row.count).sum();
            prop_assert_eq!(rows, placements.len());
            for row in &r.layers {
                prop_assert!(names.contains(row.first.as_str()), "{}", row.first);
            }
        }
    }

    #[test]
    fn no_two_pages_of_a_group_overlap(request in questions()) {
        let Ok(r) = resolve_quietly(&request) else { return Ok(()) };
        let capacity = r.capacity.as_ref().expect("a pool was given");
        if capacity.num_blocks == 0 {
            return Ok(());
        }
        let placements = placements(&r);
        for group in 0..r.groups.len() {
            let of_group = placements.iter().filter(|place| place.group == group);
            let mut spans: Vec<Span> = of_group.map(|place| span(&r, capacity, place)).collect();
            spans.sort_by_key(|span| (span.allocation, span.start));
            for span in &spans {
                prop_assert!(span.end <= span.within);
            }
            for pair in spans.windows(2) {
                prop_assert!(pair[0].allocation != pair[1].allocation || pair[0].end <= pair[1].start);
            }
        }
    }

    #[test]
    fn a_groups_pages_fit_into_its_block(request in questions()) {
        let Ok(r) = resolve_quietly(&request) else { return Ok(()) };
        let capacity = r.capacity.as_ref().expect("a pool was given");
        for (index, group) in r.groups.iter().enumerate().filter(|(_, group)| group.layers > 0) {
            let pages = group.members.iter().map(|member| member.page_size_bytes * member.count as u64);
            let pages: u64 = pages.sum();
            prop_assert!(pages <= r.bytes_per_block);
            prop_assert_eq!(pages + group.padding_bytes, r.bytes_per_block);
            let Some(layout) = r.kv_cache_layout else { continue };
            let runs = capacity.tensors.iter().filter_map(|row| match row {
                TensorRow::Run(run) => Some(run),
                TensorRow::Shared(_) => None,
            });
            let mut end = 0;
            for run in runs.filter(|run| run.group == index) {
                prop_assert!(run.offset >= end);
                prop_assert_eq!(run.size, capacity.allocated_bytes);
                // numbered as the first of them is, and a drafter's by name
                prop_assert!(!run.layer_indices.is_empty());
                prop_assert_eq!(run.names().count(), run.layers);
                // a block holds every layer's page, or a layer every block's
                if layout.is_block_outermost() {
                    prop_assert_eq!(run.block_stride, r.bytes_per_block);
                } else {
                    prop_assert!(run.layer_stride >= run.block_stride * capacity.num_blocks);
                }
                end = run.offset + run.layer_stride * run.layers as u64;
            }
            let room = if layout.is_block_outermost() { r.bytes_per_block } else { capacity.allocated_bytes };
            prop_assert!(end <= room);
        }
    }

    #[test]
    fn what_is_allocated_are_the_tensors(request in questions()) {
        let Ok(r) = resolve_quietly(&request) else { return Ok(()) };
        let capacity = r.capacity.as_ref().expect("a pool was given");
        prop_assert_eq!(allocated(&capacity.tensors), capacity.allocated_bytes);
        for stage in &r.stages {
            prop_assert_eq!(Some(allocated(&stage.tensors)), stage.allocated_bytes);
        }
    }

    #[test]
    fn stages_share_out_the_layers(request in questions(), stages in 2_i64..9) {
        let mut request = request;
        request.args.pipeline_parallel_size = Some(stages);
        let Ok(r) = resolve_quietly(&request) else { return Ok(()) };
        prop_assert_eq!(i64::try_from(r.stages.len()), Ok(stages));
        let layers: usize = r.layers.iter().map(|row| row.count).sum();
        prop_assert_eq!(r.stages.iter().map(|stage| stage.layers).sum::<usize>(), layers);
        prop_assert_eq!(r.stages.iter().filter(|stage| stage.binds).count(), 1);
        let widest = r.stages.iter().map(|stage| stage.bytes_per_block).max();
        let capacity = r.capacity.as_ref().expect("a pool was given");
        let fewest = r.stages.iter().filter_map(|stage| stage.num_blocks).min();
        prop_assert_eq!(fewest, Some(capacity.num_blocks));
        prop_assert_eq!(r.stages[0].allocated_bytes, Some(capacity.allocated_bytes));
        prop_assert_eq!(&r.stages[0].tensors, &capacity.tensors);
        let mut next = 0;
        for stage in &r.stages {
            prop_assert_eq!(stage.start_layer, next);
            next = stage.end_layer;
            prop_assert_eq!(stage.groups.iter().sum::<usize>(), stage.layers);
            prop_assert_eq!(stage.groups.len(), r.groups.len());
            prop_assert!(stage.allocated_bytes <= request.available_memory);
            prop_assert!(!stage.binds || stage.num_blocks == fewest);
            prop_assert!(!stage.binds || Some(stage.bytes_per_block) == widest);
        }
        for group in 0..r.groups.len() {
            let in_stages: usize = r.stages.iter().map(|stage| stage.groups[group]).sum();
            prop_assert!(in_stages >= r.groups[group].layers);
        }
    }
}
