//! What the worker refuses when it makes views of the cache, after the plan.

use super::super::{LayerSpec, Layers, SpecKind};
use crate::backend::kernel_block::{Asking, KernelBlock, kernel_blocks};
use crate::backend::layer::LayerBackend;
use crate::backend::rules::Target;
use crate::error::Refusal;
use crate::layout::KvCacheLayout;
use crate::resolution::Note;

/// Whether a kernel reads blocks of another size than the layer's.
#[derive(Debug, PartialEq, Eq)]
enum Kernel {
    /// It reads them whole.
    Whole,
    /// They are split into such.
    Split(u64),
    /// They cannot be split into any.
    Misfit,
}

/// Mirrors `vllm/v1/worker/utils.py` `select_common_block_size`, for one backend.
fn kernel(block: u64, sizes: &[KernelBlock]) -> Kernel {
    let whole = sizes.iter().any(|size| match size {
        KernelBlock::Exact(tokens) => *tokens == block,
        KernelBlock::MultipleOf(base) => block.is_multiple_of(*base),
    });
    if whole || sizes.is_empty() {
        return Kernel::Whole;
    }
    let largest = sizes.iter().filter_map(|size| match size {
        KernelBlock::Exact(tokens) if block.is_multiple_of(*tokens) => Some(*tokens),
        KernelBlock::Exact(_) | KernelBlock::MultipleOf(_) => None,
    });
    largest.max().map_or(Kernel::Misfit, Kernel::Split)
}

/// Notes what the worker is known to refuse; true if it does.
/// Mirrors `vllm/v1/kv_cache_interface.py` `create_kv_cache_views`; before there
/// were layouts, blocks of a page of their own could be split.
pub(crate) fn concerns(
    layers: &Layers,
    backends: &[LayerBackend],
    target: Target,
    layout: Option<KvCacheLayout>,
    bytes_per_block: u64,
    notes: &mut Vec<Note>,
) -> Result<bool, Box<Refusal>> {
    for (index, (spec, backend)) in layers.specs.iter().zip(backends).enumerate() {
        if !layers.list.iter().any(|layer| layer.spec == index) {
            continue;
        }
        if spec.kind == SpecKind::Mamba {
            continue;
        }
        let sizes = kernel_blocks(*backend, Asking::Layer(spec, target));
        match kernel(spec.block_size, &sizes) {
            Kernel::Whole => {}
            Kernel::Misfit => {
                notes.push(misfit(spec, *backend, &sizes));
                return Ok(true);
            }
            Kernel::Split(tokens) => {
                let Some(layout) = layout else {
                    continue;
                };
                let page = spec.unpadded_page_size_bytes()?;
                let stride = if layout.is_block_outermost() {
                    bytes_per_block
                } else {
                    spec.padded_page_bytes()?
                };
                if stride != page {
                    notes.push(sparse_blocks(spec, layout, stride, page, tokens));
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

fn misfit(spec: &LayerSpec, backend: LayerBackend, sizes: &[KernelBlock]) -> Note {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    Note::new(
        "kernel-block-size",
        format!(
            "The plan passes, but the worker then looks for a kernel block that divides {block} \
             tokens, and {backend} takes [{}] only: vLLM's select_common_block_size \
             (vllm/v1/worker/utils.py) raises \"No common block size for {block}…\".",
            sizes.join(", "),
            block = spec.block_size,
        ),
    )
}

fn sparse_blocks(
    spec: &LayerSpec,
    layout: KvCacheLayout,
    stride: u64,
    page: u64,
    tokens: u64,
) -> Note {
    let parts = spec.block_size / tokens.max(1);
    Note::new(
        "kernel-block-split",
        format!(
            "The plan passes, but the worker then raises \"The resolved KV cache layout ({layout}) \
             does not store blocks as dense, unpadded pages (block stride {stride} != page \
             {page}), so a manager block cannot be split into {parts} kernel blocks of {tokens} \
             tokens. Reduce --block-size to {tokens} or set VLLM_KV_CACHE_LAYOUT to a \
             layer-compact layout (e.g. LBNHC).\" (create_kv_cache_views, \
             vllm/v1/kv_cache_interface.py).",
            layout = layout.as_str(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_reads_whole_blocks_or_parts_of_them() {
        let indexer = [KernelBlock::Exact(64)];
        assert_eq!(kernel(64, &indexer), Kernel::Whole);
        assert_eq!(kernel(128, &indexer), Kernel::Split(64));
        assert_eq!(kernel(32, &indexer), Kernel::Misfit);
        assert_eq!(kernel(48, &[KernelBlock::MultipleOf(16)]), Kernel::Whole);
        let flashinfer = [16, 32, 64].map(KernelBlock::Exact);
        assert_eq!(kernel(96, &flashinfer), Kernel::Split(32));
    }
}
