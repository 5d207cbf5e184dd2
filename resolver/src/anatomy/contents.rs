//! What a page's cells hold: K and V, plain or packed.

use super::latent;
use super::makings::{LinearStates, Makings, RowMakings, StateRows};
use super::{CellOrder, Field, FieldKind, Region, Source};
use crate::backend::AttentionBackend as B;
use crate::backend::layer::LayerBackend;
use crate::dtype::{CacheDtype, KvQuantMode, TorchDtype};
use crate::spec::{LayerRole, LayerSpec};

/// A page's regions as they are told, field by field.
pub(super) struct Contents {
    /// The regions, in order; those without a count have a cell a slot.
    pub regions: Vec<Region>,
    /// Whether each is a plane of its own, in which states come first whatever the
    /// layout.
    pub planes: bool,
}

/// Bytes, and elements in them.
type Size = (u64, u64);

impl Contents {
    /// A first region, with a cell a slot.
    pub fn new(source: Source) -> Self {
        let mut made = Self {
            regions: Vec::new(),
            planes: false,
        };
        made.region(source);
        made
    }

    /// Begins another region.
    pub fn region(&mut self, source: Source) {
        self.regions.push(Region {
            offset: 0,
            count: 0,
            stride: 0,
            order: CellOrder::Once,
            fields: Vec::new(),
            source,
        });
    }

    /// Cells of the last region that are counted otherwise than by slot.
    pub fn counted(&mut self, count: u64, order: CellOrder) {
        if let Some(region) = self.regions.last_mut() {
            region.count = count;
            region.order = order;
        }
    }

    /// Values of a type, behind what its cell has so far.
    pub fn values(
        &mut self,
        name: &'static str,
        size: Size,
        dtype: &'static str,
        what: &'static str,
    ) {
        self.field(FieldKind::Values, name, size, dtype, what);
    }

    /// The same, of scales.
    pub fn scales(
        &mut self,
        name: &'static str,
        size: Size,
        dtype: &'static str,
        what: &'static str,
    ) {
        self.field(FieldKind::Scales, name, size, dtype, what);
    }

    /// Bytes that hold nothing.
    pub fn pad(&mut self, bytes: u64, what: &'static str) {
        self.field(FieldKind::Padding, "pad", (bytes, bytes), "uint8", what);
    }

    #[inline(never)] // inlined it would be most of this file
    fn field(
        &mut self,
        kind: FieldKind,
        name: &'static str,
        (bytes, elements): Size,
        dtype: &'static str,
        what: &'static str,
    ) {
        // what has no bytes is not there
        if let Some(region) = self.regions.last_mut().filter(|_| bytes > 0) {
            region.fields.push(Field {
                name,
                offset: region.stride,
                bytes,
                elements,
                dtype,
                kind,
                what,
            });
            region.stride = region.stride.saturating_add(bytes);
        }
    }
}

/// Why some order is unknown.
pub(super) type Unknown = &'static str;

/// An element's type as torch names it.
pub(super) const fn torch_name(dtype: TorchDtype) -> &'static str {
    match dtype {
        TorchDtype::Uint8 => "uint8",
        TorchDtype::Int8 => "int8",
        TorchDtype::Float16 => "float16",
        TorchDtype::Bfloat16 => "bfloat16",
        TorchDtype::Float8E4m3fn => E4M3,
        TorchDtype::Float32 => "float32",
    }
}

pub(super) const E4M3: &str = "float8_e4m3fn";
pub(super) const FLOAT32: &str = "float32";
pub(super) const E2M1: &str = "float4_e2m1";
const CODES: &str = "E2M1 codes, two a byte";
const K: &str = "K of one token and head";
const V: &str = "V of one token and head";

/// The type of plain rows' elements: quantised ones are bytes to vLLM's specs.
pub(super) fn row_type(spec: &LayerSpec, asked: CacheDtype) -> &'static str {
    match (spec.kv_quant_mode, spec.cache_dtype.unwrap_or(asked)) {
        (KvQuantMode::Fp8PerTensor, CacheDtype::Fp8E5m2) => "float8_e5m2",
        (KvQuantMode::Fp8PerTensor, _) => E4M3,
        _ => torch_name(spec.dtype),
    }
}

/// What one kind of layer's page holds.
pub(super) fn contents(
    makings: &Makings,
    row: &RowMakings,
    heads_first: bool,
) -> Result<Contents, Unknown> {
    let spec = &row.spec;
    match spec.role {
        LayerRole::LinearState => {
            let states = makings.states.as_ref();
            states
                .map(linear)
                .ok_or("which states these layers carry over is not modelled")
        }
        LayerRole::Attention | LayerRole::SlidingWindow | LayerRole::ChunkedLocal => {
            attention(makings, row, heads_first)
        }
        _ => latent::contents(makings, row),
    }
}

