//! What a model's weights follow from: sizes that config.json names, and how the
//! checkpoint is quantised.

mod rope;

pub use rope::Rope;

pub(super) use rope::sections_fit;
use rope::{rope, rotary_part, turned_by};

use super::decoder::LayerKind;
use super::families::linear;
use super::fields::{array, text};
use super::scheme::{self, Scheme, Shape};
use super::weights::Fp8Block;
use super::{Decoder, ModelError};
use crate::value::Value;

/// Larger than any width, count or position of a model.
const MOST: i128 = 1 << 40;

macro_rules! sizes {
    ($($name:ident = $wire:literal),* $(,)?) => {
        /// A whole number, or true and false as 1 and 0, that config.json names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)] // `wire` spells them
        pub enum Size { $($name),* }

        /// The spellings, in the order of the alphabet and of the enum.
        const WIRE: &[&str] = &[$($wire),*];
    };
}

sizes! {
    AttentionBias = "attention_bias",
    AttnOutputGate = "attn_output_gate",
    DecoderSparseStep = "decoder_sparse_step",
    Depth = "depth",
    DraftVocabSize = "draft_vocab_size",
    DsparkMarkovRank = "dspark_markov_rank",
    EnableConfidenceHead = "enable_confidence_head",
    FirstKDenseReplace = "first_k_dense_replace",
    HcMult = "hc_mult",
    HeadDim = "head_dim",
    HiddenSize = "hidden_size",
    HiddenSizePerLayerInput = "hidden_size_per_layer_input",
    ImageSize = "image_size",
    InChannels = "in_channels",
    IndexHeadDim = "index_head_dim",
    IndexNHeads = "index_n_heads",
    IndexTopk = "index_topk",
    IndexerRopeInterleave = "indexer_rope_interleave",
    InitPosEmbHeight = "init_pos_emb_height",
    InitPosEmbTime = "init_pos_emb_time",
    InitPosEmbWidth = "init_pos_emb_width",
    InterleaveMoeLayerStep = "interleave_moe_layer_step",
    IntermediateSize = "intermediate_size",
    IntermediateSizeMlp = "intermediate_size_mlp",
    LatentMoeUseNorm = "latent_moe_use_norm",
    MambaProjBias = "mamba_proj_bias",
    MaxPositionEmbeddings = "max_position_embeddings",
    MlaUseOutputGate = "mla_use_output_gate",
    MlpBias = "mlp_bias",
    MoeIntermediateSize = "moe_intermediate_size",
    MoeLatentSize = "moe_latent_size",
    MoeSharedExpertIntermediateSize = "moe_shared_expert_intermediate_size",
    NRoutedExperts = "n_routed_experts",
    NSharedExperts = "n_shared_experts",
    NumAttentionHeads = "num_attention_heads",
    NumExperts = "num_experts",
    NumExpertsPerTok = "num_experts_per_tok",
    NumHashLayers = "num_hash_layers",
    NumHeads = "num_heads",
    NumHiddenLayers = "num_hidden_layers",
    NumLocalExperts = "num_local_experts",
    NumPositionEmbeddings = "num_position_embeddings",
    NumSharedExperts = "num_shared_experts",
    OGroups = "o_groups",
    OLoraRank = "o_lora_rank",
    OutHiddenSize = "out_hidden_size",
    PatchSize = "patch_size",
    PositionEmbeddingSize = "position_embedding_size",
    ProjectorInputDim = "projector_input_dim",
    ProjectorOutputDim = "projector_output_dim",
    QLoraRank = "q_lora_rank",
    QkRopeHeadDim = "qk_rope_head_dim",
    QkvHiddenSize = "qkv_hidden_size",
    RotaryDim = "rotary_dim",
    RoutedExpertHiddenSize = "routed_expert_hidden_size",
    SharedExpertIntermediateSize = "shared_expert_intermediate_size",
    SpatialMergeSize = "spatial_merge_size",
    Standardize = "standardize",
    TargetHiddenSize = "target_hidden_size",
    TemporalPatchSize = "temporal_patch_size",
    TieWordEmbeddings = "tie_word_embeddings",
    UseBias = "use_bias",
    UseClippedLinears = "use_clipped_linears",
    UseConvBias = "use_conv_bias",
    UseDoubleWideMlp = "use_double_wide_mlp",
    UseRoutingBias = "use_routing_bias",
    VisionOutputDim = "vision_output_dim",
    VocabSize = "vocab_size",
    VtHiddenSize = "vt_hidden_size",
    VtIntermediateSize = "vt_intermediate_size",
    VtNumAttentionHeads = "vt_num_attention_heads",
    VtNumHiddenLayers = "vt_num_hidden_layers",
}

