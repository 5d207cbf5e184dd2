//! Bad input gets a clear answer.

use kv_cases::{answer, resolve_line};
use kv_resolver::Outcome;
use kv_resolver::catalog::find_model;
use proptest::prelude::*;

use crate::config;
use crate::questions::OPENED;

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        let answer = answer(&text, 7);
        prop_assert!(answer.is_malformed());
    }

    #[test]
    fn any_flag_value_is_answered(
        flag in prop::sample::select(&kv_resolver::Flag::ALL[..]),
        value in prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_filter("JSON has no NaN", |x| x.is_finite()).prop_map(|x| format!("{x:?}")),
            "[a-zA-Z_0-9 '\"\\\\]{0,60}".prop_map(|text| serde_json::to_string(&text).unwrap()),
            prop::sample::select(&["null", "true", "[]", "{}", "[1]", "18446744073709551616"][..]).prop_map(str::to_owned),
        ],
    ) {
        let line = format!(
            r#"{{"id":1,"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{{"{flag}":{value}}},"available_memory":42949672960}}"#
        );
        let result: serde_json::Value = serde_json::from_str(&resolve_line(&line, 1)).unwrap();
        prop_assert!(result["ok"].is_boolean());
        prop_assert_eq!(&result["id"], &serde_json::json!(1));
    }

    #[test]
    fn a_damaged_config_is_answered(
        model in prop::sample::select(&OPENED[..]),
        field in 0_usize..64,
        damage in prop::sample::select(&["", "null", "\"x\"", "-1", "0", "1e308", "18446744073709551615", "[]", "{}", "[[[]]]", "3.5"][..]),
    ) {
        let mut config: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(find_model(model).unwrap().config_json).unwrap();
        let keys: Vec<String> = config.keys().cloned().collect();
        let key = &keys[field % keys.len()];
        if damage.is_empty() {
            config.remove(key);
        } else {
            config.insert(key.clone(), serde_json::from_str(damage).unwrap());
        }
        let case = serde_json::json!({"hf_config": config, "gpu": "b200", "args": {"tensor_parallel_size": 8}});
        let answer = answer(&case.to_string(), 1);
        // an answer rests on the whole file or on none of the damaged field
        if let Err(error) = answer.result {
            prop_assert!(!error.refusal.to_string().is_empty() || !error.notes.is_empty());
        }
    }
}

#[test]
fn bad_cases_say_what_is_wrong() {
    for (line, error) in [
        (
            "",
            "line 3: not JSON: EOF while parsing a value at line 1 column 0",
        ),
        ("[1]", "line 3: expected an object, got an array"),
        ("{}", "line 3: no gpu is given"),
        (
            r#"{"gpu":"h200"}"#,
            "line 3: neither model nor hf_config is given",
        ),
        (
            r#"{"gpu":"h200","model":7}"#,
            "line 3: model: expected a string, got an integer",
        ),
        (
            r#"{"gpu":{"cc":[9]},"model":"x"}"#,
            "line 3: gpu: expected \"cc\": [major, minor]",
        ),
        (
            r#"{"gpu":{"cc":[9,-1]},"model":"x"}"#,
            "line 3: gpu: expected \"cc\": [major, minor]",
        ),
        (
            r#"{"gpu":{"cc":[9,0],"mem_gib":-3},"model":"x"}"#,
            "line 3: gpu.mem_gib: expected more than 0, and at most 1,000,000 GiB",
        ),
        (
            r#"{"gpu":{"cc":[9,0],"mem_gib":0},"model":"x"}"#,
            "line 3: gpu.mem_gib: expected more than 0, and at most 1,000,000 GiB",
        ),
        (
            r#"{"gpu":{"cc":[9,0],"mem_gib":80,"extra":1},"model":"x"}"#,
            "line 3: gpu: unknown key \"extra\"; a GPU has cc, name, mem_gib",
        ),
        (
            r#"{"gpu":"h200","model":"x","available_memory":1.5}"#,
            "line 3: available_memory: expected bytes as a whole number, got a float",
        ),
        (
            r#"{"gpu":"h200","model":"x","args":[]}"#,
            "line 3: args: expected an object, got an array",
        ),
        (
            r#"{"gpu":"h200","model":"x","env":{"VLLM_X":1}}"#,
            "line 3: env.VLLM_X: expected a string, got an integer",
        ),
        (
            r#"{"gpu":"h200","model":"x","usage":"both"}"#,
            "line 3: usage: expected \"server\" or \"llm\"",
        ),
        (
            r#"{"gpu":"h200","model":"x","modle":1}"#,
            "line 3: unknown key \"modle\"; a case has id, release, model, hf_config, draft_hf_config, gpu, args, env, available_memory, free_memory, usage",
        ),
    ] {
        let answer = answer(line, 3);
        assert!(answer.is_malformed(), "{line}");
        assert_eq!(
            answer.result.unwrap_err().refusal.to_string(),
            error,
            "{line}"
        );
    }
}

