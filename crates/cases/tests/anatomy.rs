//! Pages, taken apart: every byte is something, and nothing is twice.

use std::collections::BTreeMap;

use kv_cases::parse_case;
use kv_resolver::anatomy::{FieldKind, LayerAnatomy, Page};
use kv_resolver::catalog::{GPUS, MODELS};
use kv_resolver::{CacheDtype, Release, Resolution, resolve_quietly};

/// GPUs that stand for their architectures.
const SOME: [&str; 3] = ["h200", "b200", "rtx-pro-6000-server"];

fn answer(release: Release, model: &str, gpu: &str, args: &str, pool: &str) -> Option<Resolution> {
    let line = format!(
        r#"{{"release":"{release}","model":"{model}","gpu":"{gpu}","args":{args},"available_memory":{pool}}}"#
    );
    let request = parse_case(&line).1.expect("a well-formed case");
    resolve_quietly(&request).ok()
}

/// Every byte of the page, by what it is.
fn bytes_of(page: &Page) -> u64 {
    let mut sum = 0;
    let mut at = 0;
    for region in &page.regions {
        assert_eq!(region.offset, at, "regions follow each other");
        let mut inside = 0;
        for field in &region.fields {
            assert_eq!(field.offset, inside, "fields follow each other");
            inside += field.bytes;
        }
        assert_eq!(inside, region.stride, "fields fill their cell");
        at += region.bytes();
        sum += inside * region.count;
    }
    assert_eq!(sum, page.kernel_block_bytes);
    sum * page.kernel_blocks + page.padding_bytes
}

fn check(resolution: &Resolution, anatomy: &LayerAnatomy) {
    let page = &anatomy.page;
    let row = &resolution.layers[anatomy.layer];
    // as it is laid out: pages may have been brought to one size
    let members = resolution.groups.iter().flat_map(|group| &group.members);
    let mut laid = members.filter(|member| member.layer == anatomy.layer);
    let bytes = laid
        .next()
        .map_or(row.page_size_bytes, |member| member.page_size_bytes);
    assert_eq!(bytes_of(page), bytes, "{row:?}");
    assert_eq!(page.bytes, bytes);
    if page.unknown.is_none() {
        assert_eq!(page.slot_bytes() * page.slots(), bytes - page.padding_bytes);
        let mut known = page.regions.iter().flat_map(|of| &of.fields);
        assert!(known.all(|of| of.kind != FieldKind::Unknown));
    }
    if anatomy.block_size == row.block_size {
        assert_eq!(bytes - page.padding_bytes, row.unpadded_page_size_bytes);
    }
}

