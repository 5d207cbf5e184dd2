//! Each layer's backend and cache dtype, in the order in which the model makes
//! its layers: an earlier layer may change the dtype of those after it.

mod lines;

use super::Context;
use super::ranks::{check_heads, check_linear, check_queries, check_states};
use crate::backend::AttentionBackend;
use crate::backend::block_size::DEFAULT_BLOCK_SIZE;
use crate::backend::flash_attention::{self, Shape, Version};
use crate::backend::layer::{FixedBackend, LayerBackend};
use crate::backend::select::{Selection, select};
use crate::dtype::{CacheDtype, KvQuantMode};
use crate::error::{Refusal, Stage};
use crate::gpu::Arch;
use crate::model::decoder::{Attention, DtypeHook, LayerKind, LinearKernel};
use crate::model::{AutoCacheDtype, Decoder};
use crate::release::PcpGraphs;
use crate::resolution::Note;
use crate::trace::Trace;

const MLA_FILE: &str = "vllm/model_executor/layers/attention/mla_attention.py";
const SELECTOR_FILE: &str = "vllm/v1/attention/selector.py";

/// The choice for every layer.
pub(super) struct Chosen {
    /// Each layer's backend and cache dtype, in the decoder's order.
    pub layers: Vec<(LayerBackend, CacheDtype)>,
    /// What is written back in the end.
    pub cache_dtype: CacheDtype,
    /// Whether a backend takes what it does not declare.
    pub concerns: bool,
}

impl Chosen {
    /// The distinct backends, in the order of the layers.
    pub fn distinct(&self, decoder: &Decoder) -> Vec<LayerBackend> {
        let indexer = LayerBackend::Fixed(FixedBackend::DeepseekV32Indexer);
        let mut distinct = Vec::new();
        for (layer, (backend, _)) in decoder.layers.iter().zip(&self.layers) {
            if layer.kind == (LayerKind::Mla { indexer: true }) && !distinct.contains(&indexer) {
                distinct.push(indexer);
            }
            if !distinct.contains(backend) {
                distinct.push(*backend);
            }
        }
        distinct
    }
}

/// Chooses for each layer.
pub(super) fn choose(
    context: &Context,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Chosen, Box<Refusal>> {
    let mut chosen = Chosen {
        layers: Vec::with_capacity(context.decoder.layers.len()),
        cache_dtype: context.config.cache_dtype,
        concerns: false,
    };
    // layers of one kind are answered once for each dtype that they are asked with
    let mut known: Vec<(Asked, (LayerBackend, CacheDtype, CacheDtype))> = Vec::new();
    for layer in &context.decoder.layers {
        let asked = Asked {
            kind: layer.kind,
            is_skipped: context.is_skipped(layer) || context.leaves_layers_untold(),
            cache_dtype: chosen.cache_dtype,
        };
        let same = known.iter().find(|(other, _)| *other == asked);
        let answer = if let Some((_, answer)) = same {
            *answer
        } else {
            let answer = asked.answer(context, &mut chosen.concerns, notes, trace)?;
            known.push((asked, answer));
            answer
        };
        let (backend, dtype, written_back) = answer;
        chosen.layers.push((backend, dtype));
        chosen.cache_dtype = written_back;
    }
    Ok(chosen)
}

/// One kind of layer's question.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Asked {
    kind: LayerKind,
    is_skipped: bool,
    cache_dtype: CacheDtype,
}

impl Asked {
    /// The backend, the layer's own dtype, and what is written back.
    fn answer(
        self,
        context: &Context,
        concerns: &mut bool,
        notes: &mut Vec<Note>,
        trace: &mut Trace,
    ) -> Result<(LayerBackend, CacheDtype, CacheDtype), Box<Refusal>> {
        match self.kind {
            LayerKind::Attention(attention) => {
                self.attention(attention, context, concerns, notes, trace)
            }
            LayerKind::Mla { .. } => self.mla(context, trace),
            LayerKind::Linear(linear) => {
                check_linear(linear, context.config.tensor_parallel_size)?;
                check_states(linear, context)?;
                let backend = LayerBackend::Fixed(match linear.kernel {
                    LinearKernel::Gdn => FixedBackend::GdnAttn,
                    LinearKernel::Mamba2 => FixedBackend::Mamba2Attn,
                    LinearKernel::Kda => FixedBackend::KimiK3Kda,
                });
                Ok((backend, self.cache_dtype, self.cache_dtype))
            }
        }
    }

