//! Plain attention in every layer: Llama, Qwen3, Mistral, Mixtral, MiniMax M2.

use crate::model::ModelError;
use crate::model::bounds::{MOST_LAYERS, MOST_WIDTH};
use crate::model::decoder::{
    Attention, Boundary, Decoder, DecoderLayer, DtypeHook, HeadSharing, LayerKind, WindowSource,
};
use crate::model::fields::{boolean, integer, integer_or, of_each_layer, text};
use crate::model::length::sliding_window;
use crate::value::Value;

/// What transformers' class has where config.json is silent.
#[derive(Clone, Copy)]
pub(in crate::model) struct Defaults {
    /// `num_key_value_heads`; `None`: as many as query heads.
    kv_heads: Option<u64>,
    /// `head_dim`; `None`: the hidden size shared out.
    head_dim: Option<u64>,
    /// `sliding_window`
    pub window: Option<u64>,
}

impl Defaults {
    /// Of `model_type`, from transformers 5.20's configuration classes.
    pub(in crate::model) fn of(model_type: &str) -> Self {
        let (kv_heads, head_dim, window) = match model_type {
            "mistral" => (Some(8), None, Some(4096)),
            "mixtral" => (Some(8), None, None),
            "qwen3" | "qwen3_vl" => (Some(32), Some(128), None),
            "qwen3_moe" => (Some(4), None, None),
            "qwen3_vl_moe" => (Some(16), Some(128), None),
            "minimax_m2" => (Some(8), Some(128), None),
            _ => (None, None, None),
        };
        Self {
            kv_heads,
            head_dim,
            window,
        }
    }

    /// K and V, to every token.
    pub(in crate::model) fn attention(self, config: &Value) -> Result<Attention, Box<ModelError>> {
        Ok(Attention::full(
            self.kv_heads(config)?,
            HeadSharing::Asserted,
            self.head_dim(config)?,
        ))
    }

    fn kv_heads(self, config: &Value) -> Result<u64, Box<ModelError>> {
        match (config.get("num_key_value_heads"), self.kv_heads) {
            (None, Some(heads)) => Ok(heads),
            _ => kv_heads(config),
        }
    }

    fn head_dim(self, config: &Value) -> Result<u64, Box<ModelError>> {
        match (config.get("head_dim"), self.head_dim) {
            (None, Some(width)) => Ok(width),
            _ => head_dim(config),
        }
    }
}

/// A model with plain attention alone.
pub(in crate::model) fn decoder(
    config: &Value,
    prefix: &'static str,
    defaults: Defaults,
) -> Result<Decoder, Box<ModelError>> {
    // `transformers/models/llama/configuration_llama.py` `LlamaConfig.validate_architecture`
    if text(config, "model_type")? == Some("llama")
        && integer(config, "hidden_size", 1, MOST_WIDTH)?
            % integer(config, "num_attention_heads", 1, MOST_WIDTH)?
            != 0
    {
        return Err(ModelError::unmodelled(
            "`hidden_size` is no multiple of `num_attention_heads`, which transformers refuses",
        ));
    }
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    let mut attention = defaults.attention(config)?;
    attention.window = window(config, defaults.window, count)?;
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
pub(in crate::model) fn plain(prefix: &'static str, layers: Vec<DecoderLayer>) -> Decoder {
    Decoder {
        prefix,
        layers,
        mla: None,
        index_topk: None,
        index_head_dim: 0,
        dtype_hook: DtypeHook::None,
        windows: WindowSource::Config,
        boundary: Boundary::Ends,
    }
}

/// `num_key_value_heads`, or one for each query head.
pub(super) fn kv_heads(config: &Value) -> Result<u64, Box<ModelError>> {
    let heads = integer(config, "num_attention_heads", 1, MOST_WIDTH)?;
    integer_or(config, "num_key_value_heads", 1, MOST_WIDTH, heads)
}

/// `head_dim`, or the hidden size shared out.
pub(super) fn head_dim(config: &Value) -> Result<u64, Box<ModelError>> {
    if config.get_set("head_dim").is_some() {
        return integer(config, "head_dim", 1, MOST_WIDTH);
    }
    let hidden = integer(config, "hidden_size", 1, MOST_WIDTH)?;
    let heads = integer(config, "num_attention_heads", 1, MOST_WIDTH)?;
    Ok(hidden / heads)
}

/// A window in every layer, as Mistral has it. Qwen's files name one that is
/// switched off.
fn window(config: &Value, absent: Option<u64>, count: u64) -> Result<Option<u64>, Box<ModelError>> {
    let is_other = |kind: &Value| kind.as_str() != Some("full_attention");
    if of_each_layer(config, "layer_types", count)?.is_some_and(|types| types.iter().any(is_other))
    {
        return Err(ModelError::unmodelled(
            "`layer_types` other than full_attention are not modelled for this architecture",
        ));
    }
    if boolean(config, "use_sliding_window")? == Some(true) {
        return Err(ModelError::unmodelled(
            "`use_sliding_window` is not modelled for this architecture",
        ));
    }
    sliding_window(config, absent)
}
