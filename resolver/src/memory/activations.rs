//! The most that the profiling run holds at once, and what it leaves behind: one
//! step of `max_num_batched_tokens` without a KV cache, then the sampler.
//! Mirrors what `vllm/v1/worker/gpu/model_runner.py` and `gpu_model_runner.py`
//! `profile_run` reach; which tensors live side by side is read from the models'
//! code, and the ends say how many more or fewer may.

use super::facts::{Attention, ELEMENT, Experts, Facts, Kernel};
use super::{Interval, Part, PartKind};
use crate::gpu::Arch;
use crate::resolution::human_bytes;
use crate::units::{MIB, thousands};

/// `VLLM_SPARSE_INDEXER_MAX_LOGITS_MB`
const INDEXER_LOGITS: u64 = 512 * MIB;
/// `VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE`
const FLASHINFER_WORKSPACE: u64 = 394 * MIB;
/// Bytes of an indexer's gathered key: fp8 and its scale, or fp4 and its scales.
const FP8_KEY: u64 = 132;
const FP4_KEY: u64 = 68;

/// Least, likeliest, most.
type Ends = [u64; 3];

fn sum(a: Ends, b: Ends) -> Ends {
    [0, 1, 2].map(|end| a[end].saturating_add(b[end]))
}

fn larger(a: Ends, b: Ends) -> Ends {
    [0, 1, 2].map(|end| a[end].max(b[end]))
}

fn product(factors: &[u64]) -> u64 {
    factors
        .iter()
        .fold(1, |all: u64, one| all.saturating_mul(*one))
}

pub(super) fn part(facts: &Facts) -> Part {
    let forward = larger(attention(facts), mlp(facts));
    let sampler = sampler(facts);
    let images = images(facts);
    let workspace = workspace(facts);
    let buffers = buffers(facts);
    let peak = sum(larger(forward, sampler), images);
    let [low, likely, high] = sum(sum(peak, workspace), buffers);
    Part {
        kind: PartKind::Activations,
        bytes: Interval::new(low, likely, high),
        source: format!(
            "{} tokens through a layer, {}, or the sampler over {} requests and {} words, {}; kernels' \
             workspaces, {}; the runner's buffers, {}{}",
            thousands(facts.tokens),
            human_bytes(forward[1]),
            thousands(facts.requests),
            thousands(facts.vocab),
            human_bytes(sampler[1]),
            human_bytes(workspace[1]),
            human_bytes(buffers[1]),
            if images[2] == 0 {
                String::new()
            } else {
                format!("; images, assumed, {}", human_bytes(images[1]))
            }
        ),
    }
}

/// What lives at once around attention.
fn attention(facts: &Facts) -> Ends {
    let (hidden, queries) = (facts.hidden, facts.queries);
    let plain = [
        facts.per_token(2 * hidden + 2 * queries),
        facts.per_token(3 * hidden + queries * 5 / 2),
        facts.per_token(4 * hidden + queries * 7 / 2),
    ];
    match facts.attention {
        Attention::Plain => plain,
        Attention::Linear { keys, values } => {
            let state = 2 * keys + 3 * values;
            larger(
                plain,
                [
                    facts.per_token(2 * hidden + state),
                    facts.per_token(3 * hidden + state * 3 / 2),
                    facts.per_token(4 * hidden + state * 5 / 2),
                ],
            )
        }
        Attention::Latent { dims, sparse_heads } => {
            let (values, keys) = (
                facts.heads * dims.v_head_dim,
                facts.heads * (dims.qk_nope_head_dim + dims.qk_rope_head_dim),
            );
            // mla_attention.py `determine_chunked_prefill_workspace_size`
            let rows = facts
                .base
                .max_model_len
                .saturating_mul(8)
                .max(product(&[
                    4,
                    facts.base.max_num_seqs,
                    facts.base.block_size,
                ]))
                .min(64 << 10);
            let (at_once, indexer) = if let Some(heads) = sparse_heads {
                (INDEXER_LOGITS, product(&[facts.tokens, heads, 128, 3]))
            } else {
                let row = facts.heads * (dims.qk_nope_head_dim + dims.v_head_dim);
                (product(&[rows, row, ELEMENT]), 0)
            };
            let held = [
                facts.per_token(2 * hidden + values),
                facts.per_token(3 * hidden + keys + values),
                facts.per_token(4 * hidden + 2 * (keys + values)),
            ];
            sum(sum(held, [at_once; 3]), [0, 0, indexer])
        }
        Attention::DeepseekV4 {
            streams,
            query_rank,
            ..
        } => {
            // nvidia/flashmla.py pads the heads of its output to 64
            let rows = 512 * (facts.heads.max(64) + facts.heads) + query_rank + 1024;
            let quantised = product(&[facts.tokens, 64, 128, 3]);
            let held = |copies: u64| {
                let streams = copies.saturating_mul(streams).saturating_mul(hidden);
                facts
                    .per_token(streams.saturating_add(2 * hidden + rows))
                    .saturating_add(INDEXER_LOGITS)
                    .saturating_add(quantised)
            };
            [
                held(1) / 20 * 17,
                held(2),
                (held(3) / 20).saturating_mul(21),
            ]
        }
    }
}

