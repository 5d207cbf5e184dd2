//! Logs as people paste them, and what is read of each: `golden/logs.txt`, in the form of the commands beside it.

mod common;

use std::fmt::Write as _;

use kv_paste::{Log, Pasted, read};
use kv_resolver::units::format_gib;
use kv_resolver::{Release, Usage};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/logs.txt");

fn shown(pasted: &Pasted) -> String {
    let mut out = String::new();
    let log: &Log = &pasted.log;
    let question = pasted.question();
    if let Some(version) = &question.version {
        let known = if question.release.is_some() {
            ""
        } else {
            ", without rules"
        };
        let _ = writeln!(out, "vLLM {version}{known}");
    }
    if let Some(model) = &question.model {
        let _ = writeln!(out, "model {model}");
    }
    if let Some(gpu) = log.gpu {
        let _ = writeln!(out, "gpu {} in line {}", gpu.value.key, gpu.line);
    }
    if question.usage == Usage::Llm {
        out.push_str("usage llm\n");
    }
    if log.starts > 1 {
        let _ = writeln!(out, "{} starts", log.starts);
    }
    if log.passed_line > 0 {
        let of = if log.is_effective {
            "the engine"
        } else {
            "flags"
        };
        let _ = writeln!(out, "{of} in line {}", log.passed_line);
    }
    for flag in &log.passed {
        let value = kv_cases::value_json(&flag.value);
        let _ = writeln!(out, "  {}={value}  {}", flag.name, flag.standing.as_str());
    }
    if !pasted.commands.is_empty() {
        let _ = writeln!(out, "{} command", pasted.commands.len());
    }
    if let Some(pool) = log.pool.available {
        let gib = format_gib(i128::from(pool.likely));
        let _ = writeln!(out, "{gib} GiB available in line {}", log.available_line);
    }
    if let Some(tokens) = log.pool.tokens {
        let _ = writeln!(out, "{tokens} tokens in line {}", log.tokens_line);
    }
    let mut fact = |name: &str, fact: Option<kv_paste::Fact<u64>>| {
        if let Some(fact) = fact {
            let _ = writeln!(out, "{name} {} in line {}", fact.value, fact.line);
        }
    };
    fact("max_model_len", log.max_model_len);
    fact("hundredths of concurrency", log.concurrency);
    fact("batched tokens", log.batched_tokens);
    fact("estimated length", log.estimated_length);
    if let Some(needed) = log.needed {
        let gib = format_gib(i128::from(needed.value.likely));
        let _ = writeln!(out, "{gib} GiB needed in line {}", needed.line);
    }
    if let Some(error) = log.error {
        let text: String = error.value.text.chars().take(50).collect();
        let (stage, class) = (error.value.stage.as_str(), error.value.error_type);
        let _ = writeln!(out, "{stage} {class} in line {}: {text}", error.line);
    }
    out
}

#[test]
fn what_is_read_of_each_log() {
    common::hold(PATH, 40, |text| {
        shown(&read(text, Release::LATEST).unwrap())
    });
}

/// What a text is said to end with, by its class.
fn error_of(text: &str) -> Option<&'static str> {
    let log = read(text, Release::LATEST).unwrap().log;
    log.error.map(|error| error.value.error_type)
}

const COMMANDS: [&str; 8] = [
    "tensor-parallel-size: 2\ndecode-context-parallel-size: 2\nquantization: fp8\ngpu-memory-utilization: 0.9",
    "vllm serve --config x.yaml\nspeculative-config:\n  method: deepseek_mtp\n  num_speculative_tokens: 1\n",
    "{\"method\": \"deepseek_mtp\", \"num_speculative_tokens\": 1,\n \"tensor-parallel-size\": 2}",
    "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --quantization fp8 --gpu-memory-utilization 0.9",
    "vllm serve Qwen/Qwen3-8B --speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":1}'",
    "vllm serve x/y --tensor-parallel-size 8 --decode-context-parallel-size 4",
    "services:\n  vllm:\n    image: vllm/vllm-openai:v0.33.0\n    command: >\n      x/y\n      --speculative-config '{\"num_speculative_tokens\":1}'\n      --gpu-memory-utilization 0.9\n      --tensor-parallel-size 4\n      --quantization fp8",
    "non-default args: {'model': 'x/y', 'tensor_parallel_size': 2,\n 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1},\n 'decode_context_parallel_size': 2}",
];

#[test]
fn names_of_options_are_no_error() {
    for command in COMMANDS {
        assert_eq!(error_of(command), None, "{command}");
    }
}

#[test]
fn an_error_beside_a_command_is_found() {
    let errors = [
        "ValueError: --spec-tokens and --speculative-config['num_speculative_tokens'] are mutually exclusive",
        "torch.OutOfMemoryError: Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights",
        "  Value error, Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (8) to be greater than the model's total number of KV heads (8).",
    ];
    for command in COMMANDS {
        for error in errors {
            for text in [
                format!("{command}\n{error}\n"),
                format!("{command}\n\nfails:\n\n{error}"),
                format!("{error}\n{command}\n"),
            ] {
                assert!(error_of(&text).is_some(), "{text}");
            }
        }
    }
}