/// Models × dtypes × GPUs of a release that start; why some are unknown.
fn of_release(
    release: Release,
    gpus: &[&str],
    dtypes: &[CacheDtype],
    tensor: u64,
) -> (usize, BTreeMap<&'static str, String>) {
    let mut kinds = 0;
    let mut unknown = BTreeMap::new();
    for model in &MODELS {
        for dtype in dtypes {
            for gpu in gpus {
                let args =
                    format!(r#"{{"kv_cache_dtype":"{dtype}","tensor_parallel_size":{tensor}}}"#);
                let Some(resolution) = answer(release, model.id, gpu, &args, "null") else {
                    continue;
                };
                let anatomies = resolution.anatomy();
                assert_eq!(anatomies.len(), resolution.layers.len());
                for anatomy in &anatomies {
                    check(&resolution, anatomy);
                    kinds += 1;
                    if let Some(why) = anatomy.page.unknown {
                        let whose = || format!("{} {dtype} {gpu} {:?}", model.id, anatomy.backend);
                        unknown.entry(why).or_insert_with(whose);
                    }
                }
            }
        }
    }
    (kinds, unknown)
}

/// All that is not known of the catalog's models.
const UNKNOWN: [&str; 2] = [
    "the packing of this dtype is not modelled",
    "this backend has no packing for this dtype",
];

#[test]
fn every_byte_of_every_page_is_told() {
    use CacheDtype as D;
    let all: Vec<&str> = GPUS.iter().map(|gpu| gpu.key).collect();
    let few = [D::Auto, D::Fp8, D::Nvfp4, D::Nvfp4DsMla];
    let mut told = vec![
        of_release(Release::LATEST, &all, &few, 8),
        of_release(Release::LATEST, &SOME, &CacheDtype::ALL, 1),
    ];
    for release in Release::ALL {
        told.push(of_release(release, &SOME, &CacheDtype::ALL, 2));
    }
    let kinds: usize = told.iter().map(|(kinds, _)| kinds).sum();
    assert!(kinds > 20_000, "only {kinds} kinds of layers");
    for (why, whose) in told.iter().flat_map(|(_, unknown)| unknown) {
        assert!(UNKNOWN.contains(why), "{why}: {whose}");
    }
}

const POOL: &str = "42949672960";

/// The one kind of layer with this role.
fn kind(resolution: &Resolution, role: &str) -> LayerAnatomy {
    let mut kinds = resolution.anatomy().into_iter();
    let found = kinds.find(|kind| resolution.layers[kind.layer].role.as_str() == role);
    found.expect("a kind of layer")
}

#[test]
fn a_page_of_deepseek_v4_as_a_comment() {
    let args = r#"{"tensor_parallel_size":8}"#;
    let model = "deepseek-ai/DeepSeek-V4-Flash";
    let resolution = answer(Release::LATEST, model, "h200", args, POOL).unwrap();
    assert_eq!(
        kind(&resolution, "c4").c_comment(&resolution, "DeepSeek-V4-Flash */ on 8 x H200"),
        "\
/*
 * DeepSeek-V4-Flash * / on 8 x H200
 * vLLM 0.33.0, fp8_ds_mla, BLHNC
 * C4: 21 layers, the first model.layers.2.attn
 * page: 37,440 B for 256 tokens: 1 head x 64 states of 584 B
 * block: 1,002,240 B, 42,853 blocks in the pool
 * group 2, 21 layers from model.layers.2.attn: base + 181440 + l * 37440 + b * 1002240
 *
 * struct page {
 *   struct {
 *     float8_e4m3fn nope[448];  // +0 448 B: the part that is not rotated
 *     bfloat16 rope[64];        // +448 128 B: the part of the key that is rotated
 *   } row[64];                  // every 576 B, row[state]
 *   struct {
 *     ue8m0 scales[7];          // +36864 7 B: a power of two per 64 elements
 *     uint8 pad;                // +36871 1 B: the byte that makes eight of seven scales
 *   } footer[64];               // every 8 B, footer[state]
 *   uint8 padding[64];          // +37376 64 B: up to the page's size
 * }; // 37440 B
 *
 * source: vllm/models/deepseek_v4/common/ops/fused_compress_quant_cache.py, \
_fused_kv_compress_norm_rope_insert_sparse_attn
 */
"
    );
}

#[test]
fn the_indexers_keys_as_json() {
    let args = r#"{"tensor_parallel_size":8}"#;
    let model = "deepseek-ai/DeepSeek-V3.2";
    let resolution = answer(Release::LATEST, model, "b200", args, POOL).unwrap();
    assert_eq!(
        kind(&resolution, "indexer").json(&resolution),
        r#"{
  "vllm": "0.33.0",
  "role": "indexer",
  "first_layer": "model.layers.0.self_attn.indexer.k_cache",
  "layers": 61,
  "backend": "DEEPSEEK_V32_INDEXER",
  "kv_cache_dtype": "auto",
  "kv_cache_layout": "LBNHC",
  "block_bytes": 5012736,
  "num_blocks": 8568,
  "block_size": 64,
  "tokens_per_state": 1,
  "heads": 1,
  "states": 64,
  "slot_bytes": 132,
  "page_bytes": 8448,
  "padding_bytes": 0,
  "kernel_blocks": 1,
  "kernel_block_bytes": 8448,
  "states_in_kernel_block": 64,
  "unknown": null,
  "places": [
    {
      "group": 0,
      "layers": 61,
      "first_layer": "model.layers.0.self_attn.indexer.k_cache",
      "own_allocation": false,
      "offset": 0,
      "layer_stride": 72382464,
      "block_stride": 8448
    }
  ],
  "fields": [
    {
      "name": "key",
      "kind": "values",
      "offset": 0,
      "bytes": 128,
      "count": 64,
      "stride": 128,
      "index": "state",
      "dtype": "float8_e4m3fn",
      "elements": 128,
      "what": "the key by which a query picks",
      "file": "vllm/models/deepseek_v32/common/kernels.py",
      "function": "_fp8_quant_and_cache_write"
    },
    {
      "name": "scale",
      "kind": "scales",
      "offset": 8192,
      "bytes": 4,
      "count": 64,
      "stride": 4,
      "index": "state",
      "dtype": "ue8m0",
      "elements": 4,
      "what": "the key's scale, four times over",
      "file": "vllm/models/deepseek_v32/common/kernels.py",
      "function": "_fp8_quant_and_cache_write"
    }
  ]
}
"#
    );
}

