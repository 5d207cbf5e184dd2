//! Linear attention and Mamba among full attention: Qwen3.5, Nemotron, Kimi K3.

use super::count;
use super::dense::{head_dim, kv_heads, plain};
use super::mla::dims;
use crate::dtype::TorchDtype;
use crate::model::ModelError;
use crate::model::bounds::{MOST_LAYERS, MOST_WIDTH};
use crate::model::decoder::{
    Attention, Boundary, Decoder, DecoderLayer, HeadSharing, LayerKind, Linear, LinearKernel,
};
use crate::model::fields::{array, integer, integer_or, per_layer, text};
use crate::value::Value;

/// A state's dtype, by its name.
fn state_dtype(config: &Value, field: &'static str) -> Result<Option<TorchDtype>, Box<ModelError>> {
    match text(config, field)? {
        None | Some("auto") => Ok(None),
        Some("float32") => Ok(Some(TorchDtype::Float32)),
        Some("float16") => Ok(Some(TorchDtype::Float16)),
        Some("bfloat16") => Ok(Some(TorchDtype::Bfloat16)),
        Some(_) => Err(ModelError::unmodelled(format!(
            "`{field}` is none of float32, float16 and bfloat16"
        ))),
    }
}

pub(in crate::model) fn attention(config: &Value) -> Result<Attention, Box<ModelError>> {
    Ok(Attention::full(
        kv_heads(config)?,
        HeadSharing::Asserted,
        head_dim(config)?,
    ))
}

/// Qwen3.5 and 3.6: gated delta net. Mirrors `vllm/model_executor/models/qwen3_5.py`.
pub(in crate::model) fn qwen3_5(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = count(config)?;
    let interval = integer_or(config, "full_attention_interval", 1, MOST_LAYERS, 4)?;
    let types = per_layer(config, "layer_types", count, |kind| {
        match kind.as_str()? {
            "linear_attention" => Some(true),
            "full_attention" => Some(false),
            _ => None,
        }
    })?;
    let (key_heads, value_heads) = (
        integer_or(config, "linear_num_key_heads", 1, MOST_WIDTH, 16)?,
        integer_or(config, "linear_num_value_heads", 1, MOST_WIDTH, 32)?,
    );
    let (key_dim, value_dim) = (
        integer_or(config, "linear_key_head_dim", 1, MOST_WIDTH, 128)?,
        integer_or(config, "linear_value_head_dim", 1, MOST_WIDTH, 128)?,
    );
    let linear = Linear {
        kernel: LinearKernel::Gdn,
        conv_len: integer_or(config, "linear_conv_kernel_dim", 2, MOST_WIDTH, 4)? - 1,
        conv_dim: 2 * key_dim * key_heads + value_dim * value_heads,
        heads: value_heads,
        rows: value_dim,
        columns: key_dim,
        state_dtype: state_dtype(config, "mamba_ssm_dtype")?,
        groups: None,
    };
    let attention = attention(config)?;
    let layers = (0..count).map(|index| {
        let is_linear = match &types {
            Some(types) => types[index as usize],
            None => !(u64::from(index) + 1).is_multiple_of(interval),
        };
        let (suffix, kind) = if is_linear {
            ("linear_attn", LayerKind::Linear(linear))
        } else {
            ("self_attn.attn", LayerKind::Attention(attention))
        };
        DecoderLayer {
            index,
            suffix,
            kind,
        }
    });
    Ok(hybrid("language_model.model.layers", layers.collect()))
}

fn hybrid(prefix: &'static str, layers: Vec<DecoderLayer>) -> Decoder {
    Decoder {
        boundary: Boundary::None,
        ..plain(prefix, layers)
    }
}

