//! What holds of any text, question and error.

use std::fs;
use std::sync::OnceLock;

use kv_paste::{KnownError, MOST_PASTED_BYTES, read, serve_command, shortened};
use kv_resolver::{EngineArgs, Environment, Flag, FlagKind, Release, Value};
use proptest::prelude::*;

/// Every error text of the vectors that vLLM printed, with its stage and class.
fn errors() -> &'static [(String, String, String)] {
    static ERRORS: OnceLock<Vec<(String, String, String)>> = OnceLock::new();
    ERRORS.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "jsonl") {
                continue;
            }
            for line in fs::read_to_string(path).unwrap().lines() {
                let row = kv_cases::parse_config(line).unwrap();
                let text = |key| {
                    row.get("result")
                        .and_then(|result| result.get(key))
                        .and_then(Value::as_str)
                };
                if let (Some(error), Some(stage), Some(class)) =
                    (text("error"), text("stage"), text("error_type"))
                    && !error.is_empty()
                {
                    all.push((error.to_owned(), stage.to_owned(), class.to_owned()));
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 200, "{}", all.len());
        all
    })
}

/// Whether a text leads to an error, or to some of which it is one.
fn leads_to(text: &str, error: &(String, String, String)) -> bool {
    let log = read(text, Release::LATEST).unwrap().log;
    log.error
        .map(|fact| fact.value)
        .iter()
        .chain(&log.or_errors)
        .any(|found| is_of(found, error))
}

/// Whether a row of the table is of an error: its words, its stage and its class.
fn is_of(found: &KnownError, error: &(String, String, String)) -> bool {
    let (text, stage, class) = error;
    let same = |known: &KnownError| known.stage.as_str() == stage && known.error_type == class;
    // the same words are raised in several places
    same(found)
        || found.is_of(text) && KnownError::all().any(|known| same(&known) && known.is_of(text))
}

