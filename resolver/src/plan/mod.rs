//! From layer specs to groups, blocks and a pool.

pub mod demand;
mod full_first;
pub(crate) mod groups;
mod lines;
mod packing;
mod paging;
mod pool;
mod side_by_side;
mod slots;
mod stages;

pub(crate) use lines::group_sizes;
pub(crate) use stages::{LayerRange, Misplaced};

use std::borrow::Cow;

use demand::Demand;
use groups::Group;
pub(crate) use pool::Sizing;
use pool::{Blocks, Held, Sized, StageSizing};
use slots::Slots;
use stages::Part;

use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout;
use crate::release::{BlockRule, CapacityLog, Profile};
use crate::resolution::{BytesPerToken, Capacity, GroupMember, GroupRow, StageRow, TensorRow};
use crate::spec::{LayerSpec, Layers};
use crate::trace::Trace;
use crate::units::{add, lcm, mul, round_up};

/// The plan, for a pool if one is given.
pub(crate) struct Plan {
    pub max_model_len: u64,
    pub bytes_per_block: u64,
    pub reported_block_size: u64,
    pub marginal_bytes_per_token: BytesPerToken,
    pub fixed_bytes_per_request: u64,
    pub request_bytes: u64,
    pub groups: Vec<GroupRow>,
    pub capacity: Option<Capacity>,
    /// Of a pipeline.
    pub stages: Vec<StageRow>,
    /// What another pool would come to.
    pub sizing: Sizing,
    /// The first stage, from 1, whose tensors are not its layers'.
    pub misplaced: Option<(usize, Misplaced)>,
}

/// Groups the layers, sizes each stage's block and fills the pools. `layout` is
/// `None` in releases that have no such concept.
pub(crate) fn plan(
    layers: &mut Layers,
    ranges: &[LayerRange],
    layout: Option<KvCacheLayout>,
    config: &EngineConfig,
    profile: &Profile,
    pool_bytes: Option<u64>,
    trace: &mut Trace,
) -> Result<Plan, Box<Refusal>> {
    if let Some(speculation) = &config.speculation {
        // `get_global_kv_cache_groups`
        for spec in layers.specs.iter_mut().filter(|spec| spec.kind.is_window()) {
            spec.extra_retained_tokens = speculation.extra_retained_tokens;
        }
    }
    let groups = lines::split(layers, layout, config, profile, pool_bytes, trace)?;
    let layers = &*layers;
    let demands = demands(layers, &groups, config, profile)?;
    let parts = parts(layers, &groups, ranges, layout, profile, trace)?;
    let sizing = Sizing {
        max_model_len: config.max_model_len,
        auto_fit: config.auto_fit,
        num_gpu_blocks_override: config.num_gpu_blocks_override,
        reserves_null_block: profile.reserves_null_block,
        texts: profile.memory_texts,
        auto_fit_log: profile.auto_fit_log,
        stages: parts
            .iter()
            .map(|part| part.sizing(layout, profile))
            .collect(),
        demands,
    };
    let demands = &sizing.demands;
    let blocks: Vec<Blocks> = sizing
        .stages
        .iter()
        .map(|stage| stage.blocks(demands))
        .collect();
    let Some((part, first)) = parts.first().zip(blocks.first()) else {
        return Err(Refusal::not_modelled("a model without stages"));
    };
    let sized = if let Some(pool) = pool_bytes {
        if sizing.has_memory(pool)? || config.auto_fit {
            check_demand(layers, &groups, config)?;
        }
        Some(sizing.size(pool, profile.files.planner, trace)?)
    } else {
        check_demand(layers, &groups, config)?;
        None
    };
    let max_model_len = sized
        .as_ref()
        .map_or(config.max_model_len, |sized| sized.max_model_len);
    let figures = Figures::new(first)?;
    let groups_rows = rows(layers, &part.groups, first, &figures, max_model_len)?;
    let capacity = sized
        .as_ref()
        .map(|sized| {
            let (printed, metric) = pool::capacity(profile, &groups_rows, sized, trace)?;
            Ok::<_, Box<Refusal>>(Capacity {
                num_blocks: sized.num_blocks,
                allocated_bytes: part.block.allocated_bytes(sized.num_blocks)?,
                capacity_tokens: metric.map(|metric| metric.tokens),
                max_concurrency: metric.unwrap_or(printed).concurrency,
                printed_tokens: printed.tokens,
                printed_concurrency: printed.shown(),
                auto_fit_line: sized.auto_fit_line.clone(),
                requests: pool::whole_blocks(&groups_rows, sized)?.shown(),
                log_line: log_lines(
                    layers,
                    (&parts, &blocks),
                    &figures,
                    (sized, printed),
                    profile,
                )?,
                tensors: part
                    .block
                    .tensors(layers, &part.groups, sized.num_blocks, profile)?,
            })
        })
        .transpose()?;
    lines::capacity(capacity.as_ref(), trace);
    let stages = stage_rows(
        layers,
        (&parts, &blocks),
        sized.as_ref(),
        max_model_len,
        profile,
    )?;
    Ok(Plan {
        max_model_len,
        bytes_per_block: first.bytes_per_block,
        reported_block_size: demands.iter().map(|d| d.block_size()).min().unwrap_or(0),
        marginal_bytes_per_token: figures.marginal,
        fixed_bytes_per_request: figures.fixed,
        request_bytes: first.request_bytes(max_model_len)?,
        groups: groups_rows,
        capacity,
        stages,
        misplaced: (1_usize..)
            .zip(&parts)
            .find_map(|(number, part)| Some((number, part.misplaced()?))),
        sizing,
    })
}

