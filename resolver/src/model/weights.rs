//! The weights that tensor parallelism must be able to split.

use super::bounds::{MOST_LAYERS, MOST_WIDTH};
use super::fields::{array, integer, integer_or};
use super::{Decoder, ModelError};
use crate::value::Value;

/// Widths of the embedding and of the first layers' weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// Rows of the embedding, if config.json says.
    pub vocab_size: Option<u64>,
    /// What a wrapper builds before its language model.
    pub vision: Vision,
    /// Blocks that share a scale, in an fp8 checkpoint.
    pub fp8_block: Option<Fp8Block>,
    /// The first layer's attention, in the order in which it is built.
    pub attention: Vec<Split>,
    /// What follows it: the dense MLP, then the experts all use.
    pub mlp: Vec<Split>,
    /// Width of a routed expert.
    pub expert_width: Option<u64>,
    /// `hidden_size`
    pub hidden_size: u64,
}

/// A vision tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vision {
    /// None: a language model alone.
    None,
    /// This is the first of its widths to be split.
    Splits(u64),
    /// This is its MLP's width, which is split where its heads are: where they
    /// do not divide, each rank has a whole tower.
    SplitsWithHeads {
        /// Heads.
        heads: u64,
        /// Width.
        mlp: u64,
    },
    /// One without rules here.
    Unknown,
}

/// Rows and columns that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fp8Block {
    /// Outputs.
    pub n: u64,
    /// Inputs.
    pub k: u64,
}

/// A linear layer of one part, which is split over the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// `ColumnParallelLinear` of so many outputs.
    Outputs(u64),
    /// `RowParallelLinear` of so many inputs.
    Inputs(u64),
}

/// Reads them. What is not read is not checked, and said to be so.
pub(super) fn weights(
    config: &Value,
    language: &Value,
    model_type: &str,
    decoder: Option<&Decoder>,
) -> Result<Weights, Box<ModelError>> {
    let optional = |field| match language.get_set(field) {
        None => Ok(None),
        Some(_) => integer(language, field, 1, MOST_WIDTH).map(Some),
    };
    let fp8_block = fp8_block(config)?;
    let heads = integer(language, "num_attention_heads", 1, MOST_WIDTH)?;
    let expert_field = match model_type {
        "qwen3_moe" | "qwen3_vl_moe" | "deepseek_v3" | "kimi_k2" | "deepseek_v32"
        | "glm_moe_dsa" | "kimi_k25" | "qwen3_5_moe" | "gemma4" | "nemotron_h"
        | "mimo_v2_flash" => "moe_intermediate_size",
        "mixtral" | "minimax_m2" | "llama4" => "intermediate_size",
        _ => "",
    };
    let expert_width = optional(expert_field)?;
    let (mut attention, mut mlp) = (Vec::new(), Vec::new());
    if let (Some(_), Some(decoder)) = (fp8_block, decoder) {
        match (model_type, decoder.mla) {
            ("deepseek_v3" | "kimi_k2" | "deepseek_v32" | "glm_moe_dsa", Some(dims)) => {
                let outputs = |each: u64| Split::Outputs(heads * each);
                attention.push(outputs(dims.qk_nope_head_dim + dims.qk_rope_head_dim));
                attention.push(outputs(dims.qk_nope_head_dim + dims.v_head_dim));
                attention.push(Split::Inputs(heads * dims.v_head_dim));
                if integer_or(language, "first_k_dense_replace", 0, MOST_LAYERS, 0)? > 0
                    && let Some(width) = optional("intermediate_size")?
                {
                    mlp.push(Split::Inputs(width));
                }
                let shared = integer_or(language, "n_shared_experts", 0, MOST_LAYERS, 0)?;
                if let Some(width) = expert_width.filter(|_| shared > 0) {
                    mlp.push(Split::Inputs(width * shared));
                }
            }
            ("llama" | "mistral" | "qwen3" | "qwen3_moe" | "mixtral" | "minimax_m2", None) => {
                attention.push(Split::Inputs(heads * head_dim(decoder)));
                if expert_width.is_none()
                    && let Some(width) = optional("intermediate_size")?
                {
                    mlp.push(Split::Inputs(width));
                }
            }
            _ => {}
        }
    }
    Ok(Weights {
        vocab_size: optional("vocab_size")?,
        vision: vision(config, model_type)?,
        fp8_block,
        attention,
        mlp,
        expert_width,
        hidden_size: integer_or(language, "hidden_size", 1, MOST_WIDTH, 0)?,
    })
}

