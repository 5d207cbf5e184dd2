//! Words that mean something to a reader of input: for dictionaries, and to put where they do not belong.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use kv_paste::KnownError;
use kv_resolver::catalog::{GPUS, MODELS};
use kv_resolver::{CacheDtype, Flag, Release, Value};

use crate::Target;
use crate::seeds;

/// The words of a target.
pub fn of(target: Target) -> &'static [String] {
    static WORDS: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    let all = WORDS.get_or_init(|| Target::ALL.iter().copied().map(collect).collect());
    let at = Target::ALL.iter().position(|known| *known == target);
    &all[at.unwrap_or(0)]
}

fn collect(target: Target) -> Vec<String> {
    let mut words = BTreeSet::new();
    words.extend(CacheDtype::ALL.map(|dtype| dtype.as_str().to_owned()));
    words.extend(Release::ALL.map(|release| release.version().to_owned()));
    match target {
        Target::Config => words.extend(keys()),
        Target::Cases => {
            words.extend(keys());
            words.extend(kv_cases::KEYS.map(str::to_owned));
            words.extend(Flag::ALL.map(|flag| flag.name().to_owned()));
            words.extend(GPUS.iter().map(|gpu| gpu.key.to_owned()));
            words.extend(MODELS.iter().map(|model| model.id.to_owned()));
            words.extend(backends());
        }
        #[cfg(feature = "page")]
        Target::Address => {
            words.extend(Flag::ALL.map(|flag| [flag.name(), "="].concat()));
            words.extend(GPUS.iter().map(|gpu| gpu.key.to_owned()));
            words.extend(PARAMETERS.map(str::to_owned));
        }
        Target::Command => {
            words.extend(Flag::ALL.map(Flag::option));
            words.extend(backends());
            words.extend(PARTS.map(str::to_owned));
        }
        Target::Log | Target::Explanation => {
            words.extend(Flag::ALL.map(|flag| ["'", flag.name(), "': "].concat()));
            words.extend(LINES.map(str::to_owned));
            words.extend(PARTS.map(str::to_owned));
        }
        Target::Field => {
            words.extend(backends());
            words.extend(LINES.map(str::to_owned));
            words.extend(
                [
                    "k", "M", "e", ".", "_", "-", "+", "inf", "nan", "GiB", "auto",
                ]
                .map(str::to_owned),
            );
        }
        Target::Errors => {
            let texts = KnownError::all().flat_map(|error| error.text.split('…'));
            words.extend(texts.filter(|text| text.len() > 7).map(str::to_owned));
        }
    }
    words.into_iter().collect()
}

fn backends() -> impl Iterator<Item = String> {
    let backends = Release::LATEST.profile().attention_backends;
    backends.iter().map(|backend| backend.as_str().to_owned())
}

/// Every key of every config.json that is committed.
fn keys() -> BTreeSet<String> {
    fn collect(value: &Value, keys: &mut BTreeSet<String>) {
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    // the long lists of layers have keys that no rule knows
                    if key.len() < 48 {
                        keys.insert(key.clone());
                    }
                    collect(value, keys);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::String(_) => {}
        }
    }
    let mut keys = BTreeSet::new();
    for config in seeds::models() {
        if let Ok(config) = kv_cases::parse_config(&config) {
            collect(&config, &mut keys);
        }
    }
    keys
}

#[cfg(feature = "page")]
const PARAMETERS: [&str; 28] = [
    "model=",
    "config=",
    "release=",
    "compare=",
    "gpu=",
    "spec_method=",
    "spec_tokens=",
    "spec_model=",
    "spec_kv_cache_dtype=",
    "draft=",
    "pool_gib=",
    "free_gib=",
    "usage=",
    "VLLM_KV_CACHE_LAYOUT=",
    "unmodelled=",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=",
    "dtypes=all",
    "rows=each",
    "sort=",
    "arch=SM100,SM120",
    "mem=80-",
    "fold=",
    "pasted",
    "embed=matrix",
    "theme=dark",
    "#config=%7B%7D",
    "#draft=%7B%22",
    "%e2%80%8b",
];

/// Pieces of commands and of what they stand in.
const PARTS: [&str; 52] = [
    "vllm serve ",
    "docker run ",
    "vllm/vllm-openai:v0.31.0 ",
    "python -m vllm.entrypoints.openai.api_server ",
    "LLM(",
    "EngineArgs(",
    ")",
    "model=",
    "'",
    "\"",
    "\\",
    "\n",
    "\\\n",
    "`",
    "^\n",
    "$",
    "${",
    "}",
    "$(",
    "{",
    "[",
    "]",
    "<",
    ">",
    "<<EOF\n",
    "EOF\n",
    "#",
    " ",
    "--",
    "=",
    "8 ",
    "-sc.",
    "method+ ",
    "--speculative-config.a.b.c ",
    "--config x.yaml",
    "command: ",
    "args:\n",
    "  - ",
    "|\n",
    ">-\n",
    "environment:\n",
    "env:\n- name: ",
    "value: ",
    "image: x\n",
    "é",
    "\u{1b}[0m",
    "\u{feff}",
    "\r\n",
    "CUDA_VISIBLE_DEVICES=0,1 ",
    "VLLM_PP_LAYER_PARTITION=",
    "-tp",
    "1_000k",
];

/// Pieces of what vLLM logs.
const LINES: [&str; 16] = [
    "(Worker_TP3 pid=7) ",
    "INFO 11-29 12:00:01 [x.py:7] ",
    "(EngineCore pid=9) ",
    "non-default args: {",
    "Initializing a V1 LLM engine (v0.33.0) with config: ",
    "Available KV cache memory: 14.5 GiB",
    "GPU KV cache size: 1,457,780 tokens",
    " tokens",
    " GiB",
    "Maximum concurrency for 262,144 tokens per request: 5.56x",
    "Using max model len 262144",
    "Chunked prefill is enabled with max_num_batched_tokens=8192.",
    "To serve at least one request with the model's max seq len (262144), (7.19 GiB KV cache is needed",
    "estimated maximum model length is 5204",
    "vLLM server version 0.33.0, serving model ",
    "ValueError: ",
];
