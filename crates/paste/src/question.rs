//! The question that a text asks, as far as it says it.

use kv_resolver::catalog::CatalogGpu;
use kv_resolver::{EngineArgs, Environment, Gpu, Release, Request, Usage, Value};

use crate::command::{Command, engine_args};
use crate::log::Log;
use crate::problem::Problem;

/// A question but for what a text does not hold: the model's config.json.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// vLLM's version, as written; `None` where none is.
    pub version: Option<String>,
    /// Its release; `None` where none is written or it has no rules.
    pub release: Option<Release>,
    /// The model, by repository or path.
    pub model: Option<String>,
    /// The GPU.
    pub gpu: Option<&'static CatalogGpu>,
    /// Who starts vLLM.
    pub usage: Usage,
    /// The flags.
    pub args: EngineArgs,
    /// The variables.
    pub env: Environment,
    /// What of the flags the resolver does not take.
    pub problems: Vec<Problem>,
}

impl Question {
    /// Of a command.
    #[must_use]
    pub fn of_command(command: &Command) -> Self {
        let (args, problems) = command.args();
        Self {
            version: command.version.clone(),
            release: command.release(),
            model: command.model.clone(),
            gpu: None,
            usage: command.usage,
            args,
            env: command.environment(),
            problems,
        }
    }

    /// Of a log, and of the command that it stands beside: what was started goes before what is said of it, but for
    /// the variables, which a log does not print.
    #[must_use]
    pub fn of(log: &Log, command: Option<&Command>) -> Self {
        let mut question = Self::of_command(command.unwrap_or(&Command::default()));
        if let Some(version) = &log.version {
            question.version = Some(version.value.clone());
            question.release = log.release();
        }
        if let Some(model) = &log.model
            && (question.model.is_none() || log.passed_line > 0)
        {
            question.model = Some(model.value.clone());
        }
        let is_better = log.passed_line > 0 && !(log.is_effective && command.is_some());
        if is_better {
            (question.args, question.problems) = engine_args(&log.passed);
        }
        if let Some(usage) = log.usage {
            question.usage = usage;
        }
        question.gpu = log.gpu.map(|gpu| gpu.value);
        question
    }

    /// With what the text does not hold. `release` and `gpu` stand where it names none.
    #[must_use]
    pub fn request(
        &self,
        release: Release,
        gpu: Gpu,
        hf_config: Value,
        draft_config: Option<Value>,
    ) -> Request {
        Request {
            release: self.release.unwrap_or(release),
            hf_config: hf_config.into(),
            draft_config,
            gpu: self.gpu.map_or(gpu, CatalogGpu::gpu),
            args: self.args.clone(),
            env: self.env.clone(),
            available_memory: None,
            free_memory: None,
            usage: self.usage,
        }
    }
}

/// A known model, and how it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedModel<'a> {
    /// Its repository.
    pub id: &'a str,
    /// That is not named: a folder is called so.
    pub is_by_folder: bool,
}

/// Of the models of these repositories, the one of a repository, or of a folder that is called like one:
/// `/models/Qwen3-8B`, or Hugging Face's own `models--Qwen--Qwen3-8B/snapshots/…`.
#[must_use]
pub fn named_model<'a>(name: &str, ids: &[&'a str]) -> Option<NamedModel<'a>> {
    let exact = |name: &str| ids.iter().find(|id| id.eq_ignore_ascii_case(name)).copied();
    if let Some(id) = exact(name) {
        return Some(NamedModel {
            id,
            is_by_folder: false,
        });
    }
    let id = name.split(['/', '\\']).rev().find_map(|folder| {
        if let Some(cached) = folder.strip_prefix("models--") {
            return exact(&cached.replacen("--", "/", 1));
        }
        let mut ids = ids.iter().copied();
        ids.find(|id| {
            let short = id.rsplit('/').next().unwrap_or_default();
            short.eq_ignore_ascii_case(folder)
        })
    })?;
    Some(NamedModel {
        id,
        is_by_folder: true,
    })
}