    /// What the layer itself is asked to keep.
    const fn own_dtype(self, cache_dtype: CacheDtype) -> CacheDtype {
        if self.is_skipped {
            CacheDtype::Auto
        } else {
            cache_dtype
        }
    }

    fn attention(
        self,
        attention: Attention,
        context: &Context,
        concerns: &mut bool,
        notes: &mut Vec<Note>,
        trace: &mut Trace,
    ) -> Result<(LayerBackend, CacheDtype, CacheDtype), Box<Refusal>> {
        let tensor = context.config.tensor_parallel_size;
        check_heads(attention, tensor)?;
        check_queries(attention, context.common.num_attention_heads, tensor)?;
        let from_checkpoint = self.cache_dtype == CacheDtype::Auto
            && context.common.auto_cache_dtype == AutoCacheDtype::FirstLayer;
        let cache_dtype = if from_checkpoint {
            trace.step(
                Stage::Model,
                "vllm/model_executor/layers/attention/attention.py",
                "Attention.__init__",
                || "the checkpoint has scales for its cache, so auto becomes fp8".to_owned(),
            );
            CacheDtype::Fp8
        } else {
            self.cache_dtype
        };
        let dtype = self.own_dtype(cache_dtype);
        let backend = if attention.head_dim == attention.head_dim_v {
            self.one_width(attention, cache_dtype, context, trace)?
        } else {
            let backend = by_model(attention, dtype, context)?;
            lines::flash_attention(backend, attention, &context.surroundings(dtype), trace);
            if !declares_diffkv(backend, dtype) {
                *concerns = true;
                notes.push(Note::new(
                    "dtype-not-declared",
                    format!(
                        "{backend} does not declare {dtype}; the model names its backend itself, \
                         so nothing asks before the first kernel."
                    ),
                ));
            }
            LayerBackend::Selected(backend)
        };
        let scaled_checkpoint = context.common.quant_method.as_deref() == Some("fp8")
            || context.common.auto_cache_dtype != AutoCacheDtype::Model;
        if dtype == CacheDtype::Fp8E5m2 && scaled_checkpoint {
            return Err(Refusal::raised(
                Stage::Model,
                "ValueError",
                "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
            ));
        }
        if dtype == CacheDtype::Nvfp4DsMla {
            *concerns = true;
            notes.push(Note::new(
                "not-an-mla-model",
                format!(
                    "{backend} takes nvfp4_ds_mla because it begins with nvfp4, and vLLM sizes \
                     its rows as bytes; the format is MLA's, so what happens at the first kernel \
                     is not known."
                ),
            ));
        }
        Ok((backend, dtype, cache_dtype))
    }

    /// K and V of one width: the selector decides.
    fn one_width(
        self,
        attention: Attention,
        cache_dtype: CacheDtype,
        context: &Context,
        trace: &mut Trace,
    ) -> Result<LayerBackend, Box<Refusal>> {
        let dtype = self.own_dtype(cache_dtype);
        let chunked = attention.chunk.is_some();
        let selection = Selection {
            head_size: attention.head_dim,
            dtype: context.config.model_dtype,
            // chunked layers ask before they look at what is left unquantised
            kv_cache_dtype: if chunked { cache_dtype } else { dtype },
            block_size: context.config.block_size,
            use_mla: false,
            has_sink: attention.sinks && !chunked,
            use_sparse: false,
            use_mm_prefix: context.model().0.mm_prefix,
            use_per_head_quant_scales: false,
            has_sliding_window: attention.window.is_some(),
            use_non_causal: context.non_causal,
            use_dcp: context.config.decode_context_parallel_size > 1,
            use_pcp: context.config.context.prefill_ranks > 1,
        };
        let backend = self.select(&selection, context, trace)?;
        lines::flash_attention(
            backend,
            attention,
            &context.surroundings(cache_dtype),
            trace,
        );
        if chunked && backend == AttentionBackend::Turboquant && dtype == CacheDtype::Auto {
            return Err(unknown_turboquant());
        }
        Ok(if chunked {
            LayerBackend::ChunkedLocal(backend)
        } else {
            LayerBackend::Selected(backend)
        })
    }