/// The convolution's state, then the recurrent one.
/// Mirrors `vllm/model_executor/layers/mamba/abstract.py` `MambaBase.bind_kv_cache`.
fn linear(states: &LinearStates) -> Contents {
    let source = Source {
        file: "vllm/model_executor/layers/mamba/abstract.py",
        function: "MambaBase.bind_kv_cache",
    };
    let size = |rows: StateRows| (rows.bytes, rows.bytes / rows.dtype.size_bytes());
    let (conv, recurrent) = (states.conv, states.recurrent);
    let mut made = Contents::new(source);
    made.values(
        "conv_state",
        size(conv),
        torch_name(conv.dtype),
        "the last inputs of the convolution, a row a token",
    );
    made.counted(conv.count, CellOrder::Rows);
    made.region(source);
    made.values(
        "recurrent_state",
        size(recurrent),
        torch_name(recurrent.dtype),
        "the recurrent state, head by head",
    );
    made.counted(recurrent.count, CellOrder::Heads);
    made
}

/// K and V of a layer.
fn attention(makings: &Makings, row: &RowMakings, heads_first: bool) -> Result<Contents, Unknown> {
    let spec = &row.spec;
    let (Some(LayerBackend::Selected(backend) | LayerBackend::ChunkedLocal(backend)), asked) =
        (row.backend, makings.cache_dtype)
    else {
        return Err("no backend of this layer is modelled");
    };
    let is_plain = matches!(
        spec.kv_quant_mode,
        KvQuantMode::None | KvQuantMode::Fp8PerTensor
    );
    if !is_plain && spec.state_content_bytes.is_none() {
        return Err("this backend has no packing for this dtype");
    }
    match spec.kv_quant_mode {
        KvQuantMode::None | KvQuantMode::Fp8PerTensor => plain(spec, backend, asked),
        KvQuantMode::Int8PerTokenHead
        | KvQuantMode::Fp8PerTokenHead
        | KvQuantMode::Int4PerTokenHead => per_token_head(spec),
        KvQuantMode::Nvfp4 => nvfp4(spec, makings, heads_first),
        KvQuantMode::TurboquantK8v4
        | KvQuantMode::Turboquant4bitNc
        | KvQuantMode::TurboquantK3v4Nc
        | KvQuantMode::Turboquant3bitNc => turboquant(spec),
        KvQuantMode::Ultraquant4bit => Ok(ultraquant(spec)),
        KvQuantMode::Nvfp4DsMla
        | KvQuantMode::OctaveK3v4
        | KvQuantMode::OctaveK3v3
        | KvQuantMode::OctaveK3v3Compact => Err("the packing of this dtype is not modelled"),
    }
}

/// Who splits a slot into K and V.
const fn reader(backend: B) -> Option<Source> {
    let (file, function) = match backend {
        B::FlashAttn => (
            "vllm/v1/attention/backends/flash_attn.py",
            "FlashAttentionImpl.forward",
        ),
        B::FlashAttnDiffkv => (
            "vllm/v1/attention/backends/flash_attn_diffkv.py",
            "FlashAttentionDiffKVImpl.forward",
        ),
        B::Flashinfer => (
            "vllm/v1/attention/backends/flashinfer.py",
            "FlashInferImpl.forward",
        ),
        B::TritonAttn => (
            "vllm/v1/attention/backends/triton_attn.py",
            "TritonAttentionImpl.forward",
        ),
        B::TritonAttnDiffkv => (
            "vllm/v1/attention/backends/triton_attn_diffkv.py",
            "TritonAttentionDiffKVImpl.forward",
        ),
        B::TritonFlashAttn | B::TritonFlashinfer => (
            "vllm/v1/attention/backends/triton_attn.py",
            "TritonAttentionImpl.forward, of the same spec as its causal half",
        ),
        B::FlexAttention => (
            "vllm/v1/attention/backends/flex_attention.py",
            "FlexAttentionImpl.forward",
        ),
        B::HpcAttn => (
            "vllm/v1/attention/backends/hpc_attn.py",
            "HpcAttentionImpl.forward",
        ),
        B::B12x => (
            "vllm/v1/attention/backends/b12x.py",
            "B12xPagedAttentionImpl._kv_cache_views",
        ),
        _ => return None,
    };
    Some(Source { file, function })
}

/// Rows of K and V: in one slot, but for B12X, which keeps planes.
fn plain(spec: &LayerSpec, backend: B, asked: CacheDtype) -> Result<Contents, Unknown> {
    let element = row_type(spec, asked);
    let size = |elements: u64| (elements.saturating_mul(spec.dtype.size_bytes()), elements);
    let is_b12x = backend == B::B12x;
    if spec.state_content_bytes.is_some() && !is_b12x {
        return Err("the packing of this backend is not modelled");
    }
    let source = reader(backend).ok_or("how this backend splits a slot is not modelled")?;
    let mut made = Contents::new(source);
    made.planes = is_b12x;
    made.values("k", size(spec.head_size), element, K);
    if is_b12x {
        made.region(source);
    }
    made.values("v", size(spec.head_size_v), element, V);
    Ok(made)
}

