//! What pages of MLA, of DeepSeek's indexers and of DeepSeek V4 hold.

use super::Source;
use super::contents::{Contents, E2M1, E4M3, FLOAT32, Unknown, row_type, torch_name};
use super::makings::{Makings, RowMakings};
use crate::dtype::{CacheDtype, KvQuantMode, TorchDtype};
use crate::gpu::Arch;
use crate::spec::{LayerRole, LayerSpec};

const BFLOAT16: &str = "bfloat16";
const UE8M0: &str = "ue8m0";
const LATENT: &str = "the latent vector";
const BOTH: &str = "the latent vector and the rotated part of the key";
const NOPE: &str = "the part that is not rotated";
const ROPE: &str = "the part of the key that is rotated";

/// DeepSeek V4's packed row in fp8: elements without RoPE, elements with it.
const PACKED_NOPE: u64 = 448;
const PACKED_ROPE: u64 = 64;
/// Elements of it that share a scale.
const PACKED_QUANT_BLOCK: u64 = 64;
/// Elements of an indexer's key that share a scale.
const INDEXER_QUANT_BLOCK: u64 = 128;

pub(super) fn contents(makings: &Makings, row: &RowMakings) -> Result<Contents, Unknown> {
    let spec = &row.spec;
    match spec.role {
        LayerRole::Mla => mla(makings, spec),
        LayerRole::Indexer => indexer(makings, row),
        LayerRole::Window | LayerRole::C4 | LayerRole::C128 => v4_rows(makings, spec),
        LayerRole::C4State | LayerRole::C128State | LayerRole::IndexerState => {
            Ok(compressor(makings, spec))
        }
        LayerRole::Attention
        | LayerRole::SlidingWindow
        | LayerRole::ChunkedLocal
        | LayerRole::LinearState => Err("not a latent row"),
    }
}

/// One latent vector and one rotated key for all heads.
fn mla(makings: &Makings, spec: &LayerSpec) -> Result<Contents, Unknown> {
    match (spec.cache_dtype, spec.state_content_bytes) {
        (Some(CacheDtype::Fp8DsMla), _) => Ok(fp8_ds_mla()),
        (Some(CacheDtype::Nvfp4DsMla), _) => Ok(nvfp4_ds_mla()),
        (_, None) => Ok(plain(makings, spec)),
        (_, Some(bytes)) => per_token_head(spec, bytes),
    }
}

const FLASHMLA_NOTE: Source = Source {
    file: "vllm/v1/attention/backends/mla/flashmla_sparse.py",
    function: "its note on the formats of the cache",
};

/// 656 bytes. Mirrors `vllm/models/deepseek_v32/common/kernels.py` `_fused_norm_rope_kernel`.
fn fp8_ds_mla() -> Contents {
    let mut made = Contents::new(FLASHMLA_NOTE);
    made.values("nope", (512, 512), E4M3, LATENT);
    made.scales("scales", (16, 4), FLOAT32, "a scale per 128 elements");
    made.values("rope", (128, 64), BFLOAT16, ROPE);
    made
}

/// 352 bytes.
fn nvfp4_ds_mla() -> Contents {
    let mut made = Contents::new(FLASHMLA_NOTE);
    made.values(
        "nope",
        (256, 512),
        E2M1,
        "the latent vector, two codes a byte, the even one low",
    );
    made.values("rope", (64, 64), E4M3, "the rotated part, without a scale");
    made.scales(
        "scales",
        (32, 32),
        E4M3,
        "a scale per 16 codes; that of block s is byte 8 * (s & 3) + (s >> 2)",
    );
    made
}

/// Mirrors `vllm/model_executor/layers/attention/mla_attention.py`: the latent
/// vector, then the rotated key.
fn plain(makings: &Makings, spec: &LayerSpec) -> Contents {
    let mut made = Contents::new(Source {
        file: "vllm/_custom_ops.py",
        function: "concat_and_cache_mla",
    });
    let element = row_type(spec, makings.cache_dtype);
    let size = |elements: u64| (elements.saturating_mul(spec.dtype.size_bytes()), elements);
    match makings.mla.filter(|dims| dims.row() == spec.head_size) {
        Some(dims) => {
            made.values("nope", size(dims.kv_lora_rank), element, LATENT);
            made.values("rope", size(dims.qk_rope_head_dim), element, ROPE);
        }
        None => made.values("row", size(spec.head_size), element, BOTH),
    }
    made
}

