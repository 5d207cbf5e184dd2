//! One layer's KV format. Mirrors `vllm/v1/kv_cache_interface.py`.

pub(crate) mod decoder;
pub mod deepseek_v4;
mod role;
#[cfg(test)]
mod tests;

pub use role::LayerRole;

use serde::{Serialize, Serializer};

use crate::dtype::{CacheDtype, KvQuantMode, TorchDtype};
use crate::error::{Refusal, Stage};
use crate::units::{add, gcd, mul, round_up};

/// vLLM's class of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpecKind {
    /// `FullAttentionSpec`
    FullAttention,
    /// `SlidingWindowSpec`
    SlidingWindow,
    /// `ChunkedLocalAttentionSpec`
    ChunkedLocalAttention,
    /// `MLAAttentionSpec`
    MlaAttention,
    /// `SlidingWindowMLASpec`
    SlidingWindowMla,
    /// `MambaSpec`
    Mamba,
    /// `UniformTypeKVCacheSpecs`: a group whose layers differ in bytes alone.
    UniformType,
}

impl SpecKind {
    /// vLLM's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FullAttention => "FullAttentionSpec",
            Self::SlidingWindow => "SlidingWindowSpec",
            Self::ChunkedLocalAttention => "ChunkedLocalAttentionSpec",
            Self::MlaAttention => "MLAAttentionSpec",
            Self::SlidingWindowMla => "SlidingWindowMLASpec",
            Self::Mamba => "MambaSpec",
            Self::UniformType => "UniformTypeKVCacheSpecs",
        }
    }

    /// Whether every token keeps its block.
    pub const fn is_full(self) -> bool {
        matches!(self, Self::FullAttention | Self::MlaAttention)
    }

    /// Whether blocks behind a window are given back.
    pub const fn is_window(self) -> bool {
        matches!(self, Self::SlidingWindow | Self::SlidingWindowMla)
    }
}

impl Serialize for SpecKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What the stride between blocks must keep whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StrideAlignment {
    /// Nothing.
    None,
    /// A multiple of so many bytes.
    Bytes(u64),
    /// Whole kernel blocks of up to so many tokens, where blocks are split.
    KernelBlocks(u64),
    /// A multiple of so many bytes in the block of all layers, not in each
    /// layer's part of it (0.31).
    WholeBlock(u64),
}

/// The states of a Mamba-like layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MambaStates {
    /// Bytes of all states of one request.
    pub state_bytes: u64,
    /// Blocks that one request holds, whatever its length.
    pub blocks_per_request: u64,
}

/// The format of a layer's cache, by vLLM's field names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // vLLM's fields; units are in the names
pub struct LayerSpec {
    pub role: LayerRole,
    pub kind: SpecKind,
    pub block_size: u64,
    pub num_kv_heads: u64,
    pub head_size: u64,
    /// 0 for MLA, which stores one vector for both.
    pub head_size_v: u64,
    pub dtype: TorchDtype,
    /// Heads of the page, where packing differs from one a KV head.
    pub num_head_slots: Option<u64>,
    /// Bytes of one stored state, where rows are packed.
    pub state_content_bytes: Option<u64>,
    /// Negative for states that do not count tokens.
    pub tokens_per_state: i64,
    /// Window in tokens.
    pub sliding_window: Option<u64>,
    /// Tokens that a window keeps beside itself, for a chain of draft modules.
    pub extra_retained_tokens: u64,
    /// Chunk in tokens.
    pub attention_chunk_size: Option<u64>,
    /// Page alignment in bytes.
    pub alignment: Option<u64>,
    pub page_size_padded: Option<u64>,
    pub cache_dtype: Option<CacheDtype>,
    pub kv_quant_mode: KvQuantMode,
    pub stride: StrideAlignment,
    /// Whether the backend goes from block to block by the stride, so that the
    /// page may be padded; of 0.28 alone.
    pub indexes_by_block_stride: bool,
    pub topk_buffer_width: Option<u64>,
    pub index_group_leader: bool,
    pub mamba: Option<MambaStates>,
}

impl LayerSpec {
    /// For tests: a latent row of so many numbers of two bytes, in blocks of 16 tokens.
    #[cfg(test)]
    pub(crate) fn latent(head_size: u64) -> Self {
        let (role, kind) = (LayerRole::Mla, SpecKind::MlaAttention);
        Self {
            head_size,
            ..Self::plain(role, kind, 16, TorchDtype::Bfloat16)
        }
    }

