//! The KV block that suits all of a model's backends.
//! Mirrors `vllm/platforms/interface.py` `Platform.update_block_size_for_backend`.

use super::kernel_block::{Asking, KernelBlock, kernel_blocks, selected_row, smallest, takes};
use super::layer::LayerBackend;
use super::select::Surroundings;
use crate::error::{Refusal, Stage};
use crate::units::lcm;

/// `CacheConfig.DEFAULT_BLOCK_SIZE`
pub(crate) const DEFAULT_BLOCK_SIZE: u64 = 16;

/// Tokens of a KV block where the user does not say. `backends` are the
/// distinct ones of all layers, in the order of the layers; those of linear
/// layers ([`LayerBackend::is_ssm`]) are not asked.
/// Mirrors `vllm/platforms/interface.py` `Platform._preferred_block_size_for_backends`.
pub(crate) fn common_block_size(
    backends: &[LayerBackend],
    around: &Surroundings,
) -> Result<u64, Box<Refusal>> {
    let backends = attending(backends);
    if let [backend] = backends[..] {
        return Ok(preferred(backend, around));
    }
    let all_take = |size| backends.iter().all(|backend| takes(*backend, size, around));
    if all_take(DEFAULT_BLOCK_SIZE) {
        return Ok(DEFAULT_BLOCK_SIZE);
    }
    let mut candidates = vec![1];
    for backend in &backends {
        let sizes = kernel_blocks(*backend, Asking::Platform(around));
        let mut next = Vec::new();
        for candidate in candidates {
            for size in &sizes {
                next.push(lcm(candidate, size.base())?);
            }
        }
        next.sort_unstable();
        next.dedup();
        candidates = next;
    }
    candidates
        .into_iter()
        .find(|size| all_take(*size))
        .ok_or_else(|| {
            let sizes: Vec<String> = backends
                .iter()
                .map(|backend| {
                    let sizes = kernel_blocks(*backend, Asking::Platform(around));
                    let sizes: Vec<String> = sizes.iter().map(KernelBlock::to_string).collect();
                    format!("{backend}: [{}]", sizes.join(", "))
                })
                .collect();
            raise(format!(
                "The attention backends share no supported KV cache block size ({}).",
                sizes.join("; ")
            ))
        })
}

/// The block of a model with this backend alone.
/// Mirrors the classes' `get_preferred_block_size`.
fn preferred(backend: LayerBackend, around: &Surroundings) -> u64 {
    let own = selected_row(backend, around).and_then(|row| row.own_block);
    match own {
        Some(tokens) => u64::from(tokens),
        None if takes(backend, DEFAULT_BLOCK_SIZE, around) => DEFAULT_BLOCK_SIZE,
        None => smallest(backend, Asking::Platform(around)),
    }
}

/// Refuses a block that was raised to fit states or skipped layers and that
/// some backend cannot split.
/// Mirrors `vllm/platforms/interface.py` `Platform._check_aligned_block_size`.
pub(crate) fn check_aligned(
    backends: &[LayerBackend],
    block_size: u64,
    around: &Surroundings,
) -> Result<(), Box<Refusal>> {
    let rejecting: Vec<&str> = attending(backends)
        .into_iter()
        .filter(|backend| !takes(*backend, block_size, around))
        .map(LayerBackend::as_str)
        .collect();
    if rejecting.is_empty() {
        return Ok(());
    }
    Err(aligned_is_not_supported(block_size, &rejecting))
}

/// The refusal of such a block, by the backends that cannot split it.
pub(crate) fn aligned_is_not_supported(block_size: u64, rejecting: &[&str]) -> Box<Refusal> {
    raise(format!(
        "Aligned KV cache block size {block_size} is not supported by attention backend(s): {}.",
        rejecting.join(", ")
    ))
}

