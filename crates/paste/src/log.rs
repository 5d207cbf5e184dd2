//! What a log says of a start-up: who started what, what was printed of the cache, and how it ended. Of several
//! start-ups the last counts.

use std::borrow::Cow;
use std::ops::Range;

use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::memory::{Interval, PrintedPool, printed_gib};
use kv_resolver::{Release, Usage, Value};

use crate::clean::{Line, Squeezed, lines, without_escapes};
use crate::command::Passed;
use crate::errors::{self, KnownError};
use crate::pool;
use crate::python::{bracketed, entries, literal};

/// Something that a text says, and the line it stands in, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact<T> {
    /// What.
    pub value: T,
    /// Where.
    pub line: usize,
}

impl<T> Fact<T> {
    const fn new(value: T, line: usize) -> Self {
        Self { value, line }
    }
}

/// What a log says. Everything may be missing: logs are cut.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// vLLM's version, as printed.
    pub version: Option<Fact<String>>,
    /// The model, by repository or path.
    pub model: Option<Fact<String>>,
    /// Who started it, where that is told.
    pub usage: Option<Usage>,
    /// The flags, from the line of those that are not at their defaults, or else from the engine's own line.
    pub passed: Vec<Passed>,
    /// The line they stand in; 0 without any.
    pub passed_line: usize,
    /// They are the engine's: what came of the flags, not what was asked.
    pub is_effective: bool,
    /// The GPU, where it is named.
    pub gpu: Option<Fact<&'static CatalogGpu>>,
    /// What is said of the pool.
    pub pool: PrintedPool,
    /// Where "Available KV cache memory" stands; 0 if it does not.
    pub available_line: usize,
    /// Where "GPU KV cache size" stands; 0 if it does not.
    pub tokens_line: usize,
    /// "Maximum concurrency", in hundredths.
    pub concurrency: Option<Fact<u64>>,
    /// The longest request, in tokens.
    pub max_model_len: Option<Fact<u64>>,
    /// `max_num_batched_tokens`
    pub batched_tokens: Option<Fact<u64>>,
    /// What one request needs, by the error that it does not fit.
    pub needed: Option<Fact<Interval>>,
    /// The longest that fits, by the same error.
    pub estimated_length: Option<Fact<u64>>,
    /// The error that it stopped with.
    pub error: Option<Fact<KnownError>>,
    /// Other errors that a piece may be of just as well.
    pub or_errors: Vec<KnownError>,
    /// Start-ups in the text.
    pub starts: usize,
    /// Lines before the last start-up.
    first_line: usize,
    /// There are lines of vLLM's logger.
    is_logged: bool,
    /// The last start-up without blanks.
    pub(crate) squeezed: Squeezed,
    /// The text without escapes.
    pub(crate) text: String,
}

/// Behind it stands a dict.
const ARGS: &str = "non-default args:";
/// Behind it stand the version and the configuration, key by key.
const ENGINE: &str = "Initializing a";
const ENGINE_CONFIG: &str = "with config:";
/// Lines that a message may be wrapped over.
const MOST_WRAPPED: usize = 400;
const MOST_MESSAGE_BYTES: usize = 1 << 16;

impl Log {
    /// Reads a text. `release` is whose flags are meant where the text names no version.
    #[must_use]
    pub fn read(text: &str, release: Release) -> Self {
        let mut log = Self::without_error(text, release);
        log.find_error(false, &[]);
        log
    }

    /// The same, but for how it ends.
    pub(crate) fn without_error(text: &str, release: Release) -> Self {
        let text = without_escapes(text);
        let lines: Vec<Line> = lines(&text).collect();
        let mut log = Self::default();
        for line in &lines {
            log.see_version(line);
            log.see_gpu(line);
        }
        let is_start = |line: &Line| line.message.contains(ARGS);
        let is_engine = |line: &Line| is_engine(line.message);
        log.starts = lines.iter().filter(|line| is_start(line)).count();
        if log.starts == 0 {
            log.starts = lines.iter().filter(|line| is_engine(line)).count();
        }
        let last = lines
            .iter()
            .rposition(is_start)
            .or_else(|| lines.iter().rposition(is_engine));
        let lines_of_last = &lines[last.unwrap_or(0)..];
        let release = log.release().unwrap_or(release);
        log.see_args(lines_of_last, release);
        log.squeezed = Squeezed::new(lines_of_last.iter().copied());
        log.see_figures();
        let says = |log: &Self| log.available_line > 0 || log.tokens_line > 0;
        // lines that were put together in another order are of the one start there is
        let is_all = log.starts < 2 && !says(&log);
        if is_all {
            log.squeezed = Squeezed::new(lines.iter().copied());
            log.see_figures();
        }
        log.first_line = if is_all { 0 } else { last.unwrap_or(0) };
        log.is_logged = lines.iter().any(|line| line.is_logged);
        log.text = text;
        log
    }

