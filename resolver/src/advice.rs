//! What to change: only what has been tried on the same request and works.

use crate::dtype::{CacheDtype, KvQuantMode};
use crate::error::{Advice, Outcome, Refusal, Stage};
use crate::flag::Flag;
use crate::gpu::Arch;
use crate::request::Request;
use crate::resolution::Resolution;
use crate::resolve::{ReadModel, resolve_read};
use crate::value::Value;

/// Spellings to suggest, plainest first; `auto` may be what the checkpoint says.
const DTYPES: [CacheDtype; 3] = [CacheDtype::Auto, CacheDtype::Fp8, CacheDtype::Bfloat16];

/// The question, and its model, which no change touches.
#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a Request,
    model: &'a ReadModel,
}

/// Tries changes and keeps what works.
pub(crate) fn advise(request: &Request, model: &ReadModel, refusal: &Refusal) -> Vec<Advice> {
    let asked = Asked { request, model };
    let mut advice = Vec::new();
    match refusal {
        Refusal::NotModelled(_) | Refusal::BadCase(_) | Refusal::TooLarge => {}
        Refusal::PackedNeedsFp8(dtype) | Refusal::PackedAssertsFp8 { dtype, .. } => {
            dtypes(asked, &mut advice);
            another_backend(asked, *dtype, &mut advice);
        }
        Refusal::NotADeepseekV4Backend(_) => drop_backend(asked, &mut advice),
        Refusal::ZeroDivision => without(asked, Flag::BlockSize, &mut advice),
        Refusal::WindowUnderDcp => {
            without(asked, Flag::DecodeContextParallelSize, &mut advice);
        }
        Refusal::PromotedSpecField(_) => {
            without(asked, Flag::DisableHybridKvCacheManager, &mut advice);
        }
        Refusal::NoMemory(_) | Refusal::NothingToAutoFit => advice.push(Advice {
            text: "Nothing is left for the KV cache: more GPUs (tensor_parallel_size), a higher \
                   gpu_memory_utilization or a smaller max_num_batched_tokens leave more."
                .to_owned(),
            set: Vec::new(),
        }),
        Refusal::NotFree {
            free_bytes,
            total_bytes,
            ..
        } => within_what_is_free(*free_bytes, *total_bytes, &mut advice),
        Refusal::WeightsDoNotFit { .. } => advice.push(Advice {
            text: "The weights alone are more than the GPU has: more GPUs (tensor_parallel_size), \
                   one with more memory, or a checkpoint of fewer bits. gpu_memory_utilization \
                   changes nothing about it, whatever the message says."
                .to_owned(),
            set: Vec::new(),
        }),
        Refusal::RequestDoesNotFit {
            estimated_max_len, ..
        } => shorter(asked, *estimated_max_len, &mut advice),
        Refusal::Raised { stage, .. } => match stage {
            Stage::Args | Stage::Config | Stage::Unmodelled => configuration(asked, &mut advice),
            Stage::Model | Stage::Specs | Stage::Plan | Stage::Engine => {
                layers(asked, &mut advice);
            }
        },
    }
    advice
}

/// The largest utilisation, in hundredths, that asks for no more than is free.
fn within_what_is_free(free_bytes: u64, total_bytes: u64, advice: &mut Vec<Advice>) {
    let percent = u128::from(free_bytes) * 100 / u128::from(total_bytes.max(1));
    advice.push(Advice {
        text: "Something else holds memory of the GPU: end it, or ask for what is free.".to_owned(),
        set: match percent {
            1..100 => vec![(Flag::GpuMemoryUtilization.name(), format!("0.{percent:02}"))],
            _ => Vec::new(),
        },
    });
}

/// Against what the configuration's checks refuse: the first change that helps.
fn configuration(asked: Asked, advice: &mut Vec<Advice>) {
    trust(asked, advice);
    if asked.request.args.kv_cache_dtype.is_some() {
        dtypes(asked, advice);
    }
    for flag in [
        Flag::AttentionBackend,
        Flag::MaxModelLen,
        Flag::BlockSize,
        Flag::GpuMemoryUtilization,
        Flag::MaxNumSeqs,
        Flag::MaxNumBatchedTokens,
        Flag::PipelineParallelSize,
        Flag::DecodeContextParallelSize,
        Flag::PrefillContextParallelSize,
        Flag::DcpCommBackend,
        Flag::EnableExpertParallel,
    ] {
        if advice.is_empty() {
            without(asked, flag, advice);
        }
    }
    if advice.is_empty() {
        tensor_parallel(asked, advice);
    }
}

