//! The start-up log, held against what vLLM itself printed.
//!
//! `startup_log.jsonl` has the lines of vLLM's own code under `tests/oracle/`, at INFO,
//! for each case: every line that docs/log.md calls predicted, and no other.

use kv_cases::parse_case;
use kv_resolver::log::{Level, LogLine, Process};
use kv_resolver::{Request, Value, resolve};

/// Lines of processes that the oracle does not start.
const UNREACHED: [&str; 4] = [
    "Using V2 Model Runner",
    "Available KV cache memory: ",
    "kv cache group sizes ",
    "kv lcm block sizes ",
];

fn lines(request: &Request) -> Vec<LogLine> {
    match resolve(request) {
        Ok(resolution) => resolution.log,
        Err(error) => error.log,
    }
}

fn is_unreached(line: &LogLine) -> bool {
    UNREACHED.iter().any(|text| line.text.starts_with(text))
}

/// A case's id and question, and the lines that vLLM printed.
fn cases() -> Vec<(String, Request, Vec<String>)> {
    let file = include_str!("startup_log.jsonl");
    file.lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let (id, request) = parse_case(&row["case"].to_string());
            let Value::String(id) = id else {
                panic!("an id in {line}")
            };
            let printed = row["lines"].as_array().unwrap().iter();
            let printed = printed.map(|line| {
                format!(
                    "{} {}",
                    line[0].as_str().unwrap(),
                    line[1].as_str().unwrap()
                )
            });
            (id, request.unwrap(), printed.collect())
        })
        .collect()
}

