//! Figures at and past their bounds, one by one: each ends in an answer within the laws or in a clear error, and no
//! sum of them wraps.

use std::collections::BTreeSet;
use std::sync::Arc;

use kv_cases::{parse_case, parse_config};
use kv_hostile::laws;
use kv_resolver::catalog::{MODELS, find_model};
use kv_resolver::model::Model;
use kv_resolver::{Flag, FlagKind, Refusal, Request, Value, resolve};

/// A question of one model for each architecture.
fn questions() -> Vec<Request> {
    let mut seen = BTreeSet::new();
    let all = MODELS.iter().filter_map(|model| {
        let line = format!(
            r#"{{"model":"{}","gpu":"b200","args":{{"tensor_parallel_size":8,"trust_remote_code":true}},"available_memory":42949672960}}"#,
            model.id
        );
        let request = parse_case(&line).1.expect("a well-formed case");
        let architecture = Model::architecture(&request.hf_config)?.to_owned();
        seen.insert(architecture).then_some(request)
    });
    let all: Vec<Request> = all.collect();
    assert!(all.len() > 15, "{}", all.len());
    all
}

fn hold(request: &Request) -> bool {
    let result = resolve(request);
    laws::of_answer(request, &result);
    if let Ok(answer) = &result {
        laws::of_what_follows(request, answer);
    }
    result.is_ok()
}

/// Whole numbers in a config, by the keys that lead to them.
fn numbers(value: &Value, path: &[usize], all: &mut Vec<Vec<usize>>) {
    if let Value::Object(entries) = value {
        for (at, (_, value)) in entries.iter().enumerate() {
            let path = [path, &[at]].concat();
            match value {
                Value::Integer(_) => all.push(path),
                other => numbers(other, &path, all),
            }
        }
    }
}

fn at<'a>(value: &'a mut Value, path: &[usize]) -> &'a mut Value {
    match (value, path) {
        (Value::Object(entries), [first, rest @ ..]) => at(&mut entries[*first].1, rest),
        (value, _) => value,
    }
}

#[test]
fn each_number_of_a_config_may_be_any() {
    let (mut asked, mut answered) = (0, 0);
    for question in questions() {
        let mut paths = Vec::new();
        numbers(&question.hf_config, &[], &mut paths);
        for (path, big) in paths.iter().zip([1 << 16, 1 << 20, 1 << 32].iter().cycle()) {
            let mut request = question.clone();
            *at(Arc::make_mut(&mut request.hf_config), path) = Value::Integer(*big);
            asked += 1;
            answered += usize::from(hold(&request));
        }
    }
    // most are of no consequence to the cache, or refused
    assert!(asked > 400 && answered > 100, "{answered} of {asked}");
}

#[test]
fn all_numbers_of_a_config_may_be_large() {
    for question in questions() {
        let mut paths = Vec::new();
        numbers(&question.hf_config, &[], &mut paths);
        for bits in [0, 3, 7, 10, 16, 20, 32, 63] {
            let mut request = question.clone();
            for path in &paths {
                let number = at(Arc::make_mut(&mut request.hf_config), path);
                // a model with its own number of layers comes further
                if !matches!(number, Value::Integer(..128) if bits > 3) {
                    *number = Value::Integer(1 << bits);
                }
            }
            hold(&request);
        }
    }
}

#[test]
fn each_number_that_is_passed_may_be_any() {
    let extremes = [
        i64::MIN,
        -1,
        0,
        1,
        7,
        1 << 31,
        1 << 32,
        (1 << 53) + 1,
        1 << 62,
        i64::MAX,
    ];
    let is_integer =
        |flag: &Flag| matches!(flag.kind(), FlagKind::Integer | FlagKind::HumanInteger);
    for question in questions().iter().step_by(2) {
        for flag in Flag::ALL.into_iter().filter(is_integer) {
            for (number, pool) in extremes
                .into_iter()
                .zip([0, 1 << 30, u64::MAX].iter().cycle())
            {
                let mut request = question.clone();
                request.env.allow_long_max_model_len = true;
                request.available_memory = Some(*pool);
                request
                    .args
                    .set(flag, &Value::Integer(number.into()))
                    .expect("it is of 64 bits");
                hold(&request);
            }
        }
    }
}

