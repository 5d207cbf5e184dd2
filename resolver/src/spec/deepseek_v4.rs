//! DeepSeek V4's dtype rule and layer specs.

use super::{LayerRole, LayerSpec, Layers, SpecKind, StrideAlignment};
use crate::backend::deepseek_v4::Implementation;
use crate::dtype::{CacheDtype, KvQuantMode, TorchDtype};
use crate::error::{Refusal, Stage};
use crate::log;
use crate::model::DeepseekV4;
use crate::model::deepseek_v4::Compression;
use crate::release::{PackedDtypeRule, Profile, StrideRule};
use crate::trace::Trace;
use crate::units::{ceil_div, mul};

const WINDOW_FILE: &str = "vllm/v1/attention/backends/mla/sparse_swa.py";

/// One packed row: 448 B of NoPE in fp8, 128 B of RoPE in bf16, 7 scales and a
/// pad byte. `vllm/models/deepseek_v4/attention.py` `get_kv_cache_spec`.
const PACKED_SLOT_BYTES: u64 = 584;
/// Page alignment of packed rows: the decode kernel's TMA stride.
const PACKED_ALIGNMENT_BYTES: u64 = 576;
/// Page alignment of plain rows, for FlashInfer.
const PLAIN_ALIGNMENT_BYTES: u64 = 512;
/// Tokens in a block of the window. `DeepseekV4SWACache`
const WINDOW_BLOCK_SIZE: u64 = 64;
/// Tokens in a block of C4 states. `CompressorStateCache`
const C4_STATE_BLOCK_SIZE: u64 = 4;
/// Tokens in a block of C128 states.
const C128_STATE_BLOCK_SIZE: u64 = 8;
/// Elements of an indexer key that share an fp32 scale. `DeepseekV4Indexer`
const INDEXER_QUANT_BLOCK: u64 = 128;
/// Block size that every DeepSeek V4 backend takes.
pub(crate) const BLOCK_SIZE: u64 = 256;
/// Kernel block of FlashMLA, FlashInfer and the indexer, in tokens.
pub(crate) const KERNEL_BLOCK_SIZE: u64 = 256;

/// The block size where some layers count as unquantised, though none here
/// is: a kernel block of theirs must fit into a page of the others. vLLM looks
/// at rows of K and V alone, whatever the layers really keep.
/// Mirrors `vllm/platforms/interface.py` `_align_heterogeneous_kv_block_size`,
/// which asks the backend of the first layer.
pub(crate) fn for_skipped(
    block_size: u64,
    model: &DeepseekV4,
    cache_dtype: CacheDtype,
    model_dtype: TorchDtype,
    profile: &Profile,
) -> Result<u64, Box<Refusal>> {
    let row = if cache_dtype == CacheDtype::Auto {
        model_dtype
    } else if cache_dtype.quant_mode() == KvQuantMode::None {
        TorchDtype::Bfloat16
    } else {
        TorchDtype::Uint8
    };
    let (row, unquantised) = (row.size_bytes(), model_dtype.size_bytes());
    if row >= unquantised {
        return Ok(block_size);
    }
    let kernel = if model.indexer_is_first() {
        KERNEL_BLOCK_SIZE
    } else {
        profile.window_kernel_tokens
    };
    let granule = block_size.max(kernel);
    let needed = ceil_div(mul(kernel, unquantised)?, mul(granule, row)?)?;
    Ok(block_size.max(mul(granule, needed)?))
}

/// The cache dtype that the model settles on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResolvedDtype {
    /// What vLLM writes back, and specs carry.
    pub cache_dtype: CacheDtype,
    /// The element type of a row.
    pub rows: TorchDtype,
}

