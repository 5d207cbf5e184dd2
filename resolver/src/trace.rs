//! Why an answer is what it is: one step a decision, in the order of the pipeline.

use serde::Serialize;

use crate::error::Stage;

/// A place in vLLM's source at the release that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// File, from the root of vLLM's package (`vllm/…`).
    pub file: &'static str,
    /// Function or method in it.
    pub function: &'static str,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceStep {
    /// Where in vLLM's start-up it falls.
    pub stage: Stage,
    /// What was decided, and from what.
    pub decided: String,
    /// The rule in vLLM that decides so.
    pub rule: Rule,
}

/// The steps so far. A silent trace records nothing and costs nothing: the
/// matrix asks for outcomes only.
#[derive(Debug, Default)]
pub struct Trace {
    steps: Vec<TraceStep>,
    silent: bool,
}

impl Trace {
    /// A trace that drops what it is told.
    #[must_use]
    pub const fn silent() -> Self {
        Self {
            steps: Vec::new(),
            silent: true,
        }
    }

    /// Appends a decision; its text is only made if somebody will read it.
    pub(crate) fn step(
        &mut self,
        stage: Stage,
        file: &'static str,
        function: &'static str,
        decided: impl FnOnce() -> String,
    ) {
        if !self.silent {
            self.steps.push(TraceStep {
                stage,
                decided: decided(),
                rule: Rule { file, function },
            });
        }
    }

    /// The steps, in order.
    #[must_use]
    pub fn into_steps(self) -> Vec<TraceStep> {
        self.steps
    }
}
