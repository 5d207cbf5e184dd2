//! What an answer does not say by itself.

use crate::backend::deepseek_v4::Implementation;
use crate::config::{EngineConfig, ModelDtype};
use crate::dtype::CacheDtype;
use crate::error::{Refusal, Stage};
use crate::plan::Misplaced;
use crate::release::{
    BlockRule, CapacityRule, Grouping, InFlight, MambaMode, Profile, Release, SlotRule,
};
use crate::request::Request;
use crate::resolution::{Note, Resolution, human_bytes};
use crate::spec::deepseek_v4::KERNEL_BLOCK_SIZE;
use crate::units::thousands;

/// GPUs in a usual node.
const USUAL_NODE_GPUS: u64 = 8;

/// Notes on a DeepSeek V4 that passes the plan. True if something after the
/// plan is known to refuse it, or may.
pub(crate) fn on_deepseek_v4(
    config: &EngineConfig,
    implementation: Implementation,
    block_size: u64,
    profile: &Profile,
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
                implementation.backend(profile)
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
                implementation.backend(profile),
                config.cache_dtype
            ),
        ));
    }
    if !config.skip_layers.is_empty() {
        notes.push(Note::new(
            "skip-layers-unread",
            "DeepSeek V4's layers do not read kv_cache_dtype_skip_layers: none stays unquantised. \
             It can only raise a small block size."
                .to_owned(),
        ));
    }
    if config.model_dtype != ModelDtype::Bfloat16 {
        concerns = true;
        notes.push(Note::new(
            "model-dtype-not-declared",
            format!(
                "{} declares bfloat16 activations only; nothing asks it before the first kernel.",
                implementation.backend(profile)
            ),
        ));
    }
    concerns
}

/// Nothing stops a negative number of tokens in a row, which no kernel means.
pub(crate) fn odd_turns(config: &EngineConfig, notes: &mut Vec<Note>) -> bool {
    let odd = config.decode_context_parallel_size > 1 && config.context.interleave_tokens < 0;
    if odd {
        notes.push(Note::new(
            "negative-interleave",
            format!(
                "No check stops cp_kv_cache_interleave_size {}; what the kernels make of it is \
                 not known.",
                config.context.interleave_tokens
            ),
        ));
    }
    odd
}

/// What the worker of a stage stops over, after the plan.
pub(crate) fn on_misplaced(stage: usize, misplaced: Misplaced) -> Note {
    let why = match misplaced {
        Misplaced::Absent => {
            "has no layer of some group and gets that group's tensors all the same: its worker \
             looks for their layers and raises StopIteration (allocate_kv_cache, \
             vllm/v1/worker/utils.py)."
        }
        Misplaced::LeftOut => {
            "has layers whose pages are of no size that its full-attention layers have, and they \
             get no tensor: its worker raises AssertionError \"Some layers are not correctly \
             initialized\" (_allocate_kv_cache_tensors, vllm/v1/worker/gpu_model_runner.py)."
        }
    };
    Note::new(
        "stage-tensors",
        format!(
            "The plan passes, but stage {stage} {why} Another number of stages, or \
             VLLM_PP_LAYER_PARTITION, may avoid it."
        ),
    )
}