/// Against what the layers refuse, such as a cache that no backend takes: each
/// change of one flag that helps; where none does, of the fewest together.
fn layers(asked: Asked, advice: &mut Vec<Advice>) {
    dtypes(asked, advice);
    for flag in [
        Flag::AttentionBackend,
        Flag::BlockSize,
        Flag::PipelineParallelSize,
        Flag::DecodeContextParallelSize,
        Flag::PrefillContextParallelSize,
        Flag::CpKvCacheInterleaveSize,
        Flag::DcpKvCacheInterleaveSize,
        Flag::Dtype,
        Flag::KvCacheDtypeSkipLayers,
        Flag::DisableHybridKvCacheManager,
        Flag::MambaCacheDtype,
        Flag::MambaSsmCacheDtype,
    ] {
        without(asked, flag, advice);
    }
    for_context_parallelism(asked, advice);
    for_a_drafters_dtype(asked, advice);
    without_layout(asked, advice);
    if advice.is_empty() {
        without_several(asked, advice);
    }
    if advice.is_empty() {
        tensor_parallel(asked, advice);
    }
}

/// The answer with some flags changed, if it starts and is known to.
fn attempt(asked: Asked, change: impl FnOnce(&mut Request)) -> Option<Resolution> {
    let mut changed = asked.request.clone();
    change(&mut changed);
    if changed.args == asked.request.args && changed.env == asked.request.env {
        return None;
    }
    resolve_read(&changed, asked.model)
        .ok()
        .filter(|resolution| resolution.outcome != Outcome::Unverified)
}

/// The first spelling that starts; where it keeps the model's own dtype, `fp8`
/// too.
fn dtypes(asked: Asked, advice: &mut Vec<Advice>) {
    for dtype in DTYPES {
        let found = attempt(asked, |changed| {
            changed.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
        });
        let Some(resolution) = found else {
            continue;
        };
        let becomes = if resolution.cache_dtype == dtype {
            "works".to_owned()
        } else {
            format!("becomes {}", resolution.cache_dtype)
        };
        advice.push(Advice {
            text: format!(
                "--kv-cache-dtype {dtype} {becomes} on this GPU, at {} B for each further token.",
                resolution.marginal_bytes_per_token
            ),
            set: vec![(Flag::KvCacheDtype.name(), dtype.as_str().to_owned())],
        });
        let is_plain = resolution.cache_dtype.quant_mode() == KvQuantMode::None;
        if dtype != CacheDtype::Auto || !is_plain {
            return;
        }
    }
}

/// Another backend for the dtype that was asked; where there is none, it says
/// so, for vLLM's own message suggests one.
fn another_backend(asked: Asked, dtype: CacheDtype, advice: &mut Vec<Advice>) {
    let candidates = ["FLASHINFER_MLA_SPARSE_DSV4", "FLASHMLA_SPARSE_DSV4"];
    for backend in candidates {
        let found = attempt(asked, |changed| {
            changed.args.attention_backend = Some(backend.to_owned());
        });
        if found.is_some() {
            advice.push(Advice {
                text: format!("--attention-backend {backend} takes {dtype} on this GPU."),
                set: vec![(Flag::AttentionBackend.name(), backend.to_owned())],
            });
            return;
        }
    }
    let arch = asked.request.gpu.capability.arch();
    advice.push(Advice {
        text: format!(
            "No attention backend takes {dtype} for DeepSeek V4 on {}{}.",
            arch.map_or_else(|| "this GPU".to_owned(), |arch: Arch| arch.to_string()),
            if matches!(dtype, CacheDtype::Bfloat16 | CacheDtype::Auto) {
                ", whatever vLLM's message suggests"
            } else {
                ""
            }
        ),
        set: Vec::new(),
    });
}

fn drop_backend(asked: Asked, advice: &mut Vec<Advice>) {
    without(asked, Flag::AttentionBackend, advice);
    let backend = "FLASHINFER_MLA_SPARSE_DSV4";
    let found = attempt(asked, |changed| {
        changed.args.attention_backend = Some(backend.to_owned());
    });
    if found.is_some() {
        advice.push(Advice {
            text: format!("--attention-backend {backend} works on this GPU."),
            set: vec![(Flag::AttentionBackend.name(), backend.to_owned())],
        });
    }
}

/// What lets ranks share one request that may not as asked.
fn for_context_parallelism(asked: Asked, advice: &mut Vec<Advice>) {
    let args = &asked.request.args;
    let sizes = [
        args.decode_context_parallel_size,
        args.prefill_context_parallel_size,
    ];
    if !sizes.iter().any(|size| size.is_some_and(|size| size > 1)) {
        return;
    }
    let gathering = attempt(asked, |changed| {
        changed.args.dcp_comm_backend = Some("ag_rs".to_owned());
    });
    if gathering.is_some() {
        advice.push(Advice {
            text: "--dcp-comm-backend ag_rs works.".to_owned(),
            set: vec![(Flag::DcpCommBackend.name(), "ag_rs".to_owned())],
        });
    }
    let eager = attempt(asked, |changed| changed.args.enforce_eager = Some(true));
    if eager.is_some() {
        advice.push(Advice {
            text: "--enforce-eager works: no CUDA graphs.".to_owned(),
            set: vec![(Flag::EnforceEager.name(), "true".to_owned())],
        });
    }
}

