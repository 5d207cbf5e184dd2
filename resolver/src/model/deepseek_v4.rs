//! DeepSeek V4: sparse MLA whose older tokens are compressed 4:1 or 128:1,
//! beside a short window of whole ones.

use super::ModelError;
use super::bounds::MOST_LAYERS;
use super::fields::{array, integer, integer_or, text};
use crate::value::Value;

/// Heads, head sizes and windows beyond any model.
const MOST_WIDTH: u64 = 1 << 16;

/// How a layer keeps tokens older than its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// `0`: not at all.
    None,
    /// `4`: sparse, chosen by an indexer.
    C4,
    /// `128`: dense.
    C128,
}

impl Compression {
    /// Tokens that one stored state covers.
    pub const fn ratio(self) -> u64 {
        match self {
            Self::None => 1,
            Self::C4 => 4,
            Self::C128 => 128,
        }
    }
}

/// The facts that the KV cache follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeepseekV4 {
    /// Query heads.
    pub num_attention_heads: u64,
    /// Elements of a KV row: NoPE and RoPE together.
    pub head_dim: u64,
    /// Window in tokens.
    pub sliding_window: u64,
    /// Elements of an indexer key.
    pub index_head_dim: u64,
    /// Width of one expert.
    pub moe_intermediate_size: u64,
    /// Experts that every token goes through.
    pub n_shared_experts: u64,
    /// Each decoder layer's compression.
    pub layers: Vec<Compression>,
}

impl DeepseekV4 {
    /// Whether the first layer with a cache is an indexer's.
    pub(crate) fn indexer_is_first(&self) -> bool {
        self.layers.first() == Some(&Compression::C4)
    }

    /// The same model with these decoder layers alone.
    pub(crate) fn stage(&self, range: &std::ops::Range<u64>) -> Self {
        let numbered = (0_u64..).zip(&self.layers);
        let of_stage = numbered.filter(|(index, _)| range.contains(index));
        Self {
            layers: of_stage.map(|(_, compression)| *compression).collect(),
            ..self.clone()
        }
    }

    /// Mirrors transformers' `DeepseekV4Config`, as vLLM reads it.
    pub fn from_config(config: &Value) -> Result<Self, Box<ModelError>> {
        if config
            .get_set("vision_n_layers")
            .is_some_and(|layers| layers.as_integer() != Some(0))
        {
            return Err(ModelError::unmodelled(
                "the vision variant of DeepSeek V4 (vision_n_layers) is not modelled yet",
            ));
        }
        let layers = layers(config)?;
        if !layers.contains(&Compression::C4) {
            return Err(ModelError::unmodelled(
                "a DeepSeek V4 without 4:1 layers (and so without an indexer) is not modelled",
            ));
        }
        // the model's own rotary embedding is YaRN's, and asks for its settings
        let rope = config
            .get_set("rope_scaling")
            .or(config.get_set("rope_parameters"));
        let kind = rope.and_then(|rope| rope.get_set("rope_type").or(rope.get_set("type")));
        let original = rope.and_then(|rope| rope.get_set("original_max_position_embeddings"));
        if kind.and_then(Value::as_str) != Some("yarn") || original.is_none() {
            return Err(ModelError::unmodelled(
                "DeepSeek V4 is modelled with YaRN's `rope_scaling` only",
            ));
        }
        if !matches!(text(config, "expert_dtype")?, None | Some("fp4" | "fp8")) {
            return Err(ModelError::unmodelled(
                "`expert_dtype` is neither fp4 nor fp8",
            ));
        }
        let head_dim = integer(config, "head_dim", 1, MOST_WIDTH)?;
        // the packed slot of 584 bytes is 448 + 128 + 8, for this size only
        if head_dim != 512 {
            return Err(ModelError::unmodelled(format!(
                "`head_dim` is {head_dim}; DeepSeek V4 is modelled with 512 only, which its packed slot is made for"
            )));
        }
        let index_head_dim = integer(config, "index_head_dim", 1, MOST_WIDTH)?;
        if index_head_dim != 128 {
            return Err(ModelError::unmodelled(format!(
                "`index_head_dim` is {index_head_dim}; DeepSeek V4 is modelled with 128 only"
            )));
        }
        Ok(Self {
            num_attention_heads: integer(config, "num_attention_heads", 1, MOST_WIDTH)?,
            head_dim,
            sliding_window: integer(config, "sliding_window", 1, MOST_WIDTH)?,
            index_head_dim,
            moe_intermediate_size: integer(config, "moe_intermediate_size", 1, MOST_WIDTH)?,
            n_shared_experts: integer_or(config, "n_shared_experts", 0, MOST_LAYERS, 0)?,
            layers,
        })
    }
}

