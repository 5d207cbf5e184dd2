//! The lines that vLLM logs while it starts, as far as they follow from the question. Each is said where it
//! is decided; docs/log.md lists them, and what is left out.

use std::fmt;

use serde::Serialize;

use crate::error::{Outcome, Refusal, Stage, StartupError};
use crate::release::{BlockBackends, GroupSizes, LogRules};
use crate::resolution::Resolution;
use crate::units::{fixed, format_gib};

/// How loud a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// `INFO`
    Info,
    /// `WARNING`
    Warning,
}

impl Level {
    /// As vLLM prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
        }
    }
}

/// Who prints a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// The front end: `vllm serve` itself.
    ApiServer,
    /// The engine, and its worker where there is one GPU alone.
    EngineCore,
    /// The worker of a GPU.
    Worker,
}

impl Process {
    /// How its lines begin, but for ranks and the process's number.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApiServer => "APIServer",
            Self::EngineCore => "EngineCore",
            Self::Worker => "Worker",
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// How loud it is.
    pub level: Level,
    /// Who prints it.
    pub by: Process,
    /// Whether there is a copy for each GPU; otherwise there is one, of the first.
    pub every_rank: bool,
    /// Whether its figures follow from the size of the pool.
    pub of_pool: bool,
    /// What it says.
    pub text: String,
    /// Where it falls.
    #[serde(skip)]
    pub(crate) stage: Stage,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [
            "(",
            self.by.as_str(),
            if self.every_rank {
                ", each rank) "
            } else {
                ") "
            },
            self.level.as_str(),
            " ",
            &self.text,
        ] {
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// What a line is, but for its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    stage: Stage,
    level: Level,
    by: Process,
    every_rank: bool,
    of_pool: bool,
}

/// Of the front end.
pub(crate) const CONFIG: Kind = Kind {
    stage: Stage::Config,
    level: Level::Info,
    by: Process::ApiServer,
    every_rank: false,
    of_pool: false,
};
/// The same, as a warning.
pub(crate) const CONFIG_WARNING: Kind = Kind {
    level: Level::Warning,
    ..CONFIG
};
/// Of the first worker, while it makes the model: `info_once` logs a text once.
pub(crate) const MODEL: Kind = Kind {
    stage: Stage::Model,
    by: Process::Worker,
    ..CONFIG
};
/// Of every worker then.
pub(crate) const MODEL_EACH: Kind = Kind {
    every_rank: true,
    ..MODEL
};
/// The same, as a warning.
pub(crate) const MODEL_EACH_WARNING: Kind = Kind {
    level: Level::Warning,
    ..MODEL_EACH
};
/// Of every worker, once the model is made.
pub(crate) const SPECS_EACH: Kind = Kind {
    stage: Stage::Specs,
    ..MODEL_EACH
};
/// Of the engine.
pub(crate) const PLAN: Kind = Kind {
    stage: Stage::Plan,
    by: Process::EngineCore,
    ..CONFIG
};
/// The same, as a warning.
pub(crate) const PLAN_WARNING: Kind = Kind {
    level: Level::Warning,
    ..PLAN
};
/// Of the engine, on the pool.
pub(crate) const POOL: Kind = Kind {
    of_pool: true,
    ..PLAN
};
/// The same, a copy for each GPU.
pub(crate) const POOL_EACH: Kind = Kind {
    every_rank: true,
    ..POOL
};
/// Of the first worker, on the pool.
pub(crate) const POOL_MEASURED: Kind = Kind {
    by: Process::Worker,
    ..POOL
};

impl Kind {
    /// The line.
    pub(crate) const fn line(self, text: String) -> LogLine {
        LogLine {
            level: self.level,
            by: self.by,
            every_rank: self.every_rank,
            of_pool: self.of_pool,
            text,
            stage: self.stage,
        }
    }

