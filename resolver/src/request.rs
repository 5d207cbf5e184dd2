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
