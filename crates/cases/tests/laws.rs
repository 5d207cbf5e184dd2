//! Laws that hold for every answer, and bad input that gets a clear one.

use std::collections::BTreeSet;

use kv_cases::{answer, parse_case, resolve_line};
use kv_resolver::catalog::{GPUS, find_model};
use kv_resolver::model::Model;
use kv_resolver::resolution::{Capacity, TensorRow};
use kv_resolver::{CacheDtype, Outcome, Release, Request, Resolution, resolve, resolve_quietly};
use proptest::prelude::*;

/// Models of every kind that vLLM opens.
const OPENED: [&str; 10] = [
    "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V4-Pro",
    "nvidia/DeepSeek-V4-Flash-NVFP4",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-R1",
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "google/gemma-4-26B-A4B",
    "Qwen/Qwen3.5-35B-A3B",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
];

fn request(model: &str, gpu: usize, dtype: CacheDtype) -> Request {
    let line = format!(
        r#"{{"model":"{}","gpu":"{}","args":{{"tensor_parallel_size":8,"kv_cache_dtype":"{dtype}"}}}}"#,
        model, GPUS[gpu].key
    );
    parse_case(&line).1.expect("a well-formed case")
}

prop_compose! {
    fn requests()(
        model in prop::sample::select(&OPENED[..]),
        gpu in 0..GPUS.len(),
        dtype in prop::sample::select(&CacheDtype::ALL[..]),
        release in prop::sample::select(&Release::ALL[..]),
        backend in prop::option::of(prop::sample::select(&["FLASHMLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV4"][..])),
        length in prop::option::of(1_i64..1_048_577),
        batched in prop::option::of(1024_i64..65_537),
        block in prop::option::of(prop::sample::select(&[128_i64, 256, 512, 1024, 384][..])),
        asynchronous in any::<bool>(),
        pool in 1_u64..1 << 38,
    ) -> Request {
        let mut request = request(model, gpu, dtype);
        request.release = release;
        request.args.attention_backend = backend.map(str::to_owned);
        request.args.max_model_len = length;
        request.args.max_num_batched_tokens = batched;
        request.args.block_size = block;
        request.args.async_scheduling = Some(asynchronous);
        request.available_memory = Some(pool);
        request
    }
}