/// What lives at once around the MLP or the experts.
fn mlp(facts: &Facts) -> Ends {
    let (hidden, width) = (facts.hidden, facts.width);
    let Some(experts) = facts.experts else {
        let likely = facts.queries + 3 * hidden + 3 * width;
        return [
            facts.per_token(hidden + 3 * width),
            facts.per_token(likely),
            facts.per_token((likely + hidden) * 5 / 4),
        ];
    };
    let streams = match facts.attention {
        Attention::DeepseekV4 { streams, .. } => streams.saturating_mul(hidden),
        Attention::Plain | Attention::Linear { .. } | Attention::Latent { .. } => 0,
    };
    let step = |copies: u64, own: u64| {
        let streams = streams.saturating_mul(copies);
        facts.per_token(streams.saturating_add(own * hidden + 3 * width))
    };
    // of the router: scores of each expert, in float32 and sorted
    let routed = |bytes: u64| product(&[facts.tokens, experts.count, bytes]);
    let pairs = facts.expert_tokens.saturating_mul(experts.per_token);
    let within = match experts.kernel {
        Kernel::Workspaces | Kernel::DeepGemm => [
            0,
            pairs.saturating_mul(experts.width),
            pairs.saturating_mul(hidden + experts.width),
        ],
        Kernel::Fused => {
            let each = |elements: u64| product(&[pairs, ELEMENT, elements]);
            [
                each(hidden / 2),
                each(hidden + experts.width),
                each(hidden * 3 / 2 + 2 * experts.width),
            ]
        }
    };
    sum(
        within,
        [
            facts.per_token(streams.saturating_add(2 * hidden)) / 20
                * if streams > 0 { 17 } else { 20 },
            step(2, 4).saturating_add(routed(8)),
            step(3, 6).saturating_add(routed(12)),
        ],
    )
}

/// The dummy sampler: logits, and copies of them. Mirrors
/// `vllm/v1/sample/sampler.py` `forward`, `gpu/model_runner.py` `_dummy_sampler_run`.
fn sampler(facts: &Facts) -> Ends {
    let bytes = if facts.second_runner && !facts.profile.memory.warms_sampler {
        [2, 4, 6]
    } else {
        [6, 14, 18]
    };
    let states = facts.per_token(facts.hidden);
    bytes.map(|bytes| states.saturating_add(product(&[facts.requests, facts.vocab, bytes])))
}

/// What a tower for images holds. How large an image may be is said in the
/// processor's file, not in config.json, so that the ends are wide.
fn images(facts: &Facts) -> Ends {
    let Some(tower) = facts.tower else {
        return [0; 3];
    };
    let outputs = facts.per_token(facts.hidden.saturating_mul(1 + tower.deepstack));
    // four patches to a token
    let patches = |copies: u64| facts.per_token(4 * (copies * tower.hidden + 2 * tower.width));
    [0, outputs, outputs.saturating_add(patches(14))]
}

/// The one buffer that kernels share: as large as the largest wants.
/// `vllm/v1/worker/workspace.py` `WorkspaceManager`
fn workspace(facts: &Facts) -> Ends {
    let experts = facts
        .experts
        .map_or([0; 3], |experts| expert_workspace(facts, experts));
    let lanes = if facts.drafts_blocks { 2 } else { 1 };
    larger(experts, attention_workspace(facts)).map(|bytes| bytes.saturating_mul(lanes))
}

