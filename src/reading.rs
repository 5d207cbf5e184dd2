//! What was pasted (a command, a log, an error), and the question that it fills in.

use std::sync::Arc;

use kv_paste::{Closing, Explanation, Pasted, Problem, Question, Standing, explain, named_model};
use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::speculation::Method;
use kv_resolver::{CacheDtype, EngineArgs, Flag, Release, Value};

use crate::answer::Answer;
use crate::input::{Drafting, Input, ModelChoice};

/// A text that was pasted, read.
#[derive(Debug)]
pub struct Reading {
    /// What it holds, or why it was not read.
    pub pasted: Result<Pasted, String>,
    /// The question.
    pub question: Question,
    /// What of the question the form has no room for.
    pub left_out: Vec<String>,
}

impl Reading {
    /// Reads a text. `release` is whose options are meant where it names no version.
    #[inline(never)] // of the program's second half
    pub fn new(text: &str, release: Release) -> Self {
        let pasted = kv_paste::read(&kv_paste::shortened(text), release)
            .map_err(|long| format!("{} bytes are not read", long.bytes));
        let question = match &pasted {
            Ok(pasted) => pasted.question(),
            Err(_) => Question::of(&kv_paste::Log::default(), None),
        };
        Self {
            pasted,
            question,
            left_out: Vec::new(),
        }
    }

    /// Whether there is a question in it, or a log.
    pub fn is_something(&self) -> bool {
        self.pasted.as_ref().is_ok_and(|pasted| !pasted.is_empty())
    }

    /// Fills in what it says, of the `models` that are known; of what a log does not say, what was entered stays. A command says all of its flags.
    #[inline(never)] // of the program's second half
    pub fn fill(&mut self, input: &mut Input, models: &[&str]) {
        let Ok(pasted) = &self.pasted else { return };
        let question = &self.question;
        let has_flags = !pasted.commands.is_empty() || pasted.log.passed_line > 0;
        if let Some(release) = question.release {
            input.release = release;
        } else if let Some(version) = &question.version {
            self.left_out.push(format!(
                "vLLM {version} has no rules here: {} is asked",
                input.release
            ));
        }
        if let Some(gpu) = question.gpu {
            input.gpu = gpu;
        }
        if let Some(name) = &question.model {
            if let Some(named) = named_model(name, models) {
                input.choose_model(ModelChoice::Catalog(Arc::from(named.id)));
                if named.is_by_folder {
                    self.left_out.push(format!(
                        "{name} is taken for {}, which is called so",
                        named.id
                    ));
                }
            } else {
                self.left_out.push(format!(
                    "the catalog has no {name}: paste its config.json below"
                ));
                unknown_model(input);
            }
        } else if has_flags {
            self.left_out
                .push("it names no model: choose it, or paste its config.json below".to_owned());
            unknown_model(input);
        }
        if has_flags {
            input.usage = question.usage;
            flags(input, &question.args);
            if let Some(dtype) = &question.args.kv_cache_dtype
                && dtype.parse::<CacheDtype>().is_err()
            {
                self.left_out.push(format!(
                    "kv_cache_dtype {dtype} has no column here: auto is asked"
                ));
            }
            drafter(input, &question.args, &mut self.left_out);
            input.kv_cache_layout = question.env.kv_cache_layout.clone().unwrap_or_default();
            input.allow_long = question.env.allow_long_max_model_len;
            let variables = question.env.unmodelled.iter();
            let mut unmodelled = question.args.unmodelled.clone();
            unmodelled.extend(variables.cloned());
            unmodelled.sort();
            unmodelled.dedup();
            input.unmodelled = unmodelled;
            // a pool is none of a command's
            input.pool_gib.clear();
        }
        let log = &pasted.log;
        let lines: Vec<&str> = [log.available_line, log.tokens_line]
            .into_iter()
            .filter(|line| *line > 0)
            .map(|line| without_prefix(log.line(line)))
            .collect();
        if !lines.is_empty() {
            input.pool_gib = lines.join("\n");
        }
    }

    /// The flags that were passed: how each is written, and what it does. What could not be read is none of them.
    pub fn passed(&self) -> Vec<(String, Standing)> {
        let Ok(pasted) = &self.pasted else {
            return Vec::new();
        };
        let of_command = pasted.commands.first().map(|command| &command.passed);
        let flags = of_command.unwrap_or(&pasted.log.passed).iter();
        let args = &self.question.args;
        let is_dtype = |text: &String| text.parse::<CacheDtype>().is_ok();
        let is_taken = |standing| match standing {
            Standing::Modelled(Flag::KvCacheDtype) => {
                args.kv_cache_dtype.as_ref().is_some_and(is_dtype)
            }
            Standing::Modelled(flag) => args.passed(flag).is_some(),
            Standing::Drafting | Standing::Untouching | Standing::Server | Standing::Unmodelled => {
                true
            }
        };
        flags
            .filter(|flag| is_taken(flag.standing))
            .map(|flag| (flag.spelled.clone(), flag.standing))
            .collect()
    }

