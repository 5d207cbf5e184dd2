//! Every row, order, list and size of 0.33.0 against what vLLM itself answers
//! (`resolver/tables/0.33.0.json`, see `tests/oracle/dump_tables.py`).

use std::sync::LazyLock;

use serde_json::Value;

use super::AttentionBackend as B;
use super::block_size::common_block_size;
use super::flash_attention::{Shape, Version, version};
use super::kernel_block::{Asking, kernel_blocks, takes};
use super::layer::{FixedBackend, LayerBackend};
use super::layouts::{DEFAULT_PREFERENCE, ENUM_ORDER, declared};
use super::priorities::priorities;
use super::select::{Selection, Surroundings};
use super::table::{Entry, Row, entry};
use crate::config::ModelDtype;
use crate::dtype::CacheDtype;
use crate::gpu::ComputeCapability;
use crate::release::Release;

static DUMP: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../tables/0.33.0.json")).expect("the dump is JSON")
});

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

fn numbers(value: &Value) -> Vec<u64> {
    list(value).iter().filter_map(Value::as_u64).collect()
}

fn asked(what: &str) -> Vec<u64> {
    numbers(&DUMP["asked"][what])
}

fn capabilities() -> Vec<(&'static str, ComputeCapability)> {
    texts(&DUMP["asked"]["capabilities"])
        .into_iter()
        .map(|name| (name, capability(name)))
        .collect()
}

fn capability(name: &str) -> ComputeCapability {
    let (major, minor) = name.split_once('.').expect("major.minor");
    ComputeCapability::new(major.parse().unwrap(), minor.parse().unwrap())
}

/// A backend's answers on a GPU, of one of the dump's tables.
struct Answers(Vec<&'static Value>);

impl Answers {
    fn of(table: &str, name: &str, on: &str) -> Self {
        let rows = list(&DUMP[table][name]).iter();
        Self(
            rows.filter(|row| texts(&row["capabilities"]).contains(&on))
                .map(|row| &row["answers"])
                .collect(),
        )
    }

    fn get(&self, question: &str) -> Option<&'static Value> {
        self.0.iter().find_map(|answers| answers.get(question))
    }

    fn expect(&self, question: &str) -> &'static Value {
        self.get(question)
            .unwrap_or_else(|| panic!("no answer to {question}"))
    }
}

/// No model is at hand, as in the dump.
pub(super) fn around(
    capability: ComputeCapability,
    forced_flash_attn: Option<Version>,
) -> Surroundings {
    Surroundings {
        arch: capability.arch().expect("a modelled capability"),
        capability,
        heads_per_rank: 1,
        gqa_ratio: 1,
        mla: None,
        index_topk: None,
        has_softcap: false,
        is_mm_prefix_model: false,
        model_head_size: 0,
        dcp: 1,
        forced_flash_attn,
        cache_dtype: CacheDtype::Auto,
    }
}

pub(super) fn selection() -> Selection {
    Selection {
        head_size: 128,
        dtype: ModelDtype::Bfloat16,
        kv_cache_dtype: CacheDtype::Auto,
        block_size: None,
        use_mla: false,
        has_sink: false,
        use_sparse: false,
        use_mm_prefix: false,
        use_per_head_quant_scales: false,
        has_sliding_window: false,
        use_dcp: false,
    }
}

