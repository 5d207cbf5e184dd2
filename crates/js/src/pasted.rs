//! What people have at hand, as a case: a command, or a log. Names are those of `kvx explain --json`.

use kv_paste::{Command, Log, MOST_PASTED_BYTES, Passed, Problem, Question, Standing, named_model};
use kv_paste::{Pasted, read, serve_command, shortened};
use kv_resolver::catalog::MODELS;
use kv_resolver::{EngineArgs, Release, Stage, Usage, Value};
use serde::ser::{Serialize, Serializer};

/// A start of vLLM, as its user writes it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ParsedCommand {
    /// What it asks, but for what it does not say: give it a `gpu` to resolve it.
    pub case: ParsedCase,
    /// The version in the name of the image, as written there; its release is in `case` if it has rules.
    pub version: Option<String>,
    /// GPUs that it is shown, where that is said.
    pub visible_gpus: Option<usize>,
    /// The flags, of the same flag the last.
    pub flags: Vec<ParsedFlag>,
    /// What was not taken as it stands, in words.
    pub problems: Vec<String>,
    /// The same start as one command for a POSIX shell, where one can be written.
    pub command: Option<String>,
    /// Starts of vLLM in the text; this is the first.
    pub starts: usize,
}

/// What a log says of a start-up; of several the last.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ParsedLog {
    /// What was asked, as far as the log says it.
    pub case: ParsedCase,
    /// vLLM's version, as printed; its release is in `case` if it has rules.
    pub version: Option<String>,
    /// The flags, from the line of those that are not at their defaults, or else from the engine's own line.
    pub flags: Vec<ParsedFlag>,
    /// They are the engine's: what came of the flags, not what was asked.
    pub is_effective: bool,
    /// The pool, which is printed rounded: from so many bytes to so many.
    pub available_bytes: Option<(i64, i64)>,
    /// "GPU KV cache size"
    pub tokens: Option<u64>,
    /// The longest request, in tokens.
    pub max_model_len: Option<u64>,
    /// The error that it stopped with.
    pub error: Option<PrintedError>,
    /// What was not taken as it stands, in words.
    pub problems: Vec<String>,
    /// Start-ups in the text.
    pub starts: usize,
}

/// An error of vLLM's that is known, in a log.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PrintedError {
    /// Where vLLM stopped.
    pub stage: Stage,
    /// Python's exception class.
    pub error_type: &'static str,
    /// The text by which it is known.
    pub error: &'static str,
    /// The line it stands in, from 1.
    pub line: usize,
}

/// A flag that was passed.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ParsedFlag {
    /// The name that vLLM keeps it under.
    pub name: String,
    /// As it was written: `-tp`, `--kv_cache_dtype`.
    pub spelled: String,
    /// Its value.
    pub value: Value,
    /// What it does to the answer, in a few words.
    pub standing: &'static str,
}

/// A case but for what the text does not hold.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ParsedCase {
    /// The release, if the text names one that has rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
    /// The model, by the catalog's id if it is the catalog's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The GPU's key, if the text names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<&'static str>,
    /// The engine's flags.
    pub args: ParsedArgs,
    /// The `VLLM_` variables.
    pub env: ParsedEnv,
    /// Who starts vLLM.
    pub usage: UsageWord,
}

/// Flags by name.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedArgs(Vec<(String, Value)>);

impl Serialize for ParsedArgs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Variables by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedEnv(Vec<(String, String)>);

impl Serialize for ParsedEnv {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// `server` or `llm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageWord(Usage);

impl Serialize for UsageWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

/// The first start of vLLM in a text.
///
/// # Errors
/// That there is none, or that the text is too long.
pub fn command(text: &str) -> Result<ParsedCommand, String> {
    let pasted = read_text(text)?;
    let first = pasted.commands.first().ok_or(
        "there is no start of vLLM in the text: no `vllm serve`, and no module of its server",
    )?;
    Ok(parsed(first, pasted.commands.len()))
}

/// What a log says. Of one that is longer than is read, the beginning and the end.
///
/// # Errors
/// That it says nothing.
pub fn log(text: &str) -> Result<ParsedLog, String> {
    let pasted = read_text(&shortened(text))?;
    let log = &pasted.log;
    if log.is_empty() {
        return Err(
            "there is no line of vLLM's log in the text, and no error that is known".to_owned(),
        );
    }
    Ok(said(log))
}

fn read_text(text: &str) -> Result<Pasted, String> {
    read(text, Release::LATEST).map_err(|long| {
        format!(
            "the text has {} bytes; {MOST_PASTED_BYTES} are read at most",
            long.bytes
        )
    })
}

fn parsed(start: &Command, starts: usize) -> ParsedCommand {
    let question = Question::of_command(start);
    let model = start.model.as_deref().unwrap_or_default();
    ParsedCommand {
        case: case(&question, &start.passed, &start.variables),
        version: start.version.clone(),
        visible_gpus: start.visible_gpus,
        flags: flags(&start.passed),
        problems: start
            .problems
            .iter()
            .chain(&question.problems)
            .map(Problem::text)
            .collect(),
        command: serve_command(model, &question.args, &question.env).ok(),
        starts,
    }
}

fn said(log: &Log) -> ParsedLog {
    let question = Question::of(log, None);
    ParsedLog {
        case: case(&question, &log.passed, &[]),
        version: question.version.clone(),
        flags: flags(&log.passed),
        is_effective: log.is_effective,
        available_bytes: log.pool.available.map(|pool| (pool.low, pool.high)),
        tokens: log.pool.tokens,
        max_model_len: log.max_model_len.as_ref().map(|fact| fact.value),
        error: log.error.as_ref().map(|error| PrintedError {
            stage: error.value.stage,
            error_type: error.value.error_type,
            error: error.value.text,
            line: error.line,
        }),
        problems: question.problems.iter().map(Problem::text).collect(),
        starts: log.starts,
    }
}

fn case(question: &Question, passed: &[Passed], variables: &[(String, String)]) -> ParsedCase {
    let model = question.model.as_deref().map(|name| {
        let ids = MODELS.each_ref().map(|model| model.id);
        named_model(name, &ids).map_or_else(|| name.to_owned(), |found| found.id.to_owned())
    });
    // what is not of its flag's type is among the problems
    let is_taken = |flag: &&Passed| {
        let set = EngineArgs::default().set_by_name(&flag.name, &flag.value);
        flag.standing != Standing::Server && set.is_ok()
    };
    let args = passed.iter().filter(is_taken);
    ParsedCase {
        release: question.release,
        model,
        gpu: question.gpu.map(|gpu| gpu.key),
        args: ParsedArgs(
            args.map(|flag| (flag.name.clone(), flag.value.clone()))
                .collect(),
        ),
        env: ParsedEnv(variables.to_vec()),
        usage: UsageWord(question.usage),
    }
}

fn flags(passed: &[Passed]) -> Vec<ParsedFlag> {
    let row = |flag: &Passed| ParsedFlag {
        name: flag.name.clone(),
        spelled: flag.spelled.clone(),
        value: flag.value.clone(),
        standing: flag.standing.as_str(),
    };
    passed.iter().map(row).collect()
}