/// A page in one line: each region's cells × its fields' names and bytes.
fn shape(page: &Page) -> String {
    let regions = page.regions.iter().map(|region| {
        let fields = region.fields.iter();
        let fields: Vec<String> = fields
            .map(|field| format!("{} {} {}", field.name, field.bytes, field.dtype))
            .collect();
        format!(
            "{} × ({}) by {}",
            region.count,
            fields.join(", "),
            region.order.formula()
        )
    });
    let regions: Vec<String> = regions.collect();
    format!(
        "{} × [{}] + {}",
        page.kernel_blocks,
        regions.join("; "),
        page.padding_bytes
    )
}

#[test]
fn each_family_has_its_own_page() {
    let latest = Release::LATEST;
    for (release, model, gpu, args, role, page) in [
        (
            latest,
            "deepseek-ai/DeepSeek-V3.2",
            "h200",
            r#"{"kv_cache_dtype":"fp8","tensor_parallel_size":8}"#,
            "mla",
            "1 × [64 × (nope 512 float8_e4m3fn, scales 16 float32, rope 128 bfloat16) by state] + 0",
        ),
        (
            latest,
            "deepseek-ai/DeepSeek-V3.2",
            "h200",
            r#"{"tensor_parallel_size":8}"#,
            "indexer",
            "1 × [64 × (key 128 float8_e4m3fn) by state; 64 × (scale 4 float32) by state] + 0",
        ),
        (
            Release::V0_32_0,
            "deepseek-ai/DeepSeek-V3.2",
            "b200",
            r#"{"tensor_parallel_size":8}"#,
            "indexer",
            "1 × [64 × (key 128 float8_e4m3fn) by state; 64 × (scale 4 float32) by state] + 0",
        ),
        (
            latest,
            "Qwen/Qwen3-32B",
            "h200",
            r#"{"kv_cache_dtype":"fp8_e5m2"}"#,
            "attention",
            "1 × [128 × (k 128 float8_e5m2, v 128 float8_e5m2) by state * heads + head] + 0",
        ),
        (
            latest,
            "Qwen/Qwen3-32B",
            "b200",
            "{}",
            "attention",
            "1 × [128 × (k 256 bfloat16, v 256 bfloat16) by head * states + state] + 0",
        ),
        (
            latest,
            "Qwen/Qwen3-32B",
            "b200",
            r#"{"kv_cache_dtype":"nvfp4"}"#,
            "attention",
            "1 × [128 × (k 64 float4_e2m1) by head * states + state; \
             128 × (k_scales 8 float8_e4m3fn) by head * states + state; \
             128 × (v 64 float4_e2m1) by head * states + state; \
             128 × (v_scales 8 float8_e4m3fn) by head * states + state] + 0",
        ),
        (
            latest,
            "Qwen/Qwen3-32B",
            "rtx-5090",
            r#"{"tensor_parallel_size":2,"attention_backend":"B12X","kv_cache_dtype":"fp8","block_size":64}"#,
            "attention",
            "1 × [256 × (k 128 float8_e4m3fn) by state * heads + head; \
             256 × (v 128 float8_e4m3fn) by state * heads + head] + 0",
        ),
        (
            latest,
            "deepseek-ai/DeepSeek-V3.2",
            "h200",
            r#"{"tensor_parallel_size":8,"block_size":128}"#,
            "indexer",
            "2 × [64 × (key 128 float8_e4m3fn) by state; 64 × (scale 4 float32) by state] + 0",
        ),
        (
            latest,
            "deepseek-ai/DeepSeek-V4-Flash",
            "b200",
            r#"{"attention_backend":"FLASHINFER_MLA_SPARSE_DSV4","kv_cache_dtype":"bfloat16"}"#,
            "window",
            "1 × [64 × (nope 896 bfloat16, rope 128 bfloat16) by state] + 0",
        ),
        (
            latest,
            "Qwen/Qwen3.5-35B-A3B",
            "h200",
            r#"{"tensor_parallel_size":2}"#,
            "linear_state",
            "1 × [3 × (conv_state 8192 bfloat16) by row; \
             16 × (recurrent_state 65536 float32) by head] + 40960",
        ),
    ] {
        let resolution = answer(release, model, gpu, args, "null").unwrap();
        let told = kind(&resolution, role);
        assert_eq!(shape(&told.page), page, "{release} {model} {gpu} {args}");
    }
}