/// What the backend's row says, held against vLLM's answers.
fn hold_row(backend: B, row: &Row, answers: &Answers, around: &Surroundings) {
    let what = format!("{backend} on {}", around.capability);
    let dtypes = [
        ModelDtype::Float16,
        ModelDtype::Bfloat16,
        ModelDtype::Float32,
    ];
    let model_dtypes: Vec<&str> = dtypes
        .into_iter()
        .filter(|dtype| row.model_dtypes.contains(dtype))
        .map(ModelDtype::as_str)
        .collect();
    assert_eq!(
        model_dtypes,
        texts(answers.expect("model_dtypes")),
        "{what}"
    );
    let cache_dtypes: Vec<&str> = CacheDtype::ALL
        .into_iter()
        .filter(|dtype| row.cache_dtypes.contain(*dtype, around))
        .map(CacheDtype::as_str)
        .collect();
    assert_eq!(
        cache_dtypes,
        texts(answers.expect("kv_cache_dtypes")),
        "{what}"
    );
    let heads: Vec<u64> = asked("head_sizes")
        .into_iter()
        .filter(|size| row.head_sizes.contain(*size, around.arch))
        .collect();
    assert_eq!(heads, numbers(answers.expect("head_sizes")), "{what}");
    for (question, answer) in [
        ("compute_capability", row.archs.contains(&around.arch)),
        ("is_mla", row.mla),
        ("is_sparse", row.sparse),
        ("is_ssm", false),
        ("supports_sink", row.sinks.holds(around)),
        ("supports_mm_prefix", row.mm_prefix.holds(around)),
        (
            "supports_per_head_quant_scales",
            row.per_head_scales.holds(around),
        ),
        ("supports_sliding_window", row.sliding_window),
        ("supports_dcp", row.dcp),
        // the selection never asks these of a decoder with the flags that are modelled
        ("supports_kv_connector", true),
    ] {
        assert_eq!(
            answers.expect(question).as_bool(),
            Some(answer),
            "{what}: {question}"
        );
    }
    assert!(texts(answers.expect("attention_types")).contains(&"decoder"));
}

/// Blocks and layouts, likewise.
fn hold_blocks(backend: LayerBackend, answers: &Answers, around: &Surroundings) {
    let what = format!("{backend:?} on {}", around.capability);
    if let Some(sizes) = answers.get("kernel_block_sizes") {
        let ours: Vec<String> = kernel_blocks(backend, Asking::Platform(around))
            .iter()
            .map(ToString::to_string)
            .collect();
        let theirs: Vec<String> = list(sizes)
            .iter()
            .map(|size| {
                size.as_str()
                    .map_or_else(|| size.to_string(), str::to_owned)
            })
            .collect();
        assert_eq!(ours, theirs, "{what}");
        let taken: Vec<u64> = asked("block_sizes")
            .into_iter()
            .filter(|size| takes(backend, *size, around))
            .collect();
        assert_eq!(taken, numbers(answers.expect("block_sizes")), "{what}");
    }
    if let Some(size) = answers.get("preferred_block_size")
        && !backend.is_ssm()
    {
        let ours = common_block_size(&[backend], around).unwrap();
        assert_eq!(Some(ours), size.as_u64(), "{what}");
    }
    let layouts = declared(backend, around.arch).map(|layouts| {
        layouts
            .iter()
            .map(|layout| layout.as_str())
            .collect::<Vec<_>>()
    });
    let theirs = answers.expect("kv_cache_layouts");
    assert_eq!(layouts, theirs.as_array().map(|_| texts(theirs)), "{what}");
}

#[test]
fn every_backend_answers_as_vllm_does_on_every_gpu() {
    let mut held = 0;
    for backend in Release::V0_33_0.profile().attention_backends {
        let name = backend.as_str();
        for (on, capability) in capabilities() {
            let answers = Answers::of("backends", name, on);
            let error = |text: String| assert_eq!(answers.expect("error").as_str(), Some(&*text));
            match entry(*backend) {
                Entry::Class(row) => {
                    let around = around(capability, None);
                    hold_row(*backend, &row, &answers, &around);
                    hold_blocks(LayerBackend::Selected(*backend), &answers, &around);
                    held += 1;
                }
                Entry::NoModule(module) => {
                    error(format!("ModuleNotFoundError: No module named '{module}'"));
                }
                Entry::Unregistered => error(format!(
                    "ValueError: Backend {name} must be registered before use. Use \
                     register_backend(Backend.{name}, 'your.module.YourClass')"
                )),
                Entry::OtherPlatform | Entry::Former => {
                    assert!(answers.0.is_empty(), "{name} was asked");
                }
            }
        }
    }
    assert_eq!(held, 33 * capabilities().len());
}

