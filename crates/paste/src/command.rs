//! A start of vLLM, as its user writes it.

use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::release::options::Options;
use kv_resolver::{EngineArgs, Environment, Flag, Release, Usage, Value};

use crate::argv::{self, Positional, Set};
use crate::problem::Problem;
use crate::secret;
use crate::shell::Word;

/// What a flag does to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is modelled, and may change the answer.
    Modelled(Flag),
    /// It describes the drafter, and may change the answer.
    Drafting,
    /// An engine's flag that no decision about the KV cache looks at.
    Untouching,
    /// A flag of the server around the engine, which does not touch the KV cache.
    Server,
    /// An engine's flag without a rule here.
    Unmodelled,
}

impl Standing {
    /// In a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Modelled(_) | Self::Drafting => "modelled",
            Self::Untouching | Self::Server => "does not touch the KV cache",
            Self::Unmodelled => "unmodelled",
        }
    }
}

/// A flag that was passed.
#[derive(Debug, Clone, PartialEq)]
pub struct Passed {
    /// As it was written: `-tp`, `--kv_cache_dtype`.
    pub spelled: String,
    /// The name that vLLM keeps it under.
    pub name: String,
    /// Its value; `null` where it was "None". Of a secret, that it was not kept.
    pub value: Value,
    /// What it does to the answer.
    pub standing: Standing,
}

impl Passed {
    pub(crate) fn new(spelled: &str, name: &str, value: Value, is_engine: bool) -> Self {
        let standing = if let Ok(flag) = name.parse() {
            Standing::Modelled(flag)
        } else if name == SPECULATIVE_CONFIG || name.starts_with("spec_") {
            Standing::Drafting
        } else if !is_engine {
            Standing::Server
        } else {
            let mut alone = EngineArgs::default();
            match alone.set_by_name(name, &value) {
                Ok(()) if alone.unmodelled.is_empty() => Standing::Untouching,
                Ok(()) | Err(_) => Standing::Unmodelled,
            }
        };
        Self {
            spelled: spelled.to_owned(),
            name: name.to_owned(),
            value: if matches!(standing, Standing::Modelled(_)) {
                value
            } else {
                secret::kept(name, value)
            },
            standing,
        }
    }
}

/// A start of vLLM.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Command {
    /// Who starts vLLM.
    pub usage: Usage,
    /// The model, by repository or path.
    pub model: Option<String>,
    /// The flags, of the same flag the last.
    pub passed: Vec<Passed>,
    /// The environment variables that were set for it.
    pub variables: Vec<(String, String)>,
    /// The version in the name of the image, as written there without its `v`.
    pub version: Option<String>,
    /// GPUs that it is shown, where that is said.
    pub visible_gpus: Option<usize>,
    /// What was not taken.
    pub problems: Vec<Problem>,
    error: Option<String>,
}

impl Command {
    /// The release that the image names, if it is modelled.
    #[must_use]
    pub fn release(&self) -> Option<Release> {
        self.version.as_ref()?.parse().ok()
    }

    /// The flags as the resolver takes them, and what it does not take.
    #[must_use]
    pub fn args(&self) -> (EngineArgs, Vec<Problem>) {
        engine_args(&self.passed)
    }

