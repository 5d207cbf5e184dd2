//! Why an answer is what it is: one step a decision, in the order of the pipeline; and
//! what vLLM logs of it.

use serde::Serialize;

use crate::backend::AttentionBackend;
use crate::backend::select::Selection;
use crate::error::Stage;
use crate::log::{Kind, LogLine};
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

/// The steps and lines so far. A silent trace records nothing and costs nothing: the
/// matrix asks for outcomes only.
#[derive(Debug, Default)]
pub struct Trace {
    steps: Vec<TraceStep>,
    lines: Vec<LogLine>,
    /// What the selector of backends has answered: it logs each question once.
    selections: Vec<(Option<AttentionBackend>, Selection)>,
    silent: bool,
}

impl Trace {
    /// A trace that drops what it is told.
    #[must_use]
    pub const fn silent() -> Self {
        Self {
            steps: Vec::new(),
            lines: Vec::new(),
            selections: Vec::new(),
            silent: true,
        }
    }

    /// Puts a decision behind those of its stage and of earlier ones: all layers are built before
    /// the first is asked for its spec. Its text is only made if somebody will read it; long
    /// numbers in it get their thousands separated.
    pub(crate) fn step(
        &mut self,
        stage: Stage,
        file: &'static str,
        function: &'static str,
        decided: impl FnOnce() -> String,
    ) {
        if !self.silent {
            self.put(stage, Rule { file, function }, &decided());
        }
    }

    // apart from what is compiled for each closure
    fn put(&mut self, stage: Stage, rule: Rule, decided: &str) {
        let place = self.steps.partition_point(|other| other.stage <= stage);
        let step = TraceStep {
            stage,
            decided: separated(decided),
            rule,
        };
        self.steps.insert(place, step);
    }

    /// Appends a line of vLLM's log; its text, too, is only made if somebody will read it.
    pub(crate) fn say(&mut self, kind: Kind, text: impl FnOnce() -> String) {
        self.say_if_known(kind, || Some(text()));
    }

    /// The same of a line that may turn out not to be known.
    pub(crate) fn say_if_known(&mut self, kind: Kind, text: impl FnOnce() -> Option<String>) {
        if self.silent {
            return;
        }
        let Some(text) = text() else { return };
        let line = kind.line(text);
        if !kind.is_once() || !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// Whether the selector logs this question: it remembers what it has answered.
    /// Mirrors `vllm/v1/attention/selector.py` `_cached_get_attn_backend`.
    pub(crate) fn is_asked_first(
        &mut self,
        asked: Option<AttentionBackend>,
        selection: &Selection,
    ) -> bool {
        if self.silent || self.selections.contains(&(asked, *selection)) {
            return false;
        }
        self.selections.push((asked, *selection));
        true
    }

    /// The steps and the lines, in order.
    #[must_use]
    pub fn into_parts(self) -> (Vec<TraceStep>, Vec<LogLine>) {
        (self.steps, self.lines)
    }
}

/// Stands around a name in the text of a step, which keeps its digits; no text is left with one.
const OF_NAME: char = '\0';

/// A name as it is put into the text of a step: the 5080 of `RTX 5080` counts nothing.
pub(crate) fn named(name: &str) -> String {
    format!("{OF_NAME}{}{OF_NAME}", name.replace(OF_NAME, ""))
}

/// The text with `,` in every number of four digits or more, but for those in a name.
fn separated(text: &str) -> String {
    let parts = text.split(OF_NAME).enumerate();
    parts
        .map(|(index, part)| match index % 2 {
            0 => separated_outside(part),
            _ => part.to_owned(),
        })
        .collect()
}

fn separated_outside(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len() + 16);
    // what is written of the text, and where it is being looked at
    let (mut written, mut at) = (0, 0);
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let end = at + digits.count();
        if end - at > 3
            && !bytes[..at].last().copied().is_some_and(is_of_a_name)
            && let Ok(number) = text[at..end].parse()
        {
            out.push_str(&text[written..at]);
            out.push_str(&thousands(number));
            written = end;
        }
        at = end.max(at + 1);
    }
    out.push_str(&text[written..]);
    out
}

const fn is_of_a_name(before: u8) -> bool {
    before.is_ascii_alphanumeric() || matches!(before, b'.' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_separated() {
        assert_eq!(
            separated("42853 blocks of 1002240 B; 8192 tokens, 0.123456, SM1000, fp8_e4m3 12345"),
            "42,853 blocks of 1,002,240 B; 8,192 tokens, 0.123456, SM1000, fp8_e4m3 12,345"
        );
        assert_eq!(
            separated("99999999999999999999999 é 1"),
            "99999999999999999999999 é 1"
        );
        assert_eq!(
            separated(&format!(
                "8192 tokens; {} counts 2048",
                named("RTX\0 5080 12345")
            )),
            "8,192 tokens; RTX 5080 12345 counts 2,048"
        );
    }
}