fn expert_workspace(facts: &Facts, experts: Experts) -> Ends {
    let (hidden, width) = (facts.hidden, experts.width);
    let pairs = facts.expert_tokens.saturating_mul(experts.per_token);
    let two = |rows: u64, first: u64| {
        let first = product(&[rows, first, width.max(hidden)]);
        first.saturating_add(product(&[rows, ELEMENT, hidden.max(2 * width)]))
    };
    let plain = two(pairs, ELEMENT);
    match experts.kernel {
        Kernel::Workspaces => [0, plain, plain],
        Kernel::DeepGemm => {
            let first = if facts.profile.memory.halves_deep_gemm {
                1
            } else {
                ELEMENT
            };
            let padded = pairs.saturating_add(experts.held.saturating_mul(128));
            [
                two(pairs, first).min(plain),
                two(padded, first),
                two(padded, ELEMENT),
            ]
        }
        // where FlashInfer is not there or does not take the shapes, another kernel runs
        Kernel::Fused => [0, 0, plain],
    }
}

fn attention_workspace(facts: &Facts) -> Ends {
    let length = facts.base.max_model_len;
    let is_long = length > 262_144 && facts.profile.memory.fewer_rows_when_long;
    let lengths = if is_long { 2 } else { 5 };
    let gathered =
        |ratio: u64, key: u64| product(&[8 * lengths, length / ratio, key]).saturating_add(MIB);
    match facts.attention {
        Attention::Plain | Attention::Linear { .. } => [0; 3],
        Attention::Latent {
            sparse_heads: None, ..
        } => match facts.arch {
            // FlashInfer's or TensorRT-LLM's prefill
            Arch::Sm100 => [0, FLASHINFER_WORKSPACE, FLASHINFER_WORKSPACE],
            Arch::Sm90 | Arch::Sm120 => [0, 0, FLASHINFER_WORKSPACE],
        },
        Attention::Latent { dims, .. } => {
            let padded = facts.heads.next_multiple_of(64);
            let rows = product(&[lengths, length, dims.row(), ELEMENT]);
            let outputs = product(&[
                facts.tokens,
                padded * (dims.row() + dims.kv_lora_rank) + facts.heads * dims.kv_lora_rank,
                ELEMENT,
            ]);
            let keys = gathered(1, FP8_KEY);
            let flashmla = rows.saturating_add(outputs);
            match facts.arch {
                Arch::Sm90 => [keys, keys.max(flashmla), keys.max(flashmla)],
                Arch::Sm100 | Arch::Sm120 => [keys, keys, keys.max(flashmla)],
            }
        }
        Attention::DeepseekV4 { picked, window, .. } => {
            // nvidia/flashmla.py `forward_mqa`: four requests at a time
            let rows = product(&[
                4,
                (length / 4 + window).saturating_add(facts.tokens),
                512,
                ELEMENT,
            ]);
            let indices = product(&[facts.tokens, (picked + window).next_multiple_of(128), 4]);
            let flashmla = rows.saturating_add(indices);
            let keys = |key| gathered(4, key);
            match facts.arch {
                Arch::Sm90 => [
                    keys(FP4_KEY).max(flashmla),
                    keys(FP8_KEY).max(flashmla),
                    keys(FP8_KEY).max(flashmla),
                ],
                Arch::Sm100 | Arch::Sm120 => [
                    keys(FP4_KEY),
                    keys(FP8_KEY).max(flashmla),
                    keys(FP8_KEY).max(flashmla),
                ],
            }
        }
    }
}

/// Buffers of the runner that stay, where the release counts them.
/// `vllm/v1/worker/gpu/sample/penalties.py` `PenaltiesState`
fn buffers(facts: &Facts) -> Ends {
    if !facts.profile.memory.counts_all {
        return [0; 3];
    }
    let embeddings = if facts.tower.is_some() || !facts.second_runner {
        facts.per_token(facts.hidden)
    } else {
        0
    };
    let words = product(&[facts.base.max_num_seqs, facts.vocab]);
    let masks = product(&[words / 8, facts.drafted.saturating_add(2)]);
    let counts = if facts.second_runner {
        words.saturating_mul(4).saturating_add(masks)
    } else {
        0
    };
    let likely = counts.saturating_add(embeddings);
    // what torch's allocator cannot give back: pieces of its segments
    [likely, likely, likely.saturating_add(256 * MIB)]
}
