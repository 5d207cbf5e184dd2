//! Windows and chunks among full attention: gpt-oss, Gemma 4, MiMo V2, Llama 4.

use super::count;
use super::dense::{head_dim, kv_heads, plain};
use crate::model::ModelError;
use crate::model::bounds::{MOST_LAYERS, MOST_WIDTH};
use crate::model::decoder::{
    Attention, Decoder, DecoderLayer, DtypeHook, HeadSharing, LayerKind, WindowSource,
};
use crate::model::fields::{
    boolean, integer, integer_or, of_each_layer, one_or_zero, per_layer, text,
};
use crate::value::Value;

/// gpt-oss: a window on every even layer, whatever `layer_types` says.
/// Mirrors `vllm/model_executor/models/gpt_oss.py`.
pub(in crate::model) fn gpt_oss(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = count(config)?;
    of_each_layer(config, "layer_types", u64::from(count))?;
    let window = integer(config, "sliding_window", 1, MOST_WIDTH)?;
    let attention = Attention {
        sinks: true,
        ..Attention::full(
            kv_heads(config)?,
            HeadSharing::Quotient,
            integer(config, "head_dim", 1, MOST_WIDTH)?,
        )
    };
    let layers = (0..count).map(|index| DecoderLayer {
        index,
        suffix: "attn.attn",
        kind: LayerKind::Attention(Attention {
            window: index.is_multiple_of(2).then_some(window),
            ..attention
        }),
    });
    Ok(plain("model.layers", layers.collect()))
}

/// Gemma 4: two head sizes; the last layers may share an earlier one's cache.
/// Mirrors `vllm/model_executor/models/gemma4.py`.
pub(in crate::model) fn gemma4(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = count(config)?;
    let types = of_each_layer(config, "layer_types", u64::from(count))?;
    let types = types.ok_or(ModelError::Missing("layer_types"))?;
    let window = integer(config, "sliding_window", 1, MOST_WIDTH)?;
    let window = match text(config, "use_bidirectional_attention")? {
        Some("all") => window / 2 + 1,
        _ => window,
    };
    let sliding = Attention {
        window: Some(window),
        ..Attention::full(
            kv_heads(config)?,
            HeadSharing::Asserted,
            integer(config, "head_dim", 1, MOST_WIDTH)?,
        )
    };
    let global = integer_or(config, "global_head_dim", 1, MOST_WIDTH, 512)?;
    let equal = boolean(config, "attention_k_eq_v")? == Some(true);
    let full = Attention {
        kv_heads: if equal {
            integer_or(
                config,
                "num_global_key_value_heads",
                1,
                MOST_WIDTH,
                sliding.kv_heads,
            )?
        } else {
            sliding.kv_heads
        },
        head_dim: global,
        head_dim_v: global,
        window: None,
        ..sliding
    };
    let shared = integer_or(config, "num_kv_shared_layers", 0, MOST_LAYERS, 0)?;
    let mut layers = Vec::new();
    for (index, kind) in (0..count).zip(types) {
        // the last layer is full attention, whatever its type says
        let attention = match kind.as_str() {
            _ if index + 1 == count => full,
            Some("full_attention") => full,
            Some("sliding_attention") => sliding,
            _ => {
                return Err(ModelError::unmodelled(
                    "`layer_types` has an entry that is neither full_attention nor sliding_attention",
                ));
            }
        };
        if u64::from(index) + shared < u64::from(count) {
            layers.push(DecoderLayer {
                index,
                suffix: "self_attn.attn",
                kind: LayerKind::Attention(attention),
            });
        }
    }
    let mut decoder = plain("language_model.model.layers", layers);
    decoder.windows = WindowSource::Strict;
    if sliding.head_dim != full.head_dim {
        decoder.dtype_hook = DtypeHook::TwoHeadSizes;
    }
    Ok(decoder)
}

/// MiMo V2: K and V of different widths, and more KV heads in the windows.
/// Mirrors `vllm/model_executor/models/mimo_v2.py`.
pub(in crate::model) fn mimo_v2(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = count(config)?;
    let pattern = per_layer(config, "hybrid_layer_pattern", count, one_or_zero)?
        .ok_or(ModelError::Missing("hybrid_layer_pattern"))?;
    let full = Attention {
        kv_heads: kv_heads(config)?,
        sharing: HeadSharing::AtLeastOne,
        head_dim: integer(config, "head_dim", 1, MOST_WIDTH)?,
        head_dim_v: integer(config, "v_head_dim", 1, MOST_WIDTH)?,
        window: None,
        chunk: None,
        // vLLM looks at `add_swa_attention_sink_bias` alone
        sinks: false,
    };
    let sliding = mimo_v2_window(config)?;
    let layers = (0..count)
        .zip(pattern)
        .map(|(index, is_sliding)| DecoderLayer {
            index,
            suffix: "self_attn.attn",
            kind: LayerKind::Attention(if is_sliding { sliding } else { full }),
        });
    Ok(Decoder {
        windows: WindowSource::Own,
        dtype_hook: DtypeHook::UntoldLayers,
        ..plain("model.layers", layers.collect())
    })
}

/// MiMo V2's layers with a window, which its MTP layer is one of.
pub(in crate::model) fn mimo_v2_window(config: &Value) -> Result<Attention, Box<ModelError>> {
    let queries = config.get_set("swa_num_attention_heads");
    if queries.is_some() && queries != config.get("num_attention_heads") {
        return Err(ModelError::unmodelled(
            "`swa_num_attention_heads` other than `num_attention_heads` is not modelled",
        ));
    }
    Ok(Attention {
        kv_heads: integer(config, "swa_num_key_value_heads", 1, MOST_WIDTH)?,
        sharing: HeadSharing::AtLeastOne,
        head_dim: integer(config, "swa_head_dim", 1, MOST_WIDTH)?,
        head_dim_v: integer(config, "swa_v_head_dim", 1, MOST_WIDTH)?,
        window: Some(integer(config, "sliding_window_size", 1, MOST_WIDTH)?),
        chunk: None,
        sinks: boolean(config, "add_swa_attention_sink_bias")? == Some(true),
    })
}

/// Llama 4: chunks, but for the layers without RoPE.
/// Mirrors `vllm/model_executor/models/llama4.py`.
pub(in crate::model) fn llama4(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = count(config)?;
    let chunk = match config.get("attention_chunk_size") {
        Some(Value::Null) => None,
        _ => Some(integer_or(
            config,
            "attention_chunk_size",
            1,
            MOST_WIDTH,
            8192,
        )?),
    };
    let interval = integer_or(config, "no_rope_layer_interval", 1, MOST_LAYERS, 4)?;
    let is_empty = config.get("no_rope_layers") == Some(&Value::Array(Vec::new()));
    let rope = if is_empty {
        None
    } else {
        per_layer(config, "no_rope_layers", count, one_or_zero)?
    };
    let attention = Attention::full(kv_heads(config)?, HeadSharing::Asserted, head_dim(config)?);
    let layers = (0..count).map(|index| {
        let has_rope = match &rope {
            Some(rope) => rope[index as usize],
            None => !(u64::from(index) + 1).is_multiple_of(interval),
        };
        DecoderLayer {
            index,
            suffix: "self_attn.attn",
            kind: LayerKind::Attention(Attention {
                chunk: chunk.filter(|_| has_rope),
                ..attention
            }),
        }
    });
    Ok(plain("language_model.model.layers", layers.collect()))
}
