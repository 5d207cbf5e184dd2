use super::*;
use crate::address;
use crate::catalog::tests::{catalog, shelf};
use crate::input::default_model;
use crate::page::Page;
use kv_resolver::{Outcome, Usage};

fn filled(text: &str) -> (Input, Reading) {
    let mut input = Input::default();
    let mut reading = Reading::new(text, input.release);
    reading.fill(&mut input, &catalog().ids());
    (input, reading)
}

#[test]
fn a_command_fills_the_form_and_takes_its_defaults_away() {
    let (input, reading) = filled(
        "VLLM_KV_CACHE_LAYOUT=HND vllm serve Qwen/Qwen3-8B -tp 2 --kv_cache_dtype=fp8 --max-model-len 32k \\\n  --enable-prefix-caching --port 9000",
    );
    assert_eq!(input.model_name(), "Qwen/Qwen3-8B");
    assert_eq!(input.dtype, CacheDtype::Fp8);
    assert_eq!(input.flag(Flag::TensorParallelSize), "2");
    assert_eq!(input.flag(Flag::MaxModelLen), "32000");
    assert_eq!(input.flag(Flag::EnablePrefixCaching), "true");
    assert_eq!(input.kv_cache_layout, "HND");
    assert!(input.unmodelled.is_empty() && reading.problems().is_empty());
    let server = reading
        .passed()
        .into_iter()
        .find(|(spelled, _)| spelled == "--port");
    assert_eq!(server.unwrap().1, Standing::Server);
    let (bare, _) = filled("vllm serve deepseek-ai/DeepSeek-V4-Flash");
    assert_eq!(bare.model, default_model());
    assert_eq!(bare.flags, []);
}

#[test]
fn what_is_unmodelled_is_asked_and_refused_until_it_is_left_out() {
    let (mut input, _) =
        filled("VLLM_USE_TRITON_AWQ=1 vllm serve Qwen/Qwen3-8B --quantization fp8 -O3");
    assert_eq!(
        input.unmodelled,
        ["VLLM_USE_TRITON_AWQ", "optimization_level", "quantization"]
    );
    let outcome = |input: &Input| Page::new(input, &shelf(), None).answer().unwrap().outcome();
    assert_eq!(outcome(&input), Outcome::Unmodelled);
    let back = address::read(&address::write(&input).query).input;
    assert_eq!(back.unmodelled, input.unmodelled);
    input.unmodelled.clear();
    assert_ne!(outcome(&input), Outcome::Unmodelled);
}

#[test]
fn a_log_pins_the_pool_and_says_what_closes_its_gap() {
    // what another question prints
    let mut other = Input {
        pool_gib: "40".to_owned(),
        ..Input::default()
    };
    other.set_flag(Flag::MaxNumBatchedTokens, "2048");
    let page = Page::new(&other, &shelf(), None);
    let lines = &page.answer().unwrap().result.as_ref().unwrap().log;
    let of_pool: Vec<&str> = lines
        .iter()
        .map(|line| line.text.as_str())
        .filter(|text| text.contains("KV cache size"))
        .collect();
    let log = &format!(
        "(EngineCore pid=7) INFO 11-29 10:00:00 [gpu_worker.py:1] Available KV cache memory: 40.00 GiB\n\
         (EngineCore pid=7) INFO 11-29 10:00:00 [kv_cache_utils.py:1] {}\n",
        of_pool.join("\n")
    );
    let (mut input, reading) = filled(log);
    let reading = Arc::new(reading);
    assert!(input.pool_gib.contains("40.00 GiB") && input.pool_gib.contains("KV cache size"));
    // the default question stays
    assert_eq!(input.flag(Flag::TensorParallelSize), "8");
    let explained = |input: &Input| {
        let page = Page::new(input, &shelf(), None);
        let answer = page.answer().unwrap();
        let first = Explained::new(&reading, answer, None);
        // the same two are not explained twice
        let again = Explained::new(&reading, answer, Some(&first));
        assert!(Arc::ptr_eq(
            first.explanation.as_ref().unwrap(),
            again.explanation.as_ref().unwrap()
        ));
        first.explanation.unwrap()
    };
    let explanation = explained(&input);
    assert!(!explanation.agrees(), "{:?}", explanation.figures);
    let closing = explanation
        .closings
        .iter()
        .find(|closing| closing.text() == "max_num_batched_tokens=2048");
    take(
        &mut input,
        closing.unwrap_or_else(|| panic!("{:?}", explanation.closings)),
    );
    assert_eq!(input.flag(Flag::MaxNumBatchedTokens), "2048");
    assert!(explained(&input).agrees());
}

#[test]
fn drafters_and_usage_come_along() {
    let (input, _) = filled(
        "from vllm import LLM\nllm = LLM(model='deepseek-ai/DeepSeek-V4-Flash', tensor_parallel_size=4, \
         speculative_config={'method': 'mtp', 'num_speculative_tokens': 2})",
    );
    assert_eq!(input.usage, Usage::Llm);
    assert_eq!(input.drafting.method.map(Method::as_str), Some("mtp"));
    assert_eq!(input.drafting.tokens, "2");
    assert_eq!(input.flag(Flag::TensorParallelSize), "4");
}

#[test]
fn of_an_unknown_model_nothing_is_answered() {
    for text in [
        "vllm serve acme/Unknown-7B -tp 2",
        "vllm serve $MODEL -tp 2",
    ] {
        let (input, reading) = filled(text);
        assert_eq!(input.model, ModelChoice::Pasted, "{text}");
        assert!(
            reading
                .left_out
                .iter()
                .any(|text| text.contains("config.json")),
            "{text}"
        );
        assert!(
            Page::new(&input, &shelf(), None).answer().is_none(),
            "{text}"
        );
    }
    // what cannot be read is not said to be in the form
    let (input, reading) = filled(
        "vllm serve Qwen/Qwen3-8B --kv-cache-dtype foo --max-model-len 99999999999999999999999999",
    );
    assert_eq!(reading.passed(), []);
    assert!(input.flag(Flag::MaxModelLen).is_empty() && !reading.left_out.is_empty());
}

#[test]
fn nonsense_changes_nothing() {
    for text in ["", "hello", "{}", &"x".repeat(1000)] {
        let (input, reading) = filled(text);
        assert!(!reading.is_something(), "{text}");
        assert_eq!(input, Input::default());
    }
}
