//! What the laws are asked of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;

use kv_cases::parse_case;
use kv_resolver::catalog::{GPUS, MODELS};
use kv_resolver::{CacheDtype, Release, Request, Value, resolve_quietly};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Models of every kind that vLLM opens.
pub const OPENED: [&str; 10] = [
    "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V4-Pro",
    "nvidia/DeepSeek-V4-Flash-NVFP4",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-R1",
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "google/gemma-4-26B-A4B",
    "Qwen/Qwen3.5-35B-A3B",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
];

/// Questions about the models that open, and from where on the vectors' own are that draft.
struct Bases {
    all: Vec<Request>,
    drafting: usize,
}

fn bases() -> &'static Bases {
    static BASES: OnceLock<Bases> = OnceLock::new();
    BASES.get_or_init(|| {
        let mut all: Vec<Request> = MODELS
            .iter()
            .map(|model| {
                let line = format!(
                    r#"{{"model":"{}","gpu":"b200","args":{{"tensor_parallel_size":8,"trust_remote_code":true}}}}"#,
                    model.id
                );
                parse_case(&line).1.expect("a well-formed case")
            })
            .filter(|request| resolve_quietly(request).is_ok())
            .collect();
        assert!(all.len() > 60, "{}", all.len());
        let drafting = all.len();
        all.extend(self::drafting());
        Bases { all, drafting }
    })
}

fn is_deepseek_v4(request: &Request) -> bool {
    request.hf_config.get("model_type").and_then(Value::as_str) == Some("deepseek_v4")
}

/// The vectors' questions that bring a drafter's config.json.
fn drafting() -> Vec<Request> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors");
    let text = fs::read_to_string(format!("{folder}/v0.33.0-drafters.jsonl")).unwrap();
    let mut configs: Vec<Value> = Vec::new();
    let mut requests = Vec::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let request = parse_case(&row["case"].to_string()).1;
        let Ok(request) = request else { continue };
        if let Some(config) = &request.draft_config
            && !configs.contains(config)
        {
            configs.push(config.clone());
            requests.push(request);
        }
    }
    assert!(requests.len() > 10, "{}", requests.len());
    requests
}

/// How tokens are drafted without another model's config.json.
const DRAFTERS: [(&str, i64); 6] = [
    ("mtp", 1),
    ("mtp", 3),
    ("ngram", 4),
    ("dspark", 5),
    ("suffix", 3),
    ("mtp", 32),
];

/// Before it the rules know DeepSeek V4 alone.
const FIRST_OF_ALL_FAMILIES: Release = Release::V0_28_0;

/// A base, asked to draft or not. Where one family is known, the others are asked of seldom.
fn base(release: Release, shares_tokens: bool) -> impl Strategy<Value = Request> {
    let Bases { all, drafting } = bases();
    let is_v4 = |index: &usize| is_deepseek_v4(&all[*index]);
    let (v4, others): (Vec<usize>, Vec<usize>) = (0..*drafting).partition(is_v4);
    // none of V4's ranks share a request's tokens
    let (one, rest) = match (shares_tokens, release < FIRST_OF_ALL_FAMILIES) {
        (true, _) => (1, 40),
        (false, true) => (20, 1),
        (false, false) => (10, 40),
    };
    let model = prop_oneof![one => select(v4), rest => select(others)];
    let catalog = (model, prop::option::weighted(0.2, select(&DRAFTERS[..])));
    let catalog = catalog.prop_map(|(model, drafter)| {
        let mut request = all[model].clone();
        request.args.speculative_config = drafter.map(|(method, tokens)| {
            let tokens = Value::Integer(tokens.into());
            Value::Object(vec![
                ("method".to_owned(), Value::String(method.to_owned())),
                ("num_speculative_tokens".to_owned(), tokens),
            ])
        });
        request
    });
    let drafting = (*drafting..all.len()).prop_map(|index| all[index].clone());
    prop_oneof![one + rest => catalog, rest.div_ceil(5) => drafting]
}

/// How the model lies over the GPUs.
#[derive(Debug, Clone, Copy)]
struct Spread {
    tensor: i64,
    /// Stages.
    pipeline: i64,
    /// Ranks that share a request's tokens.
    context: i64,
    experts: bool,
}

fn spread() -> impl Strategy<Value = Spread> {
    let ranks = select(&[1_i64, 2, 4, 8][..]);
    let spread = |tensor, pipeline, context, experts| Spread {
        tensor,
        pipeline,
        context,
        experts,
    };
    prop_oneof![
        6 => (ranks.clone(), prop::bool::weighted(0.2))
            .prop_map(move |(tensor, experts)| spread(tensor, 1, 1, experts)),
        2 => (ranks, 2_i64..9).prop_map(move |(tensor, stages)| spread(tensor, stages, 1, false)),
        2 => select(&[2_i64, 4, 8][..]).prop_map(move |context| spread(8, 1, context, false)),
    ]
}

/// Bytes of every order of size.
pub fn pools() -> impl Strategy<Value = u64> {
    (28_u32..40, any::<u64>()).prop_map(|(order, rest)| (1 << order) + rest % (1 << order))
}

fn lengths() -> impl Strategy<Value = Option<i64>> {
    let order = (0_u32..20, any::<i64>());
    let tokens = order.prop_map(|(order, rest)| (1 << order) + rest.rem_euclid(1 << order));
    prop_oneof![2 => Just(None), 2 => tokens.prop_map(Some), 1 => Just(Some(-1))]
}