/// Mirrors `vllm/models/deepseek_v4/attention.py` `_resolve_dsv4_kv_cache_dtype`.
pub(crate) fn resolve_dtype(
    asked: CacheDtype,
    implementation: Implementation,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<ResolvedDtype, Box<Refusal>> {
    let resolved = if implementation.packs_rows() {
        let fp8 = match profile.packed_dtype_rule {
            PackedDtypeRule::AssertFp8(_) if asked.is_fp8_spelling() => asked,
            PackedDtypeRule::AssertFp8(words) => {
                return Err(Box::new(Refusal::PackedAssertsFp8 {
                    dtype: asked,
                    words,
                }));
            }
            PackedDtypeRule::AutoIsFp8 if asked == CacheDtype::Auto => CacheDtype::Fp8,
            PackedDtypeRule::AutoIsFp8 if asked.is_fp8_spelling() => asked,
            PackedDtypeRule::AutoIsFp8 => return Err(Box::new(Refusal::PackedNeedsFp8(asked))),
        };
        trace.step(
            Stage::Model,
            profile.files.v4_attention,
            "_resolve_dsv4_kv_cache_dtype",
            || {
                let path = match (asked, fp8) {
                    (CacheDtype::Auto, _) => "auto is taken as fp8 and written back as fp8_ds_mla",
                    (CacheDtype::Fp8DsMla, _) => "fp8_ds_mla stays",
                    _ => "any fp8 spelling is written back as fp8_ds_mla",
                };
                format!("the backend packs rows, so {path} (asked: {asked})")
            },
        );
        if fp8 != CacheDtype::Fp8DsMla {
            trace.say(log::MODEL, || {
                "Using DeepSeek's fp8_ds_mla KV cache format.".to_owned()
            });
        }
        ResolvedDtype {
            cache_dtype: CacheDtype::Fp8DsMla,
            rows: TorchDtype::Uint8,
        }
    } else {
        let rows = if asked.is_fp8_spelling() {
            TorchDtype::Float8E4m3fn
        } else {
            TorchDtype::Bfloat16
        };
        trace.step(
            Stage::Model,
            profile.files.v4_attention,
            "_resolve_dsv4_kv_cache_dtype",
            || {
                let rows = match rows {
                    TorchDtype::Float8E4m3fn => "fp8 e4m3 with one scale per tensor",
                    _ => "bf16",
                };
                format!("the backend keeps plain rows: {asked} is stored as {rows}")
            },
        );
        ResolvedDtype {
            cache_dtype: asked,
            rows,
        }
    };
    Ok(resolved)
}

/// Every layer's spec, in the order in which the model makes its layers, of
/// which the first has the number `first`.
///
/// Mirrors `get_kv_cache_spec` of `DeepseekV4Attention`, `DeepseekV4IndexerCache`,
/// `DeepseekV4SWACache` and `CompressorStateCache`.
pub(crate) fn layers(
    model: &DeepseekV4,
    first: u64,
    resolved: ResolvedDtype,
    block_size: u64,
    profile: &Profile,
    trace: &mut Trace,
) -> Result<Layers, Box<Refusal>> {
    let first = u32::try_from(first).map_err(|_| Refusal::TooLarge)?;
    let shapes = Shapes::new(model, resolved, block_size, profile)?;
    let mut layers = Layers::new("model.layers");
    layers.list.reserve(5 * model.layers.len());
    // what a layer of each compression keeps: looked up once, for there are many
    let mut kept: [Option<Vec<(&'static str, usize)>>; 3] = [const { None }; 3];
    for (index, compression) in (first..).zip(&model.layers) {
        let of_layer = kept[*compression as usize].get_or_insert_with(|| {
            let of_layer = shapes.of_layer(*compression).into_iter();
            of_layer
                .map(|(suffix, spec)| (suffix, layers.place(spec)))
                .collect()
        });
        for (suffix, spec) in of_layer {
            layers.push_placed(index, suffix, *spec);
        }
    }
    for spec in &layers.specs {
        let (file, class) = match spec.role {
            LayerRole::Window => (WINDOW_FILE, "DeepseekV4SWACache.get_kv_cache_spec"),
            LayerRole::C4 | LayerRole::C128 => (
                profile.files.v4_attention,
                "DeepseekV4Attention.get_kv_cache_spec",
            ),
            LayerRole::Indexer => (
                profile.files.v4_attention,
                "DeepseekV4IndexerCache.get_kv_cache_spec",
            ),
            _ => (
                profile.files.v4_compressor,
                "CompressorStateCache.get_kv_cache_spec",
            ),
        };
        let (slot, unpadded, page) = (
            spec.slot_bytes()?,
            spec.unpadded_page_size_bytes()?,
            spec.page_size_bytes()?,
        );
        trace.step(Stage::Specs, file, class, || {
            format!(
                "{}: {} states × {slot} B = {unpadded} B for {} tokens, rounded up to {} → {page} B",
                spec.role.label(),
                spec.num_states(),
                spec.block_size,
                spec.alignment.unwrap_or(1),
            )
        });
    }
    Ok(layers)
}

/// Layers that keep a window alone, as a drafter's do: their numbers are past the
/// target's, so vLLM compresses nothing of them.
pub(crate) fn windows(
    model: &DeepseekV4,
    resolved: ResolvedDtype,
    (first, count): (u32, u32),
    profile: &Profile,
) -> Result<Layers, Box<Refusal>> {
    let window = Shapes::new(model, resolved, BLOCK_SIZE, profile)?.window;
    let mut layers = Layers::new("model.layers");
    for index in first..first.saturating_add(count) {
        layers.push(index, "attn.swa_cache", window);
    }
    Ok(layers)
}

/// The seven kinds of spec.
struct Shapes {
    window: LayerSpec,
    c4: LayerSpec,
    c128: LayerSpec,
    indexer: LayerSpec,
    c4_state: LayerSpec,
    c128_state: LayerSpec,
    indexer_state: LayerSpec,
}

impl Shapes {
    /// What a layer keeps, by the names of its parts, in the order in which the model makes them.
    fn of_layer(&self, compression: Compression) -> Vec<(&'static str, LayerSpec)> {
        let (rows, state) = match compression {
            Compression::None => return vec![("attn.swa_cache", self.window)],
            Compression::C4 => (self.c4, self.c4_state),
            Compression::C128 => (self.c128, self.c128_state),
        };
        let mut kept = Vec::new();
        if compression == Compression::C4 {
            kept.push(("attn.indexer.k_cache", self.indexer));
            kept.push(("attn.indexer.compressor.state_cache", self.indexer_state));
        }
        kept.push(("attn.swa_cache", self.window));
        kept.push(("attn", rows));
        kept.push(("attn.compressor.state_cache", state));
        kept
    }

    fn new(
        model: &DeepseekV4,
        resolved: ResolvedDtype,
        block_size: u64,
        profile: &Profile,
    ) -> Result<Self, Box<Refusal>> {
        // a plain-row backend that is asked for fp8_ds_mla gets packed slots all the same
        let packed = resolved.cache_dtype == CacheDtype::Fp8DsMla;
        let alignment = match (packed, profile.aligns_plain_rows) {
            (true, _) => Some(PACKED_ALIGNMENT_BYTES),
            (false, true) => Some(PLAIN_ALIGNMENT_BYTES),
            (false, false) => None,
        };
        let stride = if profile.stride_rule == StrideRule::KernelBlocks {
            StrideAlignment::KernelBlocks(KERNEL_BLOCK_SIZE)
        } else {
            StrideAlignment::None
        };
        let rows = LayerSpec {
            head_size: model.head_dim,
            state_content_bytes: packed.then_some(PACKED_SLOT_BYTES),
            sliding_window: Some(model.sliding_window),
            alignment,
            cache_dtype: Some(resolved.cache_dtype),
            kv_quant_mode: if profile.rows_carry_quant_mode {
                resolved.cache_dtype.quant_mode()
            } else {
                KvQuantMode::None
            },
            ..LayerSpec::plain(
                LayerRole::Window,
                SpecKind::SlidingWindowMla,
                WINDOW_BLOCK_SIZE,
                resolved.rows,
            )
        };
        let compressed = |role, compression: Compression| LayerSpec {
            role,
            kind: SpecKind::MlaAttention,
            block_size,
            dtype: if packed {
                TorchDtype::Uint8
            } else {
                resolved.rows
            },
            tokens_per_state: compression.ratio().cast_signed(),
            sliding_window: None,
            stride,
            ..rows
        };
        let keys = LayerSpec {
            role: LayerRole::Indexer,
            head_size: model.index_head_dim + model.index_head_dim / INDEXER_QUANT_BLOCK * 4,
            dtype: TorchDtype::Uint8,
            state_content_bytes: None,
            alignment: alignment.or(Some(PACKED_ALIGNMENT_BYTES)),
            cache_dtype: None,
            kv_quant_mode: KvQuantMode::None,
            ..compressed(LayerRole::Indexer, Compression::C4)
        };
        // kv and score of each token that waits for its state, in fp32; 4:1
        // states overlap, so they keep twice as many
        let state = |role, head_dim: u64, compression: Compression| {
            let (overlap, block_size) = match compression {
                Compression::C4 => (2, C4_STATE_BLOCK_SIZE),
                Compression::C128 | Compression::None => (1, C128_STATE_BLOCK_SIZE),
            };
            LayerSpec {
                role,
                block_size,
                head_size: 2 * overlap * head_dim,
                dtype: TorchDtype::Float32,
                state_content_bytes: None,
                sliding_window: Some(overlap * compression.ratio()),
                cache_dtype: None,
                kv_quant_mode: KvQuantMode::None,
                ..rows
            }
        };
        let window = if profile.nvfp4_packs_window && resolved.cache_dtype == CacheDtype::Nvfp4DsMla
        {
            LayerSpec {
                state_content_bytes: Some(PACKED_SLOT_BYTES),
                alignment: Some(PACKED_ALIGNMENT_BYTES),
                ..rows
            }
        } else {
            rows
        };
        Ok(Self {
            window: window.aligned()?,
            c4: compressed(LayerRole::C4, Compression::C4).aligned()?,
            c128: compressed(LayerRole::C128, Compression::C128).aligned()?,
            indexer: keys.aligned()?,
            c4_state: state(LayerRole::C4State, model.head_dim, Compression::C4).aligned()?,
            c128_state: state(LayerRole::C128State, model.head_dim, Compression::C128).aligned()?,
            indexer_state: state(
                LayerRole::IndexerState,
                model.index_head_dim,
                Compression::C4,
            )
            .aligned()?,
        })
    }
}
