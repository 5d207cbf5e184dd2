//! Attention backends: their names, and which one a layer gets.

pub(crate) mod block_size;
mod combination;
pub(crate) mod customize;
pub mod deepseek_v4;
pub(crate) mod flash_attention;
pub(crate) mod kernel_block;
pub(crate) mod layer;
pub(crate) mod layouts;
pub mod registry;
pub(crate) mod rules;
pub(crate) mod select;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Serialize, Serializer};

pub use registry::AttentionBackend;

use crate::error::{Refusal, Stage};
use crate::release::Profile;

impl AttentionBackend {
    /// Reads `--attention-backend`; `None` is automatic.
    /// Mirrors `vllm/config/attention.py` `AttentionConfig.validate_backend_before`.
    pub(crate) fn parse(name: &str, profile: &Profile) -> Result<Option<Self>, Box<Refusal>> {
        // Unicode's case tables would be a fifteenth of the page
        if !name.is_ascii() {
            return Err(Refusal::not_modelled(
                "an attention backend's name with letters beyond ASCII is not modelled",
            ));
        }
        if name.eq_ignore_ascii_case("auto") {
            return Ok(None);
        }
        let upper = name.to_ascii_uppercase();
        let known = profile
            .attention_backends
            .iter()
            .find(|backend| backend.as_str() == upper);
        known.copied().map(Some).ok_or_else(|| {
            let names: Vec<&str> = profile
                .attention_backends
                .iter()
                .map(|backend| backend.as_str())
                .collect();
            Refusal::raised(
                Stage::Config,
                "ValueError",
                format!(
                    "Unknown attention backend: '{upper}'. Valid options are: {}",
                    names.join(", ")
                ),
            )
        })
    }
}

impl fmt::Display for AttentionBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for AttentionBackend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
