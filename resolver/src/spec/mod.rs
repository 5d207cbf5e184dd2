//! One layer's KV format. Mirrors `vllm/v1/kv_cache_interface.py`.

pub mod deepseek_v4;

use serde::{Serialize, Serializer};

use crate::dtype::{CacheDtype, KvQuantMode, TorchDtype};
use crate::error::Refusal;
use crate::units::{gcd, mul, round_up};

/// vLLM's class of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum SpecKind {
    /// `MLAAttentionSpec`
    #[serde(rename = "MLAAttentionSpec")]
    MlaAttention,
    /// `SlidingWindowMLASpec`
    #[serde(rename = "SlidingWindowMLASpec")]
    SlidingWindowMla,
    /// `UniformTypeKVCacheSpecs`: a group whose layers differ in bytes alone.
    #[serde(rename = "UniformTypeKVCacheSpecs")]
    UniformType,
}

impl SpecKind {
    /// vLLM's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MlaAttention => "MLAAttentionSpec",
            Self::SlidingWindowMla => "SlidingWindowMLASpec",
            Self::UniformType => "UniformTypeKVCacheSpecs",
        }
    }
}

/// What a layer of a model stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerRole {
    /// `window`: the last tokens, whole.
    Window,
    /// `c4`: older tokens, 4 to a state.
    C4,
    /// `c128`: older tokens, 128 to a state.
    C128,
    /// `indexer`: keys by which 4:1 states are chosen.
    Indexer,
    /// `c4_state`: what the 4:1 compressor carries over.
    C4State,
    /// `c128_state`: what the 128:1 compressor carries over.
    C128State,
    /// `indexer_state`: what the indexer's compressor carries over.
    IndexerState,
}

impl LayerRole {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::C4 => "c4",
            Self::C128 => "c128",
            Self::Indexer => "indexer",
            Self::C4State => "c4_state",
            Self::C128State => "c128_state",
            Self::IndexerState => "indexer_state",
        }
    }

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::C4 => "C4",
            Self::C128 => "C128",
            Self::Indexer => "indexer",
            Self::C4State => "C4 states",
            Self::C128State => "C128 states",
            Self::IndexerState => "indexer states",
        }
    }

    /// What it is, in a sentence.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Window => "the last tokens, each whole",
            Self::C4 => "older tokens, 4 compressed into one state",
            Self::C128 => "older tokens, 128 compressed into one state",
            Self::Indexer => "keys by which each query picks C4 states",
            Self::C4State => "what the C4 compressor carries from token to token",
            Self::C128State => "what the C128 compressor carries from token to token",
            Self::IndexerState => "what the indexer's compressor carries from token to token",
        }
    }

    /// What follows `model.layers.N.` in the layer's name.
    pub const fn name_suffix(self) -> &'static str {
        match self {
            Self::Window => "attn.swa_cache",
            Self::C4 | Self::C128 => "attn",
            Self::Indexer => "attn.indexer.k_cache",
            Self::C4State | Self::C128State => "attn.compressor.state_cache",
            Self::IndexerState => "attn.indexer.compressor.state_cache",
        }
    }
}

impl Serialize for LayerRole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
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
    pub dtype: TorchDtype,
    /// Bytes of one stored state, where rows are packed.
    pub state_content_bytes: Option<u64>,
    pub tokens_per_state: u64,
    /// Window in tokens.
    pub sliding_window: Option<u64>,
    /// Page alignment in bytes.
    pub alignment: Option<u64>,
    pub page_size_padded: Option<u64>,
    pub cache_dtype: Option<CacheDtype>,
    pub kv_quant_mode: KvQuantMode,
    /// Kernel block that the backend insists on, in tokens: blocks that are
    /// split must keep each of them whole.
    pub kernel_block_size: Option<u64>,
}

impl LayerSpec {
    /// Stored states in a page.
    pub const fn num_states(&self) -> u64 {
        match self.block_size.checked_div(self.tokens_per_state) {
            Some(states) => states,
            None => 1,
        }
    }