fn laws_of_one(r: &Resolution, pool: u64, release: Release) {
    let capacity = r.capacity.as_ref().expect("a pool was given");
    // the pool is filled to the last whole block
    assert!(capacity.allocated_bytes <= pool);
    assert!(pool < capacity.allocated_bytes + r.bytes_per_block);
    assert_eq!(
        capacity.allocated_bytes,
        capacity.num_blocks * r.bytes_per_block
    );
    // one request fits beside the null block
    // (through 0.28 vLLM's check forgets the null block and counts layer tuples,
    // which need not cover a block: what passes may not fit)
    if release.profile().reserves_null_block {
        assert!(r.request_bytes + r.bytes_per_block <= pool);
    }
    // the figures belong together
    let at = r.request_bytes_at(r.max_model_len).unwrap();
    assert_eq!(at.total, r.request_bytes);
    assert_eq!(at.by_group.iter().sum::<u64>(), at.total);
    let groups = &r.groups;
    assert_eq!(
        groups.iter().map(|g| g.request_bytes).sum::<u64>(),
        r.request_bytes
    );
    assert_eq!(
        groups
            .iter()
            .map(|g| g.fixed_bytes_per_request)
            .sum::<u64>(),
        r.fixed_bytes_per_request
    );
    assert_eq!(
        r.reported_block_size,
        groups.iter().map(|g| g.block_size).min().unwrap()
    );
    // past every window, each period costs its marginal bytes
    let period = r.marginal_bytes_per_token.tokens;
    let far = period * (1 + (1 << 24) / period);
    let step =
        r.request_bytes_at(far + period).unwrap().total - r.request_bytes_at(far).unwrap().total;
    assert_eq!(step, r.marginal_bytes_per_token.bytes);
    assert_eq!(
        r.request_bytes_at(far).unwrap().total,
        r.fixed_bytes_per_request + r.marginal_bytes_per_token.bytes * (far / period)
    );
    // every layer has one place, and pages of a group do not overlap
    let placements = r.placements();
    let names: BTreeSet<&str> = placements.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names.len(), placements.len());
    assert_eq!(
        placements.len(),
        r.layers.iter().map(|row| row.count).sum::<usize>()
    );
    assert_eq!(
        placements.len(),
        groups.iter().map(|group| group.layers).sum::<usize>()
    );
    let Some(layout) = r.kv_cache_layout else {
        return slots_do_not_overlap(r, capacity);
    };
    for (index, group) in groups.iter().enumerate() {
        // a group's page is all its layers' where they lie side by side
        if layout.is_block_outermost() {
            assert!(group.page_size_bytes + group.padding_bytes == r.bytes_per_block);
        }
        let mut end = 0;
        let runs = capacity.tensors.iter().filter_map(|row| match row {
            TensorRow::Run(run) => Some(run),
            TensorRow::Shared(_) => None,
        });
        for row in runs.filter(|row| row.group == index) {
            assert!(row.offset >= end);
            // a block holds every layer's page, or a layer every block's
            if layout.is_block_outermost() {
                assert_eq!(row.block_stride, r.bytes_per_block);
            } else {
                assert_eq!(row.layer_stride, row.block_stride * capacity.num_blocks);
            }
            end = row.offset + row.layer_stride * row.layers as u64;
        }
        if layout.is_block_outermost() {
            assert!(end <= r.bytes_per_block);
        } else {
            assert!(end <= capacity.allocated_bytes);
        }
    }
}