/// The lines on capacity: through 0.27 each worker's, once where they are the same.
fn log_lines(
    layers: &Layers,
    (parts, blocks): (&[Part], &[Blocks]),
    figures: &Figures,
    (sized, first): (&Sized, Held),
    profile: &Profile,
) -> Result<String, Box<Refusal>> {
    let log = profile.capacity_log;
    let lines_of = |held: Held| log.lines(held.tokens, sized.max_model_len, &held.shown());
    let mut lines = lines_of(first);
    let others = match log {
        CapacityLog::TwoLines => parts.len().saturating_sub(1),
        CapacityLog::OneLine => 0,
    };
    for (part, blocks) in parts.iter().zip(blocks).skip(1).take(others) {
        let rows = rows(layers, &part.groups, blocks, figures, sized.max_model_len)?;
        let (printed, _) = pool::capacity(profile, &rows, sized, &mut Trace::silent())?;
        for line in lines_of(printed) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    Ok(lines.join("\n"))
}

/// The stages, where there are several.
fn stage_rows(
    layers: &Layers,
    (parts, blocks): (&[Part], &[Blocks]),
    sized: Option<&Sized>,
    max_model_len: u64,
    profile: &Profile,
) -> Result<Vec<StageRow>, Box<Refusal>> {
    if parts.len() == 1 {
        return Ok(Vec::new());
    }
    let widest = blocks.iter().map(|blocks| blocks.bytes_per_block).max();
    let mut stages = blocks.iter();
    let binding = stages.position(|blocks| Some(blocks.bytes_per_block) == widest);
    let stages = parts.iter().zip(blocks).enumerate();
    stages
        .map(|(number, (part, blocks))| {
            let fitting =
                sized.and_then(|sized| Some((*sized.fitting.get(number)?, sized.num_blocks)));
            let binds = binding == Some(number);
            part.row(layers, blocks, max_model_len, binds, fitting, profile)
        })
        .collect()
}

/// Each stage's part of the groups, and its block.
fn parts<'a>(
    layers: &Layers,
    groups: &'a [Group],
    ranges: &'a [LayerRange],
    layout: Option<KvCacheLayout>,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Vec<Part<'a>>, Box<Refusal>> {
    ranges
        .iter()
        .enumerate()
        .map(|(stage, range)| {
            let (groups, number) = if ranges.len() == 1 {
                (Cow::Borrowed(groups), None)
            } else {
                (Cow::Owned(stages::project(groups, stage)), Some(stage + 1))
            };
            let block = Block::new(layers, &groups, layout, number, profile, trace)?;
            Ok(Part {
                range,
                stage,
                groups,
                block,
            })
        })
        .collect()
}

