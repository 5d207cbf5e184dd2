//! What a backend makes of a layer's spec: how its kernels pack rows, and what
//! the stride between blocks must keep whole.

use super::AttentionBackend as B;
use super::kernel_block::{Asking, KernelBlock, kernel_blocks};
use super::layer::LayerBackend;
use super::rules::Target;
use crate::dtype::{CacheDtype, KvQuantMode};
use crate::error::{Refusal, Stage};
use crate::gpu::Arch;
use crate::release::{Profile, StrideRule};
use crate::spec::{LayerSpec, SpecKind, StrideAlignment};
use crate::units::{add, mul};

/// The spec as the layer's backend has it; states of linear layers stay as they are.
/// Mirrors `vllm/v1/worker/utils.py` `customize_attention_spec`.
pub(crate) fn customize(
    backend: LayerBackend,
    spec: LayerSpec,
    target: Target,
    profile: &Profile,
) -> Result<LayerSpec, Box<Refusal>> {
    if spec.kind == SpecKind::Mamba {
        return Ok(spec);
    }
    let mut spec = pack(backend, spec, target.arch)?;
    spec.indexes_by_block_stride = profile.pads_by_block_stride && goes_by_stride(backend);
    if profile.stride_rule != StrideRule::KernelBlocks {
        spec.stride = if profile.stride_rule == StrideRule::SparseRows
            && aligns_rows(backend, &spec, target.arch)
        {
            StrideAlignment::WholeBlock(spec.slot_bytes()?)
        } else {
            StrideAlignment::None
        };
        return Ok(spec);
    }
    if spec.stride == StrideAlignment::None {
        let most = kernel_blocks(backend, Asking::Layer(&spec, target))
            .into_iter()
            .map(|size| match size {
                KernelBlock::Exact(tokens) => Some(tokens),
                KernelBlock::MultipleOf(_) => None,
            })
            .try_fold(0, |most: u64, tokens| tokens.map(|tokens| most.max(tokens)));
        if let Some(most) = most {
            spec.stride = StrideAlignment::KernelBlocks(most);
        }
    }
    Ok(spec)
}

/// Backends whose rows the block kept whole in 0.31.
/// Mirrors `vllm/model_executor/layers/attention/mla_attention.py`
/// `MLAAttention.get_kv_cache_spec`.
fn aligns_rows(backend: LayerBackend, spec: &LayerSpec, arch: Arch) -> bool {
    let packed = matches!(
        spec.cache_dtype,
        Some(CacheDtype::Fp8DsMla | CacheDtype::Nvfp4DsMla)
    );
    match backend {
        LayerBackend::Selected(B::FlashinferMlaSparse) => true,
        LayerBackend::Selected(B::FlashmlaSparse) => !packed || arch == Arch::Sm100,
        _ => false,
    }
}

/// Mirrors `vllm/v1/attention/backend.py` `AttentionBackend.indexes_kv_by_block_stride`
/// of 0.28.
fn goes_by_stride(backend: LayerBackend) -> bool {
    let (LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend)) = backend else {
        return false;
    };
    matches!(
        backend,
        B::FlashAttn
            | B::FlashAttnDiffkv
            | B::Flashinfer
            | B::TritonAttn
            | B::TritonAttnDiffkv
            | B::FlexAttention
            | B::HpcAttn
            | B::TritonMla
            | B::FlashAttnMla
            | B::FlashinferMla
            | B::Flashmla
            | B::CutlassMla
    )
}

/// The backend's own part of it, which is also asked about one token alone.
/// Mirrors the classes' `customize_spec`.
pub(crate) fn pack(
    backend: LayerBackend,
    spec: LayerSpec,
    arch: Arch,
) -> Result<LayerSpec, Box<Refusal>> {
    match backend {
        LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend) => {
            pack_selected(backend, spec, arch)
        }
        LayerBackend::Fixed(_) => Ok(spec),
    }
}

