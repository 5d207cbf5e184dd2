//! DeepSeek V4's draft layers: windows, whichever method drafts.

use crate::backend::deepseek_v4::{self as backend, Implementation};
use crate::config::{EngineConfig, drafter_dtype};
use crate::dtype::TorchDtype;
use crate::error::{Refusal, Stage};
use crate::gpu::{Arch, ComputeCapability};
use crate::model::draft::Draft;
use crate::model::{Common, DeepseekV4};
use crate::release::Profile;
use crate::resolution::Note;
use crate::spec::decoder::{local_argmax, unknown_dtype};
use crate::spec::deepseek_v4::{ResolvedDtype, resolve_dtype};
use crate::speculation::{DraftBackend, DraftDtype};
use crate::trace::Trace;

/// The target, as it has been built.
pub(super) struct Built<'a> {
    pub common: &'a Common,
    pub config: &'a EngineConfig,
    pub arch: Arch,
    pub capability: ComputeCapability,
    pub implementation: Implementation,
    pub resolved: ResolvedDtype,
}

/// The drafter, as it is built after the target.
pub(super) struct Drafted {
    pub implementation: Implementation,
    pub resolved: ResolvedDtype,
    /// Number of its first layer.
    pub first: u32,
    /// Its layers.
    pub count: u32,
}

impl Drafted {
    /// What their weights follow from: the attention, its rows, and how many layers.
    pub(super) fn weights(&self) -> (Implementation, TorchDtype, u64) {
        (
            self.implementation,
            self.resolved.rows,
            u64::from(self.count),
        )
    }
}

/// Mirrors `vllm/models/deepseek_v4/nvidia/mtp.py` and `dspark.py`, whose layers
/// are the target's without compression.
pub(super) fn build(
    model: &DeepseekV4,
    target: &Built,
    profile: &Profile,
    notes: &mut Vec<Note>,
    trace: &mut Trace,
) -> Result<Option<Drafted>, Box<Refusal>> {
    let Some(speculation) = &target.config.speculation else {
        return Ok(None);
    };
    let (first, count) = match &speculation.draft {
        None => return Ok(None),
        Some(Draft::Windows { first, count }) => (*first, *count),
        Some(Draft::Decoder(_)) => {
            return Err(Refusal::not_modelled(
                "a drafter with layers of another kind beside DeepSeek V4 is not modelled",
            ));
        }
    };
    let dtype = match &speculation.cache_dtype {
        None => target.resolved.cache_dtype,
        Some(DraftDtype::Known(dtype)) => {
            drafter_dtype(*dtype, target.config, target.common, profile)?;
            *dtype
        }
        Some(DraftDtype::Unknown(name)) => return Err(unknown_dtype(name, profile.cache_dtypes)),
    };
    let implementation = match speculation.backend {
        DraftBackend::Targets => target.implementation,
        DraftBackend::Own(own) => {
            let config = EngineConfig {
                attention_backend: own,
                ..target.config.clone()
            };
            backend::select(
                &config,
                model,
                target.arch,
                target.capability,
                profile,
                notes,
                trace,
            )?
        }
    };
    let resolved = resolve_dtype(dtype, implementation, profile, trace)?;
    // both write back to one config, which the target's layers look at once more
    if speculation.cache_dtype.is_none() && resolved.cache_dtype != target.resolved.cache_dtype {
        return Err(Refusal::not_modelled(
            "a drafter whose backend changes the target's cache dtype is not modelled",
        ));
    }
    local_argmax(speculation)?;
    trace.step(
        Stage::Model,
        "vllm/models/deepseek_v4/nvidia/mtp.py",
        "DeepSeekV4MultiTokenPredictor.__init__",
        || {
            format!(
                "{} adds {count} layer{} with a window alone, grouped with the target's windows",
                speculation.method,
                if count == 1 { "" } else { "s" },
            )
        },
    );
    Ok(Some(Drafted {
        implementation,
        resolved,
        first,
        count,
    }))
}
