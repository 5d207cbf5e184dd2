//! Every row, order, list, size and rule against what vLLM itself answers, for each
//! release whose dump holds that (`resolver/tables/<release>.json`, see
//! `tests/oracle/dump_tables.py`).

mod rows;
mod several;

use std::sync::LazyLock;

use serde_json::Value;

use super::AttentionBackend as B;
use super::flash_attention::Version;
use super::registry;
use super::rules::{self, Rules};
use super::select::{Selection, Surroundings};
use crate::config::ModelDtype;
use crate::dtype::CacheDtype;
use crate::gpu::ComputeCapability;

/// A release's dump with what the resolver has of it.
struct Dump {
    release: &'static str,
    rules: &'static Rules,
    backends: &'static [B],
    json: Value,
}

static DUMPS: LazyLock<Vec<Dump>> = LazyLock::new(|| {
    macro_rules! dumps {
        ($($constant:ident $release:literal,)*) => {
            vec![$(Dump {
                release: $release,
                rules: &rules::$constant,
                backends: registry::$constant,
                json: serde_json::from_str(include_str!(concat!("../../../tables/", $release, ".json")))
                    .expect("the dump is JSON"),
            },)*]
        };
    }
    dumps! {
        V0_28_0 "0.28.0",
        V0_29_0 "0.29.0",
        V0_30_0 "0.30.0",
        V0_31_0 "0.31.0",
        V0_32_0 "0.32.0",
        V0_33_0 "0.33.0",
    }
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

/// Numbers, and ranges of them as `[first, last, step]`.
fn ranges(value: &Value) -> Vec<u64> {
    let mut all = Vec::new();
    for item in list(value) {
        match numbers(item)[..] {
            [first, last, step] => {
                all.extend((first..=last).step_by(usize::try_from(step).unwrap()));
            }
            _ => all.push(item.as_u64().expect("a number or a range")),
        }
    }
    all
}

fn capability(name: &str) -> ComputeCapability {
    let (major, minor) = name.split_once('.').expect("major.minor");
    ComputeCapability::new(major.parse().unwrap(), minor.parse().unwrap())
}

impl Dump {
    fn capabilities(&self) -> Vec<(&str, ComputeCapability)> {
        texts(&self.json["asked"]["capabilities"])
            .into_iter()
            .map(|name| (name, capability(name)))
            .collect()
    }

    fn cache_dtypes(&self) -> Vec<CacheDtype> {
        texts(&self.json["kv_cache_dtypes"])
            .into_iter()
            .map(|name| name.parse().unwrap())
            .collect()
    }

    /// No model is at hand, as in the dump.
    fn around(&self, capability: ComputeCapability, forced: Option<Version>) -> Surroundings {
        Surroundings {
            rules: self.rules,
            ..around(capability, forced)
        }
    }
}

/// No model is at hand; the latest release.
pub(super) fn around(
    capability: ComputeCapability,
    forced_flash_attn: Option<Version>,
) -> Surroundings {
    Surroundings {
        rules: &rules::V0_33_0,
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
        pcp: 1,
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
        use_non_causal: false,
        use_dcp: false,
        use_pcp: false,
    }
}