    /// The variables as the resolver takes them.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let mut env = Environment::default();
        for (name, value) in &self.variables {
            env.set(name, value);
        }
        env
    }

    /// Takes over what the parser made of the words behind the command.
    pub(crate) fn parse(&mut self, words: &[Word], takes_model: bool, options: Options) {
        let mut parsed = argv::parse(words, options);
        self.problems.extend(parsed.problems);
        if takes_model && names_first(words) {
            self.problems.push(Problem::NamesFirst);
        }
        let mut unrecognized = std::mem::take(&mut parsed.unrecognized);
        self.error = parsed.error.take();
        for Set {
            spelled,
            option,
            value,
        } in parsed.set
        {
            match (option.name, &value) {
                ("model", Value::String(model)) => self.model = Some(model.clone()),
                ("config", Value::String(path)) => {
                    self.problems.push(Problem::ConfigFile(path.clone()));
                }
                _ => self
                    .passed
                    .push(Passed::new(&spelled, option.name, value, option.is_engine)),
            }
        }
        for (at, positional) in parsed.positional.into_iter().enumerate() {
            let Positional {
                word,
                behind,
                place,
            } = positional;
            // the first is the model's place, whatever stands there
            if at == 0 && takes_model {
                unrecognized[place].clear();
            }
            if word.is_empty() {
                continue;
            }
            let is_secret = behind.as_deref().is_some_and(secret::is_secret);
            let is_model = at == 0 && takes_model && self.model.is_none();
            if is_model && !is_secret && !word.starts_with('-') {
                self.model = Some(word);
            } else {
                self.problems.push(match behind {
                    Some(option) => Problem::Follows(option),
                    None => Problem::Extra(secret::shown(&word)),
                });
            }
        }
        unrecognized.retain(|word| !word.is_empty());
        if !unrecognized.is_empty() {
            self.error.get_or_insert_with(|| {
                [
                    "vllm: error: unrecognized arguments: ",
                    &unrecognized.join(" "),
                ]
                .concat()
            });
        }
    }

    /// What vLLM ends with as it reads these options, before any rule, in its own words: the last line of what
    /// Python prints. The server that is asked is the one of `vllm serve`.
    #[must_use]
    pub fn stops(&self) -> Option<String> {
        if self.usage != Usage::Server {
            return None;
        }
        if self.problems.contains(&Problem::NamesFirst) {
            return Some(NAMES_FIRST.to_owned());
        }
        self.error.clone()
    }

    /// Sets a variable for it.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        if name == "CUDA_VISIBLE_DEVICES" {
            self.visible_gpus = Some(value.split(',').filter(|id| !id.is_empty()).count());
        }
        self.variables.retain(|(known, _)| known != name);
        // a secret is none of ours
        if name.starts_with("VLLM_") && name != "VLLM_API_KEY" {
            let value = if secret::is_secret(name) {
                secret::NOT_KEPT.to_owned()
            } else {
                secret::shown(value)
            };
            self.variables.push((name.to_owned(), value));
        }
    }
}

const NAMES_FIRST: &str = "ValueError: `model` should be provided as the first positional argument when using `vllm serve`. \
     i.e. `vllm serve <model> --<arg> <value>`.";

/// What `vllm serve` stops at before it reads any option.
/// Mirrors `vllm/utils/argparse_utils.py` `FlexibleArgumentParser.parse_args`.
fn names_first(words: &[Word]) -> bool {
    let has = |name: &str| {
        words.iter().any(|word| {
            let rest = word.text.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('=') && rest.len() > 1)
        })
    };
    words.first().is_some_and(|word| word.text.starts_with('-'))
        && !has("--model")
        && !has("--config")
        && [
            "--served-model-name",
            "--served_model_name",
            "--served-model_name",
            "--served_model-name",
        ]
        .into_iter()
        .any(has)
}

/// Flags as the resolver takes them, and what it does not take.
pub(crate) fn engine_args(passed: &[Passed]) -> (EngineArgs, Vec<Problem>) {
    let mut args = EngineArgs::default();
    let mut problems = Vec::new();
    for passed in passed {
        if passed.standing == Standing::Server {
            continue;
        }
        if let Err(error) = args.set_by_name(&passed.name, &passed.value) {
            problems.push(Problem::Wrong {
                option: passed.spelled.clone(),
                why: error.to_string(),
            });
        }
    }
    (args, problems)
}

/// Where a start of vLLM begins among words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The first word of its arguments.
    pub at: usize,
    /// Whether the model may stand among them without an option.
    pub takes_model: bool,
}

