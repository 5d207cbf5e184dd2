//! What is tried.

use crate::catalog::CatalogGpu;
use crate::config::or_one;
use crate::dtype::CacheDtype;
use crate::flag::Flag;
use crate::memory::{Planned, Source};
use crate::model::Model;
use crate::request::Request;
use crate::resolution::Resolution;
use crate::units::thousands;

/// A change, untried.
pub(super) struct Candidate {
    pub text: String,
    pub set: Vec<(Flag, String)>,
    pub gpu: Option<&'static CatalogGpu>,
    /// Whether it takes `speculative_config` away.
    pub drops_drafter: bool,
    /// Whether it takes `kv_cache_memory_bytes` away.
    pub drops_pin: bool,
    pub cost: String,
    /// Whether it moves what is left for the KV cache, by more than what it frees of
    /// activations.
    pub moves_memory: bool,
}

impl Candidate {
    fn new(text: String, set: Vec<(Flag, String)>, cost: impl Into<String>) -> Self {
        Self {
            text,
            set,
            gpu: None,
            drops_drafter: false,
            drops_pin: false,
            cost: cost.into(),
            moves_memory: false,
        }
    }

    fn moving(self) -> Self {
        Self {
            moves_memory: true,
            ..self
        }
    }
}

/// Everything that is worth a try on this question.
pub(super) fn candidates(
    request: &Request,
    base: &Resolution,
    planned: &Planned,
    gpus: &'static [CatalogGpu],
) -> Vec<Candidate> {
    let mut found = Vec::new();
    scheduling(request, base, &mut found);
    dtypes(base, &mut found);
    ranks(request, &mut found);
    blocks(request, base, &mut found);
    lengths(base, planned, &mut found);
    memory(request, base, planned, &mut found);
    drafter(request, &mut found);
    others(request, gpus, &mut found);
    found
}

/// Tokens in one step that are worth a try: below them, prefill slows much.
const STEPS: [u64; 3] = [2048, 4096, 8192];

/// What windows and states reserve for what is in flight.
fn scheduling(request: &Request, base: &Resolution, found: &mut Vec<Candidate>) {
    let now = base.max_num_batched_tokens;
    for tokens in STEPS.into_iter().filter(|tokens| *tokens < now) {
        found.push(Candidate::new(
            format!(
                "max_num_batched_tokens {} → {}",
                thousands(now),
                thousands(tokens)
            ),
            vec![(Flag::MaxNumBatchedTokens, tokens.to_string())],
            "slower prefill: long prompts take more steps",
        ));
    }
    if base
        .max_concurrent_batches
        .is_some_and(|batches| batches > 1)
        && request.args.async_scheduling != Some(false)
    {
        found.push(Candidate::new(
            "async scheduling off".to_owned(),
            vec![(Flag::AsyncScheduling, "false".to_owned())],
            "less throughput: the GPU waits for the scheduler between steps",
        ));
    }
    if request.args.enable_prefix_caching != Some(false) {
        found.push(Candidate::new(
            "prefix caching off".to_owned(),
            vec![(Flag::EnablePrefixCaching, "false".to_owned())],
            "prompts that begin alike are computed anew each time",
        ));
    }
}

fn dtypes(base: &Resolution, found: &mut Vec<Candidate>) {
    let others = CacheDtype::ALL
        .into_iter()
        .filter(|dtype| *dtype != base.requested_cache_dtype && *dtype != base.cache_dtype);
    for dtype in others {
        found.push(Candidate::new(
            format!("--kv-cache-dtype {dtype}"),
            vec![(Flag::KvCacheDtype, dtype.as_str().to_owned())],
            "keys and values keep fewer bits: check your model's answers with it",
        ));
    }
}

/// The most GPUs of one deployment that are suggested.
const MOST_RANKS: u64 = 16;

/// How GPUs share the work.
fn ranks(request: &Request, found: &mut Vec<Candidate>) {
    let args = &request.args;
    let size = |number: Option<i64>| or_one(number).max(1);
    let tensor = size(args.tensor_parallel_size);
    let replicas = size(args.data_parallel_size);
    let mut more = tensor.saturating_mul(2);
    while more.saturating_mul(replicas) <= MOST_RANKS {
        found.push(
            Candidate::new(
                format!("tensor_parallel_size {tensor} → {more}"),
                vec![(Flag::TensorParallelSize, more.to_string())],
                format!(
                    "{} GPUs instead of {}, and more to exchange between them in each step",
                    more.saturating_mul(replicas),
                    tensor.saturating_mul(replicas)
                ),
            )
            .moving(),
        );
        more = more.saturating_mul(2);
    }
    if tensor > 1 && args.decode_context_parallel_size.is_none() {
        for shared in [2, 4, 8, 16] {
            if shared <= tensor && tensor % shared == 0 {
                found.push(
                    Candidate::new(
                        format!("decode_context_parallel_size 1 → {shared}"),
                        vec![(Flag::DecodeContextParallelSize, shared.to_string())],
                        "each decoding step exchanges attention between the ranks",
                    )
                    .moving(),
                );
            }
        }
    }
    replicate(request, tensor, replicas, found);
}

