//! `rejection_sample_method=synthetic`: how many drafted tokens to take, whatever
//! they are. Mirrors `SpeculativeConfig._resolve_synthetic_acceptance_rates`.

use super::fields::{Fields, invalid, not_modelled};
use crate::error::Refusal;
use crate::python::lax_float;
use crate::units::python_float;
use crate::value::Value;

/// Rates or a length, where they are asked for, and only there.
pub(super) fn check(fields: Fields, tokens: u64) -> Result<(), Box<Refusal>> {
    let rates = fields.value("synthetic_acceptance_rates");
    let length = fields.value("synthetic_acceptance_length");
    let is_synthetic = fields.text("rejection_sample_method") == Some("synthetic");
    match (is_synthetic, rates, length) {
        (false, None, None) => Ok(()),
        (false, _, _) => Err(invalid(
            "synthetic_acceptance_rates / synthetic_acceptance_length are only valid with \
             rejection_sample_method='synthetic'.",
        )),
        (true, Some(rates), None) => check_rates(rates, tokens),
        (true, None, Some(length)) => check_length(length, tokens),
        (true, None, None) | (true, Some(_), Some(_)) => Err(invalid(
            "rejection_sample_method='synthetic' requires exactly one of \
             synthetic_acceptance_rates or synthetic_acceptance_length.",
        )),
    }
}

fn check_rates(rates: &Value, tokens: u64) -> Result<(), Box<Refusal>> {
    let Value::Array(items) = rates else {
        return Err(not_modelled("synthetic_acceptance_rates that are no list"));
    };
    let rates: Vec<f64> = items
        .iter()
        .map(lax_float)
        .collect::<Result<_, _>>()
        .map_err(|_| not_modelled("synthetic_acceptance_rates that are no numbers"))?;
    let shown = || {
        let shown: Vec<String> = rates.iter().copied().map(python_float).collect();
        format!("got [{}].", shown.join(", "))
    };
    let name = "synthetic_acceptance_rates";
    if rates.len() as u64 != tokens {
        return Err(invalid(format!(
            "{name} must have length {tokens}, {}",
            shown()
        )));
    }
    if rates.iter().any(|rate| !(0.0..=1.0).contains(rate)) {
        return Err(invalid(format!(
            "{name} entries must be in [0, 1], {}",
            shown()
        )));
    }
    if rates.windows(2).any(|pair| pair[1] > pair[0]) {
        return Err(invalid(format!(
            "{name} must be non-increasing, {}",
            shown()
        )));
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // as Python compares
fn check_length(length: &Value, tokens: u64) -> Result<(), Box<Refusal>> {
    let length = lax_float(length)
        .map_err(|_| not_modelled("a synthetic_acceptance_length that is no number"))?;
    let most = tokens.saturating_add(1);
    if (1.0..=most as f64).contains(&length) {
        return Ok(());
    }
    Err(invalid(format!(
        "synthetic_acceptance_length must be in [1, {most}], got {}.",
        python_float(length)
    )))
}