    fn mla(
        self,
        context: &Context,
        trace: &mut Trace,
    ) -> Result<(LayerBackend, CacheDtype, CacheDtype), Box<Refusal>> {
        let Some(dims) = context.decoder.mla else {
            return Err(Refusal::not_modelled("MLA without its dimensions"));
        };
        let sparse = context.decoder.index_topk.is_some();
        let dtype = self.own_dtype(self.cache_dtype);
        let selection = Selection {
            head_size: dims.row(),
            dtype: context.config.model_dtype,
            kv_cache_dtype: dtype,
            block_size: context.config.block_size,
            use_mla: true,
            has_sink: false,
            use_sparse: sparse,
            use_mm_prefix: false,
            use_per_head_quant_scales: false,
            has_sliding_window: false,
            use_non_causal: context.non_causal,
            use_dcp: context.config.decode_context_parallel_size > 1,
            use_pcp: context.config.context.prefill_ranks > 1,
        };
        let backend = self.select(&selection, context, trace)?;
        let canonical = canonical(backend, dtype);
        let backend_kept = LayerBackend::Selected(backend);
        lines::mla_format(backend, dtype, canonical, context, trace);
        if canonical != dtype {
            trace.step(
                Stage::Model,
                MLA_FILE,
                "_canonicalize_sparse_mla_kv_cache_dtype",
                || format!("{backend} keeps {dtype} as {canonical}, which is written back"),
            );
        }
        if backend == AttentionBackend::FlashmlaSparse
            && selection.use_dcp
            && canonical.quant_mode() == KvQuantMode::None
        {
            return Err(Refusal::raised(
                Stage::Model,
                "NotImplementedError",
                "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache; the bf16 sparse path is \
                 not supported under DCP.",
            ));
        }
        let shares = selection.use_pcp && selection.use_dcp;
        if shares && !sparse && context.profile.context.graphs != PcpGraphs::Piecewise {
            return Err(Refusal::raised(
                Stage::Model,
                "NotImplementedError",
                "MLAAttention does not support PCP+DCP.",
            ));
        }
        if !sparse {
            let known = [(128, 64, 128), (192, 64, 256), (64, 64, 128), (256, 0, 256)];
            let (nope, rope, v) = (
                dims.qk_nope_head_dim,
                dims.qk_rope_head_dim,
                dims.v_head_dim,
            );
            if !known.contains(&(nope, rope, v)) {
                return Err(Refusal::not_modelled(format!(
                    "MLA with dimensions ({nope}, {rope}, {v}) has no prefill backend in the rules here"
                )));
            }
        }
        let written_back = if canonical == dtype {
            self.cache_dtype
        } else {
            canonical
        };
        Ok((backend_kept, canonical, written_back))
    }

    fn select(
        self,
        selection: &Selection,
        context: &Context,
        trace: &mut Trace,
    ) -> Result<AttentionBackend, Box<Refusal>> {
        // Gemma 4 on SM120: no FlashAttention for both of its head sizes
        let forced = (context.decoder.dtype_hook == DtypeHook::TwoHeadSizes
            && context.target.arch == Arch::Sm120)
            .then_some(AttentionBackend::TritonAttn);
        let asked = context.config.attention_backend.or(forced);
        let around = context.surroundings(self.cache_dtype);
        let backend = select(asked, selection, &around)?;
        lines::selected((asked, backend), selection, &around, context.profile, trace);
        constructed(backend, context)?;
        trace.step(Stage::Model, SELECTOR_FILE, "get_attn_backend", || {
            format!(
                "{backend} serves layers with heads of {} and a cache dtype of {}{}{}: {}",
                selection.head_size,
                selection.kv_cache_dtype,
                if selection.has_sliding_window {
                    ", a window"
                } else {
                    ""
                },
                if selection.has_sink { ", sinks" } else { "" },
                if asked.is_some() {
                    "as asked"
                } else {
                    "the first of this GPU's list without an objection"
                }
            )
        });
        Ok(backend)
    }
}

/// What a backend's implementation refuses when a layer makes one.
fn constructed(backend: AttentionBackend, context: &Context) -> Result<(), Box<Refusal>> {
    match (backend, context.config.block_size) {
        // `vllm/v1/attention/backends/hpc_attn.py`; vLLM's image does not have it
        (AttentionBackend::HpcAttn, _) => Err(Refusal::raised(
            Stage::Model,
            "ImportError",
            "HPC attention requires the hpc module to be installed. Please install it from \
             https://github.com/Tencent/hpc-ops",
        )),
        // `vllm/v1/attention/backends/b12x.py` looks before the block size is settled
        (AttentionBackend::B12x, None) => Err(Refusal::raised(
            Stage::Model,
            "ValueError",
            format!("b12x requires --block-size in (64, 128), got {DEFAULT_BLOCK_SIZE}."),
        )),
        _ => Ok(()),
    }
}

