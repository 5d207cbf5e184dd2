//! The resolver's plan, as memory obeys it.

use kv_resolver::plan::demand::Demand;
use kv_resolver::spec::LayerRole;
use kv_resolver::{Release, Resolution};

use crate::error::{FormatError, PlanError};
use crate::format::RowFormat;

/// Where one layer's pages lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPlace {
    /// The layer's name in the model.
    pub name: String,
    /// What it stores.
    pub role: LayerRole,
    /// Its kind: index into [`PoolPlan::kinds`].
    pub kind: usize,
    /// Its group: index into [`PoolPlan::groups`].
    pub group: usize,
    /// Bytes from the start of the allocation to block 0's page.
    pub offset: u64,
    /// Bytes from one block's page to the next.
    pub block_stride: u64,
    /// Bytes of one page.
    pub page_bytes: u64,
}

impl LayerPlace {
    /// Bytes from the start of the allocation to this block's page.
    #[must_use]
    pub const fn page_offset(&self, block: u64) -> u64 {
        self.offset + block * self.block_stride
    }
}

/// What layers of one spec keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerKind {
    /// What they store.
    pub role: LayerRole,
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Tokens that one stored state covers.
    pub tokens_per_state: u64,
    /// Stored states in a page.
    pub states_per_block: u64,
    /// How a row is stored, or why there is no writer.
    pub format: Result<RowFormat, FormatError>,
}

/// When a group's blocks are given back before their request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Every token keeps its block.
    All,
    /// So many computed tokens keep theirs.
    Last {
        /// Tokens.
        tokens: u64,
    },
    /// Those of the current chunk keep theirs.
    Chunk {
        /// Tokens of a chunk.
        tokens: u64,
    },
}

impl Keeps {
    /// Tokens that nothing reads any more, of so many computed.
    /// Mirrors `vllm/v1/core/single_type_kv_cache_manager.py` `get_num_skipped_tokens`.
    #[must_use]
    pub const fn skipped(self, computed_tokens: u64) -> u64 {
        match self {
            Self::All => 0,
            Self::Last { tokens } => computed_tokens.saturating_sub(tokens),
            Self::Chunk { tokens } => match computed_tokens.checked_div(tokens) {
                Some(chunks) => chunks * tokens,
                None => 0,
            },
        }
    }
}

/// Layers that share a block table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPlan {
    /// Tokens in a block.
    pub tokens_per_block: u64,
    /// What its requests keep.
    pub keeps: Keeps,
}

/// Everything that memory needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// The release whose plan it is.
    pub release: Release,
    /// Bytes of the one allocation.
    pub allocated_bytes: u64,
    /// Blocks, the null block among them.
    pub num_blocks: u64,
    /// Bytes of one block.
    pub bytes_per_block: u64,
    /// The kinds of layers, in the order of the answer's `layers`.
    pub kinds: Vec<LayerKind>,
    /// The groups, in vLLM's order.
    pub groups: Vec<GroupPlan>,
    /// Every layer's place, in the order of the answer's `tensors`.
    pub layers: Vec<LayerPlace>,
}

impl PoolPlan {
    /// The answer's plan.
    pub fn new(resolution: &Resolution) -> Result<Self, PlanError> {
        let capacity = resolution.capacity.as_ref().ok_or(PlanError::NoPool)?;
        if !resolution.stages.is_empty() {
            let stages = resolution.stages.len();
            return Err(PlanError::ManyStages { stages });
        }
        let placements = resolution.placements();
        let last = placements.iter().map(|place| place.allocation).max();
        if let Some(allocations) = last.filter(|last| *last > 0) {
            let allocations = allocations + 1;
            return Err(PlanError::ManyAllocations { allocations });
        }
        let kinds: Vec<LayerKind> = resolution
            .anatomy()
            .iter()
            .map(|kind| LayerKind {
                role: resolution.layers[kind.layer].role,
                page_bytes: kind.page.bytes,
                tokens_per_state: u64::try_from(resolution.layers[kind.layer].tokens_per_state)
                    .unwrap_or(0),
                states_per_block: kind.page.states,
                format: RowFormat::new(resolution, kind),
            })
            .collect();
        let layers = placements
            .into_iter()
            .map(|place| LayerPlace {
                name: place.name,
                role: kinds[place.layer].role,
                kind: place.layer,
                group: place.group,
                offset: place.offset,
                block_stride: place.block_stride,
                page_bytes: kinds[place.layer].page_bytes,
            })
            .collect();
        let plan = Self {
            release: resolution.release(),
            allocated_bytes: capacity.allocated_bytes,
            num_blocks: capacity.num_blocks,
            bytes_per_block: resolution.bytes_per_block,
            kinds,
            groups: groups(resolution)?,
            layers,
        };
        plan.check()?;
        Ok(plan)
    }

