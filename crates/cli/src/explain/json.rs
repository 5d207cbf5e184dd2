//! The same as JSON.

use kv_paste::{Command, Explanation, Match, Passed, Problem, serve_command};
use kv_resolver::{Release, Value};
use serde_json::json;

use super::Report;

impl Report<'_> {
    /// Everything that was read, and what it comes to.
    pub(super) fn json(&self) -> serde_json::Value {
        let log = &self.pasted.log;
        let starts: Vec<_> = self.pasted.commands.iter().map(start_json).collect();
        let error = log.error.map(|error| {
            json!({
                "stage": error.value.stage,
                "error_type": error.value.error_type,
                "error": error.value.text,
                "line": error.line,
            })
        });
        json!({
            "version": self.question.version,
            "release": self.question.release.map(Release::version),
            "model": self.question.model,
            "gpu": self.question.gpu.map(|gpu| gpu.key),
            "usage": self.question.usage.as_str(),
            "commands": starts,
            "log": {
                "start_ups": log.starts,
                "flags": passed_json(&log.passed),
                "is_effective": log.is_effective,
                "available_bytes": log.pool.available.map(|pool| [pool.low, pool.high]),
                "tokens": log.pool.tokens,
                "max_model_len": log.max_model_len.map(|fact| fact.value),
                "error": error,
            },
            "problems": self.question.problems.iter().map(Problem::text).collect::<Vec<_>>(),
            "stops": self.stops,
            "no_answer": self.missing,
            "explanation": self.answer.as_ref().map(|(_, explanation)| explanation_json(explanation)),
            "answer": self.answer.as_ref().map(|(_, explanation)| {
                kv_cases::result_value(&Value::Null, &explanation.result)
            }),
        })
    }
}

fn passed_json(passed: &[Passed]) -> serde_json::Value {
    let flags = passed.iter().map(|flag| {
        json!({
            "name": flag.name,
            "spelled": flag.spelled,
            "value": flag.value,
            "standing": flag.standing.as_str(),
        })
    });
    flags.collect()
}

fn start_json(start: &Command) -> serde_json::Value {
    let (args, problems) = start.args();
    let all = start.problems.iter().chain(&problems);
    json!({
        "usage": start.usage.as_str(),
        "model": start.model,
        "version": start.version,
        "visible_gpus": start.visible_gpus,
        "flags": passed_json(&start.passed),
        "env": start.variables.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "problems": all.map(Problem::text).collect::<Vec<_>>(),
        "command": serve_command(start.model.as_deref().unwrap_or_default(), &args, &start.environment()).ok(),
    })
}

fn explanation_json(explanation: &Explanation) -> serde_json::Value {
    let figures = explanation.figures.iter().map(|figure| {
        json!({
            "name": figure.kind.as_str(),
            "printed": figure.printed,
            "predicted": figure.predicted,
            "agrees": figure.agrees,
            "line": figure.line,
        })
    });
    let lines = explanation.lines.iter().map(|line| match &line.found {
        Match::Equal(at) => json!({"text": line.predicted.text, "found": "equal", "line": at}),
        Match::Differs { line: at, text } => {
            json!({"text": line.predicted.text, "found": "differs", "line": at, "printed": text})
        }
        Match::Missing => json!({"text": line.predicted.text, "found": "missing"}),
    });
    let closings = explanation
        .closings
        .iter()
        .map(|closing| json!({"text": closing.text()}));
    json!({
        "agrees": explanation.agrees(),
        "figures": figures.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
        "closings": closings.collect::<Vec<_>>(),
        "utilization_hundredths": explanation.utilization,
    })
}
