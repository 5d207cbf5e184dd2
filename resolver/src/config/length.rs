//! The longest request.

use super::checks::invalid;
use crate::error::Refusal;
use crate::model::{Common, Length};
use crate::request::Request;

/// The longest request, and whether it is to be shortened to what fits.
/// Mirrors `vllm/config/model.py` `_get_and_verify_max_len` and
/// `ModelConfig.validate_model_config_after`.
pub(super) fn max_model_len(
    request: &Request,
    model: &Common,
) -> Result<(u64, bool), Box<Refusal>> {
    let window = model
        .sliding_window
        .filter(|_| request.args.disable_sliding_window == Some(true));
    let asked = request.args.max_model_len;
    let length = longest(asked, &model.length, window, request)?;
    Ok((length, asked == Some(-1)))
}

/// The longest request of a model, target or drafter.
pub(crate) fn longest(
    asked: Option<i64>,
    length: &Length,
    window: Option<u64>,
    request: &Request,
) -> Result<u64, Box<Refusal>> {
    let profile = request.release.profile();
    let mut derived = length.derived(window);
    if let (true, Some(tokens)) = (profile.length_is_yarns, length.by_yarn) {
        derived.tokens = tokens;
        derived.shown = tokens.to_string();
    }
    let by_default = length.by_default.unwrap_or(derived.tokens);
    let asked = match asked {
        None | Some(-1) => return Ok(by_default),
        Some(asked) => u64::try_from(asked).unwrap_or(0),
    };
    let most = length.model_max_length;
    let too_long = asked > derived.tokens && most.is_none_or(|most| asked > most);
    if too_long && !request.env.allow_long_max_model_len {
        let most = most.map_or_else(|| "None".to_owned(), |most| most.to_string());
        return Err(invalid(format!(
            "User-specified max_model_len ({asked}) is greater than the derived max_model_len \
             ({}={} or model_max_length={most} in model's config.json). To allow overriding this maximum, set the env var \
             VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with \
             extreme caution. If the model uses relative position encoding (RoPE), positions \
             exceeding derived_max_model_len lead to nan. If the model uses absolute position \
             encoding, positions exceeding derived_max_model_len will cause a CUDA array \
             out-of-bounds error.",
            derived.key, derived.shown
        )));
    }
    if asked == 0 && profile.bounds_sizes {
        return Err(invalid(
            "max_model_len must be a positive integer, got int: 0. Example: max_model_len=2048",
        ));
    }
    Ok(asked)
}
