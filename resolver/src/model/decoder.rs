//! A decoder as the layers that keep something.

use crate::dtype::TorchDtype;

/// The layers of a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoder {
    /// What every layer's name begins with.
    pub prefix: &'static str,
    /// The layers with a cache, in order.
    pub layers: Vec<DecoderLayer>,
    /// Dimensions of MLA, if any layer has it.
    pub mla: Option<MlaDims>,
    /// Tokens that an indexer picks, if there is one.
    pub index_topk: Option<u64>,
    /// Elements of an indexer's key.
    pub index_head_dim: u64,
    /// What the architecture's own hook does to the cache dtype.
    pub dtype_hook: DtypeHook,
    /// Where the layers read their windows.
    pub windows: WindowSource,
    /// Which layers vLLM counts when it leaves the first and last unquantised.
    pub boundary: Boundary,
}

/// One layer with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderLayer {
    /// Its number.
    pub index: u32,
    /// What follows the number in its name.
    pub suffix: &'static str,
    /// What it keeps.
    pub kind: LayerKind,
}

/// What a layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// K and V.
    Attention(Attention),
    /// One latent vector.
    Mla {
        /// Whether it has an indexer of its own, before it.
        indexer: bool,
    },
    /// A state.
    Linear(Linear),
}

/// K and V of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// KV heads of the whole model.
    pub kv_heads: u64,
    /// How they are shared out.
    pub sharing: HeadSharing,
    /// Elements of a K row.
    pub head_dim: u64,
    /// Elements of a V row.
    pub head_dim_v: u64,
    /// Window in tokens.
    pub window: Option<u64>,
    /// Chunk in tokens.
    pub chunk: Option<u64>,
    /// Whether each head has a sink.
    pub sinks: bool,
}

impl Attention {
    /// To every token, with K and V rows alike and no sinks.
    pub const fn full(kv_heads: u64, sharing: HeadSharing, head_dim: u64) -> Self {
        Self {
            kv_heads,
            sharing,
            head_dim,
            head_dim_v: head_dim,
            window: None,
            chunk: None,
            sinks: false,
        }
    }
}

/// KV heads over tensor-parallel ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadSharing {
    /// They divide, or are replicated evenly; anything else is a bare assertion.
    Asserted,
    /// At least one on each rank, unchecked.
    AtLeastOne,
    /// The quotient, whatever it is.
    Quotient,
}

/// The state of a linear-attention or Mamba layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Which kernel keeps it.
    pub kernel: LinearKernel,
    /// Rows of the convolution's state.
    pub conv_len: u64,
    /// Its width over all ranks, without what does not divide.
    pub conv_dim: u64,
    /// Heads over all ranks.
    pub heads: u64,
    /// Rows of one head's state.
    pub rows: u64,
    /// Columns of one head's state.
    pub columns: u64,
    /// The type of the recurrent state's elements, if config.json says.
    pub state_dtype: Option<TorchDtype>,
    /// Mamba2's groups and the width that each adds to the convolution.
    pub groups: Option<(u64, u64)>,
}

/// Kernels of linear attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinearKernel {
    /// `GDN_ATTN`
    Gdn,
    /// `MAMBA2_ATTN`
    Mamba2,
    /// `KIMI_K3_KDA`
    Kda,
}

impl LinearKernel {
    /// vLLM's name of the backend.
    pub const fn backend(self) -> &'static str {
        match self {
            Self::Gdn => "GDN_ATTN",
            Self::Mamba2 => "MAMBA2_ATTN",
            Self::Kda => "KIMI_K3_KDA",
        }
    }
}

/// Dimensions of MLA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MlaDims {
    /// `qk_nope_head_dim`
    pub qk_nope_head_dim: u64,
    /// `qk_rope_head_dim`
    pub qk_rope_head_dim: u64,
    /// `v_head_dim`
    pub v_head_dim: u64,
    /// `kv_lora_rank`
    pub kv_lora_rank: u64,
}

impl MlaDims {
    /// Elements of a stored row.
    pub const fn row(self) -> u64 {
        self.kv_lora_rank + self.qk_rope_head_dim
    }
}

/// What the architecture's hook does to `--kv-cache-dtype` when the config is
/// made. Mirrors `vllm/model_executor/models/config.py`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DtypeHook {
    /// Nothing.
    None,
    /// DeepSeek V3.2: `bfloat16` is `auto`.
    BfloatIsAuto,
    /// GLM-5: `auto` is `fp8_e4m3` on SM100.
    AutoIsFp8OnSm100,
    /// Gemma 4: attention of two head sizes.
    TwoHeadSizes,
    /// MiMo V2: its layers were not always told of the cache's configuration.
    UntoldLayers,
}

/// Where layers read their windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSource {
    /// `sliding_window`, which `--disable-sliding-window` empties.
    Config,
    /// `sliding_window` of a class that must have one: emptying it fails.
    Strict,
    /// A field of their own, or `sliding_window` in a way that is not modelled
    /// without it.
    Own,
}

impl Decoder {
    /// The same layers without windows, for `--disable-sliding-window`.
    pub(crate) fn without_windows(&self) -> Self {
        let mut decoder = self.clone();
        for layer in &mut decoder.layers {
            if let LayerKind::Attention(attention) = &mut layer.kind {
                attention.window = None;
            }
        }
        decoder
    }

    /// The same model with these decoder layers alone.
    pub(crate) fn stage(&self, range: &std::ops::Range<u64>) -> Self {
        let layers = self.layers.iter().copied();
        Self {
            layers: layers
                .filter(|layer| range.contains(&u64::from(layer.index)))
                .collect(),
            ..self.clone()
        }
    }

    /// Whether any layer has a window.
    pub(crate) fn has_windows(&self) -> bool {
        self.layers.iter().any(|layer| match layer.kind {
            LayerKind::Attention(attention) => attention.window.is_some(),
            LayerKind::Mla { .. } | LayerKind::Linear(_) => false,
        })
    }
}

/// Which layers are kept unquantised at the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// The first and last two of all.
    Ends,
    /// None: a hybrid.
    None,
    /// None, and its config has no list of its layers' types: packed dtypes
    /// refuse such a hybrid.
    Unlisted,
}
