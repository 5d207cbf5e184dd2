//! From a GPU to a pool: laws of the estimate, of any pool, and of changes that are tried.

use kv_cases::parse_case;
use kv_resolver::catalog::{CatalogGpu, GPUS, MODELS, find_gpu};
use kv_resolver::changes::changes;
use kv_resolver::matrix::{budgets, classes};
use kv_resolver::memory::{
    self, Interval, PartKind, Source, check_printed, pool_of_tokens, printed_gib,
};
use kv_resolver::{
    CacheDtype, Gpu, Outcome, Refusal, Release, Request, Stage, Value, resolve, resolve_quietly,
};
use proptest::prelude::*;

const MODELS_TRIED: [&str; 8] = [
    "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-R1",
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "google/gemma-4-26B-A4B",
    "Qwen/Qwen3.5-35B-A3B",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
];

fn request(model: &str, gpu: &str, args: &str) -> Request {
    let line = format!(r#"{{"model":"{model}","gpu":"{gpu}","args":{args}}}"#);
    parse_case(&line).1.expect("a well-formed case")
}

fn flash(args: &str, pool: u64) -> Request {
    let mut flash = request(MODELS_TRIED[0], "h200", args);
    flash.available_memory = Some(pool);
    flash
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_an_answer_says_of_a_pool_is_the_answer_for_it(
        model in prop::sample::select(&MODELS_TRIED[..]),
        release in prop::sample::select(&Release::ALL[..]),
        stages in prop::sample::select(&[1_i64, 2][..]),
        length in prop::option::of(prop_oneof![Just(-1_i64), 1_i64..300_000]),
        blocks in prop::option::of(1_i64..5000),
        pool in 0_u64..1 << 38,
    ) {
        let mut request = request(model, "h200", r#"{"tensor_parallel_size":4}"#);
        request.release = release;
        request.args.max_model_len = length;
        request.args.pipeline_parallel_size = Some(stages);
        request.args.num_gpu_blocks_override = blocks;
        if let Ok(base) = resolve_quietly(&memory::without_pool(&request)) {
            request.available_memory = Some(pool);
            match (base.fit(pool), resolve_quietly(&request)) {
                (Ok(fit), Ok(whole)) => {
                    let capacity = whole.capacity.unwrap();
                    prop_assert_eq!(fit.max_model_len, whole.max_model_len);
                    prop_assert_eq!(fit.requests.num_blocks, capacity.num_blocks);
                    prop_assert_eq!(fit.requests.shown(), capacity.requests);
                    prop_assert!(base.longest_request(pool).unwrap() >= fit.max_model_len);
                }
                (Err(fit), Err(whole)) => prop_assert_eq!(fit, whole),
                (fit, whole) => prop_assert!(false, "{fit:?} {:?}", whole.map(|whole| whole.outcome)),
            }
        }
    }

    #[test]
    fn shares_are_all_of_a_request(
        model in prop::sample::select(&MODELS_TRIED[..]),
        length in 1_u64..2_000_000,
    ) {
        let base = resolve_quietly(&request(model, "h200", r#"{"tensor_parallel_size":8}"#)).unwrap();
        let shares = base.shares(length).unwrap();
        let at = base.request_bytes_at(length).unwrap();
        let totals: Vec<u64> = shares.iter().map(|share| share.total_bytes).collect();
        prop_assert_eq!(&totals, &at.by_group);
        for share in &shares {
            let parts = share.content_bytes + share.in_flight_bytes + share.padding_bytes;
            prop_assert_eq!(parts, share.total_bytes);
        }
    }

    #[test]
    fn printed_tokens_lead_back_to_their_pool(
        model in prop::sample::select(&MODELS_TRIED[..]),
        gib in 20_u64..200,
    ) {
        let mut request = request(model, "b300", r#"{"tensor_parallel_size":8,"max_model_len":65536}"#);
        request.available_memory = Some(gib << 30);
        if let Ok(whole) = resolve_quietly(&request) {
            let printed = whole.capacity.unwrap().printed_tokens;
            let pool = pool_of_tokens(&request, printed).unwrap().expect("some pool prints them");
            let given = (gib << 30).cast_signed();
            prop_assert!(pool.low <= given && given <= pool.high);
            prop_assert!(check_printed(&request, pool, printed).unwrap().agrees());
            prop_assert!(!check_printed(&request, pool, printed * 2).unwrap().agrees());
        }
    }
}

#[test]
fn the_estimate_is_an_interval_for_every_model_and_gpu_or_says_why_not() {
    let mut estimated = 0;
    for model in MODELS.iter().map(|model| model.id) {
        for gpu in &GPUS {
            let request = request(
                model,
                gpu.key,
                r#"{"tensor_parallel_size":8,"trust_remote_code":true}"#,
            );
            let Ok(base) = resolve_quietly(&request) else {
                continue;
            };
            let budget = match memory::budget(&request, &base) {
                Ok(budget) => budget,
                Err(why) => {
                    assert!(!why.is_empty());
                    continue;
                }
            };
            estimated += 1;
            let ordered = |one: Interval| one.low <= one.likely && one.likely <= one.high;
            assert!(
                ordered(budget.pool) && ordered(budget.requested),
                "{model} {}",
                gpu.key
            );
            let kinds: Vec<PartKind> = budget.parts.iter().map(|part| part.kind).collect();
            assert_eq!(kinds, PartKind::ALL);
            let mut left = budget.requested;
            for part in &budget.parts {
                assert!(ordered(part.bytes), "{model} {} {:?}", gpu.key, part);
                assert!(!part.source.is_empty());
                left = left.less(part.bytes);
            }
            assert_eq!(left, budget.pool);
            assert_eq!(budget.nvml_total_bytes, request.gpu.total_memory_bytes);
            // of an estimate, as of anything, no more than the GPU has
            assert!(budget.pool.high < request.gpu.total_memory_bytes.cast_signed());
        }
    }
    assert!(estimated > 1000, "{estimated}");
}

#[test]
fn budgets_of_a_class_are_each_gpus_own() {
    let base = request(MODELS_TRIED[0], "h200", r#"{"tensor_parallel_size":8}"#);
    let gpus: Vec<Gpu> = GPUS.iter().map(CatalogGpu::gpu).collect();
    let dtypes = [CacheDtype::Auto, CacheDtype::Bfloat16];
    let classes = classes(&base, &gpus, &dtypes);
    let shared = budgets(&base, &gpus, &dtypes, &classes);
    for (gpu, row) in gpus.iter().zip(&classes.row_of_gpu) {
        for (index, dtype) in dtypes.iter().enumerate() {
            let mut own = base.clone();
            own.gpu = gpu.clone();
            own.args.kv_cache_dtype = Some(dtype.as_str().to_owned());
            let budget = resolve_quietly(&own)
                .ok()
                .map(|base| memory::budget(&own, &base));
            let of_class = shared[*row][index].clone();
            let of_class = of_class.map(|budget| budget.map(|budget| budget.on(gpu)));
            assert_eq!(budget, of_class, "{} {dtype}", gpu.name);
        }
    }
}

/// Makes a change by hand, as a person would.
fn changed(request: &Request, change: &kv_resolver::changes::Change) -> Request {
    let mut changed = request.clone();
    for (name, value) in &change.set {
        match name.parse::<kv_resolver::Flag>() {
            Ok(flag) if value.is_empty() => changed.args.clear(flag),
            Ok(flag) => {
                let value = if *name == "kv_cache_dtype" {
                    Value::String(value.clone())
                } else {
                    flag.parse_text(value).unwrap()
                };
                changed.args.set(flag, &value).unwrap();
            }
            Err(()) => {
                assert_eq!(*name, "speculative_config");
                changed.args.speculative_config = None;
            }
        }
    }
    if let Some(gpu) = change.gpu {
        changed.gpu = find_gpu(gpu).unwrap().gpu();
    }
    if changed.args.kv_cache_memory_bytes.is_some() {
        // what is pinned stays
        assert_eq!(
            changed.args.kv_cache_memory_bytes,
            i64::try_from(change.pool_bytes).ok()
        );
    }
    changed.available_memory = Some(change.pool_bytes);
    changed
}

#[test]
#[allow(clippy::cast_precision_loss)] // compared, roughly
fn every_change_starts_and_does_what_it_says() {
    let mut tried = 0;
    for model in MODELS_TRIED {
        for (gpu, args) in [
            ("h200", r#"{"tensor_parallel_size":8}"#),
            ("rtx-5090", "{}"),
            (
                "b200",
                r#"{"tensor_parallel_size":2,"max_model_len":131072}"#,
            ),
            (
                "rtx-pro-6000",
                r#"{"tensor_parallel_size":4,"speculative_config":{"method":"ngram","num_speculative_tokens":3}}"#,
            ),
        ] {
            for pool in [None, Some(3_u64 << 30), Some(30 << 30), Some(0)] {
                let mut asked = request(model, gpu, args);
                asked.available_memory = pool.filter(|pool| *pool > 0);
                if pool == Some(0) {
                    asked.args.kv_cache_memory_bytes = Some(10 << 30);
                }
                let Ok(base) = resolve_quietly(&memory::without_pool(&asked)) else {
                    continue;
                };
                let Ok(planned) = memory::plan_on(&asked, &base, None) else {
                    continue;
                };
                let found = changes(&asked, &base, &planned, &GPUS);
                // of requests as long as now first, then of shorter ones
                let alike = |pair: &&[kv_resolver::changes::Change]| {
                    pair[0].served.length == pair[1].served.length
                };
                for pair in found.changes.windows(2).filter(alike) {
                    let per = |change: &kv_resolver::changes::Change| {
                        change.served.requests.as_f64() * change.served.replicas as f64
                    };
                    assert!(
                        per(&pair[0]) >= per(&pair[1]) * 0.999_999,
                        "{model} {gpu}: not ranked"
                    );
                }
                for change in &found.changes {
                    tried += 1;
                    let whole = resolve(&changed(&asked, change))
                        .unwrap_or_else(|error| panic!("{model} {gpu} {}: {error}", change.text));
                    let capacity = whole.capacity.unwrap();
                    assert_eq!(
                        capacity.requests,
                        change.served.requests.shown(),
                        "{}",
                        change.text
                    );
                    assert!(
                        base.outcome == Outcome::Unverified || whole.outcome != Outcome::Unverified
                    );
                    assert!(!change.cost.is_empty());
                    let mut loads = changed(&asked, change);
                    let again = memory::plan(&loads, None).unwrap();
                    assert!(again.stops.is_none(), "{model} {gpu} {}", change.text);
                    loads.available_memory = None;
                    if planned.source == Source::Estimated {
                        let mut again = changed(&asked, change);
                        again.available_memory = None;
                        let again = memory::plan(&again, None).unwrap();
                        assert!(again.refusal().is_none(), "{}", change.text);
                        assert_eq!(again.likely().pool_bytes, change.pool_bytes);
                    }
                }
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn the_pool_of_40_gib_is_told_what_would_help() {
    let asked = flash(
        r#"{"tensor_parallel_size":8,"max_model_len":262144}"#,
        40 << 30,
    );
    let base = resolve_quietly(&memory::without_pool(&asked)).unwrap();
    let planned = memory::plan_on(&asked, &base, None).unwrap();
    let found = changes(&asked, &base, &planned, &GPUS);
    assert_eq!(found.now.unwrap().shown(), "5.56");
    let of = |text: &str| {
        let change = found
            .changes
            .iter()
            .find(|change| change.text.contains(text));
        change.map(|change| change.served.shown())
    };
    assert_eq!(
        of("max_num_batched_tokens 8,192 → 2,048").as_deref(),
        Some("15.79")
    );
    assert_eq!(of("async scheduling off").as_deref(), Some("9.79"));
}

#[test]
fn errors_of_this_stage_are_vllms_in_its_order() {
    let refusal = |request: &Request| {
        let refusal = match memory::plan(request, None) {
            Ok(planned) => planned.refusal().cloned(),
            Err(refusal) => Some(*refusal),
        };
        refusal.map(|refusal| (refusal.error_type(), refusal.to_string()))
    };
    let mut asked = request(
        MODELS_TRIED[0],
        "h200",
        r#"{"tensor_parallel_size":8,"max_model_len":262144}"#,
    );
    assert_eq!(refusal(&asked), None);
    asked.free_memory = Some(60 << 30);
    assert_eq!(
        refusal(&asked),
        Some((
            "ValueError",
            "Free memory on device cuda:0 (60.0/139.81 GiB) on startup is less than desired GPU \
             memory utilization (0.92, 128.62 GiB). Decrease GPU memory utilization or reduce GPU \
             memory used by other processes."
                .to_owned()
        ))
    );
    // what is free is looked at before the model is built, and whatever pins the pool
    asked.args.kv_cache_dtype = Some("bfloat16".to_owned());
    assert!(
        refusal(&asked)
            .unwrap()
            .1
            .starts_with("Free memory on device")
    );
    asked.args.kv_cache_dtype = Some("fp8".to_owned());
    asked.args.tensor_parallel_size = None;
    asked.args.kv_cache_memory_bytes = Some(1 << 30);
    assert!(
        refusal(&asked)
            .unwrap()
            .1
            .starts_with("Free memory on device")
    );
    asked.free_memory = None;
    asked.args.kv_cache_memory_bytes = None;
    let (error_type, text) = refusal(&asked).unwrap();
    assert_eq!(error_type, "OutOfMemoryError");
    assert!(
        text.starts_with("CUDA out of memory. Tried to allocate"),
        "{text}"
    );
    // model runner V1 says so itself
    asked.release = Release::V0_26_0;
    let (_, text) = refusal(&asked).unwrap();
    assert!(
        text.starts_with("Failed to load model - not enough GPU memory. Try lowering"),
        "{text}"
    );
    // weights that a GPU has room for, and its share does not
    let mut tight = request(
        "Qwen/Qwen3-32B",
        "rtx-pro-6000",
        r#"{"gpu_memory_utilization":0.6}"#,
    );
    assert!(
        refusal(&tight)
            .unwrap()
            .1
            .starts_with("No available memory for the cache blocks.")
    );
    tight.args.max_model_len = Some(-1);
    assert!(
        refusal(&tight)
            .unwrap()
            .1
            .starts_with("Cannot auto-fit max_model_len")
    );
    let long = request("Qwen/Qwen3-8B", "rtx-5090", r#"{"max_model_len":131072}"#);
    if let Some((_, text)) = refusal(&long) {
        assert!(
            text.contains("max_model_len") || text.contains("max seq len"),
            "{text}"
        );
    }
}

#[test]
fn a_printed_pool_is_taken_as_wide_as_it_was_printed() {
    let asked = request(
        MODELS_TRIED[0],
        "h200",
        r#"{"tensor_parallel_size":8,"max_model_len":262144}"#,
    );
    let planned = memory::plan(&asked, Some(printed_gib(4000))).unwrap();
    assert_eq!(planned.source, Source::Printed);
    assert_eq!(planned.pool.high - planned.pool.low, (1 << 30) / 100);
    let blocks: Vec<u64> = planned
        .ends
        .iter()
        .map(|end| end.fit.as_ref().unwrap().requests.num_blocks)
        .collect();
    assert!(
        blocks[0] < blocks[2] && blocks[1] <= blocks[2],
        "{blocks:?}"
    );
    // without weights that are counted, a printed pool still answers, and an open one does not
    let uncounted = request(
        "nvidia/Qwen3-235B-A22B-NVFP4",
        "h200",
        r#"{"tensor_parallel_size":8}"#,
    );
    assert!(
        memory::plan(&uncounted, Some(printed_gib(4000)))
            .unwrap()
            .budget
            .is_err()
    );
    let refusal = memory::plan(&uncounted, None).unwrap_err();
    assert!(matches!(*refusal, Refusal::NotModelled(_)), "{refusal}");
}

#[test]
fn why_tells_of_the_memory_where_a_start_up_comes_to_it() {
    for (release, counts) in [
        (Release::V0_26_0, "of torch's, the weights"),
        (Release::V0_33_0, "all that the process has taken"),
    ] {
        let mut request = request(
            MODELS_TRIED[0],
            "h200",
            r#"{"tensor_parallel_size":8,"kv_cache_dtype":"fp8"}"#,
        );
        request.release = release;
        request.free_memory = Some(130 << 30);
        let planned = memory::plan(&request, None).unwrap();
        let mut sized = request.clone();
        sized.available_memory = Some(planned.likely().pool_bytes);
        let mut result = resolve(&sized);
        memory::by_estimate(&request, &planned, &mut result);
        let trace = result.unwrap().trace;
        let place = |function: &str| {
            let place = trace.iter().position(|step| step.rule.function == function);
            place.unwrap_or_else(|| panic!("{function} in {trace:#?}"))
        };
        let asked = place("request_memory");
        let built = place("initialize_model");
        let left = place("Worker.determine_available_memory");
        assert!(asked < built && built < left && left < trace.len() - 1);
        let last_spec = trace.iter().rposition(|step| step.stage == Stage::Specs);
        assert!(last_spec < Some(left));
        assert!(
            trace[asked].decided.ends_with(": 130.0 GiB are"),
            "{}",
            trace[asked].decided
        );
        assert!(
            trace[left].decided.contains(counts),
            "{}",
            trace[left].decided
        );
    }
}

#[test]
fn weights_that_do_not_fit_end_why_where_they_are_loaded() {
    let flash = flash("{}", 8 << 30);
    let smaller = request(MODELS_TRIED[0], "rtx-5090", "{}").gpu;
    let error = memory::resolve_loaded(&Request {
        gpu: smaller,
        ..flash
    })
    .unwrap_err();
    assert_eq!(error.refusal.stage(), Stage::Model);
    assert_eq!(
        error.trace.last().unwrap().rule.function,
        "initialize_model"
    );
}