/// Where ranks hold copies of the same keys, as many GPUs hold more requests when
/// each has its own.
fn replicate(request: &Request, tensor: u64, replicas: u64, found: &mut Vec<Candidate>) {
    let Ok(model) = Model::from_config(&request.hf_config) else {
        return;
    };
    let heads = model.common.num_key_value_heads.max(1);
    if tensor <= heads || !tensor.is_multiple_of(heads) {
        return;
    }
    let copies = tensor / heads;
    let mut set = vec![
        (Flag::DataParallelSize, (replicas * copies).to_string()),
        (Flag::TensorParallelSize, heads.to_string()),
    ];
    let mut text = format!(
        "data_parallel_size {} × tensor_parallel_size {heads}",
        replicas * copies
    );
    if model.common.has_experts {
        set.push((Flag::EnableExpertParallel, "true".to_owned()));
        text.push_str(", experts spread");
    }
    found.push(
        Candidate::new(
            text,
            set,
            "attention weights whole on more GPUs, and one request runs on fewer of them: slower \
             for each, until the load is even",
        )
        .moving(),
    );
}

/// Tokens in a block that backends take.
const BLOCKS: [u64; 5] = [16, 32, 64, 128, 256];

fn blocks(request: &Request, base: &Resolution, found: &mut Vec<Candidate>) {
    if request.args.num_gpu_blocks_override.is_some() {
        found.push(Candidate::new(
            "without num_gpu_blocks_override".to_owned(),
            vec![(Flag::NumGpuBlocksOverride, String::new())],
            "none: the pool is as large as what is left",
        ));
    }
    for tokens in BLOCKS
        .into_iter()
        .filter(|tokens| *tokens != base.block_size)
    {
        found.push(Candidate::new(
            format!(
                "block_size {} → {}",
                thousands(base.block_size),
                thousands(tokens)
            ),
            vec![(Flag::BlockSize, tokens.to_string())],
            if tokens < base.block_size {
                "more blocks to keep account of, and some kernels are slower with small ones"
            } else {
                "prefixes are shared in larger pieces, so fewer are"
            },
        ));
    }
}

fn lengths(base: &Resolution, planned: &Planned, found: &mut Vec<Candidate>) {
    let now = base.max_model_len;
    if base.is_auto_fit() {
        return;
    }
    let mut shorter = vec![now / 2];
    if planned.refusal().is_some() {
        // what fits the least of an estimate is likely to fit
        let pools = [0, 1].map(|end: usize| planned.ends[end].pool_bytes);
        let longest = pools.map(|pool| base.longest_request(pool).unwrap_or(0));
        let longest = longest.into_iter().find(|longest| *longest > 0);
        shorter.extend(longest.filter(|longest| *longest < now));
    }
    for length in shorter.into_iter().filter(|length| *length > 0) {
        found.push(Candidate::new(
            format!("max_model_len {} → {}", thousands(now), thousands(length)),
            vec![(Flag::MaxModelLen, length.to_string())],
            "requests with more tokens are refused; those that are shorter anyway take what they \
             took",
        ));
    }
}

/// The share of a GPU that leaves little for what is not measured.
const HIGH_UTILIZATION: f64 = 0.95;

fn memory(request: &Request, base: &Resolution, planned: &Planned, found: &mut Vec<Candidate>) {
    let is_pinned = planned.source == Source::Pinned;
    if is_pinned {
        found.push(Candidate {
            drops_pin: true,
            ..Candidate::new(
                "without kv_cache_memory_bytes".to_owned(),
                Vec::new(),
                "the pool is what a start-up measures, not a figure that you know",
            )
        });
    }
    if base.gpu_memory_utilization < HIGH_UTILIZATION && !is_pinned {
        found.push(
            Candidate::new(
                format!(
                    "gpu_memory_utilization {} → {HIGH_UTILIZATION}",
                    base.gpu_memory_utilization
                ),
                vec![(Flag::GpuMemoryUtilization, HIGH_UTILIZATION.to_string())],
                "less is left for what profiling does not see: running out of memory under load is \
                 likelier",
            )
            .moving(),
        );
    }
    if planned.source == Source::Estimated && request.args.enforce_eager != Some(true) {
        found.push(
            Candidate::new(
                "enforce_eager".to_owned(),
                vec![(Flag::EnforceEager, "true".to_owned())],
                "no CUDA graphs and no compilation: slower decoding",
            )
            .moving(),
        );
    }
}

fn drafter(request: &Request, found: &mut Vec<Candidate>) {
    let args = &request.args;
    if args.speculative_config.is_some() || !args.spec_flags.is_empty() {
        found.push(Candidate {
            drops_drafter: true,
            ..Candidate::new(
                "no drafter".to_owned(),
                Vec::new(),
                "one token a step: slower for each request",
            )
            .moving()
        });
    }
}

fn others(request: &Request, gpus: &'static [CatalogGpu], found: &mut Vec<Candidate>) {
    for gpu in gpus {
        if gpu.gpu().total_memory_bytes <= request.gpu.total_memory_bytes {
            continue;
        }
        found.push(Candidate {
            gpu: Some(gpu),
            ..Candidate::new(
                format!("{} instead", gpu.label),
                Vec::new(),
                format!(
                    "another GPU: {} GiB, compute capability {}",
                    gpu.nvml_total_mib / 1024,
                    gpu.capability
                ),
            )
            .moving()
        });
    }
}
