//! Rules that look at several things at once: a layer, its model and flags.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{DUMPS, Dump, capability, list, texts};
use crate::backend::AttentionBackend as B;
use crate::backend::block_size::common_block_size;
use crate::backend::combination::objection;
use crate::backend::flash_attention::Version;
use crate::backend::kernel_block::{Asking, kernel_blocks};
use crate::backend::layer::LayerBackend;
use crate::backend::select::{MlaDims, Selection, Surroundings};
use crate::config::ModelDtype;

/// Every case of a line: each key's listed values, whatever the others' are.
fn cases(line: &Value) -> Vec<BTreeMap<&str, &Value>> {
    let mut cases = vec![BTreeMap::new()];
    for (key, values) in line.as_object().expect("a case") {
        cases = cases
            .iter()
            .flat_map(|case| {
                list(values).iter().map(|value| {
                    let mut case = case.clone();
                    case.insert(key.as_str(), value);
                    case
                })
            })
            .collect();
    }
    cases
}

/// What a case asks, as the resolver sees it.
struct Question<'a> {
    dump: &'a Dump,
    case: BTreeMap<&'a str, &'a Value>,
}

impl Question<'_> {
    /// The case's value, or the one that is asked otherwise.
    fn value(&self, key: &str) -> &Value {
        self.case
            .get(key)
            .copied()
            .unwrap_or(&self.dump.json["asked"]["combined"][key])
    }

    fn number(&self, key: &str) -> u64 {
        self.value(key).as_u64().unwrap_or_else(|| panic!("{key}"))
    }

    fn holds(&self, key: &str) -> bool {
        self.value(key).as_bool().unwrap_or_else(|| panic!("{key}"))
    }

    fn selection(&self, backend: B) -> Selection {
        let model_dtype = match self.value("dtype").as_str() {
            Some("bfloat16") => ModelDtype::Bfloat16,
            Some("float16") => ModelDtype::Float16,
            Some("float32") => ModelDtype::Float32,
            other => panic!("{other:?}"),
        };
        Selection {
            head_size: self.number("head_size"),
            dtype: model_dtype,
            kv_cache_dtype: self
                .value("kv_cache_dtype")
                .as_str()
                .unwrap()
                .parse()
                .unwrap(),
            block_size: self.value("block_size").as_u64(),
            use_mla: backend.as_str().contains("MLA"),
            has_sink: self.holds("has_sink"),
            use_sparse: self.holds("use_sparse"),
            use_mm_prefix: self.holds("use_mm_prefix"),
            use_non_causal: false,
            use_dcp: self.number("dcp") > 1,
            use_pcp: false,
            ..super::selection()
        }
    }

    fn around(&self) -> Surroundings {
        let on = self.case["capability"].as_str().unwrap();
        let forced = match self.value("flash_attn_version").as_u64() {
            None => None,
            Some(2) => Some(Version::Two),
            Some(4) => Some(Version::Four),
            other => panic!("FlashAttention {other:?}"),
        };
        Surroundings {
            heads_per_rank: self.number("heads"),
            gqa_ratio: self.number("heads") / self.number("kv_heads"),
            mla: Some(MlaDims {
                qk_nope_head_dim: self.number("qk_nope_head_dim"),
                qk_rope_head_dim: self.number("qk_rope_head_dim"),
                v_head_dim: self.number("v_head_dim"),
                kv_lora_rank: self.number("kv_lora_rank"),
            }),
            index_topk: self.value("index_topk").as_u64(),
            has_softcap: self.value("softcap").is_number(),
            is_mm_prefix_model: self.holds("use_mm_prefix"),
            model_head_size: self.number("head_size"),
            dcp: self.number("dcp"),
            pcp: 1,
            cache_dtype: self
                .value("kv_cache_dtype")
                .as_str()
                .unwrap()
                .parse()
                .unwrap(),
            ..self.dump.around(capability(on), forced)
        }
    }
}

#[test]
fn objections_are_vllms() {
    for dump in DUMPS.iter() {
        let mut held = 0;
        for backend in dump.backends {
            for line in list(&dump.json["combinations"][backend.as_str()]) {
                for case in cases(&line[0]) {
                    let question = Question { dump, case };
                    let (selection, around) = (question.selection(*backend), question.around());
                    let ours = objection(*backend, &selection, &around).unwrap();
                    assert_eq!(
                        ours.as_deref(),
                        line[1].as_str(),
                        "{}: {backend} on {:?}",
                        dump.release,
                        question.case
                    );
                    held += 1;
                }
            }
        }
        assert!(held > 10_000, "{}: only {held} cases", dump.release);
    }
}

#[test]
fn backends_without_a_rule_never_object() {
    let mut held = 0;
    for dump in DUMPS.iter() {
        for backend in dump.backends {
            if dump.json["combinations"].get(backend.as_str()).is_some() {
                continue;
            }
            for (_, capability) in dump.capabilities() {
                let around = dump.around(capability, None);
                let ours = objection(*backend, &super::selection(), &around);
                assert_eq!(ours, Ok(None), "{}: {backend}", dump.release);
                held += 1;
            }
        }
    }
    assert!(held > 400, "only {held} cases");
}

#[test]
fn blocks_of_a_model_are_vllms() {
    for dump in DUMPS.iter() {
        let mut held = 0;
        for backend in dump.backends {
            let layer = LayerBackend::Selected(*backend);
            for line in list(&dump.json["blocks"][backend.as_str()]) {
                let sizes: Vec<String> = list(&line[1][0])
                    .iter()
                    .map(|size| {
                        size.as_str()
                            .map_or_else(|| size.to_string(), str::to_owned)
                    })
                    .collect();
                for case in cases(&line[0]) {
                    let question = Question { dump, case };
                    let around = question.around();
                    let what = format!("{}: {backend} on {:?}", dump.release, question.case);
                    let ours: Vec<String> = kernel_blocks(layer, Asking::Platform(&around))
                        .iter()
                        .map(ToString::to_string)
                        .collect();
                    assert_eq!(ours, sizes, "{what}");
                    let block = common_block_size(&[layer], &around).unwrap();
                    assert_eq!(Some(block), line[1][1].as_u64(), "{what}");
                    held += 1;
                }
            }
        }
        assert!(held > 1_000, "{}: only {held} cases", dump.release);
    }
    let asked = |name| {
        DUMPS
            .iter()
            .any(|dump| dump.json["blocks"].get(name).is_some())
    };
    assert!(
        texts(&Value::from(vec!["FLASH_ATTN", "FLASHINFER"]))
            .into_iter()
            .all(asked)
    );
}
