//! `docs/architectures.md`: which of a release's architectures are modelled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{HEADER, Tables};
use crate::workspace::Fallible;

/// Architectures that generate text, the most used first, by judgement (well-known families; nothing was
/// counted). It only orders the page; those not named follow by the alphabet.
const MOST_USED: &str = "
Qwen2ForCausalLM Gemma3ForConditionalGeneration Qwen2_5_VLForConditionalGeneration MistralForCausalLM
Mistral3ForConditionalGeneration DeepseekV2ForCausalLM Qwen3NextForCausalLM Glm4MoeForCausalLM Gemma2ForCausalLM
Gemma3ForCausalLM Phi3ForCausalLM Gemma4ForCausalLM Gemma4UnifiedForConditionalGeneration Qwen3_5ForCausalLM
Qwen3_5MoeForCausalLM Glm5NextForConditionalGeneration Glm5NextForCausalLM DeepseekV41ForCausalLM
DeepseekV4ForConditionalGeneration MiniMaxM3SparseForConditionalGeneration MiniMaxM3SparseForCausalLM
MiMoV2ForCausalLM MiMoV2OmniForCausalLM Step3p7ForConditionalGeneration Step3p5ForCausalLM
Step5ForConditionalGeneration Step5ForCausalLM Qwen4ExpForConditionalGeneration Qwen4ExpForCausalLM
Llama4ForCausalLM GemmaForCausalLM Qwen2VLForConditionalGeneration Qwen2MoeForCausalLM
Qwen3OmniMoeForConditionalGeneration Glm4ForCausalLM Glm4MoeLiteForCausalLM Glm4vMoeForConditionalGeneration
Glm4vForConditionalGeneration KimiLinearForCausalLM KimiVLForConditionalGeneration MistralLarge3ForCausalLM
Ministral3ForCausalLM PixtralForConditionalGeneration InternVLChatModel InternVLForConditionalGeneration
NemotronH_Nano_VL_V2 NemotronHPuzzleForCausalLM DeciLMForCausalLM NemotronForCausalLM Gemma3nForConditionalGeneration
Gemma3nForCausalLM GraniteMoeHybridForCausalLM GraniteForCausalLM GraniteMoeForCausalLM FalconH1ForCausalLM
Lfm2ForCausalLM Lfm2MoeForCausalLM SeedOssForCausalLM Ernie4_5_MoeForCausalLM Ernie4_5ForCausalLM
Ernie4_5_VLMoeForConditionalGeneration BailingMoeV3ForCausalLM BailingMoeV2_5ForCausalLM BailingMoeV2ForCausalLM
LongcatFlashForCausalLM HYV3ForCausalLM HYV4ForCausalLM HunYuanMoEV1ForCausalLM HunYuanDenseV1ForCausalLM
Cohere2ForCausalLM Cohere2MoeForCausalLM CohereForCausalLM Olmo3ForCausalLM Olmo2ForCausalLM OlmoeForCausalLM
Exaone4ForCausalLM ExaoneForCausalLM SmolLM3ForCausalLM JambaForCausalLM Mamba2ForCausalLM MambaForCausalLM
Zamba2ForCausalLM LlavaForConditionalGeneration LlavaNextForConditionalGeneration
LlavaOnevisionForConditionalGeneration DeepseekOCRForCausalLM DeepseekOCR2ForCausalLM DeepseekVLV2ForCausalLM
PaddleOCRVLForConditionalGeneration WhisperForConditionalGeneration VoxtralForConditionalGeneration
Qwen2_5OmniForConditionalGeneration Qwen2AudioForConditionalGeneration Qwen3ASRForConditionalGeneration
MiniCPMV MiniCPMO MiniCPMForCausalLM MiniCPM3ForCausalLM Phi4MMForCausalLM PhiMoEForCausalLM Phi3VForCausalLM
InternLM3ForCausalLM InternLM2ForCausalLM ChatGLMModel FalconForCausalLM DbrxForCausalLM GPTNeoXForCausalLM
GPT2LMHeadModel OPTForCausalLM BloomForCausalLM GPTJForCausalLM PhiForCausalLM Starcoder2ForCausalLM
StableLmForCausalLM
";

/// Kinds of the registry whose models generate text.
const GENERATING: [&str; 3] = ["text_generation", "multimodal", "transformers_supported"];

