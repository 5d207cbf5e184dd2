//! `--kv-cache-dtype`: every spelling, and the element types that rows are stored in.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::units::quoted;

/// A `--kv-cache-dtype` spelling of any modelled release.
/// Mirrors `vllm/config/cache.py` `CacheDType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheDtype {
    /// `auto`
    Auto,
    /// `float16`
    Float16,
    /// `bfloat16`
    Bfloat16,
    /// `fp8`
    Fp8,
    /// `fp8_e4m3`
    Fp8E4m3,
    /// `fp8_e5m2`
    Fp8E5m2,
    /// `fp8_inc`
    Fp8Inc,
    /// `fp8_ds_mla`
    Fp8DsMla,
    /// `nvfp4_ds_mla`
    Nvfp4DsMla,
    /// `turboquant_k8v4`
    TurboquantK8v4,
    /// `turboquant_4bit_nc`
    Turboquant4bitNc,
    /// `turboquant_k3v4_nc`
    TurboquantK3v4Nc,
    /// `turboquant_3bit_nc`
    Turboquant3bitNc,
    /// `octave_k3v4`
    OctaveK3v4,
    /// `octave_k3v3`
    OctaveK3v3,
    /// `octave_k3v3_compact`
    OctaveK3v3Compact,
    /// `ultraquant_4bit`
    Ultraquant4bit,
    /// `int4_per_token_head`
    Int4PerTokenHead,
    /// `int8_per_token_head`
    Int8PerTokenHead,
    /// `fp8_per_token_head`
    Fp8PerTokenHead,
    /// `nvfp4`
    Nvfp4,
    /// `nvfp4_4over6`
    Nvfp44over6,
}

/// A spelling that no modelled release knows.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown kv_cache_dtype {}", quoted(.0))]
pub struct UnknownCacheDtype(pub String);

impl CacheDtype {
    /// Every spelling of 0.33.0, in the order of vLLM's list.
    pub const ALL: [Self; 22] = [
        Self::Auto,
        Self::Float16,
        Self::Bfloat16,
        Self::Fp8,
        Self::Fp8E4m3,
        Self::Fp8E5m2,
        Self::Fp8Inc,
        Self::Fp8DsMla,
        Self::Nvfp4DsMla,
        Self::TurboquantK8v4,
        Self::Turboquant4bitNc,
        Self::TurboquantK3v4Nc,
        Self::Turboquant3bitNc,
        Self::OctaveK3v4,
        Self::OctaveK3v3,
        Self::OctaveK3v3Compact,
        Self::Ultraquant4bit,
        Self::Int4PerTokenHead,
        Self::Int8PerTokenHead,
        Self::Fp8PerTokenHead,
        Self::Nvfp4,
        Self::Nvfp44over6,
    ];