impl Size {
    /// Its name in config.json.
    pub const fn wire(self) -> &'static str {
        WIRE[self as usize]
    }
}

/// The sizes of one part of a config.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes([Option<u64>; WIRE.len()]);

impl Sizes {
    /// What of a config.json is a size; what is of another kind is left out.
    fn read(config: &Value) -> Self {
        let mut sizes = [None; WIRE.len()];
        if let Value::Object(entries) = config {
            for (name, value) in entries {
                let Ok(place) = WIRE.binary_search(&name.as_str()) else {
                    continue;
                };
                sizes[place] = match value {
                    Value::Bool(on) => Some(u64::from(*on)),
                    Value::Integer(number @ 0..=MOST) => u64::try_from(*number).ok(),
                    Value::Null
                    | Value::Integer(_)
                    | Value::Float(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => None,
                };
            }
        }
        Self(sizes)
    }

    /// One of them.
    pub fn get(&self, size: Size) -> Option<u64> {
        self.0[size as usize]
    }
}

/// How many layers of Nemotron-H are of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pattern {
    /// All.
    pub all: u64,
    /// An MLP.
    pub mlps: u64,
    /// Experts.
    pub experts: u64,
}

/// What the weights follow from.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// `model_type`
    pub model_type: String,
    /// The language model's sizes.
    pub sizes: Sizes,
    /// The tower's.
    pub tower: Option<Sizes>,
    /// Whether the head is the embedding, if config.json says.
    pub tied: Option<bool>,
    /// How it is quantised.
    pub scheme: Scheme,
    /// Routers have a bias that corrects scores (`topk_method`).
    pub corrects_scores: bool,
    /// Layers that config.json lists as having experts, where it has such a list.
    pub expert_layers: Option<u64>,
    /// Layers that config.json lists as having none (`mlp_only_layers`).
    pub dense_layers: u64,
    /// The rotary table.
    pub rope: Rope,
    /// What the table follows from beside its size: two that are turned alike are one.
    pub turned_by: Vec<(&'static str, Value)>,
    /// The checkpoint says that its MTP layers are not quantised.
    pub plain_draft: bool,
    /// Of a head's width, the part that is turned, in millionths.
    pub rotary_part: Option<u64>,
    /// fp8 experts in DeepSeek V4, whose are fp4 by default.
    pub fp8_experts: bool,
    /// Widths of the MLPs of Llama Nemotron's blocks.
    pub block_widths: Option<Vec<u64>>,
    /// A tower is cast to the model's dtype: nothing, or compressed-tensors, quantises
    /// the language model.
    pub casts_tower: bool,
    /// States of the target that DeepSeek V4's `DSpark` layers read.
    pub draft_states: u64,
    /// Layers of Nemotron-H.
    pub pattern: Pattern,
    /// Deeper layers of a tower that feed the language model.
    pub deepstack: u64,
}