    /// Looks for an error; `is_strict` where the text says more than that alone. In these lines, of commands, names
    /// of options are no words of it.
    pub(crate) fn find_error(&mut self, is_strict: bool, commands: &[Range<usize>]) {
        let is_strict =
            is_strict || self.is_logged || self.has_pool_lines() || self.passed_line > 0;
        let others = without_options(&self.text, commands);
        // what is said in passing is no error
        let loud = lines(&others)
            .skip(self.first_line)
            .filter(|line| !line.is_quiet);
        let loud = Squeezed::new(loud);
        let found = errors::find(&loud.text, is_strict);
        self.error = found
            .as_ref()
            .map(|found| Fact::new(found.error, loud.line_at(found.at)));
        self.or_errors = found.map(|found| found.others).unwrap_or_default();
    }

    /// Whether there are lines on the pool, whose words errors have as well.
    fn has_pool_lines(&self) -> bool {
        self.tokens_line > 0 || self.squeezed.text.contains(pool::AVAILABLE)
    }

    /// The version's release, if it is modelled.
    #[must_use]
    pub fn release(&self) -> Option<Release> {
        release_of(&self.version.as_ref()?.value)
    }

    /// Whether it says anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passed_line == 0
            && self.pool == PrintedPool::default()
            && self.error.is_none()
            && self.gpu.is_none()
            && self.version.is_none()
            && self.max_model_len.is_none()
    }

    /// Whether there is anything of a start-up that an answer can be held against: lines of vLLM's logger, figures
    /// of the cache, or an error. A command alone says nothing of how it ends.
    #[must_use]
    pub const fn is_of_start(&self) -> bool {
        self.is_logged
            || self.passed_line > 0
            || self.error.is_some()
            || self.pool.available.is_some()
            || self.pool.tokens.is_some()
            || self.max_model_len.is_some()
            || self.batched_tokens.is_some()
    }

    /// One line of the text, whole.
    #[must_use]
    pub fn line(&self, number: usize) -> &str {
        let mut lines = self.text.lines();
        number
            .checked_sub(1)
            .and_then(|at| lines.nth(at))
            .unwrap_or_default()
            .trim()
    }

    fn see_version(&mut self, line: &Line) {
        let message = line.message;
        // each is followed by the version, and by what is no part of it
        for words in [
            "LLM engine (v",
            "vLLM API server version ",
            "vLLM server version ",
            "vLLM batch processing API version ",
            "vLLM Version",
            "vllm==",
        ] {
            if let Some((_, rest)) = message.split_once(words) {
                let rest = rest.trim_start_matches([' ', ':']);
                self.set_version(rest, line.number);
                if let Some((_, model)) = rest.split_once(", serving model ") {
                    self.model = Some(Fact::new(model.trim().to_owned(), line.number));
                }
            }
        }
        // the logo
        if message.contains('█') {
            if let Some((_, rest)) = message.split_once("version ") {
                self.set_version(rest, line.number);
            } else if let Some((_, rest)) = message.split_once("model ") {
                self.model = Some(Fact::new(rest.trim().to_owned(), line.number));
            }
        }
    }

    fn set_version(&mut self, text: &str, line: usize) {
        let text = text.trim_start().trim_start_matches('v');
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || "._+-".contains(c)))
            .unwrap_or(text.len());
        let version = &text[..end];
        if version.starts_with(|c: char| c.is_ascii_digit())
            && version.contains('.')
            && version.len() < 60
        {
            self.version = Some(Fact::new(version.to_owned(), line));
        }
    }

    fn see_gpu(&mut self, line: &Line) {
        if !line.message.contains("NVIDIA ") {
            return;
        }
        let named = GPUS.iter().filter(|gpu| line.message.contains(gpu.name));
        let longest = named.reduce(|one, other| {
            if other.name.len() > one.name.len() {
                other
            } else {
                one
            }
        });
        // nvidia-smi has room for so many letters, and ends them with dots
        let cut = || {
            let (_, rest) = line.message.split_once("NVIDIA ")?;
            let (name, _) = rest.split_once("...")?;
            let is_beginning = |gpu: &&CatalogGpu| gpu.name["NVIDIA ".len()..].starts_with(name);
            GPUS.iter().find(|gpu| name.len() > 6 && is_beginning(gpu))
        };
        if let Some(gpu) = longest.or_else(cut) {
            self.gpu = Some(Fact::new(gpu, line.number));
        }
    }

    /// The flags of the start-up whose lines these are.
    fn see_args(&mut self, lines: &[Line], release: Release) {
        let mut is_server = lines
            .iter()
            .take(2000)
            .any(|line| line.message.contains("API server"));
        if let Some(at) = lines.iter().position(|line| line.message.contains(ARGS)) {
            let text = message(&lines[at..], |text| {
                let from = text
                    .split_once(ARGS)
                    .map_or("", |(_, rest)| rest.trim_start());
                from.starts_with('{') && bracketed(from).1
            });
            let from = text
                .split_once(ARGS)
                .map_or("", |(_, rest)| rest.trim_start());
            let (inside, is_whole) = bracketed(from);
            for (key, value) in entries(inside, ':', is_whole) {
                if let (Value::String(name), Some(value)) = (literal(key).value, value) {
                    is_server |= name == "model_tag";
                    self.flag(&name, value, release, lines[at].number);
                }
            }
            let is_llm = self
                .passed
                .iter()
                .any(|passed| passed.name == "disable_log_stats");
            self.usage = if is_server {
                Some(Usage::Server)
            } else {
                is_llm.then_some(Usage::Llm)
            };
            self.passed_line = lines[at].number;
        }
        let Some(at) = lines.iter().position(|line| is_engine(line.message)) else {
            return;
        };
        let text = message(&lines[at..], |_| false);
        let config = text.split_once(ENGINE_CONFIG).map_or("", |(_, rest)| rest);
        let has_args = self.passed_line > 0;
        for (key, value) in entries(config, '=', false) {
            let Some(value) = value else { continue };
            match key {
                "model" => {
                    if let (None, Value::String(model)) = (&self.model, literal(value).value) {
                        self.model = Some(Fact::new(model, lines[at].number));
                    }
                }
                "max_seq_len" => {
                    if let Ok(length) = value.parse() {
                        self.max_model_len = Some(Fact::new(length, lines[at].number));
                    }
                }
                _ if has_args => {}
                "dtype" => {
                    let dtype = value.trim_start_matches("torch.");
                    self.engine_flag("dtype", Value::String(dtype.to_owned()), release);
                }
                "speculative_config" => {
                    if let Some(config) = drafter(value) {
                        self.engine_flag(key, config, release);
                    }
                }
                "tensor_parallel_size"
                | "pipeline_parallel_size"
                | "data_parallel_size"
                | "decode_context_parallel_size"
                | "kv_cache_dtype"
                | "enforce_eager"
                | "enable_prefix_caching"
                | "trust_remote_code" => {
                    self.engine_flag(key, literal(value).value, release);
                }
                _ => {}
            }
        }
        if !has_args {
            self.passed_line = lines[at].number;
            self.is_effective = true;
            if let Some(length) = self.max_model_len {
                self.engine_flag(
                    "max_model_len",
                    Value::Integer(length.value.into()),
                    release,
                );
            }
        }
    }

    fn flag(&mut self, name: &str, value: &str, release: Release, line: usize) {
        let value = literal(value).value;
        match (name, &value) {
            ("model", Value::String(model)) => self.model = Some(Fact::new(model.clone(), line)),
            ("model_tag" | "config", _) => {}
            ("dtype", Value::String(dtype)) => {
                let dtype = dtype.trim_start_matches("torch.").to_owned();
                self.engine_flag(name, Value::String(dtype), release);
            }
            _ => self.engine_flag(name, value, release),
        }
    }

    fn engine_flag(&mut self, name: &str, value: Value, release: Release) {
        let known = release.options().named(name);
        let is_engine = known.map_or_else(
            || release.profile().engine_args.contains(name),
            |option| option.is_engine,
        );
        self.passed.push(Passed::new(name, name, value, is_engine));
    }

    /// What the last start-up printed of the cache.
    fn see_figures(&mut self) {
        let text = self.squeezed.text.as_str();
        let line = |at: usize| self.squeezed.line_at(at);
        self.pool = pool::printed(text).unwrap_or_default();
        self.available_line = text
            .rfind(pool::AVAILABLE)
            .max(text.rfind(pool::IN_BRACKETS))
            .map_or(0, line);
        self.tokens_line = text.rfind(pool::SIZE).map_or(0, line);
        let last = |words: &str| {
            let at = text.rfind(words)?;
            Some((at, &text[at + words.len()..]))
        };
        let whole = |words: &str| {
            let (at, rest) = last(words)?;
            let (number, _) = pool::leading_number(rest)?;
            let number = number.trim_end_matches(['.', ',']).replace(',', "").parse();
            number.ok().map(|number: u64| Fact::new(number, line(at)))
        };
        self.concurrency = last(pool::CONCURRENCY).and_then(|(at, rest)| {
            let (_, rest) = rest
                .split_once("tokensperrequest:")
                .filter(|(before, _)| before.len() < 24)?;
            let (number, rest) = pool::leading_number(rest)?;
            let hundredths = u64::try_from(pool::hundredths(number)?).ok()?;
            rest.starts_with('x')
                .then(|| Fact::new(hundredths, line(at)))
        });
        let asked = whole("maxseqlen(");
        self.estimated_length = whole("estimatedmaximummodellengthis");
        self.batched_tokens = whole("withmax_num_batched_tokens=");
        self.needed = asked.and_then(|asked| {
            let (_, rest) = last("maxseqlen(")?;
            let (_, rest) = rest
                .split_once("),(")
                .filter(|(before, _)| before.len() < 24)?;
            pool::gib(rest).map(|gib| Fact::new(printed_gib(gib), asked.line))
        });
        let logged = self
            .pool
            .max_model_len
            .map(|length| Fact::new(length, self.tokens_line));
        let said = whole("Usingmaxmodellen");
        self.max_model_len = logged.or(asked).or(said).or(self.max_model_len);
    }
}

