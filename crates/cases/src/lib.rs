//! Cases and results as JSON, one a line: the form that the CLI, the page and
//! vLLM's vectors share.

mod case;
mod gpu;
mod many;
mod plan;
mod result;

pub use case::{
    CaseError, KEYS, MOST_CONFIG_BYTES, MOST_LINE_BYTES, parse_case, parse_config, parse_open_case,
};
pub use gpu::gpu_of;
pub use many::{Compared, Matrix, MatrixCell, StartingCell, StoppingCell, matrix};
pub use plan::plan_value;
pub use result::{False, True, result_json, result_value, value_json, write_result};

use kv_resolver::{Outcome, Refusal, Resolution, StartupError, Value, resolve};

/// A case's answer, and what it was called.
#[derive(Debug)]
pub struct Answer {
    /// The case's `id`, as it was written; null without one.
    pub id: Value,
    /// What vLLM would do.
    pub result: Result<Resolution, StartupError>,
}

impl Answer {
    /// In one word.
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(resolution) => resolution.outcome,
            Err(error) => error.refusal.outcome(),
        }
    }

    /// Whether the case itself could not be read.
    pub fn is_malformed(&self) -> bool {
        matches!(&self.result, Err(error) if matches!(error.refusal, Refusal::BadCase(_)))
    }
}

/// Answers one line. `number` (from 1) is named where the line cannot be read.
pub fn answer(line: &str, number: usize) -> Answer {
    let (id, request) = parse_case(line);
    let result = match request {
        Ok(request) => resolve(&request),
        Err(error) => Err(StartupError::bare(error.into_refusal(number))),
    };
    Answer { id, result }
}

/// The answer to a line that cannot even be read.
pub fn malformed_line(number: usize, why: &str) -> Answer {
    let error = CaseError::Malformed(why.to_owned());
    Answer {
        id: Value::Null,
        result: Err(StartupError::bare(error.into_refusal(number))),
    }
}

/// One case line in, one result line out, without the newline.
pub fn resolve_line(line: &str, number: usize) -> String {
    let answer = answer(line, number);
    result_json(&answer.id, &answer.result)
}
