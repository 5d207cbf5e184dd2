//! The longest request.

use super::checks::invalid;
use crate::error::Refusal;
use crate::model::Common;
use crate::request::Request;

/// The longest request, and whether it is to be shortened to what fits.
/// Mirrors `vllm/config/model.py` `_get_and_verify_max_len` and
/// `ModelConfig.validate_model_config_after`.
pub(super) fn max_model_len(
    request: &Request,
    model: &Common,
) -> Result<(u64, bool), Box<Refusal>> {
    let profile = request.release.profile();
    let window = model
        .sliding_window
        .filter(|_| request.args.disable_sliding_window == Some(true));
    let mut derived = model.length.derived(window);
    if let (true, Some(tokens)) = (profile.length_is_yarns, model.length.by_yarn) {
        derived.tokens = tokens;
        derived.shown = tokens.to_string();
    }
    let by_default = model.length.by_default.unwrap_or(derived.tokens);
    let length = match request.args.max_model_len {
        None => return Ok((by_default, false)),
        Some(-1) => return Ok((by_default, true)),
        Some(length) => u64::try_from(length).unwrap_or(0),
    };
    let most = model.length.model_max_length;
    let too_long = length > derived.tokens && most.is_none_or(|most| length > most);
    if too_long && !request.env.allow_long_max_model_len {
        let most = most.map_or_else(|| "None".to_owned(), |most| most.to_string());
        return Err(invalid(format!(
            "User-specified max_model_len ({length}) is greater than the derived max_model_len \
             ({}={} or model_max_length={most} in model's config.json). To allow overriding this maximum, set the env var \
             VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with \
             extreme caution. If the model uses relative position encoding (RoPE), positions \
             exceeding derived_max_model_len lead to nan. If the model uses absolute position \
             encoding, positions exceeding derived_max_model_len will cause a CUDA array \
             out-of-bounds error.",
            derived.key, derived.shown
        )));
    }
    if length == 0 && profile.bounds_sizes {
        return Err(invalid(
            "max_model_len must be a positive integer, got int: 0. Example: max_model_len=2048",
        ));
    }
    Ok((length, false))
}
