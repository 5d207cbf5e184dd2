//! The question: a release, a model's config.json, a GPU, and what the user
//! passes to `vllm serve`.

use std::str::FromStr;
use std::sync::Arc;

use crate::args::EngineArgs;
use crate::environment::Environment;
use crate::gpu::Gpu;
use crate::release::Release;
use crate::value::Value;

/// Who starts vLLM; its defaults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usage {
    /// `server`: `vllm serve`.
    #[default]
    Server,
    /// `llm`: the `LLM` class.
    Llm,
}

impl Usage {
    /// The spelling in a case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Llm => "llm",
        }
    }
}

impl FromStr for Usage {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "server" => Ok(Self::Server),
            "llm" => Ok(Self::Llm),
            _ => Err(()),
        }
    }
}

/// One case.
///
/// [`Request::new`] makes one of a config.json and a GPU; everything else is a field. Flags from elsewhere are set by
/// name, and what vLLM would not take for their type is kept for its own message:
///
/// ```
/// use kv_resolver::catalog::{find_gpu, find_model};
/// use kv_resolver::{Flag, Release, Request, Value, resolve};
///
/// let model = find_model("Qwen/Qwen3-8B").expect("it is in the catalog");
/// let gpu = find_gpu("b200").expect("it is in the catalog").gpu();
/// let mut request = Request::new(serde_json::from_str(model.config_json)?, gpu);
/// request.release = "0.30.0".parse()?;
/// assert_eq!(request.release, Release::V0_30_0);
///
/// let flag: Flag = "max_model_len".parse().expect("there is one of that name");
/// request.args.set(flag, &Value::String("8192".to_owned()))?;
/// request.env.set("VLLM_KV_CACHE_LAYOUT", "HND");
/// let answer = resolve(&request)?;
/// assert_eq!(answer.max_model_len, 8192);
///
/// request.args.set(flag, &Value::String("8k".to_owned()))?;
/// let error = resolve(&request).unwrap_err().refusal.to_string();
/// assert!(error.contains("Input should be a valid integer"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// vLLM's version.
    pub release: Release,
    /// The model's config.json: what is changed of a question is never this, so that copies share it.
    pub hf_config: Arc<Value>,
    /// The config.json of the drafter that `--speculative-config` names, if it is
    /// none of the target's.
    pub draft_config: Option<Value>,
    /// The GPU of each rank.
    pub gpu: Gpu,
    /// What the user passes.
    pub args: EngineArgs,
    /// What the user sets.
    pub env: Environment,
    /// Bytes left for the KV cache on each GPU; `None` leaves the capacity out,
    /// unless `kv_cache_memory_bytes` names it.
    pub available_memory: Option<u64>,
    /// Bytes that are free on each GPU when vLLM starts; `None` for as many as it wants.
    /// Only [`memory`](crate::memory) looks at it.
    pub free_memory: Option<u64>,
    /// Which defaults apply.
    pub usage: Usage,
}

impl Request {
    /// Nothing passed and nothing set: `vllm serve MODEL` of the newest release, without a pool.
    #[must_use]
    pub fn new(hf_config: Value, gpu: Gpu) -> Self {
        Self {
            release: Release::LATEST,
            hf_config: Arc::new(hf_config),
            draft_config: None,
            gpu,
            args: EngineArgs::default(),
            env: Environment::default(),
            available_memory: None,
            free_memory: None,
            usage: Usage::Server,
        }
    }
}