/// Finds `vllm serve` or the module of its server.
pub(crate) fn start(words: &[Word]) -> Option<Start> {
    words.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.as_str();
        let name = text.rsplit(['/', '=', '\\']).next().unwrap_or_default();
        let next = words.get(at + 1).map(|word| word.text.as_str());
        if matches!(name, "vllm" | "vllm.exe") && next == Some("serve") {
            return Some(Start {
                at: at + 2,
                takes_model: true,
            });
        }
        let is_server = text == "vllm.entrypoints.openai.api_server"
            || text == "vllm.entrypoints.api_server"
            || (name == "api_server.py" && text.contains("vllm"));
        is_server.then_some(Start {
            at: at + 1,
            takes_model: false,
        })
    })
}

/// `docker run`, taken apart.
pub(crate) struct Container<'a> {
    pub image: &'a str,
    /// The entry point, where it is named, and what is passed to it.
    pub words: Vec<Word>,
    pub variables: Vec<(String, String)>,
    pub gpus: Option<usize>,
}

/// Options of `docker run` that take no value.
const CONTAINER_SWITCHES: [&str; 12] = [
    "--detach",
    "--init",
    "--interactive",
    "--no-healthcheck",
    "--oom-kill-disable",
    "--privileged",
    "--publish-all",
    "--quiet",
    "--read-only",
    "--rm",
    "--tty",
    "--replace",
];

/// Takes `docker run` apart, if it is one.
pub(crate) fn container(words: &[Word]) -> Option<Container<'_>> {
    let tool = words.iter().position(|word| {
        let name = word.text.rsplit('/').next().unwrap_or_default();
        matches!(name, "docker" | "podman" | "nerdctl" | "nvidia-docker")
    })?;
    let run = words[tool..].iter().position(|word| word.text == "run")? + tool;
    let mut entry = None;
    let mut variables = Vec::new();
    let mut gpus = None;
    let mut at = run + 1;
    while let Some(word) = words.get(at).map(|word| word.text.as_str()) {
        if !word.starts_with('-') {
            break;
        }
        let letters = word.trim_start_matches('-');
        let (name, value, width) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name, value, 1),
            _ if CONTAINER_SWITCHES.contains(&word)
                || !word.starts_with("--")
                    && letters.bytes().all(|byte| b"dit".contains(&byte)) =>
            {
                (word, "", 1)
            }
            // the value right behind its letter
            _ if !word.starts_with("--") && word.is_char_boundary(2) && word.len() > 2 => {
                (&word[..2], &word[2..], 1)
            }
            _ => (
                word,
                words.get(at + 1).map_or("", |word| word.text.as_str()),
                2,
            ),
        };
        match name {
            "-e" | "--env" => {
                if let Some((name, value)) = value.split_once('=') {
                    variables.push((name.to_owned(), value.to_owned()));
                }
            }
            "--entrypoint" => entry = Some(value),
            "--gpus" => gpus = devices(value),
            _ => {}
        }
        at += width;
    }
    let image = &words.get(at)?.text;
    let entry = entry.into_iter().flat_map(str::split_whitespace);
    Some(Container {
        image,
        words: entry
            .map(Word::new)
            .chain(words[at + 1..].iter().cloned())
            .collect(),
        variables,
        gpus,
    })
}

/// `"device=0,1"` or a number; `None` of all.
fn devices(value: &str) -> Option<usize> {
    let value = value.trim_matches(['"', '\'']);
    match value.strip_prefix("device=") {
        Some(list) => Some(list.split(',').filter(|id| !id.is_empty()).count()),
        None => value.parse().ok(),
    }
}

/// The version in an image's tag.
pub(crate) fn image_version(image: &str) -> Option<String> {
    let tag = image.rsplit_once(':')?.1;
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    let end = tag
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(tag.len());
    let version = tag[..end].trim_end_matches('.');
    // images of others have versions of their own
    (version.starts_with("0.") && version.len() > 2).then(|| version.to_owned())
}
