//! Latent attention, dense or with an indexer: DeepSeek V3, V3.2, GLM-5, Kimi K2.

use crate::model::ModelError;
use crate::model::bounds::{MOST_LAYERS, MOST_WIDTH};
use crate::model::decoder::{
    Boundary, Decoder, DecoderLayer, DtypeHook, LayerKind, MlaDims, WindowSource,
};
use crate::model::fields::{boolean, integer, integer_or, text};
use crate::value::Value;

/// The dimensions of MLA.
pub(super) fn dims(config: &Value) -> Result<MlaDims, Box<ModelError>> {
    Ok(MlaDims {
        qk_nope_head_dim: integer(config, "qk_nope_head_dim", 1, MOST_WIDTH)?,
        qk_rope_head_dim: integer(config, "qk_rope_head_dim", 0, MOST_WIDTH)?,
        v_head_dim: integer(config, "v_head_dim", 1, MOST_WIDTH)?,
        kv_lora_rank: integer(config, "kv_lora_rank", 1, MOST_WIDTH)?,
    })
}

/// DeepSeek V3 and R1, Kimi K2: `vllm/model_executor/models/deepseek_v2.py`.
pub(in crate::model) fn dense(
    config: &Value,
    prefix: &'static str,
) -> Result<Decoder, Box<ModelError>> {
    if config.get_set("index_topk").is_some() {
        return Err(ModelError::unmodelled(
            "`index_topk` in a model without an indexer is not modelled",
        ));
    }
    decoder(config, prefix, DtypeHook::None, |_| Ok(false))
}

/// DeepSeek V3.2: every layer has an indexer, unless it shares one.
pub(in crate::model) fn deepseek_v32(config: &Value) -> Result<Decoder, Box<ModelError>> {
    if config.get("index_topk").is_none() {
        // vLLM's hook refuses it, after other checks
        return decoder(config, "model.layers", DtypeHook::BfloatIsAuto, |_| {
            Ok(false)
        });
    }
    sparse(config, DtypeHook::BfloatIsAuto)
}

/// GLM-5 and its successors, which may share indexes.
pub(in crate::model) fn glm_moe_dsa(config: &Value) -> Result<Decoder, Box<ModelError>> {
    sparse(config, DtypeHook::AutoIsFp8OnSm100)
}

/// Mirrors `vllm/models/deepseek_v32/nvidia/model.py`.
fn sparse(config: &Value, hook: DtypeHook) -> Result<Decoder, Box<ModelError>> {
    // an indexer's queries come from the latent ones
    if config.get("q_lora_rank") == Some(&Value::Null) {
        return Err(ModelError::unmodelled(
            "an indexer beside queries that are not compressed is not modelled",
        ));
    }
    let index_topk = integer(config, "index_topk", 1, MOST_WIDTH)?;
    let index_head_dim = integer(config, "index_head_dim", 1, MOST_WIDTH)?;
    let frequency = integer_or(config, "index_topk_freq", 1, MOST_LAYERS, 1)?;
    let offset = integer_or(config, "index_skip_topk_offset", 0, MOST_LAYERS, 2)?;
    let pattern = text(config, "index_topk_pattern")?;
    let mut decoder = decoder(config, "model.layers", hook, |layer| {
        Ok(match pattern {
            // the pattern names the layers that share
            Some(pattern) => {
                let index = usize::try_from(layer).unwrap_or(usize::MAX);
                pattern.as_bytes().get(index) != Some(&b'S')
            }
            None => (u64::from(layer) + 1).saturating_sub(offset) % frequency == 0,
        })
    })?;
    decoder.index_topk = Some(index_topk);
    decoder.index_head_dim = index_head_dim;
    Ok(decoder)
}

fn decoder(
    config: &Value,
    prefix: &'static str,
    dtype_hook: DtypeHook,
    has_indexer: impl Fn(u32) -> Result<bool, Box<ModelError>>,
) -> Result<Decoder, Box<ModelError>> {
    if boolean(config, "is_causal")? == Some(false) {
        return Err(ModelError::unmodelled("`is_causal` false is not modelled"));
    }
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    let layers = (0..u32::try_from(count).unwrap_or(u32::MAX))
        .map(|index| {
            Ok(DecoderLayer {
                index,
                suffix: "self_attn.attn",
                kind: LayerKind::Mla {
                    indexer: has_indexer(index)?,
                },
            })
        })
        .collect::<Result<_, Box<ModelError>>>()?;
    Ok(Decoder {
        prefix,
        layers,
        mla: Some(dims(config)?),
        index_topk: None,
        index_head_dim: 0,
        dtype_hook,
        windows: WindowSource::Config,
        boundary: Boundary::Ends,
    })
}