/// Through 0.28: of one group's pages none overlaps another in the same
/// allocation, and all of them lie within its block.
fn slots_do_not_overlap(r: &Resolution, capacity: &Capacity) {
    let page = |group: usize, name: &str| {
        let shared = capacity.tensors.iter().find_map(|row| match row {
            TensorRow::Shared(row) => row.shared_by.iter().find(|layer| layer.name == name),
            TensorRow::Run(_) => None,
        });
        let layer = shared.unwrap().layer;
        let mut members = r.groups[group].members.iter();
        members.find(|m| m.layer == layer).unwrap().page_size_bytes
    };
    for group in 0..r.groups.len() {
        let mut placements = r.placements();
        placements.retain(|placement| placement.group == group);
        placements.sort_by_key(|placement| (placement.allocation, placement.offset));
        for pair in placements.windows(2) {
            let end = pair[0].offset + page(group, &pair[0].name);
            assert!(pair[0].allocation != pair[1].allocation || end <= pair[1].offset);
            assert!(end <= pair[0].block_stride);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn an_answer_is_consistent(request in requests()) {
        let pool = request.available_memory.unwrap();
        match resolve(&request) {
            Ok(resolution) => laws_of_one(&resolution, pool, request.release),
            // a bare assertion is explained
            Err(error) => {
                prop_assert!(!error.refusal.to_string().is_empty() || !error.notes.is_empty());
            }
        }
    }

    #[test]
    fn stages_share_out_the_layers(request in requests(), stages in 2_i64..9) {
        let mut request = request;
        request.args.pipeline_parallel_size = Some(stages);
        let Ok(r) = resolve(&request) else {
            return Ok(());
        };
        prop_assert_eq!(i64::try_from(r.stages.len()), Ok(stages));
        let layers: usize = r.layers.iter().map(|row| row.count).sum();
        prop_assert_eq!(r.stages.iter().map(|stage| stage.layers).sum::<usize>(), layers);
        prop_assert_eq!(r.stages.iter().filter(|stage| stage.binds).count(), 1);
        let capacity = r.capacity.as_ref().expect("a pool was given");
        let fewest = r.stages.iter().filter_map(|stage| stage.num_blocks).min();
        prop_assert_eq!(fewest, Some(capacity.num_blocks));
        prop_assert_eq!(r.stages[0].allocated_bytes, Some(capacity.allocated_bytes));
        let mut next = 0;
        for stage in &r.stages {
            prop_assert_eq!(stage.start_layer, next);
            next = stage.end_layer;
            prop_assert_eq!(stage.groups.iter().sum::<usize>(), stage.layers);
            prop_assert_eq!(stage.groups.len(), r.groups.len());
            prop_assert!(stage.allocated_bytes <= request.available_memory);
            prop_assert!(!stage.binds || stage.num_blocks == fewest);
        }
    }

    #[test]
    fn a_quiet_answer_is_the_same(request in requests()) {
        let quiet = resolve_quietly(&request);
        match (resolve(&request), quiet) {
            (Ok(mut loud), Ok(quiet)) => {
                loud.notes.clear();
                loud.log.clear();
                loud.trace.clear();
                prop_assert_eq!(loud, quiet);
            }
            (Err(loud), Err(quiet)) => prop_assert_eq!(loud.refusal, *quiet),
            (loud, quiet) => prop_assert!(false, "{loud:?} {quiet:?}"),
        }
    }

    #[test]
    fn more_pool_never_holds_less(request in requests(), more in 0_u64..1 << 36) {
        let mut richer = request.clone();
        richer.available_memory = request.available_memory.map(|pool| pool + more);
        if let Ok(before) = resolve_quietly(&request) {
            let after = resolve_quietly(&richer).expect("what fits in less fits in more");
            let blocks = |r: &Resolution| r.capacity.as_ref().unwrap().num_blocks;
            prop_assert!(blocks(&after) >= blocks(&before));
        }
    }

    #[test]
    fn a_longer_request_never_needs_less(request in requests(), a in 0_u64..1 << 22, b in 0_u64..1 << 22) {
        if let Ok(r) = resolve_quietly(&request) {
            let (short, long) = (a.min(b), a.max(b));
            prop_assert!(
                r.request_bytes_at(short).unwrap().total <= r.request_bytes_at(long).unwrap().total
            );
        }
    }

    #[test]
    fn auto_fit_takes_the_longest_that_fits(request in requests()) {
        let mut auto = request;
        auto.args.max_model_len = Some(-1);
        if let Ok(fitted) = resolve_quietly(&auto) {
            let mut longer = auto.clone();
            longer.args.max_model_len = i64::try_from(fitted.max_model_len + 1).ok();
            let most = Model::from_config(&auto.hf_config).unwrap().common.length;
            if fitted.max_model_len < most.derived(None).tokens {
                let refusal = resolve_quietly(&longer).expect_err("one more token does not fit");
                prop_assert_eq!(refusal.outcome(), Outcome::DoesNotFit);
            }
            longer.args.max_model_len = i64::try_from(fitted.max_model_len).ok();
            // but for the line that says so
            let mut capacity = fitted.capacity;
            if let Some(capacity) = &mut capacity {
                prop_assert!(capacity.auto_fit_line.take().is_some());
            }
            prop_assert_eq!(
                resolve_quietly(&longer).map(|r| r.capacity),
                Ok(capacity)
            );
        }
    }

    #[test]
    fn advice_works(request in requests()) {
        if let Err(error) = resolve(&request) {
            for advice in error.advice {
                let mut followed = request.clone();
                for (name, value) in &advice.set {
                    let flag: kv_resolver::Flag = name.parse().unwrap();
                    if value.is_empty() {
                        followed.args.clear(flag);
                    } else {
                        let value = flag.parse_text(value).unwrap();
                        followed.args.set(flag, &value).unwrap();
                    }
                }
                if !advice.set.is_empty() {
                    prop_assert!(resolve_quietly(&followed).is_ok(), "{}", advice.text);
                }
            }
        }
    }

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
            "line 3: gpu.mem_gib: expected 0 to 1,000,000 GiB",
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