    /// Bytes of one stored state; MLA has no separate V.
    pub fn slot_bytes(&self) -> Result<u64, Refusal> {
        match self.state_content_bytes {
            Some(bytes) => Ok(bytes),
            None => mul(self.head_size, self.dtype.size_bytes()),
        }
    }

    /// Bytes of the states alone.
    pub fn unpadded_page_size_bytes(&self) -> Result<u64, Refusal> {
        mul(
            mul(self.num_kv_heads, self.num_states())?,
            self.slot_bytes()?,
        )
    }

    /// Bytes of a page as it is laid out.
    pub fn page_size_bytes(&self) -> Result<u64, Refusal> {
        match self.page_size_padded {
            Some(padded) => Ok(padded),
            None => self.unpadded_page_size_bytes(),
        }
    }

    /// The spec with its page padded to its alignment, as its constructor
    /// leaves it. Mirrors `_apply_alignment_padding`.
    pub fn aligned(mut self) -> Result<Self, Refusal> {
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
    pub fn block_stride_alignment(&self) -> Result<u64, Refusal> {
        let Some(kernel) = self.kernel_block_size else {
            return Ok(1);
        };
        let kernel = gcd(kernel, self.block_size);
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

    /// Whether the two may share a block table.
    /// Mirrors `UniformTypeKVCacheSpecs.is_uniform_type`.
    pub fn same_type(&self, other: &Self) -> bool {
        self.block_size == other.block_size
            && self.kind == other.kind
            && match self.kind {
                SpecKind::SlidingWindowMla => self.sliding_window == other.sliding_window,
                SpecKind::MlaAttention | SpecKind::UniformType => true,
            }
    }
}

/// One layer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Decoder layer it belongs to.
    pub index: u32,
    /// Its spec, as an index into [`Layers::specs`].
    pub spec: usize,
}

/// Every layer with a cache, in the order of the model, over distinct specs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layers {
    /// The distinct specs, in order of first appearance.
    pub specs: Vec<LayerSpec>,
    /// The layers.
    pub list: Vec<Layer>,
}

impl Layers {
    /// Appends a layer.
    pub(crate) fn push(&mut self, index: u32, spec: LayerSpec) {
        let known = self.specs.iter().position(|other| *other == spec);
        let spec = known.unwrap_or_else(|| {
            self.specs.push(spec);
            self.specs.len() - 1
        });
        self.list.push(Layer { index, spec });
    }

    /// The layer's spec.
    pub fn spec(&self, layer: Layer) -> &LayerSpec {
        &self.specs[layer.spec]
    }

    /// The layer's name in the model.
    pub fn name(&self, layer: Layer) -> String {
        format!(
            "model.layers.{}.{}",
            layer.index,
            self.spec(layer).role.name_suffix()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c4(block_size: u64) -> LayerSpec {
        LayerSpec {
            role: LayerRole::C4,
            kind: SpecKind::MlaAttention,
            block_size,
            num_kv_heads: 1,
            head_size: 512,
            dtype: TorchDtype::Uint8,
            state_content_bytes: Some(584),
            tokens_per_state: 4,
            sliding_window: None,
            alignment: Some(576),
            page_size_padded: None,
            cache_dtype: Some(CacheDtype::Fp8DsMla),
            kv_quant_mode: KvQuantMode::Fp8PerTensor,
            kernel_block_size: Some(256),
        }
        .aligned()
        .unwrap()
    }

    #[test]
    fn a_page_is_padded_to_its_alignment() {
        assert_eq!(c4(256).unpadded_page_size_bytes(), Ok(64 * 584));
        assert_eq!(c4(256).page_size_bytes(), Ok(37_440));
    }

    #[test]
    fn only_split_blocks_constrain_the_stride() {
        assert_eq!(c4(256).block_stride_alignment(), Ok(1));
        assert_eq!(c4(128).block_stride_alignment(), Ok(1));
        assert_eq!(c4(512).block_stride_alignment(), Ok(37_440));
    }
}