/// Nemotron-H and Nemotron 3: Mamba2. Mirrors `vllm/model_executor/models/nemotron_h.py`.
pub(in crate::model) fn nemotron_h(config: &Value) -> Result<Decoder, Box<ModelError>> {
    // its layers would take it from the cache's config, which they are not looked at with here
    if config.get_set("sliding_window").is_some() {
        return Err(ModelError::unmodelled(
            "`sliding_window` is not modelled for this architecture",
        ));
    }
    let kinds = nemotron_pattern(config)?;
    let heads = integer(config, "mamba_num_heads", 1, MOST_WIDTH)?;
    let head_dim = integer(config, "mamba_head_dim", 1, MOST_WIDTH)?;
    let groups = integer(config, "n_groups", 1, MOST_WIDTH)?;
    let state = integer(config, "ssm_state_size", 1, MOST_WIDTH)?;
    let linear = Linear {
        kernel: LinearKernel::Mamba2,
        conv_len: integer(config, "conv_kernel", 2, MOST_WIDTH)? - 1,
        conv_dim: heads * head_dim,
        heads,
        rows: head_dim,
        columns: state,
        // silence is float32, but auto is the convolution's
        state_dtype: match config.get_set("mamba_ssm_cache_dtype") {
            None => Some(TorchDtype::Float32),
            Some(_) => state_dtype(config, "mamba_ssm_cache_dtype")?,
        },
        groups: Some((groups, 2 * state)),
    };
    let attention = nemotron_attention(config)?;
    let mut layers = Vec::new();
    for (index, kind) in (0_u32..).zip(kinds) {
        let (suffix, kind) = match kind {
            'M' => ("mixer", LayerKind::Linear(linear)),
            '*' => ("mixer.attn", LayerKind::Attention(attention)),
            _ => continue,
        };
        layers.push(DecoderLayer {
            index,
            suffix,
            kind,
        });
    }
    Ok(hybrid("model.layers", layers))
}

/// K and V of Nemotron's attention layers.
pub(in crate::model) fn nemotron_attention(config: &Value) -> Result<Attention, Box<ModelError>> {
    let head_dim = integer_or(config, "head_dim", 1, MOST_WIDTH, 128)?;
    Ok(Attention::full(
        kv_heads(config)?,
        HeadSharing::Asserted,
        head_dim,
    ))
}

/// `M`amba, `*` attention, `-` MLP or `E`xperts, for each layer.
pub(in crate::model) fn nemotron_pattern(config: &Value) -> Result<Vec<char>, Box<ModelError>> {
    let unknown = || {
        ModelError::unmodelled(
            "the layers' pattern has an entry that is none of Mamba, attention, MLP and experts",
        )
    };
    let pattern: Vec<char> = if let Some(pattern) = text(config, "hybrid_override_pattern")? {
        pattern.chars().collect()
    } else {
        let types = match array(config, "layers_block_type")? {
            Some(types) => types,
            None => array(config, "layer_types")?
                .ok_or(ModelError::Missing("hybrid_override_pattern"))?,
        };
        types
            .iter()
            .map(|kind| match kind.as_str() {
                Some("mamba" | "linear_attention") => Ok('M'),
                Some("attention" | "full_attention") => Ok('*'),
                Some("moe") => Ok('E'),
                Some("mlp") => Ok('-'),
                _ => Err(unknown()),
            })
            .collect::<Result<_, _>>()?
    };
    if pattern.len() as u64 > MOST_LAYERS || pattern.iter().any(|kind| !"M*-E".contains(*kind)) {
        return Err(unknown());
    }
    Ok(pattern)
}

/// Kimi K3: Kimi delta attention beside MLA.
/// Mirrors `vllm/model_executor/models/kimi_linear.py`.
pub(in crate::model) fn kimi_k3(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = count(config)?;
    let linear = config
        .get_set("linear_attn_config")
        .ok_or(ModelError::Missing("linear_attn_config"))?;
    let kda = array(linear, "kda_layers")?.ok_or(ModelError::Missing("kda_layers"))?;
    let (heads, dim) = (
        integer(linear, "num_heads", 1, MOST_WIDTH)?,
        integer(linear, "head_dim", 1, MOST_WIDTH)?,
    );
    let state = Linear {
        kernel: LinearKernel::Kda,
        conv_len: integer(linear, "short_conv_kernel_size", 2, MOST_WIDTH)? - 1,
        conv_dim: 3 * heads * dim,
        heads,
        rows: dim,
        columns: dim,
        state_dtype: Some(TorchDtype::Float32),
        groups: None,
    };
    // once through the list, however long it is; layers are counted from 1
    let mut is_linear = vec![false; count as usize];
    for entry in kda {
        let layer = entry.as_integer().ok_or_else(|| {
            ModelError::unmodelled("`kda_layers` has an entry that is no layer's number")
        })?;
        let place = layer.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        if let Some(place) = place.and_then(|at| is_linear.get_mut(at)) {
            *place = true;
        }
    }
    let layers = (0..count).map(|index| {
        let is_linear = is_linear[index as usize];
        DecoderLayer {
            index,
            suffix: "self_attn",
            kind: if is_linear {
                LayerKind::Linear(state)
            } else {
                LayerKind::Mla { indexer: false }
            },
        }
    });
    Ok(Decoder {
        mla: Some(dims(config)?),
        boundary: Boundary::Unlisted,
        ..hybrid("language_model.model.layers", layers.collect())
    })
}