fn pack_selected(backend: B, spec: LayerSpec, arch: Arch) -> Result<LayerSpec, Box<Refusal>> {
    match backend {
        B::Flashinfer => nvfp4(spec),
        B::TritonFlashAttn => composite(B::FlashAttn, spec, arch),
        B::TritonFlashinfer => composite(B::Flashinfer, spec, arch),
        B::Turboquant => turboquant(spec),
        B::Ultraquant => ultraquant(spec),
        B::B12x => b12x(spec),
        // of MLA's one vector a token, V has no size
        B::TritonAttn
        | B::TritonAttnDiffkv
        | B::FlashinferMla
        | B::TokenspeedMla
        | B::CutlassMla
        | B::FlashAttnMla
        | B::Flashmla
        | B::TritonMla => per_token_head(spec),
        B::FlashAttnMlaSparse | B::FlashinferMlaSparseSm90 => whole_rows(spec, 1),
        B::FlashinferMlaSparse => whole_rows(spec, 32),
        B::FlashinferMlaSparseSm120 | B::FlashAttnMlaSparseFa4 => whole_rows(spec, 64),
        B::FlashmlaSparse => match arch {
            // `vllm/v1/attention/backends/mla/flashmla_sparse.py`
            Arch::Sm90 | Arch::Sm120 if spec.kv_quant_mode != KvQuantMode::None => Ok(LayerSpec {
                stride: StrideAlignment::KernelBlocks(64),
                ..spec
            }),
            Arch::Sm90 | Arch::Sm100 | Arch::Sm120 => whole_rows(spec, 1),
        },
        // `vllm/models/step5/nvidia/sparse_attention.py`
        B::Step5Dsa => Ok(LayerSpec {
            stride: StrideAlignment::KernelBlocks(8),
            ..spec
        }),
        B::FlashAttn
        | B::FlashAttnDiffkv
        | B::FlexAttention
        | B::HpcAttn
        | B::MinimaxM3Sparse
        | B::CutlassMsa
        | B::TritonMsa
        | B::FlashmlaSparseDsv4
        | B::FlashinferMlaSparseDsv4
        | B::FlashmlaSparseDsv41
        | B::FlashinferMlaSparseDsv41
        | B::FlashmlaMegaAttnDsv41
        | B::NoAttention
        | B::TorchSdpa
        | B::Custom
        | B::RocmAttn
        | B::RocmSegmentedAttn
        | B::RocmAiterMla
        | B::RocmAiterTritonMla
        | B::RocmAiterFa
        | B::RocmAiterMlaSparse
        | B::RocmAiterUnifiedAttn
        | B::RocmFlashmlaSparseDsv4
        | B::RocmFlashmlaSparseDsv41
        | B::RocmOctave
        | B::XpuMlaSparse
        | B::CpuAttn
        | B::CpuMla
        | B::AmxMla
        | B::TreeAttn => Ok(spec),
    }
}

fn assertion(text: &str) -> Box<Refusal> {
    Refusal::raised(Stage::Specs, "AssertionError", text)
}

fn value_error(text: String) -> Box<Refusal> {
    Refusal::raised(Stage::Specs, "ValueError", text)
}

/// Sparse kernels read rows, some in pages of so many: blocks must be whole
/// pages apart. Mirrors `vllm/v1/attention/backends/mla/sparse_utils.py`
/// `align_blocks_to_rows`.
fn whole_rows(spec: LayerSpec, rows: u64) -> Result<LayerSpec, Box<Refusal>> {
    Ok(LayerSpec {
        stride: StrideAlignment::Bytes(mul(rows, spec.slot_bytes()?)?),
        ..spec
    })
}

/// K and V of a head apart, each packed fp4 with an fp8 scale per 16.
/// Mirrors `vllm/v1/attention/backends/flashinfer.py` `FlashInferBackend.customize_spec`
/// and `vllm/utils/torch_utils.py` `nvfp4_kv_cache_full_dim`.
fn nvfp4(spec: LayerSpec) -> Result<LayerSpec, Box<Refusal>> {
    if spec.state_content_bytes.is_some() || spec.kv_quant_mode != KvQuantMode::Nvfp4 {
        return Ok(spec);
    }
    let packed = |head_size: u64| head_size / 2 + head_size / 16;
    if packed(spec.head_size) != packed(spec.head_size_v) {
        return Err(assertion(
            "nvfp4 with asymmetric K/V head sizes not yet supported",
        ));
    }
    Ok(LayerSpec {
        num_head_slots: Some(mul(2, spec.num_kv_heads)?),
        state_content_bytes: Some(mul(packed(spec.head_size), spec.dtype.size_bytes())?),
        ..spec
    })
}