#[test]
fn every_error_of_the_vectors_is_recognised_whole() {
    let mut wrong = Vec::new();
    for error in errors() {
        if !leads_to(&error.0, error) {
            wrong.push(format!("{error:?}\n"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        errors().len(),
        wrong.concat().chars().take(2000).collect::<String>()
    );
}

/// A piece of at least 40 letters.
fn piece(text: &str, from: usize, length: usize) -> &str {
    let floor = |at: usize| {
        (0..=at.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0)
    };
    let start = floor(from % (text.len().saturating_sub(length) + 1));
    &text[start..floor(start + length)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_text_panics(text in "(?s).{0,400}") {
        let _ = read(&text, Release::LATEST);
    }

    #[test]
    fn no_text_of_the_right_words_panics(parts in prop::collection::vec(0..PARTS.len(), 0..40)) {
        let text: String = parts.iter().map(|part| PARTS[*part]).collect();
        let pasted = read(&text, Release::LATEST).unwrap();
        let _ = pasted.question();
    }

    #[test]
    fn what_is_written_is_read_as_the_same_question(args in args(), env in env(), model in model()) {
        let command = serve_command(&model, &args, &env).unwrap();
        let pasted = read(&command, Release::LATEST).unwrap();
        prop_assert_eq!(pasted.commands.len(), 1, "{}", command);
        let found = &pasted.commands[0];
        prop_assert_eq!(&found.problems, &[], "{}", &command);
        let (read_args, problems) = found.args();
        prop_assert_eq!(&problems, &[], "{}", &command);
        prop_assert_eq!(&read_args, &args, "{}", &command);
        prop_assert_eq!(&found.environment(), &env, "{}", &command);
        prop_assert_eq!(found.model.clone().unwrap_or_default(), model, "{}", &command);
    }
}

/// Pieces of what is read.
const PARTS: [&str; 48] = [
    "vllm serve ",
    "docker run ",
    "vllm/vllm-openai:v0.31.0 ",
    "LLM(",
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
    "#",
    " ",
    "--tensor-parallel-size",
    "=",
    "8 ",
    "-sc.",
    "method+ ",
    "--speculative-config.a.b.c ",
    "command: ",
    "args:\n",
    "  - ",
    "|\n",
    "environment:\n",
    "image: x\n",
    "é",
    "\u{1b}[0m",
    "(Worker_TP3 pid=7) ",
    "INFO 11-29 12:00:01 [x.py:7] ",
    "non-default args: {",
    "Initializing a V1 LLM engine (v0.33.0) with config: ",
    "Available KV cache memory: ",
    "GPU KV cache size: ",
    " tokens",
    " GiB",
    "Maximum concurrency for ",
    "To serve at least one request ",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9_]{1,12}",
        "[ -~]{1,10}".prop_filter(
            "argparse takes a dash for an option where a list is",
            |word| !word.starts_with('-')
        ),
        "[a-zé' \"$\\\\]{1,8}",
    ]
    // of an empty value and of None, vLLM makes none
    .prop_filter("no value", |word| word != "None" && !word.is_empty())
}

fn model() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z]{1,8}/[A-Za-z0-9.-]{1,12}", "/[a-z ']{1,12}"]
}

fn value(flag: Flag) -> BoxedStrategy<Value> {
    match flag.kind() {
        FlagKind::Text => word().prop_map(Value::String).boxed(),
        FlagKind::List => prop::collection::vec(word().prop_map(Value::String), 1..4)
            .prop_map(Value::Array)
            .boxed(),
        FlagKind::Integer | FlagKind::HumanInteger => any::<i64>()
            .prop_map(|number| Value::Integer(number.into()))
            .boxed(),
        FlagKind::Float => (0.0_f64..1e6).prop_map(Value::Float).boxed(),
        FlagKind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
    }
}

fn args() -> impl Strategy<Value = EngineArgs> {
    let flags: Vec<_> = Flag::ALL
        .into_iter()
        .map(|flag| prop::option::weighted(0.3, value(flag)))
        .collect();
    let drafter = prop::option::of((word(), 0_i64..9));
    let short = prop::option::of((word(), 0_i64..9));
    (flags, drafter, short).prop_map(|(values, drafter, short)| {
        let mut args = EngineArgs::default();
        for (flag, value) in Flag::ALL.into_iter().zip(values) {
            if let Some(value) = value {
                args.set(flag, &value).unwrap();
            }
        }
        if let Some((method, tokens)) = drafter {
            let config = vec![
                ("method".to_owned(), Value::String(method)),
                (
                    "num_speculative_tokens".to_owned(),
                    Value::Integer(tokens.into()),
                ),
            ];
            args.set_by_name("speculative_config", &Value::Object(config))
                .unwrap();
        }
        if let Some((method, tokens)) = short {
            args.set_by_name("spec_method", &Value::String(method))
                .unwrap();
            args.set_by_name("spec_tokens", &Value::Integer(tokens.into()))
                .unwrap();
        }
        args
    })
}

fn env() -> impl Strategy<Value = Environment> {
    (
        prop::option::of(word()),
        any::<bool>(),
        any::<bool>(),
        prop::option::of("[0-9,]{1,8}"),
    )
        .prop_map(|(layout, long, chunks, partition)| Environment {
            kv_cache_layout: layout,
            allow_long_max_model_len: long,
            hybrid_chunks_disallowed: chunks,
            pp_layer_partition: partition,
            unmodelled: Vec::new(),
        })
}

#[test]
fn a_long_text_is_refused_and_can_be_shortened() {
    let line = "(EngineCore pid=9) INFO 11-30 10:03:01 [x.py:1] é é é é é é é é é\n";
    let mut text = line.repeat(MOST_PASTED_BYTES / line.len() + 9);
    text.push_str("INFO 11-30 10:03:01 [gpu_worker.py:773] Available KV cache memory: 14.5 GiB\n");
    assert_eq!(read(&text, Release::LATEST).unwrap_err().bytes, text.len());
    let short = shortened(&text);
    assert!(short.len() <= MOST_PASTED_BYTES);
    assert!(
        read(&short, Release::LATEST)
            .unwrap()
            .log
            .pool
            .available
            .is_some()
    );
}

/// Work grows with the length: of each part, many times over, twice as many take no more than some times as long.
#[test]
#[ignore = "it is timed: run it alone, in release"]
fn no_part_repeated_takes_more_than_its_length() {
    for part in PARTS {
        for with in ["", " ", "\n", "x"] {
            let unit = [part, with].concat();
            if unit.is_empty() {
                continue;
            }
            let time = |bytes: usize| {
                let text = unit.repeat(bytes / unit.len() + 1);
                let start = std::time::Instant::now();
                let _ = read(&text, Release::LATEST).unwrap();
                start.elapsed()
            };
            let (short, long) = (time(1 << 12), time(1 << 15));
            let bound = short * 40 + std::time::Duration::from_millis(400);
            assert!(long < bound, "{unit:?}: {short:?} and {long:?}");
        }
    }
}

/// How many of the pieces do not lead to their errors; `step` letters lie between two pieces, of 40 and more.
fn lost(step: usize) -> (usize, usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for (at, error) in errors().iter().enumerate() {
        let length = (40 + at % 3 * 25).min(error.0.len());
        for from in (at % step..=(error.0.len() - length).max(at % step)).step_by(step) {
            let text = piece(&error.0, from, length);
            count += 1;
            if !leads_to(text, error) {
                wrong.push(format!("{text:?} of {:.30}", error.0));
            }
        }
    }
    (count, wrong.len(), wrong)
}

/// Some pieces are of lists of names, such as those of the backends, that several errors have.
#[test]
fn a_piece_of_an_error_leads_to_it() {
    let (count, lost, wrong) = lost(if cfg!(debug_assertions) { 401 } else { 11 });
    assert!(
        count > 500 && lost * 100 <= count,
        "{lost} of {count}:\n{}",
        wrong.join("\n")
    );
}