    /// The layer of this name.
    #[must_use]
    pub fn layer(&self, name: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.name == name)
    }

    /// The plan as lines, the same for the same plan: the allocation, then each layer.
    #[must_use]
    pub fn lines(&self) -> String {
        use std::fmt::Write as _;
        let mut text = format!(
            "allocation {} {} {}\n",
            self.allocated_bytes, self.num_blocks, self.bytes_per_block
        );
        for layer in &self.layers {
            let _ = writeln!(
                text,
                "{} {} {} {} {}",
                layer.name, layer.group, layer.offset, layer.block_stride, layer.page_bytes
            );
        }
        text
    }

    /// Every page is inside, and those of one block are apart.
    fn check(&self) -> Result<(), PlanError> {
        let last = self.num_blocks.saturating_sub(1);
        for layer in &self.layers {
            let end = last
                .checked_mul(layer.block_stride)
                .and_then(|to_last| to_last.checked_add(layer.offset))
                .and_then(|start| start.checked_add(layer.page_bytes));
            let allocated = self.allocated_bytes;
            if end.is_none_or(|end| end > allocated) {
                return Err(PlanError::Outside {
                    layer: layer.name.clone(),
                    block: last,
                    end: end.unwrap_or(u64::MAX),
                    allocated,
                });
            }
        }
        for group in 0..self.groups.len() {
            let mut layers: Vec<&LayerPlace> = self.layers.iter().collect();
            layers.retain(|layer| layer.group == group);
            layers.sort_by_key(|layer| layer.offset);
            for pair in layers.windows(2) {
                let [first, second] = pair else { continue };
                if !apart(first, second, self.num_blocks) {
                    return Err(PlanError::Overlap {
                        first: first.name.clone(),
                        second: second.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether no page of the first, which begins earlier, meets one of the second.
fn apart(first: &LayerPlace, second: &LayerPlace, num_blocks: u64) -> bool {
    let away = second.offset - first.offset;
    // side by side in every block, or each in a region of its own
    let in_block = first.block_stride == second.block_stride
        && away >= first.page_bytes
        && away + second.page_bytes <= first.block_stride;
    let last = num_blocks.saturating_sub(1) * first.block_stride;
    in_block || away >= last + first.page_bytes
}

fn groups(resolution: &Resolution) -> Result<Vec<GroupPlan>, PlanError> {
    let groups = resolution.groups.iter().enumerate();
    groups
        .map(|(number, group)| {
            let (tokens_per_block, keeps) = match group.demand {
                Demand::Full { block_size, ranks } => (block_size * ranks, Keeps::All),
                Demand::Window {
                    block_size,
                    reach,
                    in_flight,
                } => {
                    let tokens = reach.saturating_sub(in_flight);
                    (block_size, Keeps::Last { tokens })
                }
                Demand::Chunk {
                    block_size,
                    reach,
                    in_flight,
                } => {
                    let tokens = reach.saturating_sub(in_flight);
                    (block_size, Keeps::Chunk { tokens })
                }
                Demand::Constant { .. } => {
                    let kind = group.kind.as_str();
                    return Err(PlanError::Group {
                        group: number,
                        kind,
                    });
                }
            };
            Ok(GroupPlan {
                tokens_per_block,
                keeps,
            })
        })
        .collect()
}