/// A text without the names of options in some of its lines, and without what follows [`ARGS`].
fn without_options<'a>(text: &'a str, commands: &[Range<usize>]) -> Cow<'a, str> {
    if commands.is_empty() && !text.contains(ARGS) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut commands = commands.iter().peekable();
    // brackets that a dict has open
    let mut open = 0_usize;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        while commands.next_if(|lines| lines.end <= at).is_some() {}
        let is_of_command = commands.peek().is_some_and(|lines| lines.start <= at);
        let is_dict = line.contains(ARGS);
        if is_dict || open > 0 && !line.contains("Error") {
            let from = if is_dict { 0 } else { open };
            let count = |bracket| line.matches(bracket).count();
            open = (from + count('{')).saturating_sub(count('}'));
            out.push('\n');
        } else if is_of_command {
            open = 0;
            values_only(line, &mut out);
        } else {
            open = 0;
            out.push_str(line);
        }
    }
    out.into()
}

/// Stands for the name of an option, and is in no error.
const NAME: char = '\u{1}';

/// Without options, keys and keywords.
fn values_only(line: &str, out: &mut String) {
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        // asked behind a name alone: a run of blanks is looked through once
        let is_key = || {
            let follows = after.trim_start_matches(['"', '\'', ' ']);
            follows.starts_with([':', '='])
        };
        if name.starts_with('-') || !name.is_empty() && is_key() {
            out.push(NAME);
        } else {
            out.push_str(name);
        }
        let mut others = after.chars();
        out.extend(others.next());
        rest = others.as_str();
    }
}