#[test]
fn the_lines_are_those_that_vllm_printed() {
    let mut wrong = Vec::new();
    for (id, request, printed) in cases() {
        let reached = |line: &LogLine| {
            let said = [line.level.as_str(), " ", &line.text].concat();
            (!is_unreached(line) || printed.contains(&said)).then_some(said)
        };
        let predicted: Vec<String> = lines(&request).iter().filter_map(reached).collect();
        if predicted != printed {
            wrong.push(format!("{id}\n  want {printed:#?}\n  got {predicted:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn ask(release: &str, model: &str, gpu: &str, rest: &str) -> Request {
    let case = format!(r#"{{"release":"{release}","model":"{model}","gpu":"{gpu}",{rest}}}"#);
    parse_case(&case).1.expect("a well-formed case")
}

const FLASH: &str = "deepseek-ai/DeepSeek-V4-Flash";

fn position(lines: &[LogLine], text: &str) -> Option<usize> {
    lines.iter().position(|line| line.text.starts_with(text))
}

/// A public log of 0.25.0, DeepSeek V4 Flash on two GPUs: "(Worker_TP0) … Setting kv cache
/// block size to 256 for DEEPSEEK_SPARSE_SWA backend.", "Available KV cache memory: 10.29 GiB"
/// of the first worker alone, and the capacity of the engine.
#[test]
fn workers_print_by_rank() {
    let rest = r#""args":{"kv_cache_dtype":"fp8","tensor_parallel_size":2},"available_memory":11048803369"#;
    let lines = lines(&ask("0.25.1", FLASH, "h200", rest));
    let shown: Vec<String> = lines.iter().skip(4).map(ToString::to_string).collect();
    let (last, all) = shown.split_last().unwrap();
    assert!(
        last.starts_with(
            "(EngineCore) INFO Maximum concurrency for 1,048,576 tokens per request: "
        )
    );
    let (size, all) = all.split_last().unwrap();
    assert!(size.starts_with("(EngineCore) INFO GPU KV cache size: "));
    assert_eq!(
        all,
        [
            "(APIServer) INFO Asynchronous scheduling is enabled.",
            "(Worker) INFO Using DeepSeek's fp8_ds_mla KV cache format.",
            "(Worker) INFO Using FP8 indexer cache for Lightning Indexer.",
            "(Worker, each rank) INFO Setting kv cache block size to 256 for DEEPSEEK_SPARSE_SWA \
             backend.",
            "(Worker) INFO Available KV cache memory: 10.29 GiB",
        ]
    );
}

/// Public logs of one GPU (0.26.0, Llama 3.1 8B on an A40): what the worker says begins with
/// "(EngineCore".
#[test]
fn the_worker_of_one_gpu_prints_as_the_engine() {
    let lines = lines(&ask("0.33.0", "Qwen/Qwen3-8B", "h100", r#""args":{}"#));
    let said = |text| lines[position(&lines, text).unwrap()].by;
    assert_eq!(said("Using max model len"), Process::ApiServer);
    assert_eq!(said("Using V2 Model Runner"), Process::EngineCore);
    assert_eq!(said("Using FLASH_ATTN attention"), Process::EngineCore);
    assert!(lines.iter().all(|line| !line.every_rank));
}

/// Two public logs of an A40, whose step has 2,048 tokens, lack the line; those of larger steps
/// have it (0.23.0, 0.27.1).
#[test]
fn a_step_of_2048_tokens_is_never_spoken_of_by_the_server() {
    let chunked = |usage: &str, args: &str| {
        let rest = format!(r#""usage":"{usage}","args":{{{args}}}"#);
        let lines = lines(&ask("0.33.0", "Qwen/Qwen3-8B", "rtx-5090", &rest));
        let line = position(&lines, "Chunked prefill");
        line.map(|index| lines[index].text.clone())
    };
    let line = |tokens| {
        Some(format!(
            "Chunked prefill is enabled with max_num_batched_tokens={tokens}."
        ))
    };
    assert_eq!(chunked("server", ""), None);
    assert_eq!(chunked("llm", ""), line(8192));
    assert_eq!(
        chunked("llm", r#""max_num_batched_tokens":2048"#),
        line(2048)
    );
    assert_eq!(
        chunked("server", r#""max_num_batched_tokens":4096"#),
        line(4096)
    );
}

/// `vllm/v1/engine/core.py` `_initialize_kv_caches`: 0.33 groups the layers before it
/// measures memory. A public log of 0.20.2 has the warning on either side.
#[test]
fn memory_is_measured_before_or_after_the_groups() {
    let order = |release: &str| {
        let nemotron = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16";
        let lines = lines(&ask(
            release,
            nemotron,
            "h100",
            r#""args":{},"available_memory":10737418240"#,
        ));
        let padding = position(&lines, "Add 1 padding layers").unwrap();
        let line = &lines[padding];
        assert_eq!((line.level, line.of_pool), (Level::Warning, false));
        let memory = position(&lines, "Available KV cache memory: 10.0 GiB").unwrap();
        assert!(lines[memory].of_pool);
        padding < memory
    };
    assert!(order("0.33.0"));
    assert!(!order("0.32.0") && !order("0.29.0"));
}

/// A public log with `kv_cache_memory_bytes` (0.27.1) has no such line.
#[test]
fn what_is_pinned_or_estimated_is_not_measured() {
    let rest = r#""args":{"kv_cache_memory_bytes":10737418240}"#;
    let request = ask("0.33.0", "Qwen/Qwen3-8B", "h100", rest);
    let mut result = resolve(&request);
    let said = |result: &Result<kv_resolver::Resolution, _>, text| {
        let lines = &result.as_ref().unwrap().log;
        position(lines, text).is_some()
    };
    assert!(!said(&result, "Available KV cache memory"));
    assert!(said(&result, "GPU KV cache size"));
    kv_resolver::log::forget_pool(&mut result);
    assert!(!said(&result, "GPU KV cache size"));
    assert!(said(&result, "Using LBNHC KV cache layout."));
}

/// `vllm/config/vllm.py` `use_v2_model_runner`; in public logs the file of a runner tells it:
/// DeepSeek V4 by `gpu_model_runner.py` in 0.27.1, Llama by `model_runner.py` in 0.31.0.
#[test]
fn the_second_runner_came_by_and_by() {
    let second = |release: &str, model: &str, args: &str| {
        let lines = lines(&ask(
            release,
            model,
            "h200",
            &format!(r#""args":{{{args}}}"#),
        ));
        position(&lines, "Using V2 Model Runner").is_some()
    };
    let flash = r#""kv_cache_dtype":"fp8","tensor_parallel_size":4"#;
    assert!(!second("0.27.1", FLASH, flash) && second("0.28.0", FLASH, flash));
    assert!(
        !second("0.28.0", "openai/gpt-oss-120b", "") && second("0.29.0", "openai/gpt-oss-120b", "")
    );
    assert!(second("0.31.0", "Qwen/Qwen3-8B", ""));
    let ngram = r#""speculative_config":{"method":"ngram","num_speculative_tokens":3}"#;
    assert!(!second("0.29.0", "Qwen/Qwen3-8B", ngram));
}

/// The groups in the scheduler's order; two vectors have vLLM's own list and tuple.
#[test]
fn group_sizes_are_printed_as_python_prints_them() {
    let sizes = |release: &str| {
        let rest = r#""args":{"kv_cache_dtype":"fp8","tensor_parallel_size":8}"#;
        let lines = lines(&ask(release, FLASH, "h200", rest));
        let texts = lines.iter().map(|line| line.text.as_str());
        let texts = texts.filter(|text| text.starts_with("kv "));
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let tuple = [
        "kv cache group sizes (64, 64, 256, 4, 8)",
        "kv lcm block sizes 256",
    ];
    assert_eq!(sizes("0.33.0"), tuple);
    assert_eq!(
        sizes("0.31.0")[0],
        "kv cache group sizes [64, 64, 256, 4, 8]"
    );
    assert_eq!(sizes("0.29.0"), [""; 0]);
}

/// What stops a start-up decides how far the log goes.
#[test]
fn a_refusal_has_the_lines_before_it() {
    let parser = ask(
        "0.32.0",
        FLASH,
        "h200",
        r#""args":{"kv_cache_dtype":"fp7"}"#,
    );
    assert_eq!(lines(&parser), []);
    let unmodelled = ask(
        "0.33.0",
        FLASH,
        "h200",
        r#""args":{"kv_transfer_config":{}}"#,
    );
    assert_eq!(lines(&unmodelled), []);
    let config = ask(
        "0.33.0",
        FLASH,
        "h200",
        r#""args":{"kv_cache_dtype":"fp7"}"#,
    );
    let config = lines(&config);
    let last = config.last().map(|line| line.text.as_str());
    assert_eq!(last, Some("Using max model len 1048576"));
    let mut busy = ask("0.33.0", "Qwen/Qwen3-8B", "h100", r#""args":{}"#);
    busy.free_memory = Some(20 << 30);
    let stopped = kv_resolver::memory::if_free(&busy, resolve(&busy)).unwrap_err();
    assert!(!stopped.log.is_empty());
    assert!(stopped.log.iter().all(|line| line.by == Process::ApiServer));
}