/// A block, by the era that laid it out.
enum Block {
    /// Since 0.29.
    SideBySide { bytes: u64, layout: KvCacheLayout },
    /// Through 0.28.
    Slots(Slots),
}

impl Block {
    fn new(
        layers: &Layers,
        groups: &[Group],
        layout: Option<KvCacheLayout>,
        stage: Option<usize>,
        profile: &Profile,
        trace: &mut Trace,
    ) -> Result<Self, Box<Refusal>> {
        let (block, how) = match (profile.block_rule, layout) {
            (BlockRule::SideBySide, Some(layout)) => {
                let bytes = side_by_side::bytes_per_block(layers, groups, layout, profile)?;
                let block = Self::SideBySide { bytes, layout };
                (
                    block,
                    (
                        "_get_kv_cache_bytes_per_block",
                        "the widest group's pages, side by side",
                    ),
                )
            }
            (BlockRule::SideBySide, None) => {
                return Err(Refusal::not_modelled("a block without a layout"));
            }
            (BlockRule::Slots(rule), _) => (
                Self::Slots(Slots::new(layers, groups, rule)?),
                rule.explain(),
            ),
        };
        let (function, what) = how;
        trace.step(Stage::Plan, profile.files.planner, function, || {
            // the block has been counted from the same pages
            let widest = groups::widest(layers, groups).unwrap_or(0);
            let rounded = if block.bytes() > widest && matches!(block, Self::SideBySide { .. }) {
                format!(", {widest} B, rounded up to whole rows or kernel blocks")
            } else {
                String::new()
            };
            let whose = match stage {
                None => "a block has".to_owned(),
                Some(number) => format!("on stage {number} a block has"),
            };
            format!("{whose} {} B: {what}{rounded}", block.bytes())
        });
        Ok(block)
    }

    const fn bytes(&self) -> u64 {
        match self {
            Self::SideBySide { bytes, .. } => *bytes,
            Self::Slots(slots) => slots.bytes_per_block,
        }
    }

    /// What sizes follow from.
    const fn sizing(&self, empty: Option<Box<Refusal>>) -> StageSizing {
        let (bytes_per_block, checked_bytes_per_block, pool_bytes_per_block) = match self {
            Self::SideBySide { bytes, .. } => (*bytes, *bytes, *bytes),
            Self::Slots(slots) => (
                slots.bytes_per_block,
                slots.checked_bytes_per_block,
                slots.pool_bytes_per_block,
            ),
        };
        StageSizing {
            bytes_per_block,
            checked_bytes_per_block,
            pool_bytes_per_block,
            empty,
        }
    }

    /// Bytes of all tensors, of which a stage without layers has none.
    fn allocated_bytes(&self, num_blocks: u64) -> Result<u64, Box<Refusal>> {
        match self {
            Self::Slots(slots) if slots.is_empty() => Ok(0),
            Self::SideBySide { .. } | Self::Slots(_) => mul(num_blocks, self.bytes()),
        }
    }

    fn tensors(
        &self,
        layers: &Layers,
        groups: &[Group],
        num_blocks: u64,
        profile: &Profile,
    ) -> Result<Vec<TensorRow>, Box<Refusal>> {
        Ok(match self {
            Self::SideBySide { bytes, layout } => {
                side_by_side::tensors(layers, groups, *layout, *bytes, num_blocks)?
                    .into_iter()
                    .map(TensorRow::Run)
                    .collect()
            }
            Self::Slots(slots) => slots
                .tensors(layers, num_blocks, profile.one_backing)?
                .into_iter()
                .map(TensorRow::Shared)
                .collect(),
        })
    }
}

/// Each group's demand: its layers agree, as they share a block table.
fn demands(
    layers: &Layers,
    groups: &[Group],
    config: &EngineConfig,
    profile: &Profile,
) -> Result<Vec<Demand>, Box<Refusal>> {
    // through 0.25 ranks of prefill share the cache too
    let ranks = if profile.context.shards_over_prefill {
        mul(
            config.decode_context_parallel_size,
            config.context.prefill_ranks,
        )?
    } else {
        config.decode_context_parallel_size
    };
    groups
        .iter()
        .filter_map(|group| group.spec(layers))
        .map(|spec| Demand::of(spec, config.max_in_flight_tokens, ranks))
        .collect()
}