fn head_dim(decoder: &Decoder) -> u64 {
    use super::decoder::LayerKind;
    decoder
        .layers
        .iter()
        .find_map(|layer| match layer.kind {
            LayerKind::Attention(attention) => Some(attention.head_dim_v),
            LayerKind::Mla { .. } | LayerKind::Linear(_) => None,
        })
        .unwrap_or_default()
}

/// `quantization_config.weight_block_size` of an fp8 checkpoint. One that leaves
/// whole kinds of linear layers unquantised is not looked into.
fn fp8_block(config: &Value) -> Result<Option<Fp8Block>, Box<ModelError>> {
    let Some(quantization) = config.get_set("quantization_config") else {
        return Ok(None);
    };
    if quantization.get("quant_method").and_then(Value::as_str) != Some("fp8") {
        return Ok(None);
    }
    for field in ["modules_to_not_convert", "ignored_layers"] {
        let linear = |name: &str| {
            let last = name.rsplit('.').next().unwrap_or(name);
            [
                "q_b_proj",
                "kv_b_proj",
                "o_proj",
                "down_proj",
                "experts",
                "self_attn",
                "mlp",
            ]
            .contains(&last)
        };
        let names = array(quantization, field)?.unwrap_or_default();
        if names.iter().filter_map(Value::as_str).any(linear) {
            return Ok(None);
        }
    }
    match array(quantization, "weight_block_size")? {
        Some([n, k]) => match (n.as_integer(), k.as_integer()) {
            (Some(n @ 1..=65_536), Some(k @ 1..=65_536)) => Ok(Some(Fp8Block {
                n: u64::try_from(n).unwrap_or(1),
                k: u64::try_from(k).unwrap_or(1),
            })),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// What a tower splits first. Mirrors `vllm/model_executor/models/qwen3_vl.py`
/// `Qwen3_VisionBlock`, `mllama4.py` `Llama4UnfoldConvolution` and
/// `kimi_k25_vit.py` `MoonViTEncoderLayer`.
fn vision(config: &Value, model_type: &str) -> Result<Vision, Box<ModelError>> {
    let none = Value::Object(Vec::new());
    let tower = config.get_set("vision_config").unwrap_or(&none);
    Ok(match model_type {
        "qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe" => {
            Vision::Splits(integer_or(tower, "num_heads", 1, MOST_WIDTH, 16)?)
        }
        // transformers' default, where the file has no tower
        "llama4" => Vision::Splits(integer_or(tower, "hidden_size", 1, MOST_WIDTH, 768)?),
        "kimi_k25" | "kimi_k3" if tower.get_set("vt_num_attention_heads").is_some() => {
            Vision::SplitsWithHeads {
                heads: integer(tower, "vt_num_attention_heads", 1, MOST_WIDTH)?,
                mlp: integer(tower, "vt_intermediate_size", 1, MOST_WIDTH)?,
            }
        }
        "kimi_k25" | "kimi_k3" | "gemma4" => Vision::Unknown,
        _ => Vision::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(unquantised: &str) -> Value {
        let list = |items: Vec<Value>| Value::Array(items);
        let entries = vec![
            ("quant_method".to_owned(), Value::String("fp8".to_owned())),
            (
                "weight_block_size".to_owned(),
                list(vec![Value::Integer(128), Value::Integer(64)]),
            ),
            (
                "modules_to_not_convert".to_owned(),
                list(vec![Value::String(unquantised.to_owned())]),
            ),
        ];
        Value::Object(vec![(
            "quantization_config".to_owned(),
            Value::Object(entries),
        )])
    }

    #[test]
    fn a_checkpoint_with_unquantised_linears_is_not_looked_into() {
        let block = Some(Fp8Block { n: 128, k: 64 });
        assert_eq!(fp8_block(&checkpoint("lm_head")), Ok(block));
        assert_eq!(
            fp8_block(&checkpoint("model.layers.0.self_attn.o_proj")),
            Ok(None)
        );
    }

    #[test]
    fn a_tower_splits_by_its_family() {
        let none = Value::Object(Vec::new());
        assert_eq!(vision(&none, "qwen3_vl"), Ok(Vision::Splits(16)));
        assert_eq!(vision(&none, "llama4"), Ok(Vision::Splits(768)));
        assert_eq!(vision(&none, "kimi_k25"), Ok(Vision::Unknown));
        assert_eq!(vision(&none, "qwen3"), Ok(Vision::None));
    }
}
