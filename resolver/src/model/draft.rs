//! Drafters: what a draft model's layers keep, read from the target's
//! config.json (its MTP layers) or from one of its own.

use super::bounds::{MOST_LAYERS, MOST_WIDTH, bounded};
use super::decoder::{Attention, DecoderLayer, LayerKind};
use super::families::{dense, linear, mla, windows};
use super::fields::{array, boolean, integer, integer_or, of_each_layer, text};
use super::{Common, Decoder, Kind, Model, ModelError, clip, common, facts};
use crate::value::Value;

/// A drafter's layers.
#[derive(Debug, Clone, PartialEq)]
pub enum Draft {
    /// Layers of DeepSeek V4 that keep a window alone.
    Windows {
        /// Number of the first, past the target's.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Layers as any decoder has them.
    Decoder(Box<Drafter>),
}

/// A drafter with layers of its own kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Drafter {
    /// What the checks ask of it.
    pub common: Common,
    /// Its layers.
    pub decoder: Decoder,
    /// Whether some layer looks ahead, at the other draft tokens.
    pub non_causal: bool,
}

/// The MTP layers of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Mtp {
    /// `n_predict`: tokens that the trained layers predict.
    pub n_predict: u64,
    /// Modules that run one after another (`num_nextn_predict_layers`).
    pub modules: u64,
    /// vLLM's class.
    pub class: &'static str,
    /// The layers.
    pub draft: Draft,
}

/// Decoder layers whose numbers are counted here.
fn number(index: u64) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn at(index: u64, suffix: &'static str, kind: LayerKind) -> DecoderLayer {
    DecoderLayer {
        index: number(index),
        suffix,
        kind,
    }
}

/// The MTP layers that vLLM knows of this model, `None` where it knows none.
/// Mirrors `vllm/config/speculative.py` `SpeculativeConfig.hf_config_override`
/// and the models' own MTP files.
pub(crate) fn mtp(config: &Value, target: &Model) -> Result<Option<Mtp>, Box<ModelError>> {
    let language = common::text_config(config)?;
    let model_type = text(config, "model_type")?.unwrap_or_default();
    let first = target.common.num_hidden_layers;
    let of = |field| integer(language, field, 0, MOST_LAYERS);
    let (count, field) = match model_type {
        "deepseek_v4" | "deepseek_v3" | "deepseek_v32" | "glm_moe_dsa" | "kimi_k3" => {
            (of("num_nextn_predict_layers")?, "num_nextn_predict_layers")
        }
        "nemotron_h" => match config.get_set("num_nextn_predict_layers") {
            None => return Ok(None),
            Some(_) => match of("num_nextn_predict_layers")? {
                0 => return Ok(None),
                count => (count, "num_nextn_predict_layers"),
            },
        },
        "qwen3_5" | "qwen3_5_moe" => (of("mtp_num_hidden_layers")?, "mtp_num_hidden_layers"),
        // `_MIMO_V2_FLASH_NUM_MTP_LAYERS`: of several, vLLM has the first alone
        "mimo_v2_flash" => (1, "num_nextn_predict_layers"),
        _ => return Ok(None),
    };
    // of what is counted otherwise a chain is not made
    let modules = match (model_type, field) {
        ("kimi_k3" | "qwen3_5" | "qwen3_5_moe", _) => {
            integer_or(config, "num_nextn_predict_layers", 0, MOST_LAYERS, 1)?
        }
        _ => count,
    };
    let (class, draft) = match &target.kind {
        Kind::DeepseekV4(_) => (
            "DeepSeekV4MTP",
            Draft::Windows {
                first: number(first),
                count: number(count),
            },
        ),
        Kind::Decoder(decoder) => {
            let (class, draft) = layers(model_type, config, decoder, first, count)?;
            let drafter = Drafter {
                common: target.common.clone(),
                decoder: draft,
                non_causal: false,
            };
            (class, Draft::Decoder(Box::new(drafter)))
        }
    };
    Ok(Some(Mtp {
        n_predict: count,
        modules,
        class,
        draft,
    }))
}