/// Where the drafter is given a cache dtype, vLLM makes its cache config again
/// and then takes the default block size for the user's own.
fn for_a_drafters_dtype(asked: Asked, advice: &mut Vec<Advice>) {
    let without_dtype = attempt(asked, |changed| {
        if let Some(Value::Object(fields)) = &mut changed.args.speculative_config {
            fields.retain(|(name, _)| name != "kv_cache_dtype");
        }
    });
    if without_dtype.is_none() {
        return;
    }
    advice.push(Advice {
        text: "Leave kv_cache_dtype out of --speculative-config.".to_owned(),
        set: Vec::new(),
    });
    let size = 64;
    let sized = attempt(asked, |changed| changed.args.block_size = Some(size));
    if sized.is_some() {
        advice.push(Advice {
            text: format!(
                "{} {size} works: the drafter's own kv_cache_dtype makes vLLM take the default \
                 of 16 for your word.",
                Flag::BlockSize.option()
            ),
            set: vec![(Flag::BlockSize.name(), size.to_string())],
        });
    }
}

/// The same request without one flag.
fn without(asked: Asked, flag: Flag, advice: &mut Vec<Advice>) {
    let found = attempt(asked, |changed| changed.args.clear(flag));
    if found.is_some() {
        advice.push(Advice {
            text: format!("Leave {} out.", flag.option()),
            set: vec![(flag.name(), String::new())],
        });
    }
}

/// The same request with the user's word for the repository's code.
fn trust(asked: Asked, advice: &mut Vec<Advice>) {
    let flag = Flag::TrustRemoteCode;
    let found = attempt(asked, |changed| {
        changed.args.trust_remote_code = Some(true);
    });
    if found.is_some() {
        advice.push(Advice {
            text: format!(
                "{} lets vLLM run the code of the model's repository, which its configuration \
                 needs; read it first.",
                flag.option()
            ),
            set: vec![(flag.name(), "true".to_owned())],
        });
    }
}

/// The same request with the layout left to vLLM.
fn without_layout(asked: Asked, advice: &mut Vec<Advice>) {
    if attempt(asked, |changed| changed.env.kv_cache_layout = None).is_some() {
        advice.push(Advice {
            text: "Leave VLLM_KV_CACHE_LAYOUT unset.".to_owned(),
            set: Vec::new(),
        });
    }
}

/// The same request without the fewest of the flags that choose the backend.
fn without_several(asked: Asked, advice: &mut Vec<Advice>) {
    let starts = |flags: &[Flag]| {
        let found = attempt(asked, |changed| {
            for flag in flags {
                changed.args.clear(*flag);
            }
        });
        found.is_some()
    };
    let mut dropped = vec![
        Flag::KvCacheDtype,
        Flag::AttentionBackend,
        Flag::BlockSize,
        Flag::DecodeContextParallelSize,
    ];
    if !starts(&dropped) {
        return;
    }
    for flag in dropped.clone() {
        let fewer: Vec<Flag> = dropped.iter().copied().filter(|f| *f != flag).collect();
        if starts(&fewer) {
            dropped = fewer;
        }
    }
    let names: Vec<String> = dropped.iter().map(|flag| flag.option()).collect();
    advice.push(Advice {
        text: format!("Leave {} out.", names.join(" and ")),
        set: dropped
            .iter()
            .map(|flag| (flag.name(), String::new()))
            .collect(),
    });
}

fn shorter(asked: Asked, longest: u64, advice: &mut Vec<Advice>) {
    if longest > 0 {
        let found = attempt(asked, |changed| {
            changed.args.max_model_len = i64::try_from(longest).ok();
        });
        if found.is_some() {
            advice.push(Advice {
                text: format!("--max-model-len {longest} is the longest that fits."),
                set: vec![(Flag::MaxModelLen.name(), longest.to_string())],
            });
        }
    }
    // windows and states are reserved for what is in flight
    for tokens in [2048_i64, 1024, 512] {
        let found = attempt(asked, |changed| {
            changed.args.max_num_batched_tokens = Some(tokens);
        });
        if found.is_some() {
            advice.push(Advice {
                text: format!(
                    "--max-num-batched-tokens {tokens} keeps the length: less is reserved for \
                     tokens in flight."
                ),
                set: vec![(Flag::MaxNumBatchedTokens.name(), tokens.to_string())],
            });
            return;
        }
    }
}

fn tensor_parallel(asked: Asked, advice: &mut Vec<Advice>) {
    let fitting = [8_i64, 4, 2, 1].into_iter().find(|size| {
        let found = attempt(asked, |changed| {
            changed.args.tensor_parallel_size = Some(*size);
        });
        found.is_some()
    });
    if let Some(size) = fitting {
        advice.push(Advice {
            text: format!("--tensor-parallel-size {size} works."),
            set: vec![(Flag::TensorParallelSize.name(), size.to_string())],
        });
    }
}
