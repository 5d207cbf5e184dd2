//! What an answer does not say by itself.

use crate::backend::deepseek_v4::Implementation;
use crate::config::{EngineConfig, ModelDtype};
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::request::Request;
use crate::resolution::{Note, Resolution};
use crate::spec::deepseek_v4::KERNEL_BLOCK_SIZE;

/// GPUs in a usual node.
const USUAL_NODE_GPUS: u64 = 8;

/// Notes on a DeepSeek V4 that passes the plan. True if something after the
/// plan is known to refuse it, or may.
pub(crate) fn on_deepseek_v4(
    config: &EngineConfig,
    implementation: Implementation,
    block_size: u64,
    notes: &mut Vec<Note>,
) -> bool {
    let mut concerns = false;
    let kernel = KERNEL_BLOCK_SIZE;
    if !block_size.is_multiple_of(kernel) {
        concerns = true;
        notes.push(Note::new(
            "kernel-block-size",
            format!(
                "The plan passes, but the worker then looks for a kernel block that divides \
                 {block_size} tokens, and {} and the indexer take {kernel} only: vLLM's \
                 select_common_block_size (vllm/v1/worker/utils.py) raises \"No common block \
                 size for {block_size} (…)\". Use --block-size {kernel}, or leave it out.",
                implementation.backend()
            ),
        ));
    } else if block_size != kernel {
        concerns = true;
        notes.push(Note::new(
            "kernel-block-split",
            format!(
                "The plan passes, but the worker would have to split each block into kernel \
                 blocks of {kernel} tokens, which padded pages do not allow \
                 (create_kv_cache_views, vllm/v1/kv_cache_interface.py). Use --block-size \
                 {kernel}, or leave it out."
            ),
        ));
    }
    if implementation == Implementation::FlashInfer && !plain_rows_declared(config.cache_dtype) {
        concerns = true;
        notes.push(Note::new(
            "dtype-not-declared",
            format!(
                "{} declares auto, bfloat16, fp8 and fp8_e4m3 for its plain rows; nothing asks \
                 it about {} before the first kernel, so the start-up passes and what happens \
                 then is not known.",
                implementation.backend(),
                config.cache_dtype
            ),
        ));
    }
    if config.model_dtype != ModelDtype::Bfloat16 {
        concerns = true;
        notes.push(Note::new(
            "model-dtype-not-declared",
            format!(
                "{} declares bfloat16 activations only; nothing asks it before the first kernel.",
                implementation.backend()
            ),
        ));
    }
    concerns
}

/// Notes on any configuration that passes the plan.
pub(crate) fn on_any(
    request: &Request,
    config: &EngineConfig,
    resolution: &Resolution,
    notes: &mut Vec<Note>,
) {
    if resolution.reported_block_size != resolution.block_size {
        notes.push(Note::new(
            "reported-block-size",
            format!(
                "vLLM's metrics will show a block size of {}, the smallest group's, not {}.",
                resolution.reported_block_size, resolution.block_size
            ),
        ));
    }
    if config.tensor_parallel_size > USUAL_NODE_GPUS {
        notes.push(Note::new(
            "many-nodes",
            format!(
                "tensor_parallel_size {} needs more GPUs than a usual node has; vLLM then wants \
                 --nnodes or --distributed-executor-backend ray.",
                config.tensor_parallel_size
            ),
        ));
    }
    if config.num_gpu_blocks_override.is_some() {
        notes.push(Note::new(
            "blocks-override",
            "num_gpu_blocks_override replaces what fits: vLLM allocates so many blocks whether \
             the GPU has room for them or not."
                .to_owned(),
        ));
    }
    if request.hf_config.get_set("hf_quant_config").is_some() {
        notes.push(Note::new(
            "hf-quant-config",
            "This checkpoint's quantisation lies in hf_quant_config.json beside its config.json, \
             which is not read here: where that file names a dtype for the KV cache, vLLM takes \
             it for auto."
                .to_owned(),
        ));
    }
    if request.args.mamba_cache_mode.is_some() {
        notes.push(Note::new(
            "mamba-cache-mode",
            "mamba_cache_mode is no longer read: vLLM takes align with prefix caching and none \
             without it (vllm/engine/arg_utils.py create_engine_config)."
                .to_owned(),
        ));
    }
    if request.available_memory.is_some() && request.args.kv_cache_memory_bytes.is_some() {
        notes.push(Note::new(
            "pool-given-twice",
            "Both a pool and kv_cache_memory_bytes are given; the answer is for the pool. In \
             vLLM, kv_cache_memory_bytes is the pool."
                .to_owned(),
        ));
    }
}

const fn plain_rows_declared(dtype: CacheDtype) -> bool {
    matches!(
        dtype,
        CacheDtype::Auto | CacheDtype::Bfloat16 | CacheDtype::Fp8 | CacheDtype::Fp8E4m3
    )
}

/// Notes on an error: what it means.
pub(crate) fn on_refusal(refusal: &Refusal, request: &Request, notes: &mut Vec<Note>) {
    let (code, text) = match refusal {
        Refusal::ZeroDivision => (
            "zero-page",
            format!(
                "A block of {} tokens holds no whole state of the 128:1 layers, so their page has \
                 no bytes and vLLM divides by it.",
                request.args.block_size.unwrap_or_default()
            ),
        ),
        Refusal::PromotedSpecField(_) => (
            "hybrid-manager-needed",
            "A bug in this release: with the hybrid KV cache manager off, vLLM rebuilds the \
             windows' specs as full attention and passes a field on that those do not have. \
             DeepSeek V4 needs the hybrid manager."
                .to_owned(),
        ),
        Refusal::WindowUnderDcp => (
            "no-dcp",
            "Every DeepSeek V4 layer has a sliding window, which decode context parallelism does \
             not share out."
                .to_owned(),
        ),
        Refusal::PackedAssertsFp8(dtype) if *dtype == CacheDtype::Auto => (
            "auto-not-resolved",
            "Through 0.29, auto is not resolved to fp8 on the packed layout; since 0.30 it is."
                .to_owned(),
        ),
        Refusal::Raised { stage, message, .. } if message.is_empty() => {
            ("bare-assertion", bare_assertion(*stage))
        }
        Refusal::Raised {
            stage: Stage::Args, ..
        } => (
            "parser",
            "The command line's parser stops here with exit code 2, before vLLM looks at the \
             model."
                .to_owned(),
        ),
        _ => return,
    };
    notes.push(Note::new(code, text));
}

/// What vLLM asserts without a word, by where it does.
fn bare_assertion(stage: Stage) -> String {
    match stage {
        Stage::Config => {
            "vLLM asserts without a word that config.json has `index_topk`, by which DeepSeek \
             V3.2's indexer picks tokens."
        }
        Stage::Model => {
            "vLLM asserts without a word that KV heads divide by tensor_parallel_size or are \
             divided by it, and that an expert's width divides by tensor × data parallel size; \
             --enable-expert-parallel keeps experts whole."
        }
        Stage::Plan => {
            "vLLM asserts without a word that a page grows with its block, which one that is \
             padded does not; choose other layers to keep unquantised."
        }
        Stage::Args | Stage::Specs | Stage::Unmodelled => "vLLM asserts this without a word.",
    }
    .to_owned()
}
