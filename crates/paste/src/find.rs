//! The starts of vLLM in a text: of a shell, of containers, of Python.

use std::ops::Range;

use kv_resolver::{Release, Usage, Value};

use crate::command::{Command, Passed, container, image_version, start};
use crate::problem::Problem;
use crate::python::{bracketed, entries, literal, string_end};
use crate::secret;
use crate::shell::{Shell, Word, assignment};
use crate::yaml;

/// Starts beyond this are not read.
const MOST_COMMANDS: usize = 16;
/// Strings in strings that are commands.
const MOST_DEPTH: usize = 3;

/// Every start of vLLM in a text, in its order. `release` is whose options are read where the text names none.
/// Beside them the bytes that are theirs, in their order.
pub(crate) fn commands(text: &str, release: Release) -> (Vec<Command>, Vec<Range<usize>>) {
    let mut finder = Finder {
        release,
        shared: Command::default(),
        found: Vec::new(),
        places: Vec::new(),
        config: yaml::config(text, release.options()),
    };
    finder.containers(text);
    if finder.found.is_empty() {
        finder.shell(text, 0);
    } else {
        finder.shaped(text);
    }
    finder.calls(text);
    finder.lists(text);
    if finder.found.is_empty() {
        finder.bare(text);
        // an error may begin with an option: its words belong to none
        let is_stray =
            |problem: &&Problem| matches!(problem, Problem::Extra(_) | Problem::Follows(_));
        let found = finder.found.first();
        if found.is_some_and(|command| command.problems.iter().filter(is_stray).count() < 2) {
            finder.shaped(text);
        }
    }
    if finder.found.is_empty() {
        finder.file_alone();
    }
    if finder.found.is_empty() && text.trim_start().starts_with('{') {
        finder.shaped(text);
    }
    finder.found.truncate(MOST_COMMANDS);
    finder.places.sort_unstable_by_key(|place| place.start);
    (finder.found, finder.places)
}

struct Finder {
    release: Release,
    /// What was set for every start that follows.
    shared: Command,
    found: Vec<Command>,
    /// Where those stand.
    places: Vec<Range<usize>>,
    /// The options of a file, until they are a start's.
    config: Option<yaml::Config>,
}

impl Finder {
    /// Reads the words behind a start.
    fn add(&mut self, mut command: Command, words: &[Word], takes_model: bool) {
        if self.found.len() >= MOST_COMMANDS {
            return;
        }
        // the statements of a string were put one behind the other
        let end = words.iter().position(|word| word.text == yaml::BREAK);
        let words = &words[..end.unwrap_or(words.len())];
        let release = command.release().unwrap_or(self.release);
        let names_file = words.iter().any(|word| word.text == "--config");
        if names_file && let Some(config) = self.config.take() {
            // behind the model, and before whatever overrides them
            let (model, rest) = words.split_at(usize::from(
                words
                    .first()
                    .is_some_and(|word| !word.text.starts_with('-')),
            ));
            let words = [model, &config.words, rest].concat();
            command.parse(&words, takes_model, release.options());
            command
                .problems
                .retain(|problem| !matches!(problem, Problem::ConfigFile(_)));
            self.file(&mut command, config);
        } else {
            command.parse(words, takes_model, release.options());
        }
        self.found.push(command);
    }

    /// What of a file's options is not read, and that they are no error.
    fn file(&mut self, command: &mut Command, config: yaml::Config) {
        let nested = config.nested.into_iter().map(Problem::Spread);
        command.problems.extend(nested);
        self.places.push(config.place);
    }

    /// A file of options alone.
    fn file_alone(&mut self) {
        let Some(config) = self.config.take_if(|config| config.is_first) else {
            return;
        };
        let mut command = self.shared.clone();
        command.parse(&config.words, false, self.release.options());
        self.file(&mut command, config);
        self.found.push(command);
    }