    /// Whether a process logs a text once, however often it comes to it.
    pub(crate) const fn is_once(self) -> bool {
        matches!(self.by, Process::Worker) && !self.every_rank
    }
}

/// The lines as the processes of so many GPUs print them: one GPU's worker runs inside the engine.
/// Mirrors `vllm/v1/executor/uniproc_executor.py` `UniProcExecutor`.
pub(crate) fn by_process(mut lines: Vec<LogLine>, gpus: u64) -> Vec<LogLine> {
    if gpus == 1 {
        for line in &mut lines {
            line.every_rank = false;
            if line.by == Process::Worker {
                line.by = Process::EngineCore;
            }
        }
    }
    lines
}

/// What has been printed when a start-up stops with this.
pub(crate) fn before(refusal: &Refusal, mut lines: Vec<LogLine>) -> Vec<LogLine> {
    let last = match refusal {
        // what a GPU has free is looked at before the model is made
        Refusal::NotFree { .. } => Stage::Config,
        Refusal::WeightsDoNotFit { .. } => Stage::Model,
        _ if refusal.outcome() == Outcome::Unmodelled || refusal.stage() == Stage::Args => {
            return Vec::new();
        }
        _ => return lines,
    };
    lines.retain(|line| line.stage <= last);
    lines
}

/// Takes away what follows from the size of a pool that is only estimated: no such
/// figure is predicted.
pub fn forget_pool(result: &mut Result<Resolution, StartupError>) {
    let lines = match result {
        Ok(resolution) => &mut resolution.log,
        Err(error) => &mut error.log,
    };
    lines.retain(|line| !line.of_pool);
}

/// A share in percent, as Python's `%.2f` prints it.
#[allow(clippy::cast_precision_loss)] // Python's own arithmetic
pub(crate) fn percent(part: u64, whole: u64) -> String {
    fixed(part as f64 / whole.max(1) as f64 * 100.0, 2)
}

/// The same, multiplied before it is divided.
#[allow(clippy::cast_precision_loss)] // Python's own arithmetic
pub(crate) fn percent_more(more: u64, than: u64) -> String {
    fixed(
        100.0 * more.saturating_sub(than) as f64 / than.max(1) as f64,
        2,
    )
}

/// Mirrors `vllm/platforms/interface.py` `Platform.update_block_size_for_backend`.
pub(crate) fn block_size(tokens: u64, backends: &[&str], rules: &LogRules) -> String {
    let (names, ends) = match rules.block_backends {
        BlockBackends::First => (backends.get(..1).unwrap_or_default(), " backend."),
        BlockBackends::All => (backends, " backend(s)."),
    };
    [
        "Setting kv cache block size to ",
        &tokens.to_string(),
        " for ",
        &names.join("/"),
        ends,
    ]
    .concat()
}

/// Mirrors `vllm/platforms/interface.py` `_align_heterogeneous_kv_block_size`.
pub(crate) fn skipped_block_size(tokens: u64) -> String {
    [
        "Setting attention block size to ",
        &tokens.to_string(),
        " tokens so the quantized primary KV page covers the higher-precision padded-spec page.",
    ]
    .concat()
}

/// Mirrors `vllm/v1/worker/gpu_worker.py` `determine_available_memory`.
pub(crate) fn available(pool_bytes: u64) -> String {
    [
        "Available KV cache memory: ",
        &format_gib(i128::from(pool_bytes)),
        " GiB",
    ]
    .concat()
}

/// The tokens in each group's blocks, as the release prints a list; `None` before it does.
/// Mirrors `vllm/v1/core/kv_cache_utils.py` `resolve_kv_cache_block_sizes`.
pub(crate) fn group_sizes(sizes: &[u64], rules: &LogRules) -> Option<String> {
    let [open, close] = match rules.group_sizes {
        GroupSizes::Unsaid => return None,
        GroupSizes::List => ["[", "]"],
        GroupSizes::Tuple => ["(", ")"],
    };
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    Some(["kv cache group sizes ", open, &sizes.join(", "), close].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gpu_has_no_worker_of_its_own() {
        let lines = || vec![MODEL.line("a".into()), POOL_EACH.line("b".into())];
        let shown = |gpus| -> Vec<String> {
            let lines = by_process(lines(), gpus);
            lines.iter().map(LogLine::to_string).collect()
        };
        assert_eq!(shown(1), ["(EngineCore) INFO a", "(EngineCore) INFO b"]);
        assert_eq!(
            shown(8),
            ["(Worker) INFO a", "(EngineCore, each rank) INFO b"]
        );
    }

    #[test]
    fn shares_are_printed_as_python_prints_them() {
        assert_eq!(percent(3, 30), "10.00");
        assert_eq!(percent(1, 23), "4.35");
        assert_eq!(percent_more(2_162_688, 2_146_304), "0.76");
    }
}
