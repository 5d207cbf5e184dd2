//! What a config.json was recognised as, in words for people.

use super::decoder::{Attention, LayerKind, LinearKernel};
use super::deepseek_v4::{Compression, DeepseekV4};
use super::{Decoder, Kind, MODELLED, Model, ModelError, clip};
use crate::units::thousands;
use crate::value::Value;

/// Architectures named as near.
const MOST_NEAREST: usize = 3;
/// Letters that two names of one maker begin with, such as `Qwen`.
const LEAST_SHARED: usize = 4;

/// What a config.json was recognised as.
#[derive(Debug, Clone, PartialEq)]
pub struct Recognition {
    /// `architectures[0]`, by which vLLM knows the model; empty if there is none.
    pub architecture: String,
    /// `model_type`; empty if there is none.
    pub model_type: String,
    /// What its layers keep, or why there is no rule for it.
    pub layers: Result<String, Box<ModelError>>,
    /// Of an architecture without rules: those with rules whose names are most like it. Their models may differ all
    /// the same, so this is where to look, not what to take.
    pub nearest: Vec<&'static str>,
}

impl Recognition {
    /// Reads a config.json.
    pub fn of(config: &Value) -> Self {
        let text = |value: Option<&Value>| clip(value.and_then(Value::as_str).unwrap_or_default());
        let architecture = match config.get("architectures") {
            Some(Value::Array(names)) => text(names.first()),
            Some(_) | None => String::new(),
        };
        let layers = Model::from_config(config).map(|model| model.describe());
        let is_other = |error: &ModelError| matches!(error, ModelError::Family { .. });
        let nearest = match &layers {
            Err(error) if is_other(error) => nearest(&architecture),
            Ok(_) | Err(_) => Vec::new(),
        };
        Self {
            model_type: text(config.get("model_type")),
            architecture,
            layers,
            nearest,
        }
    }
}

impl Model {
    /// What its layers keep, such as `12 × GQA, 36 × Gated DeltaNet`.
    pub fn describe(&self) -> String {
        let mut counts = Counts(Vec::new());
        match &self.kind {
            Kind::DeepseekV4(model) => {
                for layer in &model.layers {
                    counts.add(compressed(model, *layer));
                }
            }
            Kind::Decoder(decoder) => {
                let heads = self.common.num_attention_heads;
                for layer in &decoder.layers {
                    counts.add(words(decoder, layer.kind, heads));
                }
            }
        }
        counts.text()
    }
}

/// Layers by their words, in the order in which each first comes.
struct Counts(Vec<(u64, String)>);

impl Counts {
    fn add(&mut self, words: String) {
        match self.0.iter_mut().find(|(_, known)| *known == words) {
            Some((count, _)) => *count += 1,
            None => self.0.push((1, words)),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (count, words) in &self.0 {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&thousands(*count));
            text.push_str(" × ");
            text.push_str(words);
        }
        text
    }
}

fn compressed(model: &DeepseekV4, layer: Compression) -> String {
    let window = thousands(model.sliding_window);
    match layer {
        Compression::None => format!("MLA with a window of {window}"),
        Compression::C4 | Compression::C128 => {
            let ratio = layer.ratio();
            format!("MLA with a window of {window} and {ratio}:1 compression")
        }
    }
}

fn words(decoder: &Decoder, layer: LayerKind, heads: u64) -> String {
    match layer {
        LayerKind::Attention(attention) => attends(attention, heads),
        LayerKind::Mla { indexer: true } => "MLA with an indexer".to_owned(),
        LayerKind::Mla { indexer: false } if decoder.index_topk.is_some() => {
            "MLA by another layer's indexer".to_owned()
        }
        LayerKind::Mla { indexer: false } => "MLA".to_owned(),
        LayerKind::Linear(linear) => match linear.kernel {
            LinearKernel::Gdn => "Gated DeltaNet",
            LinearKernel::Mamba2 => "Mamba2",
            LinearKernel::Kda => "Kimi Delta Attention",
        }
        .to_owned(),
    }
}