/// Mirrors `vllm/model_executor/layers/attention/mla_attention.py`
/// `_canonicalize_sparse_mla_kv_cache_dtype`.
fn canonical(backend: AttentionBackend, dtype: CacheDtype) -> CacheDtype {
    let quantised = dtype.quant_mode() != KvQuantMode::None;
    match backend {
        AttentionBackend::FlashmlaSparse if quantised && dtype != CacheDtype::Nvfp4DsMla => {
            CacheDtype::Fp8DsMla
        }
        AttentionBackend::FlashinferMlaSparseSm120
            if matches!(
                dtype,
                CacheDtype::Auto | CacheDtype::Fp8 | CacheDtype::Fp8E4m3
            ) =>
        {
            CacheDtype::Fp8DsMla
        }
        _ => dtype,
    }
}

/// K and V of different widths: MiMo V2 names its backend itself.
/// Mirrors `vllm/model_executor/models/mimo_v2.py`.
fn by_model(
    attention: Attention,
    dtype: CacheDtype,
    context: &Context,
) -> Result<AttentionBackend, Box<Refusal>> {
    let around = context.surroundings(dtype);
    // whether there are sinks is all the same: they turn a third version into a fourth
    let shape = Shape {
        head_size: Some(attention.head_dim),
        head_size_v: Some(attention.head_dim_v),
        ..Shape::default()
    };
    let backend = match context.config.attention_backend {
        Some(asked @ (AttentionBackend::FlashAttnDiffkv | AttentionBackend::TritonAttnDiffkv)) => {
            asked
        }
        _ if flash_attention::version(&shape, context.target, Some(&around)) != Version::Two => {
            AttentionBackend::FlashAttnDiffkv
        }
        _ => AttentionBackend::TritonAttnDiffkv,
    };
    let quantised = dtype.quant_mode() != KvQuantMode::None;
    if backend == AttentionBackend::TritonAttnDiffkv
        && quantised
        && !matches!(dtype, CacheDtype::Fp8 | CacheDtype::Fp8E4m3)
    {
        return Err(Refusal::raised(
            Stage::Model,
            "NotImplementedError",
            format!(
                "TritonAttentionDiffKVBackend supports only fp8/fp8_e4m3 quantized KV cache (got \
                 kv_cache_dtype='{dtype}')."
            ),
        ));
    }
    let one_width = Shape {
        head_size_v: Some(attention.head_dim),
        ..shape
    };
    if backend == AttentionBackend::FlashAttnDiffkv
        && quantised
        && !flash_attention::reads_quantised_cache(dtype, &one_width, &around)
    {
        return Err(Refusal::raised(
            Stage::Model,
            "NotImplementedError",
            format!("FlashAttention does not support {dtype} kv-cache on this device."),
        ));
    }
    // `vllm/v1/attention/backends/flash_attn.py` `FlashAttentionImpl.__init__`, of no layer's shape
    let any = flash_attention::version(&Shape::default(), context.target, Some(&around));
    if backend == AttentionBackend::FlashAttnDiffkv && attention.sinks && any == Version::Two {
        return Err(Refusal::raised(
            Stage::Model,
            "AssertionError",
            "Sinks are only supported in FlashAttention 3",
        ));
    }
    Ok(backend)
}

const fn declares_diffkv(backend: AttentionBackend, dtype: CacheDtype) -> bool {
    match dtype {
        CacheDtype::Auto | CacheDtype::Bfloat16 | CacheDtype::Fp8 | CacheDtype::Fp8E4m3 => true,
        CacheDtype::Float16 => matches!(backend, AttentionBackend::FlashAttnDiffkv),
        _ => false,
    }
}

fn unknown_turboquant() -> Box<Refusal> {
    Refusal::raised(
        Stage::Model,
        "ValueError",
        "Unknown TurboQuant cache dtype: 'auto'. Valid presets: turboquant_k8v4, \
         turboquant_4bit_nc, turboquant_k3v4_nc, turboquant_3bit_nc",
    )
}
