//! What must hold of any bytes that come in one way.

#[cfg(feature = "page")]
pub mod page;

use std::collections::BTreeSet;

use kv_cases::{MOST_LINE_BYTES, parse_case, parse_config, result_json};
use kv_paste::{
    Command, FigureKind, KnownError, MOST_PASTED_BYTES, Pasted, explain, named_model, printed_pool,
    serve_command,
};
use kv_resolver::catalog::{GPUS, MODELS, find_model};
use kv_resolver::memory::{Interval, PrintedPool};
use kv_resolver::units::{parse_float, python_float};
use kv_resolver::{EngineArgs, Environment, Flag, Release, Request, Usage, Value, resolve};

use crate::{laws, within, within_many};

/// Lines of cases that are looked at.
const MOST_LINES: usize = 16;

/// The four bytes that choose the question, and the text behind them.
pub fn split(bytes: &[u8]) -> ([u8; 4], &[u8]) {
    match bytes.split_first_chunk() {
        Some((head, text)) => (*head, text),
        None => ([0; 4], bytes),
    }
}

/// The question that four bytes ask of a model.
fn question([gpu, dtype, release, more]: [u8; 4], hf_config: Value) -> Request {
    let choose = |number: u8, count: usize| usize::from(number) % count;
    // the newest, but for a few numbers
    let release = *Release::ALL
        .get(usize::from(release))
        .unwrap_or(&Release::LATEST);
    let dtypes = release.profile().cache_dtypes;
    let mut args = EngineArgs::default();
    args.kv_cache_dtype = Some(dtypes[choose(dtype, dtypes.len())].as_str().to_owned());
    args.tensor_parallel_size = Some(1 << (more & 3));
    args.max_model_len = [None, Some(-1), Some(4096), Some(1 << 20)][choose(more >> 2, 4)];
    args.trust_remote_code = Some(true);
    Request {
        release,
        hf_config: hf_config.into(),
        draft_config: None,
        gpu: GPUS[choose(gpu, GPUS.len())].gpu(),
        args,
        env: Environment {
            allow_long_max_model_len: more & 0x80 != 0,
            ..Environment::default()
        },
        available_memory: [None, Some(40 << 30), Some(1 << 28), Some(u64::MAX)]
            [choose(more >> 4, 4)],
        free_memory: None,
        usage: if more & 0x40 == 0 {
            Usage::Server
        } else {
            Usage::Llm
        },
    }
}

/// A config.json: the page and the command line read the same, and answer within the laws.
pub fn config(bytes: &[u8]) -> bool {
    let (head, text) = split(bytes);
    let text = String::from_utf8_lossy(text);
    let opened = within("opening a config.json", || parse_config(&text));
    #[cfg(feature = "page")]
    page::reads_the_same(&text, &opened);
    let Ok(config) = opened else { return false };
    let request = question(head, config);
    let result = within("an answer", || resolve(&request));
    laws::of_answer(&request, &result);
    if let Ok(answer) = &result {
        laws::of_what_follows(&request, answer);
    }
    result.is_ok()
}

/// Lines of cases: each has an answer that is JSON, with its own id.
pub fn cases(bytes: &[u8]) -> bool {
    let mut is_answered = false;
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| line.len() <= MOST_LINE_BYTES);
    for line in lines.take(MOST_LINES) {
        let (id, request) = within("reading a case", || parse_case(line));
        let result = match request {
            Ok(request) => {
                let result = within("an answer", || resolve(&request));
                laws::of_answer(&request, &result);
                result
            }
            Err(error) => Err(kv_resolver::StartupError::bare(error.into_refusal(1))),
        };
        let written = within("writing a result", || result_json(&id, &result));
        let read: serde_json::Value = serde_json::from_str(&written).expect("a result is JSON");
        assert_eq!(read["ok"], result.is_ok());
        if let Value::String(id) = &id {
            assert_eq!(read["id"], id.as_str());
        }
        if read["ok"] == false {
            let is_said = read["error"] != ""
                || read["notes"]
                    .as_array()
                    .is_some_and(|notes| !notes.is_empty());
            assert!(is_said, "an error without a word: {written}");
        }
        is_answered |= result.is_ok();
    }
    is_answered
}

/// A pasted text, read.
fn pasted(text: &str) -> Option<Pasted> {
    let pasted = within("reading a text", || kv_paste::read(text, Release::LATEST));
    assert_eq!(pasted.is_err(), text.len() > MOST_PASTED_BYTES);
    pasted.ok()
}

/// Its question, of a model that is known.
fn request(pasted: &Pasted) -> Option<Request> {
    let question = within("its question", || pasted.question());
    let ids: Vec<&str> = MODELS.iter().map(|model| model.id).collect();
    let named = question
        .model
        .as_ref()
        .and_then(|name| named_model(name, &ids));
    let model = find_model(named.map_or(ids[0], |named| named.id))?;
    let config = parse_config(model.config_json).ok()?;
    Some(question.request(Release::LATEST, GPUS[0].gpu(), config, None))
}

/// A command: what is read of it can be written as one that is read as the same.
pub fn command(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some(pasted) = pasted(&text) else {
        return false;
    };
    for command in &pasted.commands {
        // in its own words
        let _ = (
            command.stops(),
            command.problems.iter().map(kv_paste::Problem::text).count(),
        );
        comes_back(command);
    }
    let asks = pasted
        .commands
        .first()
        .is_some_and(|command| command.model.is_some());
    if let Some(request) = request(&pasted).filter(|_| asks) {
        let result = within("an answer", || resolve(&request));
        laws::of_answer(&request, &result);
    }
    !pasted.commands.is_empty()
}