    fn shell(&mut self, text: &str, depth: usize) {
        let mut shell = Shell::new(text);
        let mut follows = false;
        let mut from = 0;
        while let Some(words) = shell.statement() {
            let before = self.found.len();
            let start = std::mem::replace(&mut from, text.len() - shell.left());
            if follows && words[0].text.starts_with("--") {
                if let Some(command) = self.found.last_mut() {
                    command.problems.push(Problem::CutOff(line_of(&words)));
                }
                if depth == 0 {
                    self.places.push(start..from);
                }
                continue;
            }
            self.statement(&words, depth);
            follows = self.found.len() > before;
            if follows && depth == 0 {
                self.places.push(start..from);
            }
        }
        if shell.is_cut
            && depth == 0
            && let Some(command) = self.found.last_mut()
        {
            command.problems.push(Problem::OpenQuote);
        }
    }

    fn statement(&mut self, words: &[Word], depth: usize) {
        self.exports(words);
        let mut command = self.shared.clone();
        for word in words {
            let Some((name, value)) = assignment(&word.text) else {
                if matches!(
                    word.text.as_str(),
                    "env" | "sudo" | "nohup" | "exec" | "time"
                ) || word.text.starts_with('-')
                {
                    continue;
                }
                break;
            };
            command.variable(name, value);
        }
        if let Some(found) = container(words) {
            for (name, value) in &found.variables {
                command.variable(name, value);
            }
            command.visible_gpus = found.gpus.or(command.visible_gpus);
            self.container(command, found.image, &found.words, depth);
        } else if let Some(start) = start(words) {
            self.add(command, &words[start.at..], start.takes_model);
        } else if let Some(list) = dockerfile(words) {
            self.container(command, "", &list, depth);
        } else {
            self.nested(&command, words, depth);
        }
    }

    /// What is started in a container: by name, in a string, or by the image's own entry point.
    fn container(&mut self, mut command: Command, image: &str, words: &[Word], depth: usize) {
        command.version = image_version(image).or(command.version);
        if let Some(start) = start(words) {
            self.add(command, &words[start.at..], start.takes_model);
        } else if !self.nested(&command, words, depth)
            && (image.contains("vllm")
                || words.iter().any(|word| word.text.starts_with('-')) && image.is_empty())
            && !is_program(words)
        {
            // the image's entry point is the server
            self.add(command, words, true);
        }
    }

    /// Commands in words that are whole scripts; whether there is any.
    fn nested(&mut self, command: &Command, words: &[Word], depth: usize) -> bool {
        let before = self.found.len();
        for word in words {
            let text = word.text.as_str();
            let is_script = text.contains(char::is_whitespace)
                && (text.contains("vllm serve") || text.contains("vllm.entrypoints"));
            if is_script && depth < MOST_DEPTH {
                let shared = std::mem::replace(&mut self.shared, command.clone());
                self.shell(text, depth + 1);
                self.shared = shared;
            }
        }
        self.found.len() > before
    }

    /// `export A=b`, `set A=b`, `$env:A = "b"`, `ENV A=b`: for all that follows.
    fn exports(&mut self, words: &[Word]) {
        match words[0].text.as_str() {
            "FROM" => {
                self.shared.version = words.get(1).and_then(|image| image_version(&image.text));
            }
            "export" | "set" | "ENV" | "setenv" => {
                for word in &words[1..] {
                    if let Some((name, value)) = assignment(&word.text) {
                        self.shared.variable(name, value);
                    }
                }
                if let [_, name, value] = words
                    && !name.text.contains('=')
                {
                    self.shared.variable(&name.text, &value.text);
                }
            }
            first => {
                if let Some(name) = first.strip_prefix("$env:") {
                    match (name.split_once('='), words) {
                        (Some((name, value)), _) => self.shared.variable(name, value),
                        (None, [_, equals, value, ..]) if equals.text == "=" => {
                            self.shared.variable(name, &value.text);
                        }
                        (None, _) => {}
                    }
                } else if let Some(unit) = first.strip_prefix("Environment=")
                    && let Some((name, value)) = assignment(unit)
                {
                    self.shared.variable(name, value);
                }
            }
        }
    }

