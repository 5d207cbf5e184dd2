//! Plain attention in every layer: Llama, Qwen3, Mixtral, MiniMax M2.

use super::{MOST_LAYERS, MOST_WIDTH};
use crate::model::ModelError;
use crate::model::decoder::{
    Attention, Boundary, Decoder, DecoderLayer, DtypeHook, HeadSharing, LayerKind,
};
use crate::model::fields::{array, boolean, integer, integer_or};
use crate::value::Value;

/// A model with plain attention alone. `own_head_dim`: whether the model's
/// class has a `head_dim` of its own that config.json may leave out.
pub(in crate::model) fn decoder(
    config: &Value,
    prefix: &'static str,
) -> Result<Decoder, ModelError> {
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    let attention = Attention {
        kv_heads: kv_heads(config)?,
        sharing: HeadSharing::Asserted,
        head_dim: head_dim(config)?,
        head_dim_v: head_dim(config)?,
        window: window(config)?,
        chunk: None,
        sinks: false,
    };
    Ok(plain(
        prefix,
        (0..u32::try_from(count).unwrap_or(u32::MAX))
            .map(|index| DecoderLayer {
                index,
                suffix: "self_attn.attn",
                kind: LayerKind::Attention(attention),
            })
            .collect(),
    ))
}

/// A decoder without MLA.
pub(super) fn plain(prefix: &'static str, layers: Vec<DecoderLayer>) -> Decoder {
    Decoder {
        prefix,
        layers,
        mla: None,
        index_topk: None,
        index_head_dim: 0,
        dtype_hook: DtypeHook::None,
        boundary: Boundary::Ends,
    }
}

/// `num_key_value_heads`, or one for each query head.
pub(super) fn kv_heads(config: &Value) -> Result<u64, ModelError> {
    let heads = integer(config, "num_attention_heads", 1, MOST_WIDTH)?;
    integer_or(config, "num_key_value_heads", 1, MOST_WIDTH, heads)
}

/// `head_dim`, or the hidden size shared out.
pub(super) fn head_dim(config: &Value) -> Result<u64, ModelError> {
    if config.get_set("head_dim").is_some() {
        return integer(config, "head_dim", 1, MOST_WIDTH);
    }
    let hidden = integer(config, "hidden_size", 1, MOST_WIDTH)?;
    let heads = integer(config, "num_attention_heads", 1, MOST_WIDTH)?;
    Ok(hidden / heads)
}

/// A window in every layer, as Mistral has it. Qwen's files name one that is
/// switched off.
fn window(config: &Value) -> Result<Option<u64>, ModelError> {
    if array(config, "layer_types")?.is_some_and(|types| {
        types
            .iter()
            .any(|kind| kind.as_str() != Some("full_attention"))
    }) {
        return Err(ModelError::Unmodelled(
            "`layer_types` other than full_attention are not modelled for this architecture".into(),
        ));
    }
    match boolean(config, "use_sliding_window")? {
        Some(true) => Err(ModelError::Unmodelled(
            "`use_sliding_window` is not modelled for this architecture".into(),
        )),
        None if config.get_set("sliding_window").is_some() => {
            integer(config, "sliding_window", 1, MOST_WIDTH).map(Some)
        }
        Some(false) | None => Ok(None),
    }
}