#[test]
fn what_is_not_modelled_is_named() {
    let base = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200"}"#;
    for (from, to, error) in [
        (
            "h200\"}",
            "h200\",\"args\":{\"speculative_config\":{\"method\":\"mtp\",\"num_speculative_tokens\":1,\"moe_backend\":\"triton\"}}}",
            "speculative_config's moe_backend is not modelled",
        ),
        (
            "h200\"}",
            "h200\",\"args\":{\"speculative_config\":{\"method\":\"eagle3\",\"num_speculative_tokens\":1,\"model\":\"a/b\"}}}",
            "the draft model \"a/b\" is not in the catalog; give its config.json, too (draft_hf_config)",
        ),
        (
            "h200\"}",
            "h200\",\"args\":{\"kv_transfer_config\":\"{}\"}}",
            "kv_transfer_config is not modelled yet",
        ),
        (
            "h200\"}",
            "h200\",\"env\":{\"VLLM_USE_V2_MODEL_RUNNER\":\"0\"}}",
            "the environment variable VLLM_USE_V2_MODEL_RUNNER is not modelled",
        ),
        (
            "h200\"}",
            "h200\",\"release\":\"0.28.1\"}",
            "vLLM 0.28.1 is not modelled; modelled: 0.20.2, 0.21.0, 0.22.1, 0.23.0, 0.24.0, 0.25.1, 0.26.0, 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0, 0.32.0, 0.33.0",
        ),
        (
            "\"h200\"",
            "{\"cc\":[8,0]}",
            "compute capability 8.0 is not modelled; SM90, SM100/103 and SM120/121 are",
        ),
    ] {
        let answer = answer(&base.replace(from, to), 1);
        assert_eq!(answer.outcome(), Outcome::Unmodelled);
        assert_eq!(answer.result.unwrap_err().refusal.to_string(), error);
    }
}

#[test]
fn deep_and_long_input_is_refused_quickly() {
    let deep = "[".repeat(100_000);
    assert!(answer(&deep, 1).is_malformed());
    let padding = "x".repeat(10 << 20);
    let line = format!(r#"{{"gpu":"h200","hf_config":{{"padding":"{padding}"}}}}"#);
    assert_eq!(answer(&line, 1).outcome(), Outcome::Unmodelled);
    let ratios = vec!["4"; 2_000_000].join(",");
    let line = format!(
        r#"{{"gpu":"h200","hf_config":{{"architectures":["DeepseekV4ForCausalLM"],"model_type":"deepseek_v4","num_hidden_layers":2000000,"compress_ratios":[{ratios}]}}}}"#
    );
    let error = answer(&line, 1).result.unwrap_err().refusal.to_string();
    assert_eq!(
        error,
        "config.json: `num_hidden_layers` is 2000000; expected 1 to 1024"
    );
}

#[test]
fn hostile_numbers_do_not_wrap() {
    for args in [
        r#"{"block_size":9223372036854775807}"#,
        r#"{"max_num_batched_tokens":9223372036854775807}"#,
        r#"{"num_gpu_blocks_override":9223372036854775807}"#,
        r#"{"max_model_len":9223372036854775807}"#,
        r#"{"max_num_seqs":9223372036854775807}"#,
        r#"{"data_parallel_size":9223372036854775807}"#,
        r#"{"num_gpu_blocks_override":-9223372036854775808}"#,
        r#"{"kv_cache_memory_bytes":-9223372036854775808}"#,
    ] {
        let line = format!(
            r#"{{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{args},"available_memory":18446744073709551615,"env":{{"VLLM_ALLOW_LONG_MAX_MODEL_LEN":"1"}}}}"#
        );
        let result: serde_json::Value = serde_json::from_str(&resolve_line(&line, 1)).unwrap();
        assert!(result["ok"].is_boolean(), "{args}");
    }
}
