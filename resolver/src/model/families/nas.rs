//! Layers that an architecture search has thinned out: Llama Nemotron Super.

use super::dense::{head_dim, plain};
use crate::model::ModelError;
use crate::model::bounds::{MOST_LAYERS, MOST_WIDTH};
use crate::model::decoder::{Attention, Decoder, DecoderLayer, HeadSharing, LayerKind};
use crate::model::fields::{boolean, integer, of_each_layer};
use crate::value::Value;

/// A block for each layer; some have no attention, and the others say how many
/// query heads share a KV head.
/// Mirrors `vllm/model_executor/models/nemotron_nas.py`, which does not look at
/// the blocks' windows and sinks.
pub(in crate::model) fn nemotron(config: &Value) -> Result<Decoder, Box<ModelError>> {
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    let heads = integer(config, "num_attention_heads", 1, MOST_WIDTH)?;
    let head_dim = head_dim(config)?;
    let blocks = of_each_layer(config, "block_configs", count)?;
    let blocks = blocks.ok_or(ModelError::Missing("block_configs"))?;
    if config.get_set("layer_types").is_some() || config.get_set("sliding_window").is_some() {
        return Err(ModelError::unmodelled(
            "windows are not modelled for this architecture",
        ));
    }
    let mut layers = Vec::new();
    for (index, block) in (0_u32..).zip(blocks) {
        let attention = block
            .get_set("attention")
            .ok_or(ModelError::Missing("block_configs[…].attention"))?;
        if boolean(attention, "no_op")? == Some(true) {
            continue;
        }
        if boolean(attention, "replace_with_linear")? == Some(true) {
            return Err(ModelError::unmodelled(
                "`replace_with_linear` in place of attention is not modelled",
            ));
        }
        let sharing = integer(attention, "n_heads_in_group", 1, heads)?;
        let attention = Attention::full(heads / sharing, HeadSharing::Asserted, head_dim);
        layers.push(DecoderLayer {
            index,
            suffix: "self_attn.attn",
            kind: LayerKind::Attention(attention),
        });
    }
    if layers.is_empty() {
        return Err(ModelError::unmodelled(
            "`block_configs` leaves no layer with attention",
        ));
    }
    Ok(plain("model.layers", layers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(entries: &[(&str, Value)]) -> Value {
        let entry = |(key, value): &(&str, Value)| ((*key).to_owned(), value.clone());
        Value::Object(entries.iter().map(entry).collect())
    }

    /// `Some(n)`: n query heads to a KV head; `None`: no attention.
    fn config(blocks: &[Option<i128>]) -> Value {
        let block = |sharing: &Option<i128>| {
            let attention = match sharing {
                Some(heads) => object(&[("n_heads_in_group", Value::Integer(*heads))]),
                None => object(&[("no_op", Value::Bool(true))]),
            };
            object(&[("attention", attention)])
        };
        object(&[
            ("num_hidden_layers", Value::Integer(3)),
            ("num_attention_heads", Value::Integer(64)),
            ("hidden_size", Value::Integer(8192)),
            (
                "block_configs",
                Value::Array(blocks.iter().map(block).collect()),
            ),
        ])
    }

    #[test]
    fn layers_without_attention_keep_nothing() {
        let decoder = nemotron(&config(&[Some(8), None, Some(16)])).unwrap();
        let kept: Vec<_> = decoder
            .layers
            .iter()
            .map(|layer| (layer.index, layer.kind))
            .collect();
        let attention =
            |heads| LayerKind::Attention(Attention::full(heads, HeadSharing::Asserted, 128));
        assert_eq!(kept, [(0, attention(8)), (2, attention(4))]);
    }

    #[test]
    fn a_block_is_needed_for_each_layer_and_attention_in_one() {
        assert!(nemotron(&config(&[Some(8), None])).is_err());
        assert!(nemotron(&config(&[None, None, None])).is_err());
        assert!(nemotron(&config(&[Some(0), None, None])).is_err());
    }
}
