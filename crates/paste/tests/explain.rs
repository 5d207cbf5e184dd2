//! Logs of starts that the resolver predicts, held against questions that are theirs and that are not.

use kv_paste::{Closing, FigureKind, Match, explain, read};
use kv_resolver::catalog::{MODELS, find_gpu, find_model};
use kv_resolver::memory::without_pool;
use kv_resolver::{Release, Request, Value, resolve};

/// A question by its case.
fn request(case: &str) -> Request {
    kv_cases::parse_case(case).1.unwrap()
}

/// The log that vLLM prints for it on a pool, as a person has it.
fn log_of(request: &Request, pool_gib: f64) -> String {
    let mut sized = without_pool(request);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a pool
    let bytes = (pool_gib * f64::from(1_u32 << 30)) as u64;
    sized.available_memory = Some(bytes);
    let prefix = "(EngineCore pid=80) INFO 11-30 10:00:20 [core.py:140] ";
    let (lines, error) = match resolve(&sized) {
        Ok(resolution) => (resolution.log, String::new()),
        Err(error) => (
            error.log.clone(),
            format!(
                "(EngineCore pid=80) {}: {error}\n",
                error.refusal.error_type()
            ),
        ),
    };
    let lines: Vec<String> = lines
        .iter()
        .map(|line| [prefix, &line.text, "\n"].concat())
        .collect();
    lines.concat() + &error
}

const FLASH: &str = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"tensor_parallel_size":8,"kv_cache_dtype":"fp8","max_model_len":262144}}"#;

#[test]
fn a_log_of_the_question_agrees_line_by_line() {
    for case in [
        FLASH,
        r#"{"model":"Qwen/Qwen3-8B","gpu":"h100","args":{}}"#,
        r#"{"model":"openai/gpt-oss-120b","gpu":"b200","release":"0.29.0","args":{"max_model_len":65536}}"#,
        r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","release":"0.25.1","args":{"tensor_parallel_size":8,"kv_cache_dtype":"fp8","max_model_len":131072}}"#,
    ] {
        let request = request(case);
        let log = read(&log_of(&request, 40.0), request.release).unwrap().log;
        let explained = explain(&request, &log);
        assert!(explained.agrees(), "{case}: {:?}", explained.figures);
        assert!(explained.closings.is_empty());
        assert!(
            explained
                .figures
                .iter()
                .any(|figure| figure.kind == FigureKind::Tokens),
            "{case}: {:?}",
            explained.figures
        );
        let differing: Vec<_> = explained
            .lines
            .iter()
            .filter(|line| !matches!(line.found, Match::Equal(_)))
            .collect();
        assert!(differing.is_empty(), "{case}: {differing:?}");
    }
}

