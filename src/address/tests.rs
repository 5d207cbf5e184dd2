use super::*;
use crate::catalog::tests::catalog;
use crate::input::Drafting;
use crate::view::{Memory, Toggle};
use kv_resolver::catalog::{GPUS, MODELS};
use kv_resolver::{Arch, Release, Usage};

/// Reads an address with the catalog there.
fn read(query: &str) -> Read {
    let mut read = super::read(query);
    if let Err(problem) = settle(&mut read.input, &catalog()) {
        read.problems.push(problem);
    }
    read
}

fn round_trip(input: &Input) {
    let written = write(input);
    let back = read(&written.query);
    assert_eq!(back.problems, Vec::<String>::new(), "{}", written.query);
    assert_eq!(&back.input, input, "{}", written.query);
}

#[test]
fn the_default_question_is_the_bare_address() {
    assert_eq!(write(&Input::default()).query, "");
    round_trip(&Input::default());
}

#[test]
fn every_choice_comes_back() {
    for gpu in &GPUS {
        for dtype in CacheDtype::ALL {
            round_trip(&Input {
                gpu,
                dtype,
                ..Input::default()
            });
        }
    }
    for model in &MODELS {
        for release in Release::ALL {
            let mut input = Input {
                release,
                ..Input::default()
            };
            input.choose_model(ModelChoice::Catalog(Arc::from(model.id)));
            round_trip(&input);
        }
    }
    let mut input = Input {
        pool_gib: String::new(),
        kv_cache_layout: "BL NC&=é".to_owned(),
        allow_long: true,
        usage: Usage::Llm,
        view: View {
            all_dtypes: true,
            row_per_gpu: true,
            ..View::default()
        },
        model: ModelChoice::Pasted,
        pasted: Arc::from(r#"{"a":"x  \" y","b":[1,2]}"#),
        ..Input::default()
    };
    input.set_flag(Flag::TensorParallelSize, "");
    input.set_flag(Flag::MaxModelLen, "-1");
    input.set_flag(Flag::AttentionBackend, "A&B=C+D");
    input.set_flag(Flag::EnforceEager, "true");
    round_trip(&input);
    for method in Method::MODELLED {
        input.drafting.method = Some(method);
        round_trip(&input);
    }
    input.drafting = Drafting {
        method: Some(Method::Eagle3),
        tokens: "3".to_owned(),
        model: "a/b&c #1".to_owned(),
        pasted: Arc::from(r#"{"d":"&draft=#"}"#),
        dtype: Some(CacheDtype::Fp8),
    };
    round_trip(&input);
    input.model = default_model();
    input.pasted = Arc::from("");
    round_trip(&input);
    input.drafting.tokens.clear();
    round_trip(&input);
}

#[test]
fn every_view_comes_back() {
    let mut input = Input::default();
    for toggle in Toggle::ALL {
        input.view.flip(toggle);
        round_trip(&input);
    }
    for sort in Sort::ALL {
        for memory in Memory::ALL {
            input.view = View {
                sort,
                memory,
                ..View::default()
            };
            round_trip(&input);
        }
    }
    input.view = View::default();
    input.view.flip(Toggle::Only(Arch::Sm100));
    input.view.flip(Toggle::Only(Arch::Sm120));
    input.view.memory = Memory::AtLeast(80);
    assert_eq!(write(&input).query, "arch=SM100,SM120&mem=80-");
}

#[test]
fn a_model_is_found_whatever_its_case() {
    let read = read("model=DEEPSEEK-AI/deepseek-v4-flash");
    assert_eq!(read.input, Input::default());
    assert_eq!(read.problems, Vec::<String>::new());
    let read = self::read("model=no/such&max_model_len=4096");
    assert_eq!(read.input.model, default_model());
    assert_eq!(read.input.flag(Flag::MaxModelLen), "4096");
    assert_eq!(read.problems, ["model: \"no/such\" is not known here"]);
}

#[test]
fn a_large_config_stays_out() {
    let mut input = Input {
        pasted: Arc::from(format!(r#"{{"a": "{}"}}"#, "x".repeat(7000))),
        ..Input::default()
    };
    input.choose_model(ModelChoice::Pasted);
    let written = write(&input);
    assert!(written.config_left_out);
    assert_eq!(written.query, "model=pasted");
    let back = read(&written.query);
    assert_eq!(back.input, Input::default());
    assert!(back.problems[0].contains("does not hold"));
}

#[test]
fn before_a_config_is_pasted_there_is_none() {
    let mut input = Input::default();
    input.choose_model(ModelChoice::Pasted);
    let written = write(&input);
    assert!(!written.config_left_out);
    assert_eq!(written.query, "model=pasted");
}

#[test]
fn hostile_addresses_are_named_and_change_nothing() {
    for query in [
        "gpu=%3Cscript%3Ealert(1)%3C/script%3E",
        "release=9.9.9",
        "release=0.28.1",
        "kv_cache_dtype=fp7",
        "tensor_parallel_size=1e9",
        "tensor_parallel_size=99999999999999999999999999",
        "pool_gib=NaN",
        "model=../../etc/passwd",
        "config=%7B",
        "#draft=%7B",
        "spec_method=guess",
        "spec_tokens=many",
        "spec_kv_cache_dtype=fp7",
        "__proto__=1",
        "usage=both",
        "sort=price",
        "arch=SM80",
        "arch=",
        "mem=80",
        "mem=NaN",
        "fold=all",
        "%ff%fe=%",
        "embed=all",
        "theme=",
    ] {
        let mut read = read(query);
        assert_eq!(read.problems.len(), 1, "{query}");
        read.input.kept.clear();
        assert_eq!(read.input, Input::default(), "{query}");
    }
    assert_eq!(read("&&&").problems.len(), 0);
    assert_eq!(read(&"a=1&".repeat(100)).problems.len(), MOST_PROBLEMS + 1);
    assert_eq!(read(&"a".repeat(MOST_QUERY_BYTES + 1)).problems.len(), 1);
}

#[test]
fn spaces_go_and_strings_stay() {
    assert_eq!(
        minify("{ \"a b\" : \"c \\\" d\\\\\" ,\n \"e\": 1 }"),
        r#"{"a b":"c \" d\\","e":1}"#
    );
}

#[test]
fn what_other_versions_know_stays_in_the_address() {
    let back = read("gpu=b200&sparkle=1%202&embed=matrix&theme=dark&sparkle=1%202");
    assert_eq!(
        back.problems,
        ["sparkle: no such parameter here; it stays in the address"; 2]
    );
    assert_eq!(
        write(&back.input).query,
        "gpu=b200&sparkle=1%202&embed=matrix&theme=dark"
    );
    assert_eq!(read(&write(&back.input).query).input, back.input);
    // but not without end, nor what no address holds
    let many: Vec<String> = (0..40).map(|number| format!("p{number}=1")).collect();
    assert_eq!(read(&many.join("&")).input.kept.len(), 8);
    for hostile in [&"x".repeat(300), "a=<script>", "b='\"", "c=\u{7}"] {
        let back = read(hostile);
        assert_eq!(back.input.kept, Vec::<String>::new(), "{hostile}");
        assert!(
            back.problems[0].ends_with("no such parameter"),
            "{:?}",
            back.problems
        );
    }
}

#[test]
fn other_spellings_are_read_as_ours() {
    let back = read("tp=4&--max-model-len=8192&kv-cache-dtype=fp8&vllm=0.32.0&pool=40");
    assert_eq!(back.problems, Vec::<String>::new());
    let written = write(&back.input).query;
    assert_eq!(
        written,
        "release=0.32.0&kv_cache_dtype=fp8&tensor_parallel_size=4&max_model_len=8192&pool_gib=40"
    );
}

#[test]
fn a_problem_is_told_under_the_name_that_the_address_has() {
    for (query, problem) in [
        (
            "tensor_parallel_size=99999999999999999999",
            "tensor_parallel_size: 99999999999999999999 is out of range",
        ),
        ("tp=x", "tp: expected a whole number, got \"x\""),
        ("pool=-1", "pool: There cannot be less than 0 GiB."),
        (
            "gpu_memory_utilization=NaN",
            "gpu_memory_utilization: expected a number, got \"NaN\"",
        ),
        (
            "gpu_memory_utilization=-inf",
            "gpu_memory_utilization: expected a number, got \"-inf\"",
        ),
    ] {
        let read = read(query);
        assert_eq!(read.problems, [problem]);
        assert_eq!(read.input, Input::default(), "{query}");
    }
}

#[test]
fn a_link_to_share_says_the_whole_question() {
    let mut input = Input::default();
    let link = pinned(&input);
    assert_eq!(
        link,
        "model=deepseek-ai/DeepSeek-V4-Flash&release=0.33.0&gpu=h200-sxm-141gb&kv_cache_dtype=auto\
         &tensor_parallel_size=8&max_model_len=262144"
    );
    assert_eq!(read(&link).input, input);
    input.set_flag(Flag::MaxModelLen, "");
    input.dtype = CacheDtype::Fp8;
    assert_eq!(read(&pinned(&input)).input, input);
}

#[test]
fn the_element_for_another_page_asks_the_same() {
    let mut input = read("embed=cell&gpu=b200&pool_gib=40").input;
    input.set_flag(Flag::AttentionBackend, "\"><b>");
    let html = embedded(&input, "https://kv.example/");
    assert_eq!(
        html,
        "<script src=\"https://kv.example/embed.js\" defer></script>\n<kv-explorer part=\"matrix\" \
         model=\"deepseek-ai/DeepSeek-V4-Flash\" release=\"0.33.0\" gpu=\"b200\" kv-cache-dtype=\"auto\" \
         tensor-parallel-size=\"8\" max-model-len=\"262144\" attention-backend=\"&quot;><b>\" pool-gib=\"40\"></kv-explorer>"
    );
}
