//! The backend of one layer, selected or fixed.

use std::fmt;

use super::AttentionBackend;

/// What serves one layer's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LayerBackend {
    /// Selected for the layer, or named by its model.
    Selected(AttentionBackend),
    /// Selected and wrapped for attention within chunks: a class of its own to
    /// vLLM, which keeps the name.
    ChunkedLocal(AttentionBackend),
    /// The only one of its kind of layer.
    Fixed(FixedBackend),
}

impl LayerBackend {
    /// vLLM's name (`get_name`).
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Selected(backend) | Self::ChunkedLocal(backend) => backend.as_str(),
            Self::Fixed(backend) => backend.as_str(),
        }
    }

    /// Whether it keeps states that do not grow with the length (`is_ssm`):
    /// such backends have no say in the block size.
    pub(crate) const fn is_ssm(self) -> bool {
        match self {
            Self::Selected(_) | Self::ChunkedLocal(_) => false,
            Self::Fixed(backend) => backend.is_ssm(),
        }
    }
}

impl fmt::Display for LayerBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Backends that no flag selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FixedBackend {
    /// `DEEPSEEK_V32_INDEXER`
    DeepseekV32Indexer,
    /// `GDN_ATTN`
    GdnAttn,
    /// `MAMBA2_ATTN`
    Mamba2Attn,
    /// `KIMI_K3_KDA`
    KimiK3Kda,
}

impl FixedBackend {
    /// vLLM's name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::DeepseekV32Indexer => "DEEPSEEK_V32_INDEXER",
            Self::GdnAttn => "GDN_ATTN",
            Self::Mamba2Attn => "MAMBA2_ATTN",
            Self::KimiK3Kda => "KIMI_K3_KDA",
        }
    }

    const fn is_ssm(self) -> bool {
        match self {
            Self::DeepseekV32Indexer => false,
            Self::GdnAttn | Self::Mamba2Attn | Self::KimiK3Kda => true,
        }
    }
}