#[test]
fn a_place_is_where_the_layers_are() {
    for (release, model, args) in [
        (
            Release::V0_23_0,
            "deepseek-ai/DeepSeek-V4-Flash",
            r#"{"kv_cache_dtype":"fp8"}"#,
        ),
        (
            Release::V0_27_1,
            "deepseek-ai/DeepSeek-V4-Flash",
            r#"{"kv_cache_dtype":"fp8"}"#,
        ),
        (Release::LATEST, "deepseek-ai/DeepSeek-V4-Flash", "{}"),
        (Release::LATEST, "google/gemma-4-26B-A4B", "{}"),
        (Release::V0_28_0, "openai/gpt-oss-20b", "{}"),
    ] {
        let resolution = answer(release, model, "h200", args, POOL).unwrap();
        let placed = resolution.placements();
        for kind in resolution.anatomy() {
            for place in &kind.places {
                let name = place.first.as_ref().unwrap();
                let first = placed.iter().position(|layer| layer.name == *name).unwrap();
                let first = &placed[first];
                assert_eq!(place.offset, Some(first.offset), "{release} {model} {name}");
                assert_eq!(
                    place.block_stride,
                    Some(first.block_stride),
                    "{release} {name}"
                );
            }
            let layers: u64 = kind.places.iter().map(|place| place.layers).sum();
            assert_eq!(
                layers, resolution.layers[kind.layer].count as u64,
                "{release} {model}"
            );
        }
        // what is known without a pool is what it is with one
        let before = answer(release, model, "h200", args, "null").unwrap();
        for (kind, with_pool) in before.anatomy().iter().zip(resolution.anatomy()) {
            assert_eq!(kind.page, with_pool.page);
            for (place, with_pool) in kind.places.iter().zip(&with_pool.places) {
                assert_eq!(place.layers, with_pool.layers);
                assert!(place.offset.is_none() || place.offset == with_pool.offset);
                assert!(
                    place.layer_stride.is_none() || place.layer_stride == with_pool.layer_stride
                );
                assert_eq!(place.block_stride, with_pool.block_stride);
            }
        }
    }
}

#[test]
fn every_text_is_json() {
    for model in &MODELS {
        let Some(resolution) = answer(Release::LATEST, model.id, "b200", "{}", POOL) else {
            continue;
        };
        let all: serde_json::Value = serde_json::from_str(&resolution.anatomy_json()).unwrap();
        assert_eq!(all.as_array().unwrap().len(), resolution.layers.len());
        for kind in resolution.anatomy() {
            let one: serde_json::Value = serde_json::from_str(&kind.json(&resolution)).unwrap();
            assert_eq!(one, all[kind.layer]);
        }
    }
}