    /// The spelling on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Fp8 => "fp8",
            Self::Fp8E4m3 => "fp8_e4m3",
            Self::Fp8E5m2 => "fp8_e5m2",
            Self::Fp8Inc => "fp8_inc",
            Self::Fp8DsMla => "fp8_ds_mla",
            Self::Nvfp4DsMla => "nvfp4_ds_mla",
            Self::TurboquantK8v4 => "turboquant_k8v4",
            Self::Turboquant4bitNc => "turboquant_4bit_nc",
            Self::TurboquantK3v4Nc => "turboquant_k3v4_nc",
            Self::Turboquant3bitNc => "turboquant_3bit_nc",
            Self::OctaveK3v4 => "octave_k3v4",
            Self::OctaveK3v3 => "octave_k3v3",
            Self::OctaveK3v3Compact => "octave_k3v3_compact",
            Self::Ultraquant4bit => "ultraquant_4bit",
            Self::Int4PerTokenHead => "int4_per_token_head",
            Self::Int8PerTokenHead => "int8_per_token_head",
            Self::Fp8PerTokenHead => "fp8_per_token_head",
            Self::Nvfp4 => "nvfp4",
            Self::Nvfp44over6 => "nvfp4_4over6",
        }
    }

    /// How kernels are told to dequantise.
    /// Mirrors `vllm/v1/kv_cache_interface.py` `get_kv_quant_mode`.
    #[must_use]
    pub const fn quant_mode(self) -> KvQuantMode {
        match self {
            Self::Auto | Self::Float16 | Self::Bfloat16 => KvQuantMode::None,
            Self::Fp8 | Self::Fp8E4m3 | Self::Fp8E5m2 | Self::Fp8Inc | Self::Fp8DsMla => {
                KvQuantMode::Fp8PerTensor
            }
            Self::Nvfp4DsMla => KvQuantMode::Nvfp4DsMla,
            Self::TurboquantK8v4 => KvQuantMode::TurboquantK8v4,
            Self::Turboquant4bitNc => KvQuantMode::Turboquant4bitNc,
            Self::TurboquantK3v4Nc => KvQuantMode::TurboquantK3v4Nc,
            Self::Turboquant3bitNc => KvQuantMode::Turboquant3bitNc,
            Self::OctaveK3v4 => KvQuantMode::OctaveK3v4,
            Self::OctaveK3v3 => KvQuantMode::OctaveK3v3,
            Self::OctaveK3v3Compact => KvQuantMode::OctaveK3v3Compact,
            Self::Ultraquant4bit => KvQuantMode::Ultraquant4bit,
            Self::Int4PerTokenHead => KvQuantMode::Int4PerTokenHead,
            Self::Int8PerTokenHead => KvQuantMode::Int8PerTokenHead,
            // an "fp8…" spelling that is tested for before the prefix
            Self::Fp8PerTokenHead => KvQuantMode::Fp8PerTokenHead,
            Self::Nvfp4 | Self::Nvfp44over6 => KvQuantMode::Nvfp4,
        }
    }

    /// Whether the spelling begins with `fp8`, which several rules ask.
    #[must_use]
    pub fn is_fp8_spelling(self) -> bool {
        self.as_str().starts_with("fp8")
    }

    /// Whether vLLM leaves the first and last layers unquantised with it.
    /// Mirrors `vllm/engine/arg_utils.py`, where `kv_cache_dtype_skip_layers` is filled.
    pub const fn skips_boundary_layers(self) -> bool {
        matches!(
            self,
            Self::TurboquantK8v4
                | Self::Turboquant4bitNc
                | Self::TurboquantK3v4Nc
                | Self::Turboquant3bitNc
                | Self::Ultraquant4bit
        )
    }

    /// Whether it is the plain NVFP4 format, for caches with K and V.
    #[must_use]
    pub const fn is_plain_nvfp4(self) -> bool {
        matches!(self, Self::Nvfp4 | Self::Nvfp44over6)
    }
}

impl fmt::Display for CacheDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for CacheDtype {
    type Err = UnknownCacheDtype;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.as_str() == text)
            .ok_or_else(|| UnknownCacheDtype(text.to_owned()))
    }
}

impl Serialize for CacheDtype {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The element type of a stored row, by torch's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TorchDtype {
    /// `uint8`: opaque packed bytes.
    Uint8,
    /// `int8`
    Int8,
    /// `float16`
    Float16,
    /// `bfloat16`
    Bfloat16,
    /// `float8_e4m3fn`
    #[serde(rename = "float8_e4m3fn")]
    Float8E4m3fn,
    /// `float32`
    Float32,
}

impl TorchDtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::Uint8 | Self::Int8 | Self::Float8E4m3fn => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 => 4,
        }
    }
}

/// vLLM's quantisation mode of a cache, by its name there.
/// Mirrors `vllm/v1/kv_cache_interface.py` `KVQuantMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs)] // each is the spelling's own mode
pub enum KvQuantMode {
    None,
    Fp8PerTensor,
    Int8PerTokenHead,
    Fp8PerTokenHead,
    Int4PerTokenHead,
    Nvfp4,
    #[serde(rename = "TURBOQUANT_K8V4")]
    TurboquantK8v4,
    #[serde(rename = "TURBOQUANT_4BIT_NC")]
    Turboquant4bitNc,
    #[serde(rename = "TURBOQUANT_K3V4_NC")]
    TurboquantK3v4Nc,
    #[serde(rename = "TURBOQUANT_3BIT_NC")]
    Turboquant3bitNc,
    Nvfp4DsMla,
    #[serde(rename = "ULTRAQUANT_4BIT")]
    Ultraquant4bit,
    #[serde(rename = "OCTAVE_K3V4")]
    OctaveK3v4,
    #[serde(rename = "OCTAVE_K3V3")]
    OctaveK3v3,
    #[serde(rename = "OCTAVE_K3V3_COMPACT")]
    OctaveK3v3Compact,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_round_trip() {
        for dtype in CacheDtype::ALL {
            assert_eq!(dtype.as_str().parse(), Ok(dtype));
        }
        assert_eq!(
            "FP8".parse::<CacheDtype>(),
            Err(UnknownCacheDtype("FP8".to_owned()))
        );
    }
}