fn comes_back(command: &Command) {
    let (args, _) = command.args();
    let env = command.environment();
    let model = command.model.as_deref().unwrap_or_default();
    // lines within a name may be those of a container's description, which is read, too
    if model.contains('\n') {
        return;
    }
    let Ok(written) = serve_command(model, &args, &env) else {
        return;
    };
    let read = kv_paste::read(&written, Release::LATEST).expect("a short text");
    let Some(again) = read.commands.first() else {
        panic!("no command is read of {written:?}");
    };
    let (args_again, _) = again.args();
    for flag in Flag::ALL {
        assert_eq!(
            args_again.passed(flag),
            args.passed(flag),
            "{flag} of {written:?}"
        );
    }
    assert_eq!(again.environment(), env, "{written:?}");
    assert_eq!(
        again.model.as_deref().unwrap_or_default(),
        model,
        "{written:?}"
    );
}

/// A log: what is read of it stands in it.
pub fn log(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some(Pasted { log, .. }) = pasted(&text) else {
        return false;
    };
    let lines = text.lines().count().max(1);
    let counts = [
        &log.concurrency,
        &log.max_model_len,
        &log.batched_tokens,
        &log.estimated_length,
    ];
    let places = counts.into_iter().flatten().map(|fact| fact.line);
    for line in places.chain([log.passed_line, log.available_line, log.tokens_line]) {
        assert!(line <= lines, "line {line} of {lines}");
    }
    of_pool(log.pool);
    !log.is_empty()
}

fn of_pool(pool: PrintedPool) {
    if let Some(Interval { low, likely, high }) = pool.available {
        assert!(low <= likely && likely <= high, "{pool:?}");
    }
}

/// A log, explained: what it printed is held against a whole answer.
pub fn explanation(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some(pasted) = pasted(&text) else {
        return false;
    };
    let Some(request) = request(&pasted).filter(|_| !pasted.log.is_empty()) else {
        return false;
    };
    let lines = text.lines().count().max(1);
    let explanation = within_many("an explanation", || explain(&request, &pasted.log));
    for figure in &explanation.figures {
        let is_anywhere = figure.kind == FigureKind::Error && figure.line == 0;
        assert!(
            is_anywhere || (1..=lines).contains(&figure.line),
            "{figure:?}"
        );
        assert!(!figure.printed.is_empty(), "{figure:?}");
        assert!(!figure.agrees || !figure.predicted.is_empty(), "{figure:?}");
    }
    assert!(!explanation.agrees() || explanation.closings.is_empty());
    for closing in &explanation.closings {
        assert!(!closing.text().is_empty());
    }
    !explanation.figures.is_empty()
}

/// One field of a form, or one value of a command line: the first byte chooses which. What is read of it is written
/// as what is read so again.
pub fn field(bytes: &[u8]) -> bool {
    let Some((which, text)) = bytes.split_first() else {
        return false;
    };
    let text = String::from_utf8_lossy(text);
    if let Some(pool) = printed_pool(&text) {
        of_pool(pool);
    }
    if let Some(number) = parse_float(&text) {
        let exact: f64 = text
            .trim()
            .parse()
            .expect("what is read here is a number to others");
        assert!(
            number.to_bits() == exact.to_bits() || number.is_nan() && exact.is_nan(),
            "{number} of {text:?}"
        );
        // digits and exponents that no flag needs are not read
        let again = parse_float(&python_float(number));
        assert!(
            again.is_none_or(|again| again.to_bits() == number.to_bits() || again.is_nan()),
            "{again:?} of {number}"
        );
    }
    let flag = Flag::ALL[usize::from(*which) % Flag::ALL.len()];
    let mut args = EngineArgs::default();
    let Ok(value) = flag.parse_text(&text) else {
        return false;
    };
    if let Err(error) = args.set(flag, &value) {
        assert!(error.to_string().contains(flag.name()), "{error}");
        assert_eq!(
            args,
            EngineArgs::default(),
            "a value that is refused leaves something"
        );
        return false;
    }
    let Some(passed) = args.passed(flag) else {
        return false;
    };
    let mut again = EngineArgs::default();
    again
        .set(flag, &passed)
        .expect("what was passed can be passed");
    let same = again.passed(flag);
    let is_nan = matches!(passed, Value::Float(number) if number.is_nan());
    assert!(
        is_nan || same.as_ref() == Some(&passed),
        "{same:?} and {passed:?}"
    );
    if let Value::Integer(number) = passed {
        assert!(i64::try_from(number).is_ok());
        assert_eq!(flag.parse_text(&number.to_string()), Ok(passed));
    }
    true
}

/// As many letters of an error are in any text that it is found in.
const LEAST_LETTERS: usize = 4;

/// A piece of an error: what is found is one that is known, and some of it stands there.
pub fn errors(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some(pasted) = pasted(&text) else {
        return false;
    };
    let Some(found) = &pasted.log.error else {
        assert!(pasted.log.or_errors.is_empty());
        return false;
    };
    assert!(KnownError::all().any(|known| known == found.value));
    let letters = |text: &str| -> Vec<u8> {
        text.bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect()
    };
    let text = letters(&text);
    let windows: BTreeSet<&[u8]> = text.windows(LEAST_LETTERS).collect();
    for error in pasted.log.or_errors.iter().chain([&found.value]) {
        // lists of names are not written out there
        let mut parts = error.text.split('…');
        let is_there = parts.any(|part| {
            part.starts_with('{')
                || letters(part)
                    .windows(LEAST_LETTERS)
                    .any(|window| windows.contains(window))
        });
        assert!(is_there, "nothing of {error:?} is there");
    }
    true
}