/// Two float32 scales behind each head's data.
/// Mirrors `vllm/v1/attention/backends/triton_attn.py` and
/// `vllm/model_executor/layers/attention/mla_attention.py` `customize_spec`.
fn per_token_head(spec: LayerSpec) -> Result<LayerSpec, Box<Refusal>> {
    const SCALES_BYTES: u64 = 2 * 4;
    let elements_per_byte = match spec.kv_quant_mode {
        KvQuantMode::Int8PerTokenHead | KvQuantMode::Fp8PerTokenHead => 1,
        KvQuantMode::Int4PerTokenHead => 2,
        KvQuantMode::None
        | KvQuantMode::Fp8PerTensor
        | KvQuantMode::Nvfp4
        | KvQuantMode::TurboquantK8v4
        | KvQuantMode::Turboquant4bitNc
        | KvQuantMode::TurboquantK3v4Nc
        | KvQuantMode::Turboquant3bitNc
        | KvQuantMode::Nvfp4DsMla
        | KvQuantMode::Ultraquant4bit
        | KvQuantMode::OctaveK3v4
        | KvQuantMode::OctaveK3v3
        | KvQuantMode::OctaveK3v3Compact => return Ok(spec),
    };
    if spec.state_content_bytes.is_some() {
        return Ok(spec);
    }
    let elements = add(
        spec.head_size / elements_per_byte,
        spec.head_size_v / elements_per_byte,
    )?;
    Ok(LayerSpec {
        state_content_bytes: Some(add(mul(elements, spec.dtype.size_bytes())?, SCALES_BYTES)?),
        ..spec
    })
}

/// Both halves must store rows alike.
/// Mirrors `vllm/v1/attention/backends/composite.py` `customize_spec`.
fn composite(causal: B, spec: LayerSpec, arch: Arch) -> Result<LayerSpec, Box<Refusal>> {
    let general = per_token_head(spec)?;
    if general != pack_selected(causal, spec, arch)? {
        return Err(value_error(
            "Composite backends require the same KV cache spec".to_owned(),
        ));
    }
    Ok(general)
}

/// K and V of a head in one slot, by the preset's bits.
/// Mirrors `vllm/v1/attention/backends/turboquant_attn.py` `customize_spec` and
/// `vllm/model_executor/layers/quantization/turboquant/config.py`
/// `TurboQuantConfig.slot_size_aligned`.
fn turboquant(spec: LayerSpec) -> Result<LayerSpec, Box<Refusal>> {
    // a float16 norm behind K, a scale and a zero point behind V
    const KEY_NORM_BYTES: u64 = 2;
    const VALUE_SCALES_BYTES: u64 = 4;
    let (key_bits, key_norm_bytes, value_bits) = match spec.kv_quant_mode {
        KvQuantMode::TurboquantK8v4 => (8, 0, 4),
        KvQuantMode::Turboquant4bitNc => (4, KEY_NORM_BYTES, 4),
        KvQuantMode::TurboquantK3v4Nc => (3, KEY_NORM_BYTES, 4),
        KvQuantMode::Turboquant3bitNc => (3, KEY_NORM_BYTES, 3),
        KvQuantMode::None
        | KvQuantMode::Fp8PerTensor
        | KvQuantMode::Int8PerTokenHead
        | KvQuantMode::Fp8PerTokenHead
        | KvQuantMode::Int4PerTokenHead
        | KvQuantMode::Nvfp4
        | KvQuantMode::Nvfp4DsMla
        | KvQuantMode::Ultraquant4bit
        | KvQuantMode::OctaveK3v4
        | KvQuantMode::OctaveK3v3
        | KvQuantMode::OctaveK3v3Compact => return Ok(spec),
    };
    if spec.state_content_bytes.is_some() {
        return Ok(spec);
    }
    let codes = |bits| mul(spec.head_size, bits).map(|bits| bits.div_ceil(8));
    let key = add(codes(key_bits)?, key_norm_bytes)?;
    let value = add(codes(value_bits)?, VALUE_SCALES_BYTES)?;
    let slot = add(key, value)?;
    Ok(LayerSpec {
        state_content_bytes: Some(add(slot, slot % 2)?),
        ..spec
    })
}

/// FP4 codes and a scale per 32, of K and of V.
/// Mirrors `vllm/v1/attention/backends/ultraquant_attn.py` `customize_spec` and
/// `vllm/v1/attention/ops/ultraquant/format.py` `slot_size`.
fn ultraquant(spec: LayerSpec) -> Result<LayerSpec, Box<Refusal>> {
    const GROUP: u64 = 32;
    if spec.state_content_bytes.is_some() || spec.kv_quant_mode != KvQuantMode::Ultraquant4bit {
        return Ok(spec);
    }
    let head_size = spec.head_size;
    if !head_size.is_multiple_of(2) {
        return Err(value_error(format!(
            "head_dim must be even, got {head_size}"
        )));
    }
    if !head_size.is_multiple_of(GROUP) {
        return Err(value_error(format!(
            "head_dim={head_size} must be a multiple of group_size={GROUP}"
        )));
    }
    Ok(LayerSpec {
        state_content_bytes: Some(mul(2, head_size / 2 + head_size / GROUP)?),
        ..spec
    })
}