fn layers(
    model_type: &str,
    config: &Value,
    target: &Decoder,
    first: u64,
    count: u64,
) -> Result<(&'static str, Decoder), Box<ModelError>> {
    let with = |prefix, layers| Decoder {
        prefix,
        layers,
        ..target.clone()
    };
    Ok(match model_type {
        "deepseek_v3" | "deepseek_v32" | "glm_moe_dsa" => {
            let indexer = target.index_topk.is_some();
            let class = if indexer {
                "DeepseekV32MTP"
            } else {
                "DeepSeekMTP"
            };
            let layers = (first..first.saturating_add(count))
                .map(|index| at(index, "self_attn.attn", LayerKind::Mla { indexer }));
            (class, with("model.layers", layers.collect()))
        }
        "kimi_k3" => {
            let layers = (first..first.saturating_add(count))
                .map(|index| at(index, "self_attn", LayerKind::Mla { indexer: false }));
            ("KimiK3MTP", with("model.layers", layers.collect()))
        }
        "qwen3_5" | "qwen3_5_moe" => {
            let language = common::text_config(config)?;
            let attention = linear::attention(language)?;
            let layers = (0..count)
                .map(|index| at(index, "self_attn.attn", LayerKind::Attention(attention)));
            ("Qwen3_5MTP", with("mtp.layers", layers.collect()))
        }
        "nemotron_h" => {
            let attention = linear::nemotron_attention(config)?;
            let layers = nemotron_pattern(config)?
                .into_iter()
                .zip(0..)
                .filter(|(is_attention, _)| *is_attention)
                .map(|(_, index)| at(index, "mixer.attn", LayerKind::Attention(attention)));
            ("NemotronHMTP", with("mtp.layers", layers.collect()))
        }
        // `mimo_v2_flash`
        _ => {
            let window = windows::mimo_v2_window(config)?;
            let layer = at(0, "self_attn.attn", LayerKind::Attention(window));
            ("MiMoV2MTP", with("model.mtp.layers", vec![layer]))
        }
    })
}

/// Which of the layers of Nemotron's draft keep K and V; the others are experts.
/// Mirrors `vllm/model_executor/models/nemotron_h_mtp.py`.
fn nemotron_pattern(config: &Value) -> Result<Vec<bool>, Box<ModelError>> {
    let unknown =
        || ModelError::unmodelled("the MTP layers' pattern has others than attention and experts");
    let pattern: Vec<bool> = if let Some(pattern) = text(config, "mtp_hybrid_override_pattern")? {
        let kinds = pattern.chars().map(|kind| match kind {
            '*' => Ok(true),
            'E' => Ok(false),
            _ => Err(unknown()),
        });
        kinds.collect::<Result<_, _>>()?
    } else {
        array(config, "mtp_layers_block_type")?
            .ok_or(ModelError::Missing("mtp_hybrid_override_pattern"))?
            .iter()
            .map(|kind| match kind.as_str() {
                Some("attention" | "full_attention") => Ok(true),
                Some("moe") => Ok(false),
                _ => Err(unknown()),
            })
            .collect::<Result<_, _>>()?
    };
    if pattern.is_empty() || pattern.len() as u64 > MOST_LAYERS {
        return Err(unknown());
    }
    Ok(pattern)
}

/// Methods whose drafter has a config.json of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Apart {
    /// `eagle`
    Eagle,
    /// `eagle3`
    Eagle3,
    /// `dflash`
    Dflash,
    /// `dspark`
    Dspark,
    /// `draft_model`
    DraftModel,
}

/// A drafter from its own config.json. Its layers are numbered past the target's.
/// Mirrors `vllm/transformers_utils/configs/eagle.py` `EAGLEConfig` and the models
/// that its names lead to.
pub(crate) fn apart(
    config: &Value,
    method: Apart,
    target_layers: u64,
) -> Result<Drafter, Box<ModelError>> {
    if method == Apart::DraftModel {
        return whole(config);
    }
    bounded(config)?;
    let architecture = super::architecture(config)?;
    let model_type = text(config, "model_type")?.ok_or(ModelError::Missing("model_type"))?;
    let unknown = || {
        Box::new(ModelError::Family {
            architecture: clip(architecture),
            model_type: clip(model_type),
        })
    };
    let (mut decoder, non_causal) = match (method, architecture, model_type) {
        (Apart::Eagle, "LlamaForCausalLM" | "EagleLlamaForCausalLM", "llama")
        | (
            Apart::Eagle3,
            "LlamaForCausalLM"
            | "LlamaForCausalLMEagle3"
            | "Eagle3LlamaForCausalLM"
            | "Eagle3Qwen3vlForCausalLM"
            | "Eagle3MiniMaxM2ForCausalLM"
            | "Eagle3Qwen3ForCausalLM",
            "llama" | "qwen3",
        ) => {
            let defaults = dense::Defaults::of(model_type);
            (dense::decoder(config, "model.layers", defaults)?, false)
        }
        (
            Apart::Eagle3,
            "Eagle3DeepseekV2ForCausalLM" | "Eagle3DeepseekV3ForCausalLM",
            "deepseek_v3" | "kimi_k2",
        ) => (mla::dense(config, "model.layers")?, false),
        (Apart::Dflash, "DFlashDraftModel", "qwen3")
        | (Apart::Dspark, "Qwen3DSparkModel", "qwen3") => {
            let layers = block_drafter(config)?;
            let non_causal = layers.iter().any(|(_, causal)| !causal);
            let layers = (0..).zip(layers).map(|(index, (attention, _))| {
                at(index, "self_attn.attn", LayerKind::Attention(attention))
            });
            (dense::plain("model.layers", layers.collect()), non_causal)
        }
        _ => return Err(unknown()),
    };
    for layer in &mut decoder.layers {
        layer.index = layer.index.saturating_add(number(target_layers));
    }
    let kind = Kind::Decoder(decoder);
    let common = facts(config, config, (architecture, model_type), &kind)?;
    let Kind::Decoder(decoder) = kind else {
        return Err(unknown());
    };
    Ok(Drafter {
        common,
        decoder,
        non_causal,
    })
}