    /// The containers of a file.
    fn containers(&mut self, text: &str) {
        for service in yaml::services(text) {
            let mut command = Command::default();
            for (name, value) in &service.variables {
                command.variable(name, value);
            }
            let words = service.words();
            if !words.is_empty() {
                self.container(command, &service.image, &words, 0);
            }
        }
    }

    /// What is shaped like options of a file, line by line, is no error.
    fn shaped(&mut self, text: &str) {
        let mut from = 0;
        for line in text.split_inclusive('\n') {
            let to = from + line.len();
            if !line.contains("Error") {
                self.places.push(from..to);
            }
            from = to;
        }
    }

    /// Flags alone: of a command line, or as a list.
    fn bare(&mut self, text: &str) {
        let trimmed = text.trim_start();
        let words = if trimmed.starts_with("- ") {
            yaml::list(text.trim_start_matches('\n'))
        } else if trimmed.starts_with('[') {
            yaml::flow(trimmed)
        } else if trimmed.starts_with('-') {
            Shell::new(trimmed).statement().unwrap_or_default()
        } else {
            Vec::new()
        };
        if words.first().is_some_and(|word| word.text.starts_with('-')) {
            self.add(self.shared.clone(), &words, true);
            // whatever comes before them, the model may
            if let Some(command) = self.found.last_mut() {
                command
                    .problems
                    .retain(|problem| *problem != Problem::NamesFirst);
            }
        } else if let Some(start) = start(&words) {
            self.add(self.shared.clone(), &words[start.at..], start.takes_model);
        }
    }

    /// `LLM(model=…, …)`, and the same of `EngineArgs` and `AsyncEngineArgs`
    fn calls(&mut self, text: &str) {
        for (name, usage) in [
            ("LLM(", Usage::Llm),
            ("EngineArgs(", Usage::Llm),
            ("AsyncEngineArgs(", Usage::Server),
        ] {
            self.calls_of(name, usage, text);
        }
    }

    /// `["vllm", "serve", …]`, as Python starts programs
    fn lists(&mut self, text: &str) {
        if !self.found.is_empty() {
            return;
        }
        for serve in ["\"serve\"", "'serve'"] {
            for (at, _) in text.match_indices(serve).take(MOST_COMMANDS) {
                let Some(open) = text[..at].rfind('[') else {
                    continue;
                };
                let (inside, is_whole) = bracketed(cut(&text[open..]));
                let words = entries(inside, ',', is_whole).into_iter().map(|(item, _)| {
                    let read = literal(item);
                    match read.value {
                        Value::String(text) => Word {
                            text,
                            is_open: !read.is_whole,
                        },
                        other => Word::new(&crate::argv::json(&other)),
                    }
                });
                let words: Vec<Word> = words.collect();
                if let Some(start) = start(&words) {
                    self.places.push(open..open + inside.len() + 1);
                    self.add(self.shared.clone(), &words[start.at..], start.takes_model);
                }
            }
        }
    }

    fn calls_of(&mut self, called: &str, usage: Usage, text: &str) {
        for (at, _) in text.match_indices(called) {
            let before = &text[..at];
            let is_name = before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            // where it is defined is no call
            if is_name || before.ends_with("class ") || self.found.len() >= MOST_COMMANDS {
                continue;
            }
            let from = cut(&text[at + called.len() - 1..]);
            let (inside, is_whole) = bracketed(from);
            let start = at + called.len();
            self.places.push(start..start + inside.len());
            let mut command = self.shared.clone();
            command.usage = usage;
            if called != "LLM(" {
                command.problems.push(Problem::EngineArgs(usage));
            }
            for (index, (name, value)) in entries(inside, '=', is_whole).into_iter().enumerate() {
                command.keyword(index, name, value, &text[..at], self.release);
            }
            self.found.push(command);
        }
    }
}