/// Mirrors `vllm/model_executor/layers/attention/mla_attention.py`
/// `MLACommonBackend.customize_spec`.
fn per_token_head(spec: &LayerSpec, bytes: u64) -> Result<Contents, Unknown> {
    const SCALES: u64 = 8;
    let element = match spec.kv_quant_mode {
        KvQuantMode::Int8PerTokenHead => "int8",
        KvQuantMode::Int4PerTokenHead => "int4",
        KvQuantMode::Fp8PerTokenHead => E4M3,
        _ => return Err("the packing of this row is not modelled"),
    };
    let codes = bytes.saturating_sub(SCALES);
    let mut made = Contents::new(Source {
        file: "vllm/model_executor/layers/attention/mla_attention.py",
        function: "MLACommonBackend.customize_spec",
    });
    made.values("row", (codes, spec.head_size), element, BOTH);
    made.scales("scales", (SCALES, 2), FLOAT32, "a pair of scales");
    Ok(made)
}

/// All keys of a block, then their scales.
fn indexer(makings: &Makings, row: &RowMakings) -> Result<Contents, Unknown> {
    let spec = &row.spec;
    let profile = makings.release.profile();
    // a key and four bytes for each of its blocks
    let key = spec.head_size / (INDEXER_QUANT_BLOCK + 4) * INDEXER_QUANT_BLOCK;
    if key != INDEXER_QUANT_BLOCK || spec.head_size != key + 4 {
        return Err("an indexer's key of another size than 128 is not modelled");
    }
    let source = if row.backend.is_some() {
        Source {
            file: "vllm/models/deepseek_v32/common/kernels.py",
            function: "_fp8_quant_and_cache_write",
        }
    } else {
        Source {
            file: profile.files.v4_compress,
            function: "_fused_kv_compress_norm_rope_insert_indexer_attn",
        }
    };
    let mut made = Contents::new(source);
    made.values("key", (key, key), E4M3, "the key by which a query picks");
    made.region(source);
    if profile.indexer_repeats_scales && makings.arch == Arch::Sm100 {
        made.scales("scale", (4, 4), UE8M0, "the key's scale, four times over");
    } else {
        made.scales("scale", (4, 1), FLOAT32, "the key's scale, a power of two");
    }
    Ok(made)
}

/// DeepSeek V4's rows: packed, with a footer of scales, or plain.
fn v4_rows(makings: &Makings, spec: &LayerSpec) -> Result<Contents, Unknown> {
    let files = &makings.release.profile().files;
    let source = if spec.role == LayerRole::Window {
        Source {
            file: files.v4_writer,
            function: "quantize_and_insert_k_cache",
        }
    } else {
        Source {
            file: files.v4_compress,
            function: "_fused_kv_compress_norm_rope_insert_sparse_attn",
        }
    };
    if spec.state_content_bytes.is_some() {
        if spec.cache_dtype != Some(CacheDtype::Fp8DsMla) {
            return Err("a packed window beside plain rows is not modelled");
        }
        let count = PACKED_NOPE / PACKED_QUANT_BLOCK;
        let mut made = Contents::new(source);
        made.values("nope", (PACKED_NOPE, PACKED_NOPE), E4M3, NOPE);
        made.values("rope", (2 * PACKED_ROPE, PACKED_ROPE), BFLOAT16, ROPE);
        made.region(source);
        made.scales(
            "scales",
            (count, count),
            UE8M0,
            "a power of two per 64 elements",
        );
        made.pad(1, "the byte that makes eight of seven scales");
        return Ok(made);
    }
    let element = match spec.dtype {
        TorchDtype::Uint8 => return Err("rows of bytes that are not packed"),
        dtype => torch_name(dtype),
    };
    let size = |elements: u64| (elements.saturating_mul(spec.dtype.size_bytes()), elements);
    let nope = spec
        .head_size
        .checked_sub(PACKED_ROPE)
        .ok_or("a row shorter than its rotated part")?;
    let mut made = Contents::new(Source {
        file: files.v4_attention,
        function: "DeepseekV4Attention.get_kv_cache_spec",
    });
    made.values("nope", size(nope), element, NOPE);
    made.values("rope", size(PACKED_ROPE), element, ROPE);
    Ok(made)
}

/// What waits for its state: values, then scores, of each token.
fn compressor(makings: &Makings, spec: &LayerSpec) -> Contents {
    let half = spec.head_size / 2;
    let size = (half.saturating_mul(spec.dtype.size_bytes()), half);
    let element = torch_name(spec.dtype);
    let mut made = Contents::new(Source {
        file: makings.release.profile().files.v4_states,
        function: "its kernel, on kv_state and score_state",
    });
    made.values("kv", size, element, "what of the token goes into the state");
    made.scales("score", size, element, "by how much each counts");
    made
}