/// Some flag or variable that few pass.
#[derive(Debug, Clone, Copy)]
enum Rare {
    None,
    Backend(&'static str),
    Layout(&'static str),
    NoHybrid,
    Prefix(bool),
    Mamba(&'static str),
    MambaBlock(i64),
    NoWindow,
    Sequences(i64),
    Prefill(i64),
    Skips(&'static str),
    Eager,
}

fn rare() -> impl Strategy<Value = Rare> {
    let backends = &[
        "FLASHMLA_SPARSE_DSV4",
        "FLASHINFER_MLA_SPARSE_DSV4",
        "FLASH_ATTN",
        "FLASHINFER",
        "TRITON_ATTN",
        "FLASHINFER_MLA",
        "TRITON_MLA",
    ][..];
    let layouts = &[
        "NHD", "HND", "LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC",
    ][..];
    prop_oneof![
        30 => Just(Rare::None),
        3 => select(backends).prop_map(Rare::Backend),
        2 => select(layouts).prop_map(Rare::Layout),
        2 => Just(Rare::NoHybrid),
        1 => any::<bool>().prop_map(Rare::Prefix),
        1 => select(&["none", "all", "align"][..]).prop_map(Rare::Mamba),
        1 => select(&[8_i64, 64, 1024, 4096][..]).prop_map(Rare::MambaBlock),
        1 => Just(Rare::NoWindow),
        1 => (1_i64..4096).prop_map(Rare::Sequences),
        1 => select(&[2_i64, 4][..]).prop_map(Rare::Prefill),
        1 => select(&["0", "1", "sliding_window", "model.layers.2"][..]).prop_map(Rare::Skips),
        1 => Just(Rare::Eager),
    ]
}

fn ask_rarely(request: &mut Request, rare: Rare) {
    let args = &mut request.args;
    match rare {
        Rare::None => {}
        Rare::Backend(name) => args.attention_backend = Some(name.to_owned()),
        Rare::Layout(name) => request.env.kv_cache_layout = Some(name.to_owned()),
        Rare::NoHybrid => args.disable_hybrid_kv_cache_manager = Some(true),
        Rare::Prefix(on) => args.enable_prefix_caching = Some(on),
        Rare::Mamba(mode) => args.mamba_cache_mode = Some(mode.to_owned()),
        Rare::MambaBlock(tokens) => args.mamba_block_size = Some(tokens),
        Rare::NoWindow => args.disable_sliding_window = Some(true),
        Rare::Sequences(count) => args.max_num_seqs = Some(count),
        Rare::Prefill(ranks) => args.prefill_context_parallel_size = Some(ranks),
        Rare::Skips(layers) => args.kv_cache_dtype_skip_layers = Some(vec![layers.to_owned()]),
        Rare::Eager => args.enforce_eager = Some(true),
    }
}

prop_compose! {
    /// A question of a release with a pool.
    fn question(release: Release, spread: Spread)(
        base in base(release, spread.context > 1),
        gpu in 0..GPUS.len(),
        dtype in prop_oneof![
            if release < Release::V0_30_0 { 1 } else { 4 } => Just(CacheDtype::Auto),
            4 => Just(CacheDtype::Fp8),
            3 => select(release.profile().cache_dtypes),
        ],
        length in lengths(),
        batched in prop::option::weighted(0.2, 1024_i64..65_537),
        block in prop::option::weighted(0.1, select(&[16_i64, 64, 128, 256, 512, 384][..])),
        asynchronous in prop::option::of(any::<bool>()),
        rare in rare(),
        pool in pools(),
    ) -> Request {
        let mut request = base;
        request.gpu = GPUS[gpu].gpu();
        request.release = release;
        let args = &mut request.args;
        args.kv_cache_dtype = Some(dtype.to_string());
        args.tensor_parallel_size = Some(spread.tensor);
        args.pipeline_parallel_size = Some(spread.pipeline);
        args.decode_context_parallel_size = Some(spread.context);
        args.enable_expert_parallel = Some(spread.experts);
        args.max_model_len = length;
        args.max_num_batched_tokens = batched;
        args.block_size = block;
        args.async_scheduling = asynchronous;
        request.available_memory = Some(pool);
        ask_rarely(&mut request, rare);
        request
    }
}

/// A question with a pool.
pub fn questions() -> impl Strategy<Value = Request> {
    let both = (select(&Release::ALL[..]), spread());
    both.prop_flat_map(|(release, spread)| question(release, spread))
}

/// Laws of what is never asked hold by themselves.
#[test]
fn the_questions_reach_everything() {
    let mut runner = TestRunner::new(crate::config(1));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..4000 {
        let request = questions().new_tree(&mut runner).unwrap().current();
        let Ok(answer) = resolve_quietly(&request) else {
            continue;
        };
        let args = &request.args;
        let mut count = |what: String| *seen.entry(what).or_default() += 1;
        count(format!("release {}", request.release));
        count(format!("gpu {}", request.gpu.name));
        count(format!("stages {}", answer.stages.len()));
        count(format!("context {:?}", args.decode_context_parallel_size));
        count(format!("layout {:?}", answer.kv_cache_layout));
        count(format!("drafter {:?}", args.draft_method()));
        count(format!("model {:?}", request.hf_config.get("model_type")));
        for layer in &answer.layers {
            count(format!("kind {}", layer.kind.as_str()));
        }
    }
    for (what, least) in [
        ("release", Release::ALL.len()),
        (
            "gpu",
            GPUS.iter()
                .map(|gpu| gpu.name)
                .collect::<BTreeSet<_>>()
                .len(),
        ),
        ("stages", 8),
        ("context", 4),
        ("layout", 6),
        ("drafter", 6),
        ("model", 20),
        ("kind", 6),
    ] {
        let count = seen.keys().filter(|key| key.starts_with(what)).count();
        assert!(count >= least, "{count} of {what}: {seen:#?}");
    }
}
