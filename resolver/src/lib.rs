//! What vLLM will do with a KV cache: every rule, pure.
//!
//! [`resolve`](fn@resolve) takes a [`Request`] (a release, a model's config.json, a GPU,
//! flags) and returns the [`Resolution`] that vLLM would reach before its first
//! kernel, or the [`StartupError`] that it would stop with. No I/O, no clock,
//! no global state, no panic on any input; sizes are checked integers in bytes.
//!
//! # A question and its answer
//!
//! ```
//! use kv_resolver::catalog::{find_gpu, find_model};
//! use kv_resolver::units::GIB;
//! use kv_resolver::{Outcome, Request, Value, resolve};
//!
//! // any config.json will do; the catalog has some, and the GPUs
//! let model = find_model("deepseek-ai/DeepSeek-V4-Flash").expect("it is in the catalog");
//! let config: Value = serde_json::from_str(model.config_json)?;
//! let gpu = find_gpu("h200").expect("it is in the catalog").gpu();
//!
//! let mut request = Request::new(config, gpu);
//! request.args.tensor_parallel_size = Some(8);
//! request.args.max_model_len = Some(262_144);
//! request.available_memory = Some(40 * GIB);
//!
//! let answer = resolve(&request)?;
//! assert_eq!(answer.outcome, Outcome::Becomes);
//! assert_eq!(answer.cache_dtype.as_str(), "fp8_ds_mla"); // `auto` was asked
//!
//! // the layout: bytes of a page for each kind of layer, and of the block that holds a page of each
//! let c4 = answer.layers.iter().find(|row| row.first == "model.layers.2.attn");
//! assert_eq!(c4.map(|row| row.page_size_bytes), Some(37_440));
//! assert_eq!(answer.bytes_per_block, 1_002_240);
//!
//! // what requests of two lengths reserve, in bytes and in whole blocks; and the slope between
//! let short = answer.request_bytes_at(4096)?.total;
//! let long = answer.request_bytes_at(262_144)?.total;
//! assert!(short < long && long == answer.request_bytes);
//! assert_eq!(answer.marginal_bytes_per_token.exact(), Some(3915));
//!
//! // what the pool holds, in the words of vLLM's log
//! let capacity = answer.capacity.as_ref().expect("a pool was given");
//! assert_eq!(capacity.printed_tokens, 1_457_780);
//! assert!(capacity.log_line.starts_with("GPU KV cache size: 1,457,780 tokens"));
//!
//! // why: one step a decision, each with the file and function of vLLM that decides so
//! assert!(answer.trace.iter().any(|step| step.rule.file.starts_with("vllm/")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A refusal
//!
//! What vLLM stops with is data, and its `Display` is vLLM's own text to the letter. The advice is ours, and was tried:
//! it works on this GPU.
//!
//! ```
//! use kv_resolver::catalog::{find_gpu, find_model};
//! use kv_resolver::{Outcome, Request, Stage, resolve};
//!
//! let model = find_model("deepseek-ai/DeepSeek-V4-Flash").expect("it is in the catalog");
//! let gpu = find_gpu("rtx-5090").expect("it is in the catalog").gpu();
//! let mut request = Request::new(serde_json::from_str(model.config_json)?, gpu);
//! request.args.kv_cache_dtype = Some("bfloat16".to_owned());
//!
//! let error = resolve(&request).unwrap_err();
//! assert_eq!(error.refusal.outcome(), Outcome::Refused);
//! assert_eq!(error.refusal.stage(), Stage::Model);
//! assert!(error.refusal.to_string().starts_with(
//!     "DeepseekV4 fp8_ds_mla layout only supports fp8 kv-cache, got bfloat16."
//! ));
//! assert!(!error.advice.is_empty());
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! What has no rule here is [`Refusal::NotModelled`], with [`Outcome::Unmodelled`]: never a guess, and never counted as
//! vLLM's refusal.
//!
//! # Where to look
//!
//! | to know | see |
//! | --- | --- |
//! | many GPUs and dtypes at once | [`matrix`](mod@matrix) |
//! | what another release makes of it | [`diff`](mod@diff) |
//! | where each byte of a page lies | [`anatomy`] |
//! | what a GPU leaves for the cache, as an interval | [`memory`] |
//! | what any pool holds | [`Resolution::fit`], [`Resolution::requests_of`] |
//! | what to change to get more | [`changes`](mod@changes) |
//! | what a config.json is taken for | [`model::Model`], [`model::Recognition`] |
//! | which GPUs and models need no description | [`catalog`] |
//! | what sets releases apart | [`release`] |
//!
//! Bytes are `u64`, ratios exact ([`resolution::BytesPerToken`], [`capacity::Requests`]); a float is only made to be printed, as
//! vLLM prints it. Fields carry vLLM's names where vLLM has the thing.
//!
//! # Source
//!
//! vLLM's own source is the specification: each rule names the file and function it mirrors, and answers carry that as their
//! trace. The rules are held against vLLM's own answers to thousands of cases, in `tests/vectors/` of the repository.

pub mod advice;
pub mod anatomy;
pub mod args;
pub mod backend;
pub mod capacity;
pub mod catalog;
pub mod changes;
pub mod config;
mod context_parallel;
pub mod diff;
pub mod dtype;
pub mod environment;
pub mod error;
pub mod flag;
pub mod gpu;
pub mod layout;
pub mod log;
pub mod matrix;
pub mod memory;
pub mod model;
pub mod notes;
pub mod plan;
mod python;
pub mod release;
pub mod request;
pub mod resolution;
mod resolve;
pub mod spec;
pub mod speculation;
pub mod standing;
pub mod trace;
pub mod units;
pub mod value;
pub mod weights;

pub use args::EngineArgs;
pub use dtype::CacheDtype;
pub use environment::Environment;
pub use error::{Advice, Outcome, Refusal, Stage, StartupError};
pub use flag::{Flag, FlagError, FlagKind};
pub use gpu::{Arch, ComputeCapability, Gpu};
pub use log::LogLine;
pub use release::Release;
pub use request::{Request, Usage};
pub use resolution::{Note, Resolution};
pub use resolve::{resolve, resolve_quietly};
pub use value::Value;
