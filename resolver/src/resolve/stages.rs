//! The stages of a pipeline: each is built by itself, as each worker does.

use crate::config::EngineConfig;
use crate::error::{Refusal, Stage};
use crate::layout::KvCacheLayout;
use crate::model::decoder::DecoderLayer;
use crate::model::{Common, Decoder};
use crate::plan::LayerRange;
use crate::python::{parse_int, repr_list};
use crate::request::Request;
use crate::spec::Layer;
use crate::spec::decoder::Built;
use crate::speculation::Method;
use crate::trace::Trace;

/// The stages' layers: `VLLM_PP_LAYER_PARTITION`, or as even a share as there is,
/// in which the last stage comes off best and then the first, for they hold the
/// embeddings. Mirrors `vllm/distributed/utils.py` `get_pp_indices`, which the
/// model asks when it makes its layers, with one stage too.
pub(super) fn ranges(
    partition: Option<&str>,
    layers: u64,
    stages: u64,
    trace: &mut Trace,
) -> Result<Vec<LayerRange>, Box<Refusal>> {
    let counts = match partition {
        Some(text) => asked(text, layers, stages)?,
        None => even(layers, stages),
    };
    if counts.len() > 1 {
        trace.step(
            Stage::Model,
            "vllm/distributed/utils.py",
            "get_pp_indices",
            || {
                let shown: Vec<String> = counts.iter().map(u64::to_string).collect();
                format!(
                    "the stages have {} of the {layers} decoder layers{}",
                    shown.join(", "),
                    if partition.is_some() {
                        ", as VLLM_PP_LAYER_PARTITION asks"
                    } else {
                        ""
                    }
                )
            },
        );
    }
    let mut first = 0;
    Ok(counts
        .into_iter()
        .map(|count| {
            let start = first;
            first += count;
            start..first
        })
        .collect())
}

/// What the stages come to together. The configuration is the first one's, as
/// is what the scheduler sees; each stage has its own and reports nothing of it.
pub(super) fn join(built: Vec<Built>) -> Result<Built, Box<Refusal>> {
    let mut stages = built.into_iter();
    let Some(mut whole) = stages.next() else {
        return Err(Refusal::not_modelled("a model without stages"));
    };
    for (number, stage) in (1..).zip(stages) {
        for layer in stage.layers.list {
            let known = whole.layers.specs.len();
            let spec = stage.layers.specs[layer.spec];
            let layer = Layer {
                stage: number,
                ..layer
            };
            whole.layers.push_as(layer, spec);
            if whole.layers.specs.len() > known
                && let Some(backend) = stage.spec_backends.get(layer.spec)
            {
                whole.spec_backends.push(*backend);
            }
        }
        whole.backends.extend(stage.backends);
        whole.backends.sort_unstable();
        whole.backends.dedup();
        whole.concerns |= stage.concerns;
    }
    Ok(whole)
}

/// Every worker must report the same layouts.
/// Mirrors `vllm/v1/attention/backends/utils.py` `resolve_kv_cache_layout`.
pub(super) fn agree(layouts: &[Vec<KvCacheLayout>]) -> Result<(), Box<Refusal>> {
    if layouts.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    let lists: Vec<String> = layouts
        .iter()
        .map(|names| repr_list(names.iter().map(|layout| layout.as_str())))
        .collect();
    Err(Refusal::raised(
        Stage::Plan,
        "AssertionError",
        format!(
            "Workers disagree on supported KV cache layouts: [{}].",
            lists.join(", ")
        ),
    ))
}

fn even(layers: u64, stages: u64) -> Vec<u64> {
    let stages = stages.max(1);
    let (share, rest) = (layers / stages, layers % stages);
    // the rest goes to the stages before the last, the nearest first
    (0..stages)
        .map(|stage| share + u64::from(stage + 1 < stages && stage + 1 + rest >= stages))
        .collect()
}

fn asked(text: &str, layers: u64, stages: u64) -> Result<Vec<u64>, Box<Refusal>> {
    let raise = |message| Err(Refusal::raised(Stage::Model, "ValueError", message));
    if !text.is_ascii() {
        return Err(Refusal::not_modelled(
            "VLLM_PP_LAYER_PARTITION with other characters than ASCII is not modelled",
        ));
    }
    let mut counts = Vec::new();
    for part in text.split(',') {
        match parse_int(part) {
            Some(count) => counts.push(count),
            None => return raise(format!("Invalid partition string: {text}")),
        }
    }
    if counts.len() as u64 != stages {
        return raise(format!(
            "len(partitions)={} does not match pp_size={stages}.",
            counts.len()
        ));
    }
    let sum = counts
        .iter()
        .try_fold(0_i128, |sum, count| sum.checked_add(*count))
        .ok_or(Refusal::TooLarge)?;
    if sum != i128::from(layers) {
        return raise(format!(
            "sum(partitions)={sum} does not match num_hidden_layers={layers}."
        ));
    }
    let counts: Result<Vec<u64>, _> = counts.into_iter().map(u64::try_from).collect();
    counts.map_err(|_| {
        Refusal::not_modelled("VLLM_PP_LAYER_PARTITION with a negative number is not modelled")
    })
}