    /// What was read and not taken.
    pub fn problems(&self) -> Vec<&Problem> {
        let commands = self
            .pasted
            .iter()
            .filter_map(|pasted| pasted.commands.first());
        let of_command = commands.flat_map(|command| &command.problems);
        of_command.chain(&self.question.problems).collect()
    }

    /// What the log printed, held against the answer.
    #[inline(never)] // of the program's second half
    fn explain(&self, answer: &Answer) -> Option<Explanation> {
        let pasted = self.pasted.as_ref().ok()?;
        (!pasted.log.is_empty()).then(|| explain(&answer.request(), &pasted.log))
    }
}

/// A text and an answer, and what becomes of the one by the other: that takes a second where they differ.
#[derive(Debug, Clone)]
pub struct Explained {
    reading: Arc<Reading>,
    answer: Arc<Answer>,
    /// `None` where nothing was printed.
    pub explanation: Option<Arc<Explanation>>,
}

/// By identity, as answers are.
impl PartialEq for Explained {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(&other.reading, &other.answer)
    }
}

impl Explained {
    /// What was explained last, if it is the same.
    pub fn new(reading: &Arc<Reading>, answer: &Arc<Answer>, last: Option<&Self>) -> Self {
        if let Some(last) = last.filter(|last| last.is_of(reading, answer)) {
            return last.clone();
        }
        Self {
            reading: Arc::clone(reading),
            answer: Arc::clone(answer),
            explanation: reading.explain(answer).map(Arc::new),
        }
    }

    fn is_of(&self, reading: &Arc<Reading>, answer: &Arc<Answer>) -> bool {
        Arc::ptr_eq(&self.reading, reading) && Arc::ptr_eq(&self.answer, answer)
    }
}

/// What is asked is a model that is not known: nothing is answered of the one before.
fn unknown_model(input: &mut Input) {
    input.choose_model(ModelChoice::Pasted);
    input.pasted = Arc::from("");
}

/// A line on the pool without what stands before it: the address holds it.
fn without_prefix(line: &str) -> &str {
    let starts = [
        "Available KV cache memory",
        "GPU KV cache size",
        "Maximum concurrency",
    ];
    let at = starts.iter().filter_map(|words| line.find(words)).min();
    &line[at.unwrap_or(0)..]
}

/// Takes otherwise what would close the gap.
pub fn take(input: &mut Input, closing: &Closing) {
    if let Some(release) = closing.release {
        input.release = release;
    }
    if let Some(usage) = closing.usage {
        input.usage = usage;
    }
    let Some((name, value)) = &closing.flag else {
        return;
    };
    input.unmodelled.retain(|known| known != name);
    let mut args = EngineArgs::default();
    if name == SPECULATIVE_CONFIG {
        args.speculative_config = Some(value.clone()).filter(|value| *value != Value::Null);
        drafter(input, &args, &mut Vec::new());
    } else if let Ok(flag) = name.parse() {
        // every value that was tried is of its flag's type
        let _ = args.set(flag, value);
        enter(input, flag, &args);
    }
}

fn flags(input: &mut Input, args: &EngineArgs) {
    for flag in Flag::ALL {
        enter(input, flag, args);
    }
}

/// Enters one flag as it is passed, or takes it away.
fn enter(input: &mut Input, flag: Flag, args: &EngineArgs) {
    let text = args.passed(flag).as_ref().map_or_else(String::new, shown);
    if flag == Flag::KvCacheDtype {
        input.dtype = text.parse().unwrap_or(CacheDtype::Auto);
    } else {
        input.set_flag(flag, &text);
    }
}

/// A value as it is typed.
fn shown(value: &Value) -> String {
    match value {
        Value::Bool(on) => on.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => kv_resolver::units::python_float(*number),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Null | Value::Object(_) => String::new(),
    }
}

/// Enters the drafter; what the form has no field for is named.
fn drafter(input: &mut Input, args: &EngineArgs, left_out: &mut Vec<String>) {
    let short = args.spec_flags.iter().map(|(key, value)| (*key, value));
    let config = match &args.speculative_config {
        Some(Value::Object(entries)) => entries.as_slice(),
        _ => &[],
    };
    let entries = config.iter().map(|(key, value)| (key.as_str(), value));
    let mut drafting = Drafting::default();
    let mut is_asked = false;
    for (key, value) in entries.chain(short) {
        is_asked = true;
        let text = shown(value);
        match key {
            "method" => {
                let mut methods = Method::MODELLED.into_iter();
                drafting.method = methods.find(|method| method.as_str() == text);
                if drafting.method.is_none() {
                    left_out.push(format!("the drafter's method {text} has no rule here"));
                }
            }
            "num_speculative_tokens" | "tokens" => drafting.tokens = text,
            "model" => drafting.model = text,
            "kv_cache_dtype" => drafting.dtype = text.parse().ok(),
            other => left_out.push(format!("the drafter's {other} has no field here")),
        }
    }
    if is_asked && drafting.method.is_none() {
        input.unmodelled.push(SPECULATIVE_CONFIG.to_owned());
    }
    input.drafting = drafting;
}

#[cfg(test)]
mod tests;
