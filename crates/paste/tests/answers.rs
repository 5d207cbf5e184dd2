//! What an answer says that vLLM prints is read as just that: log lines, and the error that they end with. Asked of the
//! vectors' own questions, every so manieth.

use std::fmt::Write as _;
use std::fs;

use kv_cases::{parse_case, parse_config};
use kv_paste::{Log, printed_pool, read};
use kv_resolver::memory::printed_gib;
use kv_resolver::{LogLine, Outcome, Refusal, Release, Request, Resolution, Value, resolve};

const STRIDE: usize = 19;

/// The vectors' questions.
fn questions() -> Vec<Request> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().collect();
    files.sort_by_key(|file| file.as_ref().unwrap().path());
    let texts = files
        .into_iter()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let questions: Vec<Request> = lines
        .iter()
        .step_by(STRIDE)
        .filter_map(|line| {
            let row = parse_config(line).unwrap();
            let case = kv_cases::value_json(row.get("case").unwrap_or(&Value::Null));
            parse_case(&case).1.ok()
        })
        .collect();
    assert!(questions.len() > 300, "{}", questions.len());
    questions
}

/// The log as the engine prints it.
fn printed(lines: &[LogLine]) -> String {
    let mut text = String::from("INFO 11-30 10:00:00 [utils.py:1] vLLM API server\n");
    for line in lines {
        for part in line.text.lines() {
            let _ = writeln!(
                text,
                "(EngineCore pid=7) {} 11-30 10:00:01 [x.py:2] {part}",
                line.level.as_str()
            );
        }
    }
    text
}

fn reads_as_it_starts(log: &Log, r: &Resolution) {
    let Some(capacity) = &r.capacity else { return };
    // through 0.27 each worker of a pipeline prints its own
    if r.stages.is_empty() {
        assert_eq!(log.pool.tokens, Some(capacity.printed_tokens));
        let hundredths = capacity.printed_concurrency.replace('.', "").parse().ok();
        assert_eq!(log.concurrency.map(|fact| fact.value), hundredths);
    }
    assert_eq!(log.pool.max_model_len, Some(r.max_model_len));
    if let Some(available) = log.pool.available {
        // of hundredths of a GiB
        let pool = i64::try_from(r.available_memory.unwrap()).unwrap();
        assert!(
            (available.low..=available.high).contains(&pool),
            "{available:?} {pool}"
        );
    }
    assert!(log.error.is_none(), "{:?}", log.error);
}

/// As Python prints it, and pydantic what its validators raise.
fn raised(class: &str, text: &str) -> String {
    match class {
        "ValidationError" if !text.contains("validation error") => format!(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n  Value error, {text} \
             [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]\n"
        ),
        _ => format!("{class}: {text}\n"),
    }
}

fn reads_as_it_stops(log: &Log, refusal: &Refusal) {
    let found = log.error.map(|fact| fact.value);
    let mut all = found.iter().chain(&log.or_errors);
    let text = refusal.to_string();
    assert!(
        // the same words may be raised in several places
        all.any(|error| error.is_of(&text)
            || (error.stage, error.error_type) == (refusal.stage(), refusal.error_type())),
        "{text} is read as {found:?}"
    );
}

#[test]
fn what_an_answer_prints_is_read_as_that() {
    let (mut starts, mut stops) = (0, 0);
    for request in questions() {
        match resolve(&request) {
            Ok(r) => {
                starts += 1;
                let log = read(&printed(&r.log), Release::LATEST).unwrap().log;
                reads_as_it_starts(&log, &r);
            }
            Err(error) if error.refusal.outcome() == Outcome::Unmodelled => {}
            Err(error) => {
                let text = error.refusal.to_string();
                if text.is_empty() {
                    continue;
                }
                stops += 1;
                let end = printed(&error.log) + &raised(error.refusal.error_type(), &text);
                reads_as_it_stops(&read(&end, Release::LATEST).unwrap().log, &error.refusal);
            }
        }
    }
    assert!(starts > 150 && stops > 60, "{starts} {stops}");
}

#[test]
fn what_an_error_says_is_available_leads_to_the_pool() {
    let (mut found, mut beside) = (0, 0);
    for mut request in questions() {
        // the least that is printed as so many hundredths: any less is printed otherwise
        let pool = printed_gib(103).low + 1;
        request.available_memory = Some(u64::try_from(pool).unwrap());
        let Err(error) = resolve(&request) else {
            continue;
        };
        if !matches!(error.refusal, Refusal::RequestDoesNotFit { .. }) {
            continue;
        }
        let printed = printed_pool(&error.refusal.to_string()).unwrap();
        let Some(read) = printed.pool(&request).unwrap() else {
            assert!(request.args.num_gpu_blocks_override.is_some());
            continue;
        };
        assert!(read.low <= pool && pool <= read.high, "{pool} {read:?}");
        found += 1;
        beside += usize::from(printed.available.unwrap().high < pool);
    }
    // since 0.29 without the null block
    assert!(found > 40 && beside > 20, "{found} {beside}");
}
