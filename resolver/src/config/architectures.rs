//! Architectures that vLLM has no model for.

use crate::error::{Refusal, Stage};
use crate::release::Release;

/// The registry's names in its order, one a line.
/// `vllm/model_executor/models/registry.py` `_VLLM_MODELS`
const V0_33_0: &str = include_str!("architectures-0.33.0.txt");

/// What vLLM says of an architecture that neither it nor transformers has.
/// Mirrors `vllm/model_executor/models/registry.py` `_raise_for_unsupported`.
pub(crate) fn unknown_architecture(architecture: &str, release: Release) -> Box<Refusal> {
    if release != Release::V0_33_0 {
        return Refusal::not_modelled(format!(
            "{architecture} is not modelled; vLLM 0.33.0 refuses it, and what {release} says to it \
             was not asked"
        ));
    }
    let names: Vec<String> = V0_33_0.lines().map(|name| format!("'{name}'")).collect();
    Refusal::raised(
        Stage::Config,
        "ValidationError",
        format!(
            "Model architectures ['{architecture}'] are not supported for now. Supported \
             architectures: dict_keys([{}])",
            names.join(", ")
        ),
    )
}