/// A model that could be served alone.
fn whole(config: &Value) -> Result<Drafter, Box<ModelError>> {
    let model = Model::from_config(config)?;
    let Kind::Decoder(mut decoder) = model.kind else {
        return Err(ModelError::unmodelled(
            "DeepSeek V4 as a draft model is not modelled",
        ));
    };
    if model.common.is_hybrid {
        return Err(ModelError::unmodelled(
            "a draft model with states is not modelled",
        ));
    }
    decoder.prefix = match decoder.prefix {
        "model.layers" => "draft_model.model.layers",
        "language_model.model.layers" => "draft_model.language_model.model.layers",
        _ => {
            return Err(ModelError::unmodelled(format!(
                "{} as a draft model is not modelled",
                model.common.architecture
            )));
        }
    };
    Ok(Drafter {
        common: model.common,
        decoder,
        non_causal: false,
    })
}

/// Layers of `DFlash` and of what is built like it: each with whether it is causal.
/// Mirrors `vllm/model_executor/models/qwen3_dflash.py` `_resolve_layer_attention`.
fn block_drafter(config: &Value) -> Result<Vec<(Attention, bool)>, Box<ModelError>> {
    let nothing = Value::Object(Vec::new());
    let own = config.get_set("dflash_config").unwrap_or(&nothing);
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    let defaults = dense::Defaults::of("qwen3");
    let full = defaults.attention(config)?;
    let sinks = match boolean(own, "attention_sink_bias")? {
        Some(sinks) => sinks,
        None => boolean(config, "add_swa_attention_sink_bias")? == Some(true),
    };
    let types = of_each_layer(config, "layer_types", count)?;
    let slides = |kind: &Value| kind.as_str() == Some("sliding_attention");
    let any = types.is_some_and(|types| types.iter().any(slides));
    let use_windows = boolean(own, "use_swa")? == Some(true);
    let causal = match boolean(config, "is_causal")? {
        Some(causal) => Some(causal),
        None => boolean(own, "causal")?,
    };
    let type_of = |index: usize| types.and_then(|types| types.get(index)).is_some_and(slides);
    (0..usize::try_from(count).unwrap_or(0))
        .map(|index| {
            let is_sliding = match types {
                None => use_windows,
                Some(_) if use_windows && !any => true,
                Some(_) => type_of(index),
            };
            let window = match (is_sliding, own.get_set("swa_window_size")) {
                (false, _) => None,
                (true, Some(_)) => Some(integer(own, "swa_window_size", 1, MOST_WIDTH)?),
                (true, None) => Some(integer(config, "sliding_window", 1, MOST_WIDTH)?),
            };
            let attention = Attention {
                window,
                sinks,
                ..full
            };
            Ok((attention, causal.unwrap_or_else(|| type_of(index))))
        })
        .collect()
}

/// Whether a config.json names the token that stands for what is yet to be drafted.
/// Mirrors `vllm/v1/worker/gpu/spec_decode/utils.py` `get_parallel_drafting_token_id`.
pub(crate) fn names_mask_token(config: &Value) -> bool {
    let own = config
        .get_set("dflash_config")
        .and_then(|own| own.get("mask_token_id"));
    let keys = ["dspark_noise_token_id", "pard_token", "ptd_token_id"];
    own.is_some()
        || config.get_set("mask_token_id").is_some()
        || keys.iter().any(|key| config.get(key).is_some())
}

/// DeepSeek V4's `DSpark` layers: `None` where the checkpoint lacks what they are made of.
/// Mirrors `vllm/models/deepseek_v4/nvidia/dspark.py` `DSparkDeepseekV4Model`.
pub(crate) fn v4_dspark(config: &Value, target: &Model) -> Result<Option<Draft>, Box<ModelError>> {
    let has = |field| config.get_set(field).is_some();
    if !has("dspark_target_layer_ids") || !has("dspark_markov_rank") {
        return Ok(None);
    }
    let count = match integer_or(config, "n_mtp_layers", 0, MOST_LAYERS, 0)? {
        0 => 3,
        count => count,
    };
    Ok(Some(Draft::Windows {
        first: number(target.common.num_hidden_layers),
        count: number(count),
    }))
}