#[test]
fn one_thing_taken_otherwise_closes_the_gap() {
    let asked = request(FLASH);
    // what was really passed, and what must be among what is told
    let other = |name: &str, value: Value| {
        let mut other = asked.clone();
        other.args.set_by_name(name, &value).unwrap();
        (other, name.to_owned(), value)
    };
    for (really, name, value) in [
        other("max_num_batched_tokens", Value::Integer(16384)),
        other("max_model_len", Value::Integer(131_072)),
        other("async_scheduling", Value::Bool(false)),
    ] {
        let log = read(&log_of(&really, 60.0), asked.release).unwrap().log;
        let explained = explain(&asked, &log);
        assert!(!explained.agrees(), "{name}");
        let told = explained
            .closings
            .iter()
            .any(|closing| closing.flag == Some((name.clone(), value.clone())));
        assert!(told, "{name}: {:?}", explained.closings);
        for closing in &explained.closings {
            assert!(
                explain(&closing.apply(&asked), &log).agrees(),
                "{closing:?}"
            );
        }
    }
    // a drafter's layer
    let drafter = kv_cases::parse_config(r#"{"method":"mtp","num_speculative_tokens":2}"#).unwrap();
    let plain = request(
        &FLASH
            .replace("V4-Flash", "V3.2")
            .replace("262144", "131072"),
    );
    let mut drafting = plain.clone();
    drafting
        .args
        .set_by_name("speculative_config", &drafter)
        .unwrap();
    let log = read(&log_of(&drafting, 60.0), plain.release).unwrap().log;
    let explained = explain(&plain, &log);
    assert!(!explained.agrees(), "{:?}", explained.figures);
    let wanted = Some(("speculative_config".to_owned(), drafter));
    assert!(
        explained
            .closings
            .iter()
            .any(|closing| closing.flag == wanted),
        "{:?}",
        explained.closings
    );
    let mut older = asked.clone();
    older.release = Release::V0_28_0;
    let log = read(&log_of(&older, 60.0), asked.release).unwrap().log;
    let explained = explain(&asked, &log);
    let tells = |closing: &Closing| closing.release == Some(Release::V0_28_0);
    assert!(
        explained.agrees() || explained.closings.iter().any(tells),
        "{:?}",
        explained.figures
    );
}

#[test]
fn a_figure_that_nothing_explains_is_left_unexplained() {
    let asked = request(FLASH);
    let log = "(EngineCore pid=80) INFO 11-30 10:00:20 [x.py:1] Available KV cache memory: 60.0 GiB\n\
               (EngineCore pid=80) INFO 11-30 10:00:20 [x.py:1] GPU KV cache size: 7 tokens, Maximum concurrency for 262,144 tokens per request: 0.00x\n";
    let explained = explain(&asked, &read(log, asked.release).unwrap().log);
    assert!(!explained.agrees());
    assert_eq!(explained.closings, []);
}

#[test]
fn an_error_is_held_against_the_one_that_is_predicted() {
    let asked = request(FLASH);
    let log = read(&log_of(&asked, 2.0), asked.release).unwrap().log;
    assert!(log.needed.is_some() && log.error.is_some());
    let explained = explain(&asked, &log);
    assert!(explained.agrees(), "{:?}", explained.figures);
    let kinds: Vec<FigureKind> = explained.figures.iter().map(|figure| figure.kind).collect();
    assert!(
        kinds.contains(&FigureKind::Error) && kinds.contains(&FigureKind::Needed),
        "{kinds:?}"
    );
    // the question of another dtype needs another sum
    let bfloat16 = request(&FLASH.replace("\"fp8\"", "\"bfloat16\""));
    let explained = explain(&bfloat16, &log);
    assert!(!explained.agrees());
    assert!(
        explained
            .closings
            .iter()
            .any(|closing| closing.text() == "kv_cache_dtype=fp8"),
        "{:?}",
        explained.closings
    );
}

#[test]
fn a_flag_without_a_rule_may_turn_out_not_to_matter() {
    let mut asked = request(FLASH);
    let log = read(&log_of(&asked, 40.0), asked.release).unwrap().log;
    asked
        .args
        .set_by_name("distributed_executor_backend", &Value::String("mp".into()))
        .unwrap();
    let explained = explain(&asked, &log);
    assert!(!explained.agrees());
    let texts: Vec<String> = explained.closings.iter().map(Closing::text).collect();
    assert_eq!(
        texts,
        ["distributed_executor_backend not passed, or without an effect on the cache"]
    );
}

#[test]
fn a_pool_that_another_share_leaves_is_told_so() {
    let asked = request(FLASH);
    let log = |gib: &str| {
        format!(
            "(Worker_TP0 pid=80) INFO 11-30 10:00:20 [x.py:1] Available KV cache memory: {gib} GiB\n"
        )
    };
    let share =
        |gib: &str| explain(&asked, &read(&log(gib), asked.release).unwrap().log).utilization;
    assert!(
        share("30.0").is_some_and(|hundredths| hundredths < 80),
        "{:?}",
        share("30.0")
    );
    assert_eq!(share("103.0"), None);
}

#[test]
fn a_question_is_recovered_from_a_log() {
    let text = "(APIServer pid=1) INFO 11-30 10:00:01 [startup.py:18] vLLM server version 0.32.0, serving model /models/DeepSeek-V4-Flash\n\
                (APIServer pid=1) INFO 11-30 10:00:01 [startup.py:96] non-default args: {'model_tag': '/models/DeepSeek-V4-Flash', 'model': '/models/DeepSeek-V4-Flash', 'max_model_len': 262144, 'tensor_parallel_size': 8, 'kv_cache_dtype': 'fp8'}\n\
                GPU 0: NVIDIA H200 (UUID: GPU-0)\n";
    let question = read(text, Release::LATEST).unwrap().question();
    let ids = MODELS.each_ref().map(|model| model.id);
    let model = kv_paste::named_model(question.model.as_deref().unwrap(), &ids).unwrap();
    assert!(model.is_by_folder);
    assert_eq!(model.id, "deepseek-ai/DeepSeek-V4-Flash");
    let config = find_model(model.id).unwrap().config_json;
    let config = kv_cases::parse_config(config).unwrap();
    let elsewhere = find_gpu("b200").unwrap().gpu();
    let recovered = question.request(Release::LATEST, elsewhere, config, None);
    let mut expected = request(FLASH);
    expected.release = Release::V0_32_0;
    assert_eq!(recovered, expected);
}

#[test]
fn a_command_alone_is_held_against_nothing() {
    let mut asked = request(FLASH);
    let command = "vllm serve deepseek-ai/DeepSeek-V4-Flash --kv-cache-dtype fp8";
    let log = read(command, asked.release).unwrap().log;
    for flag in ["max_model_len", "distributed_executor_backend"] {
        // the second has no rule
        asked
            .args
            .set_by_name(
                flag,
                &if flag == "max_model_len" {
                    Value::Integer(8192)
                } else {
                    Value::String("mp".into())
                },
            )
            .unwrap();
        let explained = explain(&asked, &log);
        assert_eq!(explained.figures, []);
        assert_eq!(explained.lines, []);
        assert!(explained.agrees() && explained.closings.is_empty());
    }
}
