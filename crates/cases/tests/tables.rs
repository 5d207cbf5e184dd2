//! Defaults and lists of every release, as vLLM itself dumped them (`resolver/tables/`).

use std::fs;
use std::path::Path;

use kv_cases::parse_case;
use kv_resolver::{Release, Resolution, resolve};
use serde_json::Value;

fn dump(release: Release) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../resolver/tables")
        .join(format!("{release}.json"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{release}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A model that is modelled at every release, with a GPU and a usage.
fn started(release: Release, capability: &str, name: &Value, gib: &Value, usage: &Value) -> Value {
    let (major, minor) = capability.split_once('.').unwrap();
    serde_json::from_str(&format!(
        r#"{{"model":"deepseek-ai/DeepSeek-V4-Flash","release":"{release}","usage":{usage},
            "gpu":{{"cc":[{major},{minor}],"name":{name},"mem_gib":{gib}}},
            "args":{{"kv_cache_dtype":"fp8","tensor_parallel_size":8}}}}"#
    ))
    .unwrap()
}

fn answer(case: &Value) -> Resolution {
    let request = parse_case(&case.to_string()).1.expect("a well-formed case");
    resolve(&request).unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn the_limits_of_a_step_are_vllms_defaults() {
    let mut held = 0;
    for release in Release::ALL {
        let dump = dump(release);
        for line in list(&dump["defaults"], "batch") {
            let (case, limits) = (&line[0], &line[1]);
            for capability in list(case, "capability").iter().filter_map(Value::as_str) {
                for name in list(case, "gpu_name") {
                    for gib in list(case, "memory_gib") {
                        for usage in list(case, "usage") {
                            let case = started(release, capability, name, gib, usage);
                            let ours = answer(&case);
                            let ours = [ours.max_num_batched_tokens, ours.max_num_seqs];
                            let theirs = ["max_num_batched_tokens", "max_num_seqs"]
                                .map(|limit| limits[limit].as_u64().unwrap());
                            assert_eq!(ours, theirs, "{case}");
                            held += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(held, Release::ALL.len() * 5 * 2 * 6 * 2, "every case once");
}

#[test]
fn the_share_of_memory_is_vllms_default() {
    for release in Release::ALL {
        let theirs = dump(release)["defaults"]["gpu_memory_utilization"].as_f64();
        let gpu = Value::from("NVIDIA H200");
        let case = started(release, "9.0", &gpu, &141.into(), &"server".into());
        let ours = answer(&case).gpu_memory_utilization;
        assert_eq!(Some(ours), theirs, "{release}");
    }
}

#[test]
fn an_unknown_architecture_is_told_all_that_there_are() {
    for release in Release::ALL {
        let case = format!(
            r#"{{"release":"{release}","model":"stepfun-ai/Step-3.7-Flash-FP8","gpu":"h200"}}"#
        );
        let request = parse_case(&case).1.expect("a well-formed case");
        let refusal = resolve(&request).expect_err(&case);
        if !release.profile().models_all_families {
            assert_eq!(refusal.refusal.stage(), kv_resolver::Stage::Unmodelled);
            continue;
        }
        let text = refusal.to_string();
        let (_, ours) = text.split_once("dict_keys([").unwrap();
        let dump = dump(release);
        let theirs: Vec<String> = list(&dump, "registry")
            .iter()
            .map(|name| format!("'{}'", name.as_str().unwrap()))
            .collect();
        assert_eq!(ours, theirs.join(", ") + "])", "{release}");
    }
}