/// A float32 scale behind the codes of each of K and V.
/// Mirrors `vllm/v1/attention/backends/triton_attn.py` `_ensure_scale_caches`.
fn per_token_head(spec: &LayerSpec) -> Result<Contents, Unknown> {
    const SCALE: (u64, u64) = (4, 1);
    if spec.head_size != spec.head_size_v {
        return Err("scales per token beside K and V of two sizes are not modelled");
    }
    let (element, per_byte, scale) = match spec.kv_quant_mode {
        KvQuantMode::Int4PerTokenHead => (
            "int4",
            2,
            "one float32 scale, whose lowest 4 bits hold the zero point",
        ),
        KvQuantMode::Int8PerTokenHead => ("int8", 1, "one float32 scale"),
        _ => (E4M3, 1, "one float32 scale"),
    };
    let size = (
        spec.head_size / per_byte * spec.dtype.size_bytes(),
        spec.head_size,
    );
    let mut made = Contents::new(Source {
        file: "vllm/v1/attention/backends/triton_attn.py",
        function: "TritonAttentionImpl._ensure_scale_caches",
    });
    made.values("k", size, element, K);
    made.scales("k_scale", SCALE, FLOAT32, scale);
    made.values("v", size, element, V);
    made.scales("v_scale", SCALE, FLOAT32, scale);
    Ok(made)
}

/// K's codes, K's scales, V's codes, V's scales, each of the whole page.
/// Mirrors `vllm/utils/torch_utils.py` `nvfp4_split_data_scale`.
fn nvfp4(spec: &LayerSpec, makings: &Makings, heads_first: bool) -> Result<Contents, Unknown> {
    const SCALES: &str =
        "a scale per 16 codes; their order in here is the CUDA writer's and not modelled";
    if !heads_first && !makings.release.profile().nvfp4_sides_are_dense {
        return Err("before 0.32 NVFP4 with tokens outermost is not modelled");
    }
    let source = Source {
        file: "vllm/utils/torch_utils.py",
        function: "nvfp4_split_data_scale",
    };
    let mut made = Contents::new(source);
    for (codes, scales, head) in [
        ("k", "k_scales", spec.head_size),
        ("v", "v_scales", spec.head_size_v),
    ] {
        if made.regions.len() > 1 {
            made.region(source);
        }
        made.values(codes, (head / 2, head), E2M1, CODES);
        made.region(source);
        made.scales(scales, (head / 16, head / 16), E4M3, SCALES);
    }
    Ok(made)
}

/// Codes and norm of K, then codes, scale and zero point of V, on an even count.
/// Mirrors `vllm/v1/attention/ops/triton_turboquant_store.py`.
fn turboquant(spec: &LayerSpec) -> Result<Contents, Unknown> {
    const HALF: (u64, u64) = (2, 1);
    const FLOAT16: &str = "float16";
    let (key, value) = match spec.kv_quant_mode {
        KvQuantMode::TurboquantK8v4 => (None, (4, "uint4")),
        KvQuantMode::Turboquant4bitNc => (Some((4, "uint4")), (4, "uint4")),
        KvQuantMode::TurboquantK3v4Nc => (Some((3, "uint3")), (4, "uint4")),
        _ => (Some((3, "uint3")), (3, "uint3")),
    };
    let head = spec.head_size;
    let size = |bits: u64| (head.saturating_mul(bits).div_ceil(8), head);
    let mut made = Contents::new(Source {
        file: "vllm/v1/attention/ops/triton_turboquant_store.py",
        function: "_tq_fused_store_fp8, _tq_fused_store_mse",
    });
    match key {
        None => made.values("k", (head, head), E4M3, K),
        Some((bits, codes)) => {
            made.values("k", size(bits), codes, "indices of K's centroids, packed");
            made.scales("k_norm", HALF, FLOAT16, "the norm of K");
        }
    }
    made.values("v", size(value.0), value.1, "V's codes, packed");
    made.scales("v_scale", HALF, FLOAT16, "the scale of V");
    made.scales("v_zero", HALF, FLOAT16, "the zero point of V");
    let used = made.regions.last().map_or(0, |region| region.stride);
    let slot = spec
        .state_content_bytes
        .ok_or("an unpacked TurboQuant row")?;
    made.pad(
        slot.saturating_sub(used),
        "slots have an even count of bytes",
    );
    Ok(made)
}

/// Codes and scales of K, then of V.
/// Mirrors `vllm/v1/attention/ops/ultraquant/format.py`.
fn ultraquant(spec: &LayerSpec) -> Contents {
    const SCALES: &str = "a power of two per 32 codes";
    let head = spec.head_size;
    let (codes, groups) = ((head / 2, head), (head / 32, head / 32));
    let mut made = Contents::new(Source {
        file: "vllm/v1/attention/ops/ultraquant/format.py",
        function: "slot_size",
    });
    made.values("k", codes, E2M1, CODES);
    made.scales("k_scales", groups, "ue8m0", SCALES);
    made.values("v", codes, E2M1, CODES);
    made.scales("v_scales", groups, "ue8m0", SCALES);
    made
}