/// `layer_types` counts before `compress_ratios`, which older files carry, with
/// an entry for the draft layer that is cut off.
fn layers(config: &Value) -> Result<Vec<Compression>, Box<ModelError>> {
    for field in ["compress_rates", "compress_rate_csa", "compress_rate_hca"] {
        if config.get_set(field).is_some() {
            return Err(ModelError::unmodelled(format!(
                "`{field}` is set; only the rates 4 and 128 are modelled"
            )));
        }
    }
    let count = integer(config, "num_hidden_layers", 1, MOST_LAYERS)?;
    let (field, entries) = match array(config, "layer_types")? {
        Some(entries) => ("layer_types", entries),
        None => (
            "compress_ratios",
            array(config, "compress_ratios")?.ok_or(ModelError::Missing("compress_ratios"))?,
        ),
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if entries.len() < count {
        return Err(ModelError::unmodelled(format!(
            "`num_hidden_layers` is {count}, but `{field}` has {} entries",
            entries.len()
        )));
    }
    entries
        .iter()
        .take(count)
        .map(|entry| {
            let compression = match entry {
                Value::Integer(0) => Some(Compression::None),
                Value::Integer(4) => Some(Compression::C4),
                Value::Integer(128) => Some(Compression::C128),
                Value::String(name) => match name.as_str() {
                    "sliding_attention" => Some(Compression::None),
                    "compressed_sparse_attention" => Some(Compression::C4),
                    "heavily_compressed_attention" => Some(Compression::C128),
                    _ => None,
                },
                _ => None,
            };
            compression.ok_or_else(|| {
                ModelError::unmodelled(format!(
                    "`{field}` has an entry that is none of 0, 4 and 128 (or their layer types)"
                ))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(ratios: &[i128]) -> Value {
        let number = |value| Value::Integer(value);
        Value::Object(
            [
                ("num_hidden_layers", number(3)),
                ("num_attention_heads", number(64)),
                ("head_dim", number(512)),
                ("sliding_window", number(128)),
                ("index_head_dim", number(128)),
                ("moe_intermediate_size", number(2048)),
                (
                    "rope_scaling",
                    Value::Object(vec![
                        ("type".to_owned(), Value::String("yarn".to_owned())),
                        ("original_max_position_embeddings".to_owned(), number(65536)),
                    ]),
                ),
                (
                    "compress_ratios",
                    Value::Array(ratios.iter().copied().map(number).collect()),
                ),
            ]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        )
    }

    #[test]
    fn draft_layers_are_cut_off() {
        let model = DeepseekV4::from_config(&config(&[0, 4, 128, 0])).unwrap();
        assert_eq!(
            model.layers,
            [Compression::None, Compression::C4, Compression::C128]
        );
    }

    #[test]
    fn bad_schedules_are_refused() {
        for (ratios, part) in [
            (&[0, 4][..], "has 2 entries"),
            (&[0, 4, 8], "none of 0, 4 and 128"),
            (&[0, 0, 128], "without 4:1 layers"),
        ] {
            let error = DeepseekV4::from_config(&config(ratios))
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