    /// A plain row per token and head, to be changed by who makes it.
    pub const fn plain(
        role: LayerRole,
        kind: SpecKind,
        block_size: u64,
        dtype: TorchDtype,
    ) -> Self {
        Self {
            role,
            kind,
            block_size,
            num_kv_heads: 1,
            head_size: 0,
            head_size_v: 0,
            dtype,
            num_head_slots: None,
            state_content_bytes: None,
            tokens_per_state: 1,
            sliding_window: None,
            extra_retained_tokens: 0,
            attention_chunk_size: None,
            alignment: None,
            page_size_padded: None,
            cache_dtype: None,
            kv_quant_mode: KvQuantMode::None,
            stride: StrideAlignment::None,
            indexes_by_block_stride: false,
            topk_buffer_width: None,
            index_group_leader: false,
            mamba: None,
        }
    }

    /// Heads of a page.
    pub fn num_heads(&self) -> u64 {
        self.num_head_slots.unwrap_or(self.num_kv_heads)
    }

    /// Stored states in a page.
    pub fn num_states(&self) -> u64 {
        u64::try_from(self.tokens_per_state)
            .ok()
            .and_then(|tokens| self.block_size.checked_div(tokens))
            .unwrap_or(1)
    }

    /// Bytes of one stored state of one head.
    pub fn slot_bytes(&self) -> Result<u64, Box<Refusal>> {
        match (self.mamba, self.state_content_bytes) {
            (Some(states), _) => Ok(states.state_bytes),
            (None, Some(bytes)) => Ok(bytes),
            (None, None) => mul(
                add(self.head_size, self.head_size_v)?,
                self.dtype.size_bytes(),
            ),
        }
    }

    /// Bytes of the states alone.
    pub fn unpadded_page_size_bytes(&self) -> Result<u64, Box<Refusal>> {
        mul(
            mul(self.num_heads(), self.num_states())?,
            self.slot_bytes()?,
        )
    }

    /// Bytes of a page as it is laid out; vLLM asserts without a word that what is padded has room.
    pub fn page_size_bytes(&self) -> Result<u64, Box<Refusal>> {
        let unpadded = self.unpadded_page_size_bytes()?;
        match self.page_size_padded {
            Some(padded) if padded < unpadded => {
                Err(Refusal::raised(Stage::Plan, "AssertionError", ""))
            }
            Some(padded) => Ok(padded),
            None => Ok(unpadded),
        }
    }

    /// The spec with its page padded to its alignment, as its constructor
    /// leaves it. Mirrors `_apply_alignment_padding`.
    pub fn aligned(mut self) -> Result<Self, Box<Refusal>> {
        if let Some(alignment) = self.alignment {
            let unpadded = self.unpadded_page_size_bytes()?;
            let padded = round_up(unpadded, alignment)?;
            if padded != unpadded {
                self.page_size_padded = Some(padded);
            }
        }
        Ok(self)
    }

    /// Bytes that the stride between blocks must be a multiple of.
    /// Mirrors `KVCacheSpec.get_block_stride_alignment`.
    pub fn block_stride_alignment(&self) -> Result<u64, Box<Refusal>> {
        let kernel = match self.stride {
            StrideAlignment::None => return Ok(1),
            StrideAlignment::Bytes(bytes) | StrideAlignment::WholeBlock(bytes) => {
                return Ok(bytes.max(1));
            }
            StrideAlignment::KernelBlocks(tokens) => gcd(tokens, self.block_size),
        };
        if kernel == self.block_size {
            return Ok(1);
        }
        Self {
            block_size: kernel,
            ..*self
        }
        .aligned()?
        .page_size_bytes()
    }

    /// The page with the padding that its stride asks for, where each layer
    /// has a region of its own.
    pub fn padded_page_bytes(&self) -> Result<u64, Box<Refusal>> {
        let alignment = match self.stride {
            StrideAlignment::WholeBlock(_) => 1,
            StrideAlignment::None
            | StrideAlignment::Bytes(_)
            | StrideAlignment::KernelBlocks(_) => self.block_stride_alignment()?,
        };
        round_up(self.page_size_bytes()?, alignment)
    }

    /// What the block of all layers must be a multiple of, however they lie.
    pub fn whole_block_alignment(&self) -> u64 {
        match self.stride {
            StrideAlignment::WholeBlock(bytes) => bytes.max(1),
            StrideAlignment::None
            | StrideAlignment::Bytes(_)
            | StrideAlignment::KernelBlocks(_) => 1,
        }
    }

    /// Whether the two may share a block table though their pages differ.
    /// Mirrors `UniformTypeKVCacheSpecs.is_uniform_type`.
    pub fn same_type(&self, other: &Self) -> bool {
        self.block_size == other.block_size
            && match self.kind {
                SpecKind::FullAttention | SpecKind::MlaAttention | SpecKind::UniformType => {
                    other.kind.is_full()
                }
                SpecKind::SlidingWindow => {
                    other.kind.is_window() && self.sliding_window == other.sliding_window
                }
                SpecKind::SlidingWindowMla => {
                    other.kind == self.kind && self.sliding_window == other.sliding_window
                }
                SpecKind::ChunkedLocalAttention => {
                    other.kind == self.kind
                        && self.attention_chunk_size == other.attention_chunk_size
                }
                SpecKind::Mamba => {
                    other.kind == self.kind && self.page_size_bytes() == other.page_size_bytes()
                }
            }
    }

