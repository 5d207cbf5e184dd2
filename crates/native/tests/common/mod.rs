//! Plans of real models, with pools that a test can fill.

#![allow(dead_code)] // each test takes what it needs

use kv_cases::parse_case;
use kv_native::PoolPlan;
use kv_resolver::{Resolution, resolve};

/// DeepSeek V4 Flash, `fp8_ds_mla`.
pub const V4: &str = r#""model":"deepseek-ai/DeepSeek-V4-Flash","args":{"tensor_parallel_size":8,"kv_cache_dtype":"fp8","max_model_len":1024,"max_num_batched_tokens":64,"max_num_seqs":2}"#;
/// DeepSeek V3.2, `fp8_ds_mla`.
pub const V32: &str = r#""model":"deepseek-ai/DeepSeek-V3.2","args":{"tensor_parallel_size":8,"kv_cache_dtype":"fp8","max_model_len":512,"max_num_batched_tokens":64,"max_num_seqs":2}"#;
/// DeepSeek V3, plain rows.
pub const V3: &str = r#""model":"deepseek-ai/DeepSeek-V3","args":{"tensor_parallel_size":8,"max_model_len":512,"max_num_batched_tokens":512,"max_num_seqs":2}"#;
/// The same in per-tensor fp8.
pub const V3_FP8: &str = r#""model":"deepseek-ai/DeepSeek-V3","args":{"tensor_parallel_size":8,"kv_cache_dtype":"fp8","max_model_len":512,"max_num_batched_tokens":512,"max_num_seqs":2}"#;
/// Llama 3.1 8B: two KV heads a rank.
pub const LLAMA: &str = r#""model":"meta-llama/Meta-Llama-3.1-8B","args":{"tensor_parallel_size":4,"max_model_len":512,"max_num_batched_tokens":512,"max_num_seqs":2}"#;
/// The same in per-tensor fp8.
pub const LLAMA_FP8: &str = r#""model":"meta-llama/Meta-Llama-3.1-8B","args":{"tensor_parallel_size":4,"kv_cache_dtype":"fp8","max_model_len":512,"max_num_batched_tokens":512,"max_num_seqs":2}"#;

/// A case's whole line.
pub fn case(model: &str, gpu: &str, pool_bytes: u64, env: &str) -> String {
    format!(
        r#"{{"id":"t","release":"0.33.0","gpu":"{gpu}",{model},"available_memory":{pool_bytes},"env":{{{env}}}}}"#
    )
}

/// A case's answer.
pub fn answer(case: &str) -> Resolution {
    let (_, request) = parse_case(case);
    let request = request.unwrap_or_else(|error| panic!("{case}: {error:?}"));
    resolve(&request).unwrap_or_else(|error| panic!("{case}: {}", error.refusal))
}

/// A case's plan.
pub fn plan(model: &str, gpu: &str, pool_bytes: u64) -> PoolPlan {
    PoolPlan::new(&answer(&case(model, gpu, pool_bytes, ""))).expect("a plan")
}