/// Reads them. What is absent or odd is left out: it is missed only where a weight needs it.
pub(super) fn parameters(
    config: &Value,
    language: &Value,
    model_type: &str,
    block: Option<Fp8Block>,
    decoder: Option<&Decoder>,
) -> Result<Parameters, Box<ModelError>> {
    let sizes = Sizes::read(language);
    let is_linear = |index: u64| {
        decoder.is_some_and(|decoder| {
            decoder.layers.iter().any(|layer| {
                u64::from(layer.index) == index && matches!(layer.kind, LayerKind::Linear(_))
            })
        })
    };
    let layers = sizes.get(Size::NumHiddenLayers).unwrap_or(0);
    let experts = [
        Size::NRoutedExperts,
        Size::NumExperts,
        Size::NumLocalExperts,
    ];
    let shape = Shape {
        model_type,
        layers,
        dense: if experts.iter().all(|size| sizes.get(*size).is_none()) {
            layers
        } else {
            sizes.get(Size::FirstKDenseReplace).unwrap_or(0)
        },
        linear: &is_linear,
    };
    let tower = config.get_set("vision_config");
    let tied = |part: &Value| match part.get("tie_word_embeddings") {
        Some(Value::Bool(tied)) => Some(*tied),
        _ => None,
    };
    let ones = |field| -> Result<Option<u64>, Box<ModelError>> {
        Ok(match language.get(field) {
            Some(Value::Array(flags)) => Some(
                flags
                    .iter()
                    .filter(|flag| flag.as_integer() == Some(1))
                    .count() as u64,
            ),
            _ => None,
        })
    };
    let entries = |part: &Value, field| match part.get(field) {
        Some(Value::Array(items)) => items.len() as u64,
        _ => 0,
    };
    Ok(Parameters {
        model_type: super::clip(model_type),
        tower: tower.map(Sizes::read),
        tied: tied(language).or_else(|| tied(config)),
        scheme: scheme::scheme(config, language, block, &shape)?,
        corrects_scores: text(language, "topk_method")? == Some("noaux_tc"),
        expert_layers: ones("moe_layer_freq")?,
        dense_layers: entries(language, "mlp_only_layers"),
        rope: rope(language),
        turned_by: turned_by(language),
        plain_draft: plain_draft(config),
        rotary_part: rotary_part(language),
        block_widths: block_widths(config, sizes.get(Size::HiddenSize))?,
        casts_tower: quant_method(config, language)
            .is_none_or(|method| method == "compressed-tensors"),
        draft_states: entries(config, "dspark_target_layer_ids"),
        pattern: match model_type {
            "nemotron_h" => pattern(&linear::nemotron_pattern(language)?),
            _ => Pattern::default(),
        },
        fp8_experts: text(language, "expert_dtype")? == Some("fp8"),
        sizes,
        deepstack: tower.map_or(0, |tower| entries(tower, "deepstack_visual_indexes")),
    })
}

fn quant_method<'a>(config: &'a Value, language: &'a Value) -> Option<&'a str> {
    let quantization = [config, language]
        .into_iter()
        .find_map(|part| part.get_set("quantization_config"))?;
    Some(
        quantization
            .get("quant_method")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}

/// Two thirds of `ffn_mult` times the hidden size, to a multiple of 256, unless a
/// block has no MLP. Mirrors `vllm/model_executor/models/nemotron_nas.py`
/// `_ffn_mult_to_intermediate_size`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)] // Python truncates a double, too; bounded by the guard
fn block_widths(config: &Value, hidden: Option<u64>) -> Result<Option<Vec<u64>>, Box<ModelError>> {
    let (Some(blocks), Some(hidden)) = (array(config, "block_configs")?, hidden) else {
        return Ok(None);
    };
    let mut widths = Vec::new();
    for block in blocks {
        let Some(mlp) = block.get_set("ffn") else {
            return Ok(None);
        };
        if mlp.get("no_op") == Some(&Value::Bool(true)) {
            continue;
        }
        let factor = match mlp.get("ffn_mult") {
            Some(Value::Float(factor)) => *factor,
            Some(Value::Integer(factor @ 0..=1024)) => *factor as f64,
            _ => return Ok(None),
        };
        if !(0.0..=1024.0).contains(&factor) || hidden > 1 << 20 {
            return Ok(None);
        }
        let width = (2.0 * factor * hidden as f64 / 3.0) as u64;
        widths.push(width.next_multiple_of(256));
    }
    Ok(Some(widths))
}

fn pattern(kinds: &[char]) -> Pattern {
    let of = |kind| kinds.iter().filter(|one| **one == kind).count() as u64;
    Pattern {
        all: kinds.len() as u64,
        mlps: of('-'),
        experts: of('E'),
    }
}

/// A name of ModelOpt's list of what is left out that stands for the MTP layers.
fn plain_draft(config: &Value) -> bool {
    let list = config
        .get_set("quantization_config")
        .and_then(|quantization| quantization.get("ignore"));
    matches!(list, Some(Value::Array(names)) if names.iter().any(|name| name.as_str() == Some("mtp*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_by_their_names() {
        let config = Value::Object(vec![
            ("hidden_size".to_owned(), Value::Integer(7)),
            ("tie_word_embeddings".to_owned(), Value::Bool(true)),
            ("vocab_size".to_owned(), Value::Integer(-1)),
        ]);
        let sizes = Sizes::read(&config);
        assert_eq!(sizes.get(Size::HiddenSize), Some(7));
        assert_eq!(sizes.get(Size::TieWordEmbeddings), Some(1));
        assert_eq!(sizes.get(Size::VocabSize), None);
        assert_eq!(Size::VocabSize.wire(), "vocab_size");
        assert!(WIRE.is_sorted());
    }
}
