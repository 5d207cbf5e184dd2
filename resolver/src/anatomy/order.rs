//! The order in a page: heads or states first, and the blocks that kernels read.

use super::makings::RowMakings;
use super::spec_of;
use crate::Resolution;
use crate::backend::AttentionBackend as B;
use crate::backend::kernel_block::{Asking, KernelBlock, kernel_blocks};
use crate::backend::layer::LayerBackend;
use crate::layout::KvCacheLayout;
use crate::spec::deepseek_v4::KERNEL_BLOCK_SIZE;
use crate::spec::{LayerRole, SpecKind};

/// The order in a page.
pub(super) struct Order {
    /// Whether all states of a head lie together.
    pub heads_first: bool,
    /// Blocks that kernels read, in the page.
    pub kernel_blocks: u64,
}

/// The order in a page, or why it is not known.
pub(super) fn order(
    resolution: &Resolution,
    layer: usize,
    row: &RowMakings,
) -> Result<Order, &'static str> {
    let spec = &row.spec;
    let heads_first = match (resolution.kv_cache_layout, row.backend) {
        (Some(KvCacheLayout::Lbnhc | KvCacheLayout::Blnhc), _) => false,
        (Some(KvCacheLayout::Lhbnc | KvCacheLayout::Bhlnc), _) if spec.num_heads() <= 1 => true,
        (Some(KvCacheLayout::Lhbnc), _) => {
            return Err("LHBNC keeps all blocks of a head together, so a page is no run of bytes");
        }
        (Some(KvCacheLayout::Bhlnc), _) => {
            return Err("BHLNC keeps all layers of a head together, so a page is no run of bytes");
        }
        (None, Some(LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend))) => {
            match backend {
                // it tells no order, so the worker takes the logical one:
                // `vllm/v1/worker/gpu/attn_utils.py`
                B::Turboquant => true,
                B::FlexAttention => false,
                _ => resolution.makings.heads_first,
            }
        }
        (Some(KvCacheLayout::Lbhnc | KvCacheLayout::Blhnc) | None, _) => true,
    };
    Ok(Order {
        heads_first,
        kernel_blocks: split(resolution, layer, row)?,
    })
}

/// Kernel blocks in a page.
fn split(resolution: &Resolution, layer: usize, row: &RowMakings) -> Result<u64, &'static str> {
    let spec = &row.spec;
    if spec.kind == SpecKind::Mamba {
        return Ok(1);
    }
    if row.backend.is_none() {
        let kept = matches!(
            spec.role,
            LayerRole::C4 | LayerRole::C128 | LayerRole::Indexer
        );
        return if kept && spec.block_size != KERNEL_BLOCK_SIZE {
            Err(
                "DeepSeek V4's kernels read blocks of 256 tokens; what becomes of others is not modelled",
            )
        } else {
            Ok(1)
        };
    }
    let sizes = sizes_of_group(resolution, layer);
    let kernel = common(spec.block_size, &sizes)
        .ok_or("no kernel block divides the block, so the worker stops here")?;
    let parts = spec.block_size / kernel.max(1);
    let is_apart = resolution
        .kv_cache_layout
        .is_some_and(KvCacheLayout::is_block_outermost);
    if parts > 1 && is_apart {
        return Err("blocks with other layers' pages between them are not split for kernels");
    }
    Ok(parts.max(1))
}

/// The kernel blocks of each backend in the layer's group: they must agree.
fn sizes_of_group(resolution: &Resolution, layer: usize) -> Vec<Vec<KernelBlock>> {
    let target = resolution
        .makings
        .release
        .profile()
        .on(resolution.makings.arch);
    let with_it = resolution
        .groups
        .iter()
        .find(|group| group.members.iter().any(|member| member.layer == layer));
    let members = with_it.map_or(vec![layer], |group| {
        group.members.iter().map(|member| member.layer).collect()
    });
    let of = |member: usize| {
        let backend = resolution.makings.rows.get(member)?.backend?;
        let spec = spec_of(resolution, member)?;
        Some(kernel_blocks(backend, Asking::Layer(spec, target)))
    };
    members.into_iter().filter_map(of).collect()
}

/// The block that all kernels read, in tokens: the whole one, or the largest that
/// divides it. Mirrors `vllm/v1/worker/utils.py` `select_common_block_size`.
fn common(block: u64, sizes: &[Vec<KernelBlock>]) -> Option<u64> {
    let taken = |tokens: u64| {
        sizes.iter().all(|of_backend| {
            of_backend.is_empty()
                || of_backend.iter().any(|size| match size {
                    KernelBlock::Exact(exact) => *exact == tokens,
                    KernelBlock::MultipleOf(base) => tokens.is_multiple_of(*base),
                })
        })
    };
    if taken(block) {
        return Some(block);
    }
    let exact = sizes.iter().flatten().filter_map(|size| match size {
        KernelBlock::Exact(tokens) if block.is_multiple_of(*tokens) => Some(*tokens),
        KernelBlock::Exact(_) | KernelBlock::MultipleOf(_) => None,
    });
    exact.filter(|tokens| taken(*tokens)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_suits_every_kernel_of_the_group() {
        let indexer = vec![KernelBlock::Exact(64)];
        let any = vec![KernelBlock::MultipleOf(16)];
        let some = vec![KernelBlock::Exact(32), KernelBlock::Exact(64)];
        assert_eq!(common(64, &[indexer.clone(), any.clone()]), Some(64));
        assert_eq!(common(256, &[indexer.clone(), any.clone()]), Some(64));
        assert_eq!(common(96, &[some]), Some(32));
        assert_eq!(common(96, &[indexer]), None);
        assert_eq!(common(24, &[any]), None);
        assert_eq!(common(24, &[]), Some(24));
    }
}