#[test]
fn forced_to_flash_attention_2_backends_answer_as_vllm_does() {
    const TABLE: &str = "backends_with_flash_attention_2";
    let mut held = 0;
    for backend in Release::V0_33_0.profile().attention_backends {
        let Entry::Class(row) = entry(*backend) else {
            continue;
        };
        let changes = DUMP[TABLE].get(backend.as_str()).is_some();
        let table = if changes { TABLE } else { "backends" };
        for (on, capability) in capabilities() {
            let answers = Answers::of(table, backend.as_str(), on);
            let around = around(capability, Some(Version::Two));
            hold_row(*backend, &row, &answers, &around);
            hold_blocks(LayerBackend::Selected(*backend), &answers, &around);
            held += usize::from(changes);
        }
    }
    assert!(held > 0);
}

#[test]
fn backends_that_no_flag_selects_answer_as_vllm_does() {
    for (backend, class) in [
        (
            FixedBackend::DeepseekV32Indexer,
            "DeepseekV32IndexerBackend",
        ),
        (FixedBackend::GdnAttn, "GDNAttentionBackend"),
        (FixedBackend::Mamba2Attn, "Mamba2AttentionBackend"),
        (FixedBackend::KimiK3Kda, "KimiK3KDAAttentionBackend"),
    ] {
        for (on, capability) in capabilities() {
            let answers = Answers::of("backends", class, on);
            assert_eq!(answers.expect("name").as_str(), Some(backend.as_str()));
            let backend = LayerBackend::Fixed(backend);
            assert_eq!(answers.expect("is_ssm").as_bool(), Some(backend.is_ssm()));
            hold_blocks(backend, &answers, &around(capability, None));
        }
    }
}

/// The values of one key of a case.
fn values<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    list(&case[key])
}

#[test]
fn backends_are_tried_in_vllms_order() {
    let mut held = 0;
    for line in list(&DUMP["priorities"]) {
        let (case, order) = (&line[0], texts(&line[1]));
        for on in texts(&case["capability"]) {
            for dtype in texts(&case["kv_cache_dtype"]) {
                for heads in numbers(&case["num_heads"]) {
                    for head_size in numbers(&case["head_size"]) {
                        let [use_mla, use_mm_prefix] = ["use_mla", "use_mm_prefix"].map(|key| {
                            let [value] = values(case, key) else {
                                panic!("{key} varies within a line")
                            };
                            value.as_bool().unwrap()
                        });
                        let selection = Selection {
                            head_size,
                            kv_cache_dtype: dtype.parse().unwrap(),
                            use_mla,
                            use_mm_prefix,
                            ..selection()
                        };
                        let around = Surroundings {
                            heads_per_rank: heads,
                            ..around(capability(on), None)
                        };
                        let ours: Vec<&str> = priorities(&selection, &around)
                            .iter()
                            .map(|backend| backend.as_str())
                            .collect();
                        assert_eq!(ours, order, "{selection} on {on}, {heads} heads");
                        held += 1;
                    }
                }
            }
        }
    }
    assert!(held > 10_000, "only {held} cases");
}

#[test]
fn flash_attentions_version_is_vllms() {
    let mut held = 0;
    for line in list(&DUMP["flash_attention_versions"]) {
        let theirs = match line[1].as_u64() {
            Some(2) => Version::Two,
            Some(3) => Version::Three,
            Some(4) => Version::Four,
            other => panic!("FlashAttention {other:?}"),
        };
        let case = &line[0];
        for on in texts(&case["capability"]) {
            for head_size in numbers(&case["head_size"]) {
                for sinks in values(case, "sinks") {
                    let shape = Shape {
                        head_size: Some(head_size),
                        has_sinks: sinks.as_bool().unwrap(),
                        takes_hd256_kernel: true,
                        ..Shape::default()
                    };
                    let capability = capability(on);
                    let around = around(capability, None);
                    let ours = version(&shape, around.arch, Some(&around));
                    assert_eq!(ours, theirs, "{shape:?} on {capability}");
                    held += 1;
                }
            }
        }
    }
    assert!(held > 200, "only {held} cases");
}

#[test]
fn layouts_are_in_vllms_order() {
    let names = |layouts: &[crate::layout::KvCacheLayout]| -> Vec<&str> {
        layouts.iter().map(|layout| layout.as_str()).collect()
    };
    assert_eq!(names(&ENUM_ORDER), texts(&DUMP["kv_cache_layouts"]));
    assert_eq!(
        names(DEFAULT_PREFERENCE),
        texts(&DUMP["default_kv_cache_layouts"])
    );
}
