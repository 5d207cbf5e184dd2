//! From layer specs to groups, blocks and a pool.

pub mod demand;
pub(crate) mod groups;
mod packing;
mod paging;
mod pool;

use demand::Demand;
use groups::Group;
use pool::Blocks;

use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout;
use crate::release::Profile;
use crate::resolution::{
    BytesPerToken, Capacity, GroupMember, GroupRow, TensorRow, capacity_log_line,
};
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
}

/// Groups the layers, sizes the block and fills the pool.
pub(crate) fn plan(
    layers: &mut Layers,
    layout: KvCacheLayout,
    config: &EngineConfig,
    profile: &Profile,
    pool_bytes: Option<u64>,
    trace: &mut Trace,
) -> Result<Plan, Box<Refusal>> {
    let groups = groups::split(layers, layout, config, profile, trace)?;
    let bytes_per_block = bytes_per_block(layers, &groups, layout, trace)?;
    let demands = demands(layers, &groups, config)?;
    let blocks = Blocks {
        bytes_per_block,
        demands: &demands,
    };
    let sized = if let Some(pool) = pool_bytes {
        // vLLM looks at what is left before it looks at the layers
        let any_left = config
            .num_gpu_blocks_override
            .map_or(pool > bytes_per_block, |count| count > 1);
        if any_left || config.auto_fit {
            check_demand(layers, &groups, config)?;
        }
        Some(pool::size(config, &blocks, pool, trace)?)
    } else {
        check_demand(layers, &groups, config)?;
        None
    };
    let max_model_len = sized.map_or(config.max_model_len, |sized| sized.max_model_len);
    let figures = Figures::new(&blocks)?;
    let groups_rows = rows(layers, &groups, &blocks, &figures, max_model_len)?;
    let capacity = sized
        .map(|sized| {
            let per_request = blocks.per_request(max_model_len)?;
            let (tokens, concurrency) = pool::capacity(sized.num_blocks, per_request, max_model_len);
            let printed = format!("{concurrency:.2}");
            let allocated = mul(sized.num_blocks, bytes_per_block)?;
            let line = capacity_log_line(tokens, max_model_len, &printed);
            trace.step(
                Stage::Plan,
                "vllm/v1/core/kv_cache_utils.py",
                "get_kv_cache_capacity",
                || {
                    format!(
                        "{} blocks / {per_request} blocks per request = {printed} requests; times {max_model_len} tokens = {tokens}",
                        sized.num_blocks
                    )
                },
            );
            Ok::<_, Box<Refusal>>(Capacity {
                num_blocks: sized.num_blocks,
                allocated_bytes: allocated,
                capacity_tokens: tokens,
                max_concurrency: concurrency,
                printed_tokens: tokens,
                printed_concurrency: printed,
                log_line: line,
                tensors: tensors(layers, &groups, layout, bytes_per_block, sized.num_blocks)?,
            })
        })
        .transpose()?;
    Ok(Plan {
        max_model_len,
        bytes_per_block,
        reported_block_size: demands.iter().map(|d| d.block_size()).min().unwrap_or(0),
        marginal_bytes_per_token: figures.marginal,
        fixed_bytes_per_request: figures.fixed,
        request_bytes: blocks.request_bytes(max_model_len)?,
        groups: groups_rows,
        capacity,
    })
}

/// The widest group's pages, side by side. Mirrors `_get_kv_cache_bytes_per_block`
/// and `validate_kv_cache_layout`.
fn bytes_per_block(
    layers: &Layers,
    groups: &[Group],
    layout: KvCacheLayout,
    trace: &mut Trace,
) -> Result<u64, Box<Refusal>> {
    let pages = paging::page_sizes(layers)?;
    if pages.len() > 1
        && (!layout.is_block_compact() || (groups.len() > 1 && layout.is_layer_outermost()))
    {
        let pages: Vec<String> = pages.iter().map(u64::to_string).collect();
        return Err(Refusal::raised(
            Stage::Plan,
            "ValueError",
            format!(
                "KV cache layout {layout} cannot express this model's mixed page sizes ([{}]); a \
                 backend should declare block-outermost supported layouts (e.g. BLHNC), or set \
                 VLLM_KV_CACHE_LAYOUT=BLHNC.",
                pages.join(", ")
            ),
        ));
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
        for (spec, _) in group.by_spec.iter().filter(|_| layout.is_block_outermost()) {
            alignment = lcm(alignment, layers.specs[*spec].block_stride_alignment()?)?;
        }
    }
    let bytes = round_up(widest, alignment)?;
    if bytes == 0 {
        return Err(Box::new(Refusal::ZeroDivision));
    }
    trace.step(
        Stage::Plan,
        groups::FILE,
        "_get_kv_cache_bytes_per_block",
        || format!("a block has {bytes} B: the widest group's pages, side by side"),
    );
    Ok(bytes)
}

/// Each group's demand: its layers agree, as they share a block table.
fn demands(
    layers: &Layers,
    groups: &[Group],
    config: &EngineConfig,
) -> Result<Vec<Demand>, Box<Refusal>> {
    groups
        .iter()
        .filter_map(|group| group.spec(layers))
        .map(|spec| {
            Demand::of(
                spec,
                config.max_in_flight_tokens,
                config.decode_context_parallel_size,
            )
        })
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

fn fixed(bytes: u64, slope: u64, periods: u64) -> Result<u64, Box<Refusal>> {
    Ok(bytes.saturating_sub(mul(slope, periods)?))
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
                None => all_pages,
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
                        count: members.len(),
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

/// Where each page lies: groups alias from byte 0, for a block belongs to one
/// of them at a time. Mirrors `get_kv_cache_config_from_groups` and
/// `compute_layout_strides`.
fn tensors(
    layers: &Layers,
    groups: &[Group],
    layout: KvCacheLayout,
    bytes_per_block: u64,
    num_blocks: u64,
) -> Result<Vec<TensorRow>, Box<Refusal>> {
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
            let first = of_spec.first();
            rows.push(TensorRow {
                group,
                layer: *spec,
                layers: of_spec.len(),
                layer_indices: of_spec.iter().map(|layer| layer.index).collect(),
                name_prefix: layers.prefix,
                name_suffix: first.map_or("", |layer| layer.suffix),
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