    /// The one spec of layers that need not be told apart, if these are such;
    /// `Err` where vLLM stops. Mirrors the classes' `merge`.
    pub fn merge(specs: &[&Self]) -> Result<Option<Self>, Box<Refusal>> {
        let Some((first, rest)) = specs.split_first() else {
            return Ok(None);
        };
        if first.kind != SpecKind::FullAttention {
            return Ok(rest.iter().all(|spec| spec == first).then_some(**first));
        }
        let mut merged = **first;
        for spec in rest {
            let same = Self {
                role: first.role,
                sliding_window: first.sliding_window,
                attention_chunk_size: first.attention_chunk_size,
                ..**spec
            };
            if same != **first {
                return Ok(None);
            }
            merged.sliding_window = one_size(merged.sliding_window, spec.sliding_window)?;
            merged.attention_chunk_size =
                one_size(merged.attention_chunk_size, spec.attention_chunk_size)?;
        }
        Ok(Some(merged))
    }
}

/// Mirrors `FullAttentionSpec.merge_window_sizes`.
fn one_size(a: Option<u64>, b: Option<u64>) -> Result<Option<u64>, Box<Refusal>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(Refusal::raised(
            Stage::Plan,
            "ValueError",
            "All attention layers in the same KV cache group must have the same window size.",
        )),
        (a, b) => Ok(a.or(b)),
    }
}

/// One layer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// What its name begins with: the target's, or the drafter's own.
    pub prefix: &'static str,
    /// Whether it is the drafter's.
    pub is_draft: bool,
    /// The pipeline stage that has it.
    pub stage: usize,
    /// Decoder layer it belongs to.
    pub index: u32,
    /// What follows the decoder layer's name in its own.
    pub suffix: &'static str,
    /// Its spec, as an index into [`Layers::specs`].
    pub spec: usize,
}

/// Every layer with a cache, in the order of the model, over distinct specs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layers {
    /// What the target's layers' names begin with, such as `model.layers`.
    pub prefix: &'static str,
    /// The distinct specs, in order of first appearance.
    pub specs: Vec<LayerSpec>,
    /// The layers.
    pub list: Vec<Layer>,
}

impl Layers {
    /// None yet.
    pub(crate) fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// For tests: a layer of each spec, in this order.
    #[cfg(test)]
    pub(crate) fn of(specs: &[LayerSpec]) -> Self {
        let mut layers = Self::new("model.layers");
        for (index, spec) in (0..).zip(specs) {
            layers.push(index, "attn", *spec);
        }
        layers
    }

    /// Appends a layer.
    pub(crate) fn push(&mut self, index: u32, suffix: &'static str, spec: LayerSpec) {
        let spec = self.place(spec);
        self.push_placed(index, suffix, spec);
    }

    /// Where a spec is among the distinct ones, the last of them if it is new.
    pub(crate) fn place(&mut self, spec: LayerSpec) -> usize {
        let known = self.specs.iter().position(|other| *other == spec);
        known.unwrap_or_else(|| {
            self.specs.push(spec);
            self.specs.len() - 1
        })
    }

    /// Appends a layer whose spec has its place.
    pub(crate) fn push_placed(&mut self, index: u32, suffix: &'static str, spec: usize) {
        self.list.push(Layer {
            prefix: self.prefix,
            is_draft: false,
            stage: 0,
            index,
            suffix,
            spec,
        });
    }

    /// Appends a drafter's layers.
    pub(crate) fn append(&mut self, draft: &Self) {
        for layer in &draft.list {
            self.push_as(
                Layer {
                    is_draft: true,
                    ..*layer
                },
                *draft.spec(*layer),
            );
        }
    }

    /// Appends a layer of another list, with its name.
    pub(crate) fn push_as(&mut self, layer: Layer, spec: LayerSpec) {
        self.push(layer.index, layer.suffix, spec);
        if let Some(last) = self.list.last_mut() {
            *last = Layer {
                spec: last.spec,
                ..layer
            };
        }
    }

    /// The layers of one pipeline stage.
    pub(crate) fn of_stage(&self, stage: usize) -> Self {
        let list = self.list.iter().copied();
        Self {
            list: list.filter(|layer| layer.stage == stage).collect(),
            ..self.clone()
        }
    }

    /// The layer's spec.
    pub fn spec(&self, layer: Layer) -> &LayerSpec {
        &self.specs[layer.spec]
    }

    /// The layer's name in the model.
    pub fn name(&self, layer: Layer) -> String {
        format!("{}.{}.{}", layer.prefix, layer.index, layer.suffix)
    }
}