/// Tokens of a block of a layer with a window: the largest of its kernels' that
/// fits `budget_bytes`, or the smallest there is.
/// Mirrors `vllm/model_executor/layers/attention/attention.py`
/// `_largest_kernel_block_within`.
pub(crate) fn window_block_size(
    sizes: &[KernelBlock],
    bytes_per_token: u64,
    budget_bytes: u64,
    block_size: u64,
) -> Result<u64, Box<Refusal>> {
    let most = budget_bytes
        .checked_div(bytes_per_token)
        .ok_or(Refusal::ZeroDivision)?;
    let candidates = || {
        sizes.iter().map(|size| match *size {
            KernelBlock::Exact(tokens) => tokens,
            KernelBlock::MultipleOf(base) => base.max(most - most % base.max(1)),
        })
    };
    Ok(candidates()
        .filter(|tokens| *tokens <= most)
        .max()
        .or_else(|| candidates().min())
        .unwrap_or(block_size))
}

/// Backends that have a say in the block size.
fn attending(backends: &[LayerBackend]) -> Vec<LayerBackend> {
    backends
        .iter()
        .copied()
        .filter(|backend| !backend.is_ssm())
        .collect()
}

fn raise(text: String) -> Box<Refusal> {
    Refusal::raised(Stage::Specs, "ValueError", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::AttentionBackend as B;
    use crate::backend::layer::FixedBackend;
    use crate::backend::tests::around;
    use crate::dtype::CacheDtype;
    use crate::gpu::ComputeCapability;

    fn on(major: u8, model_head_size: u64, cache_dtype: CacheDtype) -> Surroundings {
        Surroundings {
            heads_per_rank: 32,
            gqa_ratio: 4,
            model_head_size,
            cache_dtype,
            ..around(ComputeCapability::new(major, 0), None)
        }
    }

    fn common(backends: &[B], around: &Surroundings) -> Result<u64, String> {
        let backends: Vec<LayerBackend> = backends
            .iter()
            .copied()
            .map(LayerBackend::Selected)
            .collect();
        common_block_size(&backends, around).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn one_backend_has_its_own_block() {
        let plain = on(9, 128, CacheDtype::Auto);
        for (backend, block) in [
            (B::FlashAttn, 16),
            (B::FlashinferMla, 32),
            (B::Flashmla, 64),
            (B::CutlassMla, 128),
            (B::B12x, 128),
            (B::Ultraquant, 64),
        ] {
            assert_eq!(common(&[backend], &plain), Ok(block), "{backend}");
        }
        let fp8 = on(9, 512, CacheDtype::Fp8);
        assert_eq!(common(&[B::TritonFlashAttn], &fp8), Ok(64));
        let own_kernel = on(10, 256, CacheDtype::Auto);
        assert_eq!(common(&[B::FlashAttn], &own_kernel), Ok(128));
        let quantised = on(10, 256, CacheDtype::Fp8);
        assert_eq!(common(&[B::FlashAttn], &quantised), Ok(16));
    }

    #[test]
    fn several_backends_share_the_smallest_block_that_all_split() {
        let around = on(9, 128, CacheDtype::Auto);
        assert_eq!(common(&[B::FlashAttn, B::Turboquant], &around), Ok(16));
        assert_eq!(common(&[B::FlashinferMla, B::Flashmla], &around), Ok(64));
        assert_eq!(
            common(&[B::B12x, B::FlashmlaSparseDsv4], &around),
            Err(
                "The attention backends share no supported KV cache block size (B12X: [64, 128]; \
                 FLASHMLA_SPARSE_DSV4: [256])."
                    .to_owned()
            )
        );
        let backends = [
            LayerBackend::Fixed(FixedBackend::GdnAttn),
            LayerBackend::Selected(B::FlashAttn),
            LayerBackend::Selected(B::CutlassMla),
        ];
        assert_eq!(
            check_aligned(&backends, 528, &around)
                .unwrap_err()
                .to_string(),
            "Aligned KV cache block size 528 is not supported by attention backend(s): CUTLASS_MLA."
        );
    }

    #[test]
    fn windows_take_the_largest_kernel_block_that_fits() {
        let flashinfer = [16, 32, 64].map(KernelBlock::Exact);
        assert_eq!(window_block_size(&flashinfer, 1024, 48 * 1024, 16), Ok(32));
        assert_eq!(window_block_size(&flashinfer, 1024, 1024, 16), Ok(16));
        let triton = [KernelBlock::MultipleOf(16)];
        assert_eq!(window_block_size(&triton, 1024, 100 * 1024, 16), Ok(96));
    }
}
