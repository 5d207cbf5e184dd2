//! Commands as people write them, and what is read of each: `golden/commands.txt`. A case is its name behind `===`,
//! the text, and behind `---` what comes of it, a line each. `KV_PASTE_WRITE=1` writes what comes of them now.

mod common;

use std::fmt::Write as _;

use kv_paste::{Command, read};
use kv_resolver::{Release, Usage};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/commands.txt");

fn shown(commands: &[Command]) -> String {
    let mut out = String::new();
    for (at, command) in commands.iter().enumerate() {
        if at > 0 {
            out.push_str("and\n");
        }
        if command.usage == Usage::Llm {
            out.push_str("usage llm\n");
        }
        if let Some(model) = &command.model {
            let _ = writeln!(out, "model {model}");
        }
        if let Some(version) = &command.version {
            let _ = writeln!(out, "version {version}");
        }
        if let Some(gpus) = command.visible_gpus {
            let _ = writeln!(out, "gpus {gpus}");
        }
        for (name, value) in &command.variables {
            let _ = writeln!(out, "env {name}={value}");
        }
        for flag in &command.passed {
            let _ = writeln!(
                out,
                "{}={}  {}",
                flag.name,
                kv_cases::value_json(&flag.value),
                flag.standing.as_str()
            );
        }
        for problem in command.problems.iter().chain(&command.args().1) {
            let _ = writeln!(out, "! {}", problem.text());
        }
    }
    out
}

#[test]
fn what_is_read_of_each_command() {
    common::hold(PATH, 60, |text| {
        shown(&read(text, Release::LATEST).unwrap().commands)
    });
}

#[test]
fn secrets_are_not_kept() {
    for text in [
        "vllm serve x/y --api-key S3CRET S3CRET2",
        "vllm serve x/y --hf-token S3CRET",
        "vllm serve x/y --apikey S3CRET --max-model-len 8192",
        "vllm serve --apikey S3CRET",
        "vllm serve x/y --swap-space S3CRET",
        "vllm serve x/y --apikey=S3CRET",
        "vllm serve x/y --otlp-traces-endpoint http://user:S3CRET@h/",
        "vllm serve x/y --kv-transfer-config '{\"kv_connector\":\"X\",\"kv_connector_extra_config\":{\"auth_token\":\"S3CRET\",\"url\":\"redis://:S3CRET@h\"}}'",
        "vllm serve x/y --model-loader-extra-config '{\"secretAccessKey\": \"S3CRET\"}'",
        "vllm serve x/y --hf-overrides '{\"password\": \"S3CRET\"}'",
        "VLLM_MY_PASSWORD=S3CRET VLLM_URL=http://a:S3CRET@h vllm serve x/y",
        "vllm serve x/y\n--api-key S3CRET",
        "LLM('x/y', hf_token='S3CRET', download_dir='s3://u:S3CRET@h/')",
        "non-default args: {'model': 'x/y', 'api_key': ['S3CRET'], 'hf_token': 'S3CRET'}",
    ] {
        let pasted = read(text, Release::LATEST).unwrap();
        let log = &pasted.log.passed;
        let told = format!("{}{log:?}{:?}", shown(&pasted.commands), pasted.commands);
        assert!(
            !pasted.is_empty() && !told.contains("S3CRET"),
            "{text}:\n{told}"
        );
    }
}
