//! What of the model's groups each stage of a pipeline has.

use std::borrow::Cow;

use super::groups::Group;
use super::pool::{Blocks, StageSizing};
use super::{Block, side_by_side};
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout;
use crate::release::{BlockRule, Profile, SlotRule};
use crate::resolution::StageRow;
use crate::spec::{Layer, Layers};

/// The decoder layers of a stage.
pub(crate) type LayerRange = std::ops::Range<u64>;

/// The part of each group that the stage has, perhaps none. Where
/// pages differ, an empty part keeps the whole group's spec.
/// Mirrors `_project_kv_cache_groups_to_worker`.
pub(super) fn project(groups: &[Group], stage: usize) -> Vec<Group> {
    groups
        .iter()
        .map(|group| {
            let of_stage = |layer: &&Layer| layer.stage == stage;
            let layers: Vec<Layer> = group.layers.iter().filter(of_stage).copied().collect();
            match group.merged {
                Some(spec) => Group::merged(spec, layers),
                None if layers.is_empty() => Group {
                    layers,
                    ..group.clone()
                },
                None => Group::uniform_type(layers),
            }
        })
        .collect()
}

/// Whether the stage has no layer with a cache.
pub(super) fn is_empty(groups: &[Group]) -> bool {
    groups.iter().all(|group| group.layers.is_empty())
}

/// What stops a stage without any layer that has a cache, when its blocks are
/// counted. Mirrors `get_kv_cache_config_from_groups`.
pub(super) fn no_blocks(
    groups: &[Group],
    layout: Option<KvCacheLayout>,
    profile: &Profile,
) -> Box<Refusal> {
    let raise = |message: &str| Refusal::raised(Stage::Plan, "AssertionError", message);
    let several = groups.iter().any(|group| group.merged.is_some());
    match profile.block_rule {
        BlockRule::SideBySide => layout.map_or_else(
            || Box::new(Refusal::ZeroDivision),
            |layout| side_by_side::no_blocks(groups, layout),
        ),
        BlockRule::Slots(_) if several => raise("group_size must be greater than 0"),
        BlockRule::Slots(SlotRule::ByOffset) => raise(""),
        BlockRule::Slots(SlotRule::ByPageSize) => Box::new(Refusal::ZeroDivision),
        // Python's words for an empty `max` depend on its version
        BlockRule::Slots(SlotRule::LayerTuples) => Refusal::not_modelled(
            "a stage without layers that have a cache is not modelled on this release",
        ),
    }
}

/// Tensors of a stage that are not its layers': its worker stops over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// A group without a layer here has its tensors all the same (since 0.29).
    /// Mirrors `vllm/v1/worker/utils.py` `allocate_kv_cache`.
    Absent,
    /// Pages that no full-attention layer here has get none (through 0.22).
    /// Mirrors `vllm/v1/worker/gpu_model_runner.py` `_allocate_kv_cache_tensors`.
    LeftOut,
}

/// One stage's blocks.
pub(super) struct Part<'a> {
    pub range: &'a LayerRange,
    pub stage: usize,
    pub groups: Cow<'a, [Group]>,
    pub block: Block,
}

impl Part<'_> {
    /// What its worker will stop over, if anything.
    pub fn misplaced(&self) -> Option<Misplaced> {
        match &self.block {
            Block::SideBySide { .. } => {
                let is_left = |group: &Group| group.layers.is_empty() && !group.by_spec.is_empty();
                self.groups.iter().any(is_left).then_some(Misplaced::Absent)
            }
            Block::Slots(slots) => {
                let layers: usize = self.groups.iter().map(|group| group.layers.len()).sum();
                (slots.layers() < layers).then_some(Misplaced::LeftOut)
            }
        }
    }

    /// What its pool's size comes to.
    pub fn sizing(&self, layout: Option<KvCacheLayout>, profile: &Profile) -> StageSizing {
        let is_empty = self.block.bytes() == 0;
        let empty = is_empty.then(|| no_blocks(&self.groups, layout, profile));
        self.block.sizing(empty)
    }

    /// The stage as an answer has it. `fitting` are the blocks that fit on it,
    /// and those that all stages take.
    pub fn row(
        &self,
        layers: &Layers,
        blocks: &Blocks,
        max_model_len: u64,
        binds: bool,
        fitting: Option<(u64, u64)>,
        profile: &Profile,
    ) -> Result<StageRow, Box<Refusal>> {
        let own = layers.of_stage(self.stage);
        let first = own.list.first();
        Ok(StageRow {
            start_layer: self.range.start,
            end_layer: self.range.end,
            layers: own.list.len(),
            first: first.map(|layer| own.name(*layer)),
            groups: self.groups.iter().map(|group| group.layers.len()).collect(),
            bytes_per_block: blocks.bytes_per_block,
            request_bytes: blocks.request_bytes(max_model_len)?,
            binds,
            num_blocks: fitting.map(|(own, _)| own),
            allocated_bytes: fitting
                .map(|(_, all)| self.block.allocated_bytes(all))
                .transpose()?,
            tensors: match fitting {
                Some((_, all)) => self.block.tensors(layers, &self.groups, all, profile)?,
                None => Vec::new(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::TorchDtype;
    use crate::spec::{LayerRole, LayerSpec, SpecKind};

    #[test]
    fn an_empty_part_keeps_the_spec_of_a_group_whose_pages_differ() {
        let mut layers = Layers::new("model.layers");
        for index in 0..4 {
            let spec = LayerSpec {
                head_size: 64 * (1 + u64::from(index % 2)),
                ..LayerSpec::plain(
                    LayerRole::Mla,
                    SpecKind::MlaAttention,
                    16,
                    TorchDtype::Bfloat16,
                )
            };
            layers.push(index, "attn", spec);
        }
        layers.list[1].stage = 1;
        let group = Group::uniform_type(layers.list.clone());
        let parts = project(std::slice::from_ref(&group), 1);
        assert_eq!(parts[0].layers.len(), 1);
        assert_eq!(parts[0].by_spec.len(), 1);
        let parts = project(&[group], 2);
        assert!(is_empty(&parts));
        assert_eq!(parts[0].by_spec.len(), 2);
    }
}