/// A drafter is the last stage's. Draft models share their own layers out by the
/// same partition, and not every target passes on the states that others read:
/// neither is modelled.
pub(super) fn drafter_on_stages(
    request: &Request,
    config: &EngineConfig,
) -> Result<(), Box<Refusal>> {
    let stages = config.pipeline_parallel_size > 1;
    let context = config.shares_tokens();
    let partition = request.env.pp_layer_partition.is_some();
    match &config.speculation {
        Some(drafts) if drafts.method == Method::DraftModel && (stages || partition || context) => {
            Err(Refusal::not_modelled(
                "a draft model beside pipeline stages or context parallelism is not modelled",
            ))
        }
        Some(drafts) if stages && drafts.draft.is_some() && drafts.method != Method::Mtp => {
            Err(Refusal::not_modelled(format!(
                "{} with several pipeline stages is not modelled",
                drafts.method
            )))
        }
        _ => Ok(()),
    }
}

/// Of the stages, the first alone tells how it is built.
pub(super) fn drafter_is_last(config: &EngineConfig, stages: usize, trace: &mut Trace) {
    if let Some(drafts) = config
        .speculation
        .as_ref()
        .filter(|drafts| drafts.draft.is_some())
    {
        trace.step(
            Stage::Model,
            "vllm/v1/worker/gpu/model_runner.py",
            "GPUModelRunner.__init__",
            || format!("{}'s layers are stage {stages}'s, the last", drafts.method),
        );
    }
}

/// The layers that deeper ones of Qwen3-VL's tower feed are all of the first stage, which each other stage looks
/// at once its layers are built. Mirrors `vllm/model_executor/models/qwen3_vl.py`
/// `Qwen3VLForConditionalGeneration.__init__` and `qwen3_vl_moe.py`.
pub(super) fn fed_by_tower(
    common: &Common,
    stage: usize,
    range: &LayerRange,
) -> Result<(), Box<Refusal>> {
    let looks = matches!(
        common.architecture.as_str(),
        "Qwen3VLForConditionalGeneration" | "Qwen3VLMoeForConditionalGeneration"
    );
    if !looks || stage == 0 || range.start >= common.parameters.deepstack {
        return Ok(());
    }
    Err(Refusal::raised(
        Stage::Model,
        "AssertionError",
        "start_layer should be greater than or equal to len(deepstack_visual_indexes)",
    ))
}

/// Some models with experts look for a layer that has them on every stage, each
/// in words of its own.
pub(super) fn stage_with_experts(
    common: &Common,
    decoder: &Decoder,
    range: &LayerRange,
) -> Result<(), Box<Refusal>> {
    let of_stage = |layer: &&DecoderLayer| range.contains(&u64::from(layer.index));
    let with_cache = decoder.layers.iter().filter(of_stage).count() as u64;
    let layers = range.end - range.start;
    // Nemotron-H's layers keep a cache or have experts
    let lacks =
        layers == 0 || (common.architecture == "NemotronHForCausalLM" && with_cache == layers);
    if lacks && common.has_experts {
        return Err(Refusal::not_modelled(format!(
            "a stage of {} without experts is not modelled",
            common.architecture
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(partition: Option<&str>, layers: u64, of: u64) -> Result<Vec<u64>, String> {
        ranges(partition, layers, of, &mut Trace::silent())
            .map(|ranges| ranges.iter().map(|range| range.end - range.start).collect())
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn the_ends_have_least() {
        assert_eq!(counts(None, 43, 1), Ok(vec![43]));
        assert_eq!(counts(None, 43, 2), Ok(vec![22, 21]));
        assert_eq!(counts(None, 43, 3), Ok(vec![14, 15, 14]));
        assert_eq!(counts(None, 43, 4), Ok(vec![11, 11, 11, 10]));
        assert_eq!(counts(None, 2, 4), Ok(vec![0, 1, 1, 0]));
    }

    #[test]
    fn a_partition_must_add_up() {
        assert_eq!(counts(Some("3, 40"), 43, 2), Ok(vec![3, 40]));
        for (text, message) in [
            ("", "Invalid partition string: "),
            ("a,b", "Invalid partition string: a,b"),
            ("21.0,22", "Invalid partition string: 21.0,22"),
            ("43", "len(partitions)=1 does not match pp_size=2."),
            (
                "20,20",
                "sum(partitions)=40 does not match num_hidden_layers=43.",
            ),
            (
                "44,-1",
                "VLLM_PP_LAYER_PARTITION with a negative number is not modelled",
            ),
        ] {
            assert_eq!(counts(Some(text), 43, 2), Err(message.to_owned()));
        }
    }
}
