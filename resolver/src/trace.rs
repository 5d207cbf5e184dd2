//! Why an answer is what it is: one step a decision, in the order of the pipeline.

use serde::Serialize;

use crate::error::Stage;
use crate::units::thousands;

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
    /// Long numbers in it get their thousands separated.
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
                decided: separated(&decided()),
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

/// The text with `,` in every number of five digits or more.
fn separated(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - start);
        let (before, number) = rest[..start + digits].split_at(start);
        out.push_str(before);
        match number.parse() {
            Ok(value) if digits >= 5 && !before.ends_with(['.', '_']) => {
                out.push_str(&thousands(value));
            }
            _ => out.push_str(number),
        }
        rest = &rest[start + digits..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_separated() {
        assert_eq!(
            separated("42853 blocks of 1002240 B; 8192 tokens, 0.123456, fp8_e4m3 12345"),
            "42,853 blocks of 1,002,240 B; 8192 tokens, 0.123456, fp8_e4m3 12,345"
        );
        assert_eq!(
            separated("99999999999999999999999 é 1"),
            "99999999999999999999999 é 1"
        );
    }
}
