//! What a backend answers by itself, with no model at hand.

use serde_json::Value;

use super::{DUMPS, Dump, capability, list, numbers, ranges, texts};
use crate::backend::AttentionBackend as B;
use crate::backend::block_size::common_block_size;
use crate::backend::flash_attention::{Shape, Version, version};
use crate::backend::kernel_block::{Asking, kernel_blocks, takes};
use crate::backend::layer::{FixedBackend, LayerBackend};
use crate::backend::layouts::{DEFAULT_PREFERENCE, ENUM_ORDER, declared};
use crate::backend::select::{Selection, Surroundings, priorities};
use crate::backend::table::{
    BY_BLOCK_STRIDE, DCP, Entry, MLA, MM_PREFIX, PER_HEAD_SCALES, Row, SINKS, SLIDING_WINDOW,
    SPARSE, entry,
};
use crate::config::ModelDtype;
use crate::dtype::CacheDtype;

/// A backend's answers on a GPU, of one of a dump's tables.
struct Answers(Vec<&'static Value>);

impl Answers {
    fn of(dump: &'static Dump, table: &str, name: &str, on: &str) -> Self {
        let rows = list(&dump.json[table][name]).iter();
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

/// What the backend's row says, held against vLLM's answers.
fn hold_row(dump: &'static Dump, row: &Row, answers: &Answers, around: &Surroundings) {
    let what = format!("{}: {} on {}", dump.release, row.backend, around.capability);
    let dtypes = [
        ModelDtype::Float16,
        ModelDtype::Bfloat16,
        ModelDtype::Float32,
    ];
    let model_dtypes: Vec<&str> = dtypes
        .into_iter()
        .filter(|dtype| row.takes_model_dtype(*dtype))
        .map(ModelDtype::as_str)
        .collect();
    assert_eq!(
        model_dtypes,
        texts(answers.expect("model_dtypes")),
        "{what}"
    );
    let cache_dtypes: Vec<&str> = dump
        .cache_dtypes()
        .into_iter()
        .filter(|dtype| row.cache_dtypes.contain(*dtype))
        .map(CacheDtype::as_str)
        .collect();
    assert_eq!(
        cache_dtypes,
        texts(answers.expect("kv_cache_dtypes")),
        "{what}"
    );
    let heads: Vec<u64> = ranges(&dump.json["asked"]["head_sizes"])
        .into_iter()
        .filter(|size| row.takes_head_size(*size))
        .collect();
    assert_eq!(heads, ranges(answers.expect("head_sizes")), "{what}");
    for (question, answer) in [
        ("compute_capability", row.runs_on(around.arch)),
        ("is_mla", row.does(MLA)),
        ("is_sparse", row.does(SPARSE)),
        ("is_ssm", false),
        ("supports_sink", row.does(SINKS)),
        ("supports_mm_prefix", row.does(MM_PREFIX)),
        ("supports_per_head_quant_scales", row.does(PER_HEAD_SCALES)),
        ("supports_sliding_window", row.does(SLIDING_WINDOW)),
        ("supports_dcp", row.does(DCP)),
        ("indexes_kv_by_block_stride", row.does(BY_BLOCK_STRIDE)),
        // the selection never asks these of a decoder with the flags that are modelled
        ("supports_kv_connector", true),
    ] {
        // a question that the release does not know is answered no
        let theirs = answers.get(question).map_or(Some(false), Value::as_bool);
        assert_eq!(theirs, Some(answer), "{what}: {question}");
    }
    assert_eq!(
        answers.get("supports_dcp").is_some(),
        dump.rules.checks_dcp,
        "{what}"
    );
    assert!(texts(answers.expect("attention_types")).contains(&"decoder"));
}

/// Blocks and layouts, likewise.
fn hold_blocks(backend: LayerBackend, answers: &Answers, around: &Surroundings) {
    let what = format!("{backend:?} on {} of {:?}", around.capability, around.rules);
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
        let asked = DUMPS
            .iter()
            .find(|dump| dump.rules == around.rules)
            .map_or(Vec::new(), |dump| {
                numbers(&dump.json["asked"]["block_sizes"])
            });
        let taken: Vec<u64> = asked
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
    let layouts = declared(backend, around.target()).map(|layouts| {
        layouts
            .iter()
            .map(|layout| layout.as_str())
            .collect::<Vec<_>>()
    });
    let theirs = answers.get("kv_cache_layouts").unwrap_or(&Value::Null);
    assert_eq!(layouts, theirs.as_array().map(|_| texts(theirs)), "{what}");
}

#[test]
fn every_backend_answers_as_vllm_does_on_every_gpu() {
    for dump in DUMPS.iter() {
        let mut held = 0;
        for backend in dump.backends {
            let name = backend.as_str();
            for (on, capability) in dump.capabilities() {
                let answers = Answers::of(dump, "backends", name, on);
                let error =
                    |text: String| assert_eq!(answers.expect("error").as_str(), Some(&*text));
                let around = dump.around(capability, None);
                match entry(*backend, around.target(), None) {
                    Entry::Class(row) => {
                        hold_row(dump, row, &answers, &around);
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
                    Entry::OtherPlatform => assert!(answers.0.is_empty(), "{name} was asked"),
                    Entry::Former => panic!("{}: {name} has no row", dump.release),
                }
            }
        }
        let classes = dump.json["backends"].as_object().unwrap();
        let classes = classes
            .iter()
            .filter(|(name, rows)| {
                dump.backends
                    .iter()
                    .any(|backend| backend.as_str() == *name)
                    && rows[0]["answers"].get("error").is_none()
            })
            .count();
        assert_eq!(
            held,
            classes * dump.capabilities().len(),
            "{}",
            dump.release
        );
        assert!(held > 100, "{}", dump.release);
    }
}

#[test]
fn forced_to_a_flash_attention_backends_answer_as_vllm_does() {
    for (forced, table) in [
        (Version::Two, "backends_with_flash_attention_2"),
        (Version::Four, "backends_with_flash_attention_4"),
    ] {
        let mut held = 0;
        for dump in DUMPS.iter() {
            for backend in dump.backends {
                let changes = dump.json[table].get(backend.as_str()).is_some();
                let table = if changes { table } else { "backends" };
                for (on, capability) in dump.capabilities() {
                    if forced == Version::Four && capability.major == 12 {
                        continue; // nothing forces what does not run
                    }
                    let around = dump.around(capability, Some(forced));
                    let Entry::Class(row) = entry(*backend, around.target(), Some(forced)) else {
                        continue;
                    };
                    let answers = Answers::of(dump, table, backend.as_str(), on);
                    if answers.0.is_empty() {
                        continue; // a twin of another capability, not asked again
                    }
                    hold_row(dump, row, &answers, &around);
                    hold_blocks(LayerBackend::Selected(*backend), &answers, &around);
                    held += usize::from(changes);
                }
            }
        }
        assert!(held > 0, "{table}");
    }
}

#[test]
fn backends_that_no_flag_selects_answer_as_vllm_does() {
    let mut held = 0;
    for dump in DUMPS.iter() {
        for (backend, class) in [
            (
                FixedBackend::DeepseekV32Indexer,
                "DeepseekV32IndexerBackend",
            ),
            (FixedBackend::GdnAttn, "GDNAttentionBackend"),
            (FixedBackend::Mamba2Attn, "Mamba2AttentionBackend"),
            (FixedBackend::KimiK3Kda, "KimiK3KDAAttentionBackend"),
        ] {
            if dump.json["backends"].get(class).is_none() {
                continue; // not in this release
            }
            for (on, capability) in dump.capabilities() {
                let answers = Answers::of(dump, "backends", class, on);
                assert_eq!(answers.expect("name").as_str(), Some(backend.as_str()));
                let backend = LayerBackend::Fixed(backend);
                assert_eq!(answers.expect("is_ssm").as_bool(), Some(backend.is_ssm()));
                hold_blocks(backend, &answers, &dump.around(capability, None));
                held += 1;
            }
        }
    }
    assert!(held > 6 * 15, "only {held} cases");
}

#[test]
fn backends_are_tried_in_vllms_order() {
    for dump in DUMPS.iter() {
        let mut held = 0;
        for line in list(&dump.json["priorities"]) {
            let (case, order) = (&line[0], texts(&line[1]));
            for on in texts(&case["capability"]) {
                for dtype in texts(&case["kv_cache_dtype"]) {
                    for heads in numbers(&case["num_heads"]) {
                        held += hold_order(dump, case, on, dtype, heads, &order);
                    }
                }
            }
        }
        assert!(held > 1_000, "{}: only {held} cases", dump.release);
    }
}

/// One order; the head sizes and masks that a release does not look at change nothing.
fn hold_order(
    dump: &Dump,
    case: &Value,
    on: &str,
    dtype: &str,
    heads: u64,
    order: &[&str],
) -> usize {
    let [use_mla] = list(&case["use_mla"]) else {
        panic!("use_mla varies within a line")
    };
    let use_mla = use_mla.as_bool().unwrap();
    let or_else = |key: &str, all: Vec<Value>| match list(&case[key]) {
        [] => all,
        given => given.to_vec(),
    };
    let sizes = list(&dump.json["asked"]["priority_head_sizes"]).to_vec();
    let mut held = 0;
    for head_size in or_else("head_size", sizes) {
        for use_mm_prefix in or_else("use_mm_prefix", vec![false.into(), true.into()]) {
            let selection = Selection {
                head_size: head_size.as_u64().unwrap(),
                kv_cache_dtype: dtype.parse().unwrap(),
                use_mla,
                use_mm_prefix: use_mm_prefix.as_bool().unwrap(),
                ..super::selection()
            };
            let around = Surroundings {
                heads_per_rank: heads,
                ..dump.around(capability(on), None)
            };
            let ours: Vec<&str> = priorities(&selection, &around)
                .iter()
                .map(|backend: &B| backend.as_str())
                .collect();
            assert_eq!(
                ours, order,
                "{}: {selection:?} on {on}, {heads} heads",
                dump.release
            );
            held += 1;
        }
    }
    held
}

#[test]
fn flash_attentions_version_is_vllms() {
    let mut held = 0;
    for dump in DUMPS.iter() {
        for line in list(&dump.json["flash_attention_versions"]) {
            let theirs = match line[1].as_u64() {
                Some(2) => Version::Two,
                Some(3) => Version::Three,
                Some(4) => Version::Four,
                other => panic!("{}: FlashAttention {other:?}", dump.release),
            };
            let case = &line[0];
            for on in texts(&case["capability"]) {
                for head_size in numbers(&case["head_size"]) {
                    for sinks in list(&case["sinks"]) {
                        let shape = Shape {
                            head_size: Some(head_size),
                            has_sinks: sinks.as_bool().unwrap(),
                            takes_hd256_kernel: true,
                            ..Shape::default()
                        };
                        let around = dump.around(capability(on), None);
                        let ours = version(&shape, around.target(), Some(&around));
                        assert_eq!(ours, theirs, "{}: {shape:?} on {on}", dump.release);
                        held += 1;
                    }
                }
            }
        }
    }
    assert!(held > 4_000, "only {held} cases");
}

#[test]
fn layouts_are_in_vllms_order() {
    let names = |layouts: &[crate::layout::KvCacheLayout]| -> Vec<&str> {
        layouts.iter().map(|layout| layout.as_str()).collect()
    };
    // 0.28 has none
    for dump in &DUMPS[1..] {
        assert_eq!(names(&ENUM_ORDER), texts(&dump.json["kv_cache_layouts"]));
        assert_eq!(
            names(DEFAULT_PREFERENCE),
            texts(&dump.json["default_kv_cache_layouts"])
        );
    }
    assert!(DUMPS[0].json.get("kv_cache_layouts").is_none());
}