fn attends(attention: Attention, heads: u64) -> String {
    let mut text = match attention.kv_heads {
        kv_heads if kv_heads == heads => "MHA",
        1 => "MQA",
        _ => "GQA",
    }
    .to_owned();
    if let Some(chunk) = attention.chunk {
        text.push_str(" in chunks of ");
        text.push_str(&thousands(chunk));
    }
    if let Some(window) = attention.window {
        text.push_str(" with a window of ");
        text.push_str(&thousands(window));
    }
    if attention.sinks {
        text.push_str(if attention.window.is_some() {
            " and sinks"
        } else {
            " with sinks"
        });
    }
    text
}

/// Names that begin alike; of those that begin equally alike, the ones that end alike.
fn nearest(architecture: &str) -> Vec<&'static str> {
    let asked = architecture.as_bytes();
    let likeness = |name: &str| {
        let name = name.as_bytes();
        let start = name.iter().zip(asked).take_while(alike).count();
        let end = name.iter().rev().zip(asked.iter().rev());
        let end = end.take_while(alike).count();
        if start < LEAST_SHARED {
            0
        } else {
            (start << 8) + end
        }
    };
    let mut found: Vec<&'static str> = Vec::new();
    for _ in 0..MOST_NEAREST {
        let mut best = (0, "");
        for name in MODELLED {
            let likeness = likeness(name);
            if likeness > best.0 && !found.contains(&name) {
                best = (likeness, name);
            }
        }
        if best.0 > 0 {
            found.push(best.1);
        }
    }
    found
}

fn alike((left, right): &(&u8, &u8)) -> bool {
    left.eq_ignore_ascii_case(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::find_model;

    fn recognised(id: &str) -> Recognition {
        let model = find_model(id).unwrap();
        Recognition::of(&serde_json::from_str(model.config_json).unwrap())
    }

    #[test]
    fn layers_are_counted_by_what_they_keep() {
        for (id, words) in [
            (
                "deepseek-ai/DeepSeek-V4-Flash",
                "2 × MLA with a window of 128, 21 × MLA with a window of 128 and 4:1 compression, \
                 20 × MLA with a window of 128 and 128:1 compression",
            ),
            ("deepseek-ai/DeepSeek-V3", "61 × MLA"),
            ("deepseek-ai/DeepSeek-V3.2", "61 × MLA with an indexer"),
            ("meta-llama/Meta-Llama-3.1-8B", "32 × GQA"),
            (
                "openai/gpt-oss-20b",
                "12 × GQA with a window of 128 and sinks, 12 × GQA with sinks",
            ),
            ("Qwen/Qwen3.5-397B-A17B", "45 × Gated DeltaNet, 15 × GQA"),
            ("moonshotai/Kimi-K3", "69 × Kimi Delta Attention, 24 × MLA"),
        ] {
            assert_eq!(recognised(id).layers.as_deref(), Ok(words), "{id}");
        }
    }

    #[test]
    fn names_are_those_of_the_file() {
        let found = recognised("zai-org/GLM-5");
        assert_eq!(found.architecture, "GlmMoeDsaForCausalLM");
        assert_eq!(found.model_type, "glm_moe_dsa");
        assert!(found.nearest.is_empty());
    }

    #[test]
    fn an_unknown_architecture_has_neighbours_by_name() {
        let near = |architecture: &str| {
            let config = Value::Object(vec![
                (
                    "architectures".to_owned(),
                    Value::Array(vec![Value::String(architecture.to_owned())]),
                ),
                ("model_type".to_owned(), Value::String("other".to_owned())),
            ]);
            let found = Recognition::of(&config);
            assert!(found.layers.is_err());
            found.nearest
        };
        assert_eq!(near("Qwen2MoeForCausalLM")[0], "Qwen3MoeForCausalLM");
        assert_eq!(near("DeepseekV2ForCausalLM").len(), MOST_NEAREST);
        assert_eq!(near("MadeUpForCausalLM"), Vec::<&str>::new());
        assert_eq!(near(""), Vec::<&str>::new());
    }

    #[test]
    fn files_of_other_kinds_are_named_as_such() {
        let found = Recognition::of(&Value::Object(Vec::new()));
        assert_eq!(found.layers, Err(ModelError::NoArchitecture.into()));
        assert_eq!(
            (found.architecture.as_str(), found.model_type.as_str()),
            ("", "")
        );
        assert!(Recognition::of(&Value::Null).layers.is_err());
    }
}
