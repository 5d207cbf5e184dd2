//! What an answer keeps of how it came about, for its pages to be taken apart.

use crate::backend::layer::LayerBackend;
use crate::dtype::{CacheDtype, TorchDtype};
use crate::gpu::Arch;
use crate::model::decoder::MlaDims;
use crate::release::Release;
use crate::spec::LayerSpec;

/// One of a linear layer's states: rows of so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StateRows {
    /// Rows: of the convolution, or heads of the recurrent state.
    pub count: u64,
    /// Bytes of one.
    pub bytes: u64,
    /// The type of its elements.
    pub dtype: TorchDtype,
}

/// What a linear layer carries over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinearStates {
    /// The last inputs of the convolution.
    pub conv: StateRows,
    /// The recurrent state, a row a head.
    pub recurrent: StateRows,
}

/// What pages follow from beside the answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Makings {
    /// The release, which decides who writes what.
    pub release: Release,
    /// The GPU's architecture: some scales differ.
    pub arch: Arch,
    /// What is written back, for layers whose spec does not say.
    pub cache_dtype: CacheDtype,
    /// Before there were layouts: whether a page has all states of a head together.
    pub heads_first: bool,
    /// The dimensions of MLA's latent vector, if the model has one.
    pub mla: Option<MlaDims>,
    /// What its linear layers carry over, if it has such.
    pub states: Option<LinearStates>,
    /// Each kind of layer, in the order of `layers`.
    pub rows: Vec<RowMakings>,
}

/// What one kind of layer's page follows from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowMakings {
    /// The spec, whole.
    pub spec: LayerSpec,
    /// Its backend; `None` for DeepSeek V4's layers, which have one each.
    pub backend: Option<LayerBackend>,
}