/// Which stage of a pipeline decides, where there are several.
fn on_stages(resolution: &Resolution, notes: &mut Vec<Note>) {
    let stages = &resolution.stages;
    let Some((number, stage)) = (1_usize..).zip(stages).find(|(_, stage)| stage.binds) else {
        return;
    };
    let blocks = match &resolution.capacity {
        Some(capacity) => format!(
            "every stage takes its {} blocks",
            thousands(capacity.num_blocks)
        ),
        None => "it holds the fewest of the same pool, and every stage takes as many".to_owned(),
    };
    let figures = if number == 1 {
        "The figures here are this stage's.".to_owned()
    } else {
        format!(
            "The other figures here are the first stage's, which vLLM's scheduler sees; on stage \
             {number} one request of max_model_len takes {}.",
            human_bytes(stage.request_bytes)
        )
    };
    notes.push(Note::new(
        "pipeline-stages",
        format!(
            "Stage {number} of {} binds: its block of {} B is the widest, so {blocks}. {figures}",
            stages.len(),
            thousands(stage.bytes_per_block),
        ),
    ));
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
                thousands(resolution.reported_block_size),
                thousands(resolution.block_size)
            ),
        ));
    }
    misleading_lines(request, resolution, notes);
    let reads_draft = config.speculation.is_some() && request.args.draft_model().is_some();
    if request.draft_config.is_some() && !reads_draft {
        notes.push(Note::new(
            "draft-config-unread",
            "The drafter's config.json is not read: speculative_config names no model.".to_owned(),
        ));
    }
    on_stages(resolution, notes);
    let stages = config.pipeline_parallel_size;
    let prefill = config.context.prefill_ranks;
    let gpus = config
        .tensor_parallel_size
        .saturating_mul(prefill)
        .saturating_mul(stages);
    if gpus > USUAL_NODE_GPUS && stages > 1 {
        notes.push(Note::new(
            "many-nodes",
            format!(
                "tensor_parallel_size × pipeline_parallel_size, {gpus}, needs more GPUs than a \
                 usual node has; vLLM then wants --nnodes or --distributed-executor-backend ray.",
            ),
        ));
    } else if gpus > USUAL_NODE_GPUS {
        let beside = if prefill > 1 {
            format!(" × prefill_context_parallel_size {prefill}")
        } else {
            String::new()
        };
        notes.push(Note::new(
            "many-nodes",
            format!(
                "tensor_parallel_size {}{beside} needs more GPUs than a usual node has; vLLM then wants \
                 --nnodes or --distributed-executor-backend ray.",
                config.tensor_parallel_size
            ),
        ));
    }
    weights(request, resolution, notes);
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
    if request.args.mamba_cache_mode.is_some()
        && request.release.profile().mamba_mode == MambaMode::Ignored
    {
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

/// Where the release's own figures say something else than the pool holds.
fn misleading_lines(request: &Request, resolution: &Resolution, notes: &mut Vec<Note>) {
    let profile = request.release.profile();
    let Some(capacity) = &resolution.capacity else {
        return;
    };
    let blocks = resolution
        .groups
        .iter()
        .map(|group| group.blocks_per_request);
    let per_request: u64 = blocks.sum();
    if !profile.reserves_null_block && per_request >= capacity.num_blocks {
        notes.push(Note::new(
            "one-request-does-not-fit",
            format!(
                "The check passes, but one such request takes {} blocks, and the pool \
                 hands out {}: one of its {} is the null block, which this release's check \
                 forgets. The longest requests run out of blocks.",
                thousands(per_request),
                thousands(capacity.num_blocks.saturating_sub(1)),
                thousands(capacity.num_blocks)
            ),
        ));
    }
    if resolution.groups.len() <= 1 {
        return;
    }
    let CapacityRule::BytesOverFirstGroup { .. } = profile.capacity_rule else {
        return;
    };
    let whole = &capacity.requests;
    notes.push(Note::new(
        "printed-too-high",
        format!(
            "The log line promises {}x. It divides a request's bytes by the first group's, but \
             each block of any group takes a whole block of the pool: {whole} requests fit by \
             the blocks that they reserve. Since 0.27 vLLM counts so.",
            capacity.printed_concurrency
        ),
    ));
    if let Some(tokens) = capacity.capacity_tokens {
        notes.push(Note::new(
            "metric-differs",
            format!(
                "vLLM's metrics will show {} tokens, not the {} of the log line: they count one \
                 layer of each group.",
                thousands(tokens),
                thousands(capacity.printed_tokens)
            ),
        ));
    }
    if let InFlight::OneBatch { .. } = profile.in_flight
        && config_async(request)
    {
        notes.push(Note::new(
            "one-batch-reserved",
            "With async scheduling two batches are in flight, and through 0.25 vLLM reserves the \
             windows of one: under load requests may be preempted earlier than these figures say."
                .to_owned(),
        ));
    }
}

fn config_async(request: &Request) -> bool {
    request.args.async_scheduling != Some(false)
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
        Refusal::ZeroDivision
            if request.args.block_size.is_none()
                && request.args.pipeline_parallel_size.is_some() =>
        (
            "empty-stage",
            "A stage of the pipeline has no layer with a cache, so its block has no bytes and vLLM \
             divides by them: share the layers out otherwise, or among fewer stages."
                .to_owned(),
        ),
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
        Refusal::RequestDoesNotFit { .. } if counts_layer_tuples(request) => (
            "need-overstated",
            "This release counts a request in layer tuples, which are larger than the blocks that \
             the pool is made of: a request may be refused here that would fit."
                .to_owned(),
        ),
        Refusal::PackedAssertsFp8 { dtype, .. } if *dtype == CacheDtype::Auto => (
            "auto-not-resolved",
            "Through 0.29, auto is not resolved to fp8 on the packed layout; since 0.30 it is."
                .to_owned(),
        ),
        Refusal::Raised { stage, message, .. } if message.is_empty() => {
            ("bare-assertion", bare_assertion(*stage, request.release))
        }
        Refusal::Raised { message, .. } if message.starts_with("The repository <model>") => (
            "own-code",
            "config.json names a class that the model's repository brings as Python code \
             (auto_map), and neither vLLM nor transformers has one of its own. Where the text says \
             <model>, vLLM prints the name or path that it was given."
                .to_owned(),
        ),
        Refusal::Raised {
            stage: Stage::Engine,
            ..
        } => (
            "late",
            "vLLM finds out late: the weights are loaded by then, and the workers set up the KV \
             cache."
                .to_owned(),
        ),
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

/// From 0.23 to 0.28 the check of one request counts layer tuples, the pool does not.
fn counts_layer_tuples(request: &Request) -> bool {
    matches!(
        request.release.profile().block_rule,
        BlockRule::Slots(SlotRule::ByPageSize | SlotRule::ByOffset)
    )
}

/// What vLLM asserts without a word, by where it does.
fn bare_assertion(stage: Stage, release: Release) -> String {
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
        Stage::Plan if release.profile().grouping != Grouping::Packed => {
            "vLLM asserts without a word that no window's page is larger than the pages of full \
             attention: a block size of 256 makes it so."
        }
        Stage::Plan => {
            "vLLM asserts without a word that a page grows with its block, which one that is \
             padded does not; choose other layers to keep unquantised."
        }
        Stage::Args | Stage::Specs | Stage::Engine | Stage::Unmodelled => {
            "vLLM asserts this without a word."
        }
    }
    .to_owned()
}

/// That the weights alone are more than the GPU has.
fn weights(request: &Request, resolution: &Resolution, notes: &mut Vec<Note>) {
    let weights = resolution.weights.parameter_bytes.unwrap_or(0);
    let total = request.gpu.total_memory_bytes;
    if weights > total && total > 0 {
        notes.push(Note::new(
            "weights-exceed-gpu",
            format!(
                "The weights take {} of each GPU, which has {}: vLLM runs out of memory while it loads them, before \
                 it comes to the KV cache.",
                human_bytes(weights),
                human_bytes(total)
            ),
        ));
    }
}