/// A plane of K and a plane of V, each over all heads.
/// Mirrors `vllm/v1/attention/backends/b12x.py` `customize_spec`.
fn b12x(spec: LayerSpec) -> Result<LayerSpec, Box<Refusal>> {
    if spec.state_content_bytes.is_some() {
        return Ok(spec);
    }
    if spec.head_size != spec.head_size_v {
        return Err(assertion(
            "Separate K/V planes require symmetric K/V head sizes.",
        ));
    }
    let plane = mul(spec.num_kv_heads, spec.head_size)?;
    Ok(LayerSpec {
        num_head_slots: Some(2),
        state_content_bytes: Some(mul(plane, spec.dtype.size_bytes())?),
        ..spec
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::rules;
    use crate::release::Release;

    fn latest() -> &'static Profile {
        Release::LATEST.profile()
    }
    use crate::dtype::{CacheDtype, TorchDtype};
    use crate::spec::LayerRole;

    const fn on(arch: Arch) -> Target {
        Target {
            arch,
            rules: &rules::V0_33_0,
        }
    }

    /// Slots and content of 8 KV heads of 128 on SM100, per token.
    fn slots(backend: B, cache_dtype: CacheDtype) -> (Option<u64>, Option<u64>) {
        let spec = LayerSpec {
            num_kv_heads: 8,
            head_size: 128,
            head_size_v: 128,
            kv_quant_mode: cache_dtype.quant_mode(),
            ..LayerSpec::plain(
                LayerRole::Attention,
                SpecKind::FullAttention,
                16,
                TorchDtype::Uint8,
            )
        };
        let spec = customize(
            LayerBackend::Selected(backend),
            spec,
            on(Arch::Sm100),
            latest(),
        )
        .unwrap();
        (spec.num_head_slots, spec.state_content_bytes)
    }

    #[test]
    fn packed_rows() {
        use CacheDtype as D;
        for (backend, dtype, packed) in [
            (B::Flashinfer, D::Fp8, (None, None)),
            (B::Flashinfer, D::Nvfp4, (Some(16), Some(72))),
            (B::Flashinfer, D::Nvfp4DsMla, (None, None)),
            (B::TritonAttn, D::Int8PerTokenHead, (None, Some(264))),
            (B::TritonAttn, D::Int4PerTokenHead, (None, Some(136))),
            (B::Turboquant, D::TurboquantK8v4, (None, Some(196))),
            (B::Turboquant, D::Turboquant4bitNc, (None, Some(134))),
            (B::Turboquant, D::TurboquantK3v4Nc, (None, Some(118))),
            (B::Turboquant, D::Turboquant3bitNc, (None, Some(102))),
            (B::Ultraquant, D::Ultraquant4bit, (None, Some(136))),
            (B::B12x, D::Fp8, (Some(2), Some(1024))),
        ] {
            assert_eq!(slots(backend, dtype), packed, "{backend} {dtype}");
        }
    }

    #[test]
    fn strides_keep_pages_and_rows_whole() {
        let stride = |backend, cache_dtype: CacheDtype, arch| {
            let spec = LayerSpec {
                head_size: 576,
                kv_quant_mode: cache_dtype.quant_mode(),
                state_content_bytes: (cache_dtype == CacheDtype::Fp8DsMla).then_some(656),
                ..LayerSpec::plain(
                    LayerRole::Mla,
                    SpecKind::MlaAttention,
                    64,
                    TorchDtype::Uint8,
                )
            };
            customize(LayerBackend::Selected(backend), spec, on(arch), latest())
                .unwrap()
                .stride
        };
        let packed = CacheDtype::Fp8DsMla;
        assert_eq!(
            stride(B::FlashmlaSparse, packed, Arch::Sm90),
            StrideAlignment::KernelBlocks(64)
        );
        assert_eq!(
            stride(B::FlashmlaSparse, packed, Arch::Sm100),
            StrideAlignment::Bytes(656)
        );
        assert_eq!(
            stride(B::FlashinferMlaSparse, CacheDtype::Fp8, Arch::Sm100),
            StrideAlignment::Bytes(32 * 576)
        );
        assert_eq!(
            stride(B::FlashinferMla, CacheDtype::Fp8, Arch::Sm100),
            StrideAlignment::KernelBlocks(64)
        );
        assert_eq!(
            stride(B::TritonMla, CacheDtype::Fp8, Arch::Sm120),
            StrideAlignment::None
        );
    }
}
