//! The count as the answer holds it.

use serde::Serialize;

use super::{Sheet, Uncounted};
use crate::error::Stage;
use crate::memory::Interval;
use crate::trace::Trace;
use crate::units::thousands;

/// Bytes of the weights on one GPU, as vLLM builds the model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WeightBytes {
    /// Every parameter and buffer of the model, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter_bytes: Option<u64>,
    /// Their elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter_count: Option<u64>,
    /// The drafter's own, beside those that it shares with the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_parameter_bytes: Option<u64>,
    /// What kernels make of them on load takes so much more, or less, the drafter's
    /// among them.
    #[serde(rename = "repacked_bytes", skip_serializing_if = "Option::is_none")]
    pub repacked: Option<Interval>,
    /// Why they are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_uncounted: Option<String>,
    /// Why the drafter's are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_parameters_uncounted: Option<String>,
}

impl WeightBytes {
    /// The answer of a count.
    pub(crate) fn of(counted: Result<Sheet, Uncounted>, trace: &mut Trace) -> Self {
        match explained(counted, "weights", trace) {
            Ok((bytes, count, repacked)) => Self {
                parameter_bytes: Some(bytes),
                parameter_count: Some(count),
                repacked: Some(repacked),
                ..Self::default()
            },
            Err(Uncounted(reason)) => Self {
                parameters_uncounted: Some(reason),
                ..Self::default()
            },
        }
    }

    /// The drafter's beside it.
    pub(crate) fn add_draft(&mut self, counted: Result<Sheet, Uncounted>, trace: &mut Trace) {
        match explained(counted, "the drafter's own weights", trace) {
            Ok((bytes, _, repacked)) => {
                self.draft_parameter_bytes = Some(bytes);
                self.repacked = self.repacked.map(|own| own.plus(repacked));
            }
            Err(Uncounted(reason)) => self.draft_parameters_uncounted = Some(reason),
        }
    }
}

/// Bytes, elements, and what kernels add, with a word on what they are made of.
fn explained(
    counted: Result<Sheet, Uncounted>,
    what: &str,
    trace: &mut Trace,
) -> Result<(u64, u64, Interval), Uncounted> {
    let sheet = counted?;
    let (bytes, count) = sheet.total()?;
    let file = "vllm/model_executor/model_loader/utils.py";
    trace.step(Stage::Model, file, "initialize_model", || {
        let mut text = format!(
            "{} bytes of {what} on each GPU, as built:",
            thousands(bytes)
        );
        for (place, (name, bytes)) in sheet.parts().enumerate() {
            text.push_str(if place == 0 { " " } else { ", " });
            text.push_str(name);
            text.push(' ');
            text.push_str(&thousands(bytes));
        }
        text
    });
    Ok((bytes, count, sheet.repacked()))
}