fn is_engine(message: &str) -> bool {
    message.contains(ENGINE) && message.contains("LLM engine")
}

/// A version's release: of a build in between, none; of one with a build's name behind `+`, the release.
pub(crate) fn release_of(version: &str) -> Option<Release> {
    version.split('+').next()?.parse().ok()
}

/// A message with the lines that it was wrapped over, up to where it is whole.
fn message(lines: &[Line], is_whole: impl Fn(&str) -> bool) -> String {
    let mut text = lines.first().map_or("", |line| line.message).to_owned();
    // asked at brackets alone: the text is searched from its beginning each time
    if is_whole(&text) {
        return text;
    }
    for line in lines.iter().skip(1).take(MOST_WRAPPED) {
        if line.is_logged || text.len() > MOST_MESSAGE_BYTES {
            break;
        }
        text.push_str(line.message);
        if line.message.contains('}') && is_whole(&text) {
            break;
        }
    }
    text
}

/// `SpeculativeConfig(method='mtp', model='…', num_spec_tokens=1)` as its JSON.
fn drafter(text: &str) -> Option<Value> {
    let (_, call) = text.split_once("SpeculativeConfig")?;
    let (inside, is_whole) = bracketed(call);
    let mut config = Vec::new();
    for (key, value) in entries(inside, '=', is_whole) {
        let value = literal(value?).value;
        match key {
            "method" | "model" => config.push((key.to_owned(), value)),
            "num_spec_tokens" | "num_speculative_tokens" => {
                config.push(("num_speculative_tokens".to_owned(), value));
            }
            _ => {}
        }
    }
    (!config.is_empty()).then_some(Value::Object(config))
}