/// The page, of one release. `models` is the source of `resolver/src/model/mod.rs`, whose match on the architecture
/// says what is modelled.
pub fn page(tables: &Tables, models: &str) -> Fallible<String> {
    let kinds = tables.json["architectures"]
        .as_object()
        .ok_or("the dump has no architectures")?;
    let modelled = modelled(models)?;
    let mut generating = BTreeSet::new();
    for kind in GENERATING {
        generating.extend(tables.names(&format!("/architectures/{kind}"))?);
    }
    if let Some(unknown) = modelled.keys().find(|name| !generating.contains(*name)) {
        return Err(format!("{unknown} is modelled but is not in vLLM's registry").into());
    }
    let mut open: Vec<&str> = generating
        .iter()
        .copied()
        .filter(|name| !modelled.contains_key(name))
        .collect();
    let order: Vec<&str> = MOST_USED.split_whitespace().collect();
    let place = |name: &str| order.iter().position(|used| *used == name);
    open.sort_by_key(|name| place(name).unwrap_or(order.len()));
    let judged = open.iter().filter(|name| place(name).is_some()).count();
    let release = &tables.release;
    let mut text = format!(
        "<!-- {HEADER} -->\n# The architectures of vLLM {release}\n\n\
         vLLM's model registry (`vllm/model_executor/models/registry.py`) names {} architectures that generate text. \
         {} of them are modelled; a config.json of any other is answered \"unmodelled\", never guessed.\n\n\
         ## Modelled\n\n| `architectures[0]` | `model_type` |\n| --- | --- |\n",
        generating.len(),
        modelled.len()
    );
    for (name, types) in &modelled {
        let types: Vec<String> = types.iter().map(|name| format!("`{name}`")).collect();
        writeln!(text, "| `{name}` | {} |", types.join(", "))?;
    }
    write!(
        text,
        "\n## Not modelled\n\nThe most used first. The order is a judgement, by well-known families; nothing was \
         counted.\n\n"
    )?;
    for (index, name) in open[..judged].iter().enumerate() {
        writeln!(text, "{}. `{name}`", index + 1)?;
    }
    write!(text, "\nThe others, by the alphabet:\n\n")?;
    text += &paragraph(&open[judged..]);
    write!(
        text,
        "\n## Not asked\n\nOf these kinds none is modelled: they do not generate text, are drafts for another model, or \
         stand for any model at all.\n"
    )?;
    for kind in kinds.keys() {
        if !GENERATING.contains(&kind.as_str()) {
            let names = tables.names(&format!("/architectures/{kind}"))?;
            let names: Vec<&str> = names
                .into_iter()
                .filter(|name| !generating.contains(name))
                .collect();
            write!(
                text,
                "\n### {} ({})\n\n",
                kind.replace('_', " "),
                names.len()
            )?;
            text += &paragraph(&names);
        }
    }
    Ok(text)
}

/// The names, as code, in lines of readable length.
fn paragraph(names: &[&str]) -> String {
    const WIDTH: usize = 118;
    let mut text = String::new();
    let mut width = 0;
    for (index, name) in names.iter().enumerate() {
        let end = if index + 1 == names.len() { "" } else { "," };
        let word = format!("`{name}`{end}");
        if width > 0 {
            let breaks = width + 1 + word.len() > WIDTH;
            text.push(if breaks { '\n' } else { ' ' });
            width = if breaks { 0 } else { width + 1 };
        }
        width += word.len();
        text += &word;
    }
    text + "\n"
}

/// `{architecture: model types}` of the arms `("Architecture", "type" | "type") … => Kind::…`, up to the first arm
/// that refuses.
fn modelled(source: &str) -> Fallible<BTreeMap<&str, Vec<&str>>> {
    let start = "match (architecture, model_type) {";
    let (_, body) = source
        .split_once(start)
        .ok_or_else(|| format!("model/mod.rs has no `{start}`"))?;
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut pattern: Vec<&str> = Vec::new();
    for line in body.lines().map(str::trim) {
        if line.starts_with("_ =>") {
            return Ok(found);
        }
        pattern.push(line.split(" => ").next().unwrap_or_default());
        if let Some((_, answer)) = line.split_once("=>") {
            let refuses = answer.trim() == "{" && body_of(body, line).starts_with("return");
            if !refuses {
                for (name, types) in pattern.iter().flat_map(|line| pairs(line)) {
                    found.entry(name).or_default().extend(types);
                }
            }
            pattern.clear();
        } else if !line.starts_with('(') && !line.starts_with('|') {
            pattern.clear();
        }
    }
    Err("model/mod.rs: the match on the architecture has no last arm `_ =>`".into())
}

/// What follows a line.
fn body_of<'a>(body: &'a str, line: &str) -> &'a str {
    body.split_once(line)
        .map_or("", |(_, rest)| rest.trim_start())
}

/// The pairs of a pattern's line.
fn pairs(line: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    line.split("(\"").skip(1).filter_map(|pair| {
        let (name, rest) = pair.split_once("\", ")?;
        let (types, _) = rest.split_once(')')?;
        Some((
            name,
            types
                .split('|')
                .map(|name| name.trim().trim_matches('"'))
                .collect(),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_that_answer_are_modelled() {
        let source = r#"
        let kind = match (architecture, model_type) {
            // another server's
            (_, "deepseek_ref") | ("MiMoForCausalLM", "mimo") => {
                return Err(ModelError::UnknownToTransformers(clip(model_type)));
            }
            ("DeepseekV3ForCausalLM", "deepseek_v3" | "kimi_k2") => {
                Kind::Decoder(mla::dense(config, "model.layers")?)
            }
            ("LlamaForCausalLM", "llama")
            | ("Qwen3ForCausalLM", "qwen3") => Kind::Decoder(dense::decoder(config)?),
            _ => return Err(family()),
        };"#;
        let found = modelled(source).unwrap();
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [
                ("DeepseekV3ForCausalLM", vec!["deepseek_v3", "kimi_k2"]),
                ("LlamaForCausalLM", vec!["llama"]),
                ("Qwen3ForCausalLM", vec!["qwen3"]),
            ]
        );
        assert!(modelled("fn main() {}").is_err());
    }

    #[test]
    fn judged_names_are_named_once() {
        let names: Vec<&str> = MOST_USED.split_whitespace().collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
    }
}
