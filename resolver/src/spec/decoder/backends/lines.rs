//! The lines of the start-up log on backends and what they make of the cache.

use crate::backend::AttentionBackend as B;
use crate::backend::flash_attention::{self, Shape, Version, is_quantised};
use crate::backend::select::{Selection, Surroundings, candidates};
use crate::dtype::CacheDtype;
use crate::layout::needs_heads_outside;
use crate::log::{MODEL, MODEL_EACH, MODEL_EACH_WARNING};
use crate::model::decoder::Attention;
use crate::python::repr_list;
use crate::release::Profile;
use crate::spec::decoder::Context;
use crate::trace::Trace;

/// Which backend serves a layer: asked for, or the first of several that might.
/// Mirrors `vllm/platforms/cuda.py` `CudaPlatformBase.get_attn_backend_cls` and, on the
/// layout that some backends need, `vllm/v1/attention/selector.py` through 0.28.
pub(super) fn selected(
    (asked, backend): (Option<B>, B),
    selection: &Selection,
    around: &Surroundings,
    profile: &Profile,
    trace: &mut Trace,
) {
    if !trace.is_asked_first(asked, selection) {
        return;
    }
    if asked.is_some() {
        trace.say(MODEL_EACH, || {
            ["Using AttentionBackendEnum.", backend.as_str(), " backend."].concat()
        });
    } else if let Some((valid, precluded)) = candidates(selection, around) {
        if let Some(size) = selection.block_size.filter(|_| !precluded.is_empty()) {
            trace.say(MODEL_EACH_WARNING, || precluding(size, &precluded, backend));
        }
        trace.say(MODEL, || {
            [
                "Using ",
                backend.as_str(),
                " attention backend out of potential backends: ",
                &repr_list(valid.iter().map(|backend| backend.as_str())),
                ".",
            ]
            .concat()
        });
    }
    if !profile.has_layouts && needs_heads_outside(backend.as_str(), around.arch) {
        trace.say(MODEL, || {
            [
                "Using HND KV cache layout for ",
                backend.as_str(),
                " backend.",
            ]
            .concat()
        });
    }
}

fn precluding(block_size: u64, precluded: &[B], backend: B) -> String {
    let names: Vec<&str> = precluded.iter().map(|backend| backend.as_str()).collect();
    [
        "--block-size ",
        &block_size.to_string(),
        " precluded higher-priority backend(s) ",
        &names.join(", "),
        ". Using ",
        backend.as_str(),
        " instead, which may result in reduced performance. Consider removing --block-size to \
         auto-select the optimal block size.",
    ]
    .concat()
}

/// Which FlashAttention a layer runs, alone or beside Triton.
/// Mirrors `vllm/v1/attention/backends/flash_attn.py` `FlashAttentionImpl.__init__`, which is
/// not told of V's size.
pub(super) fn flash_attention(
    backend: B,
    attention: Attention,
    around: &Surroundings,
    trace: &mut Trace,
) {
    if !matches!(
        backend,
        B::FlashAttn | B::FlashAttnDiffkv | B::TritonFlashAttn
    ) {
        return;
    }
    trace.say(MODEL, || {
        let shape = Shape {
            head_size: Some(attention.head_dim),
            has_sinks: attention.sinks,
            takes_hd256_kernel: true,
            ..Shape::default()
        };
        let version = match flash_attention::version(&shape, around.target(), Some(around)) {
            Version::Two => "2",
            Version::Three => "3",
            Version::Four => "4",
        };
        ["Using FlashAttention version ", version].concat()
    });
}

/// In which format sparse MLA keeps a quantised cache.
/// Mirrors `vllm/model_executor/layers/attention/mla_attention.py` `MLAAttention.__init__`.
pub(super) fn mla_format(
    backend: B,
    asked: CacheDtype,
    kept: CacheDtype,
    context: &Context,
    trace: &mut Trace,
) {
    if kept != asked {
        trace.say(MODEL, || {
            [
                "Using ",
                kept.as_str(),
                " KV cache format for ",
                backend.as_str(),
                " backend.",
            ]
            .concat()
        });
    }
    let quantised = is_quantised(kept, context.target.rules);
    if backend == B::FlashinferMlaSparse && kept != CacheDtype::Fp8DsMla && quantised {
        trace.say(MODEL, || {
            "Using standard fp8 KV cache format. To use DeepSeek's fp8_ds_mla KV cache format, \
             please set `--attention-backend FLASHMLA_SPARSE`"
                .to_owned()
        });
    }
}