#[test]
fn more_than_any_model_has_is_refused_before_it_is_looked_at() {
    let mut question = questions().swap_remove(0);
    let config = question.hf_config.clone();
    let mut refused = |key: &str, value: Value| {
        let Value::Object(mut entries) = Value::clone(&config) else {
            unreachable!()
        };
        entries.push((key.to_owned(), value));
        question.hf_config = Value::Object(entries).into();
        match resolve(&question).expect_err("too many").refusal {
            Refusal::NotModelled(text) => text,
            other => panic!("{other:?}"),
        }
    };
    let many = |count| Value::Array(vec![Value::Null; count]);
    assert_eq!(
        refused("layer_types", many(1_000_000)),
        "config.json: a list has 1000000 entries; 16384 are read at most"
    );
    assert_eq!(
        refused("deep", Value::Array(vec![many(16_385)])),
        "config.json: a list has 16385 entries; 16384 are read at most"
    );
    let keys = (0..5000).map(|key| (key.to_string(), Value::Null));
    assert_eq!(
        refused("quantization_config", Value::Object(keys.collect())),
        "config.json: an object has 5000 entries; 2048 are read at most"
    );
}

#[test]
fn each_layer_is_of_a_kind_that_is_known() {
    for (model, field, entry) in [
        ("XiaomiMiMo/MiMo-V2-Flash", "hybrid_layer_pattern", "[]"),
        ("XiaomiMiMo/MiMo-V2-Flash", "hybrid_layer_pattern", "2"),
        ("Qwen/Qwen3.5-35B-A3B", "layer_types", "\"other\""),
    ] {
        let text = find_model(model).expect("it is in the catalog").config_json;
        let mut config = parse_config(text).expect("a config.json");
        let whole = Model::from_config(&config);
        assert!(whole.is_ok(), "{whole:?}");
        let mut layers = None;
        find(&mut config, field, &mut |list| layers = Some(list.len()));
        let count = layers.unwrap_or_else(|| panic!("{model} has no {field}"));
        find(&mut config, field, &mut |list| {
            list[count / 2] = parse_config(entry).expect("JSON");
        });
        let error = Model::from_config(&config).expect_err("an entry of no kind");
        assert_eq!(
            error.to_string(),
            format!("config.json: `{field}` has an entry of no kind that is known")
        );
        find(&mut config, field, &mut |list| list.truncate(count / 2));
        let error = Model::from_config(&config).expect_err("half of the layers");
        assert_eq!(
            error.to_string(),
            format!("config.json: `{field}` does not have an entry for each layer")
        );
    }
}

/// The list of this name, wherever it is.
fn find(value: &mut Value, name: &str, see: &mut dyn FnMut(&mut Vec<Value>)) {
    if let Value::Object(entries) = value {
        for (key, value) in entries {
            match value {
                Value::Array(list) if key == name => see(list),
                other => find(other, name, see),
            }
        }
    }
}

#[test]
fn a_model_without_layers_is_refused() {
    let model = find_model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16").expect("in the catalog");
    let mut config = parse_config(model.config_json).expect("a config.json");
    assert!(Model::from_config(&config).is_ok());
    for pattern in ["", "-E-E"] {
        let Value::Object(entries) = &mut config else {
            unreachable!()
        };
        let pattern = Value::String(pattern.to_owned());
        entries.push(("hybrid_override_pattern".to_owned(), pattern));
        let error = Model::from_config(&config).expect_err("nothing is kept");
        assert_eq!(error.to_string(), "config.json: no layer has a cache");
    }
}