/// What vLLM trips over when it asks each layer for its demand, in its order.
fn check_demand(
    layers: &Layers,
    groups: &[Group],
    config: &EngineConfig,
) -> Result<(), Box<Refusal>> {
    for group in groups {
        for (spec, _) in &group.by_spec {
            let spec = &layers.specs[*spec];
            if spec.kind.is_window() && config.decode_context_parallel_size > 1 {
                return Err(Box::new(Refusal::WindowUnderDcp));
            }
            if spec.page_size_bytes()? == 0 {
                return Err(Box::new(Refusal::ZeroDivision));
            }
        }
    }
    Ok(())
}

/// The headline figures, as the design defines them.
struct Figures {
    marginal: BytesPerToken,
    fixed: u64,
    /// A period of all groups' blocks, in tokens.
    period: u64,
    /// A multiple of the period past every window's reach.
    beyond: u64,
}

impl Figures {
    fn new(blocks: &Blocks) -> Result<Self, Box<Refusal>> {
        let mut period = 1;
        let mut reach = 0;
        for demand in blocks.demands {
            period = lcm(period, demand.period()?)?;
            reach = reach.max(demand.reach());
        }
        let beyond = round_up(reach.max(1), period)?;
        let mut per_period = 0;
        for demand in blocks.demands {
            per_period = add(per_period, demand.blocks_per(period)?)?;
        }
        let slope = mul(per_period, blocks.bytes_per_block)?;
        let fixed = fixed(blocks.request_bytes(beyond)?, slope, beyond / period)?;
        Ok(Self {
            marginal: BytesPerToken {
                bytes: slope,
                tokens: period,
            },
            fixed,
            period,
            beyond,
        })
    }
}

/// What is left of the bytes without so many periods, of which they are never less.
fn fixed(bytes: u64, slope: u64, periods: u64) -> Result<u64, Box<Refusal>> {
    let rest = bytes.checked_sub(mul(slope, periods)?);
    Ok(rest.ok_or(Refusal::TooLarge)?)
}

fn rows(
    layers: &Layers,
    groups: &[Group],
    blocks: &Blocks,
    figures: &Figures,
    max_model_len: u64,
) -> Result<Vec<GroupRow>, Box<Refusal>> {
    groups
        .iter()
        .zip(blocks.demands)
        .map(|(group, demand)| {
            let all_pages = group.all_pages(layers, LayerSpec::page_size_bytes)?;
            let page_size_bytes = match group.merged {
                Some(spec) => spec.page_size_bytes()?,
                None => group.spec_pages(layers, LayerSpec::page_size_bytes)?,
            };
            let blocks_per_request = demand.blocks(max_model_len)?;
            let slope = mul(demand.blocks_per(figures.period)?, blocks.bytes_per_block)?;
            let at_beyond = mul(demand.blocks(figures.beyond)?, blocks.bytes_per_block)?;
            let members = group
                .by_spec
                .iter()
                .map(|(spec, members)| {
                    Ok(GroupMember {
                        layer: *spec,
                        role: layers.specs[*spec].role,
                        // of a stage's empty part the spec alone is left
                        count: if group.layers.is_empty() {
                            0
                        } else {
                            members.len()
                        },
                        page_size_bytes: layers.specs[*spec].page_size_bytes()?,
                    })
                })
                .collect::<Result<_, Box<Refusal>>>()?;
            Ok(GroupRow {
                kind: group.kind(),
                block_size: demand.block_size(),
                layers: group.layers.len(),
                first: group
                    .layers
                    .first()
                    .map(|layer| layers.name(*layer))
                    .unwrap_or_default(),
                page_size_bytes,
                blocks_per_request,
                padding_bytes: blocks.bytes_per_block.saturating_sub(all_pages),
                request_bytes: mul(blocks_per_request, blocks.bytes_per_block)?,
                marginal_bytes_per_token: BytesPerToken {
                    bytes: slope,
                    tokens: figures.period,
                },
                fixed_bytes_per_request: fixed(at_beyond, slope, figures.beyond / figures.period)?,
                members,
                demand: *demand,
            })
        })
        .collect()
}