/// Words as a line, without the values of secrets.
fn line_of(words: &[Word]) -> String {
    let mut line = String::new();
    let mut is_secret = false;
    for word in words {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        if !line.is_empty() {
            line.push(' ');
        }
        if name.starts_with('-') {
            is_secret = secret::is_secret(name);
            line.push_str(if is_secret { name } else { &word.text });
            if is_secret && !value.is_empty() {
                line.push_str("=…");
            }
        } else {
            line.push_str(if is_secret { "…" } else { &word.text });
        }
    }
    secret::shown(&line)
}

/// As much of it as a call may have.
fn cut(text: &str) -> &str {
    let end = text.len().min(MOST_CALL_BYTES);
    let end = (end..text.len()).find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(text.len())]
}

/// Whether the first word is a program, and so no argument of the image's own entry point.
fn is_program(words: &[Word]) -> bool {
    let first = words.first().map_or("", |word| word.text.as_str());
    let name = first.rsplit('/').next().unwrap_or_default();
    words.is_empty() || matches!(name, "sh" | "bash" | "zsh" | "python" | "python3" | "sleep")
}

/// Longer calls are read no further.
const MOST_CALL_BYTES: usize = 1 << 14;

impl Command {
    fn keyword(
        &mut self,
        index: usize,
        name: &str,
        value: Option<&str>,
        before: &str,
        release: Release,
    ) {
        let (name, text) = match value {
            Some(value) => (name, value),
            None if name.starts_with('*') => {
                self.problems.push(Problem::Spread(name.to_owned()));
                return;
            }
            None if index == 0 => ("model", name),
            None => {
                self.problems.push(Problem::Extra(name.to_owned()));
                return;
            }
        };
        let mut read = literal(text);
        if !read.is_whole
            && let Some(assigned) = assigned(before, text)
        {
            read = literal(assigned);
        }
        if !read.is_whole {
            self.problems.push(Problem::Open {
                option: name.to_owned(),
                text: text.to_owned(),
            });
            return;
        }
        if name == "model" {
            if let Value::String(model) = read.value {
                self.model = Some(model);
            }
            return;
        }
        let known = release.options().named(name);
        let is_engine = known.is_none_or(|option| option.is_engine);
        self.passed
            .push(Passed::new(name, name, read.value, is_engine));
    }
}

/// What a name was set to, at the beginning of a line before.
fn assigned<'a>(before: &'a str, name: &str) -> Option<&'a str> {
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return None;
    }
    before
        .lines()
        .rev()
        .take(MOST_LINES_BEFORE)
        .find_map(|line| {
            let value = line
                .trim_start()
                .strip_prefix(name)?
                .trim_start()
                .strip_prefix('=')?;
            let value = value.trim();
            // a comment may follow
            let end = match value.chars().next() {
                Some('\'' | '"') => string_end(value),
                _ => value.find('#').unwrap_or(value.len()),
            };
            Some(value[..end].trim_end())
        })
}

const MOST_LINES_BEFORE: usize = 400;

/// `CMD ["vllm", "serve", …]`
fn dockerfile(words: &[Word]) -> Option<Vec<Word>> {
    let first = words.first()?.text.as_str();
    if !matches!(first, "CMD" | "ENTRYPOINT") || !words.get(1)?.text.starts_with('[') {
        return None;
    }
    // the shell took the quotes off; what is left are brackets and commas
    let last = words.len() - 1;
    let items = words[1..].iter().enumerate().map(|(at, word)| {
        let text = if at == 0 { &word.text[1..] } else { &word.text };
        let text = if at + 1 == last {
            text.strip_suffix(']').unwrap_or(text)
        } else {
            text
        };
        Word::new(text.strip_suffix(',').unwrap_or(text))
    });
    Some(items.filter(|word| !word.text.is_empty()).collect())
}
