//! Context parallelism where releases part, beside what the vectors hold.

use kv_cases::parse_case;
use kv_resolver::error::Stage;
use kv_resolver::resolution::Resolution;
use kv_resolver::{Outcome, Release, StartupError, resolve};

fn ask(release: Release, model: &str, args: &str) -> Result<Resolution, StartupError> {
    let case = format!(
        r#"{{"id":1,"release":"{release}","model":"{model}","gpu":"h200","args":{{{args},"max_model_len":32768}},"available_memory":42949672960}}"#
    );
    resolve(&parse_case(&case).1.expect("a well-formed case"))
}

fn text(release: Release, model: &str, args: &str) -> (Stage, String) {
    let refusal = ask(release, model, args).expect_err(args).refusal;
    (refusal.stage(), refusal.to_string())
}

const V3: &str = "deepseek-ai/DeepSeek-V3";
const GLM: &str = "zai-org/GLM-5-FP8";
const SHARED: &str = r#""tensor_parallel_size":8,"decode_context_parallel_size":2"#;

#[test]
fn ranks_take_turns_that_fill_blocks() {
    let turns = |turn: i64| format!("{SHARED},\"cp_kv_cache_interleave_size\":{turn}");
    let starts = |turn| ask(Release::V0_33_0, V3, &turns(turn)).map(|answer| answer.outcome);
    assert_eq!(starts(8).unwrap(), Outcome::Works);
    // no check stops it
    assert_eq!(starts(-8).unwrap(), Outcome::Unverified);
    assert_eq!(
        text(Release::V0_33_0, V3, &turns(5)),
        (
            Stage::Engine,
            "Block_size(16) should be greater than or equal to and divisible by \
             cp_kv_cache_interleave_size (5)."
                .to_owned()
        )
    );
    assert_eq!(
        text(Release::V0_33_0, V3, &turns(0)).1,
        "integer modulo by zero"
    );
}

#[test]
fn the_former_name_is_read_through_0_28() {
    let args = format!("{SHARED},\"dcp_kv_cache_interleave_size\":5");
    assert!(ask(Release::V0_29_0, V3, &args).is_ok());
    assert!(text(Release::V0_28_0, V3, &args).1.contains("(5)."));
}

#[test]
fn glm_prefers_all_to_all_before_flashmla_takes_it() {
    let args = format!("{SHARED},\"kv_cache_dtype\":\"fp8\"");
    for release in [Release::V0_29_0, Release::V0_32_0] {
        let error = ask(release, GLM, &args).unwrap_err();
        assert!(error.to_string().ends_with("got 'a2a'"));
        let set = error.advice.iter().flat_map(|advice| &advice.set);
        assert!(set.clone().any(|(flag, _)| *flag == "dcp_comm_backend"));
    }
    assert!(ask(Release::V0_33_0, GLM, &args).is_ok());
}

#[test]
fn a_flag_is_as_old_as_its_release() {
    let args = format!("{SHARED},\"dcp_q_replicate\":true");
    assert!(ask(Release::V0_29_0, V3, &args).is_ok());
    assert_eq!(
        text(Release::V0_28_0, V3, &args).1,
        "EngineArgs.__init__() got an unexpected keyword argument 'dcp_q_replicate'"
    );
}

#[test]
fn ranks_of_prefill_hold_the_whole_cache() {
    let alone = ask(Release::V0_33_0, V3, r#""tensor_parallel_size":4"#).unwrap();
    let shared = r#""tensor_parallel_size":4,"prefill_context_parallel_size":2"#;
    let shared = ask(Release::V0_33_0, V3, shared).unwrap();
    assert_eq!(alone.request_bytes, shared.request_bytes);
    assert_eq!(
        text(
            Release::V0_33_0,
            V3,
            r#""tensor_parallel_size":4,"prefill_context_parallel_size":2,"decode_context_parallel_size":4"#
        )
        .1,
        "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP \
         axis. Got TP=4, PCP=2, DCP=4; valid DCP sizes are [1, 2, 8]."
    );
}

/// `_check_enough_kv_cache_memory` looks at what there is before it asks the layers what they need.
#[test]
fn without_memory_no_layer_is_asked() {
    let error = |pool: u64| {
        let case = format!(
            r#"{{"model":"XiaomiMiMo/MiMo-V2-Flash","gpu":"h200","args":{{{SHARED},"max_model_len":32768}},"available_memory":{pool}}}"#
        );
        let request = parse_case(&case).1.expect("a well-formed case");
        resolve(&request).expect_err("neither starts").refusal
    };
    assert_eq!(
        error(1 << 30).to_string(),
        "DCP not support sliding window."
    );
    assert!(
        error(0)
            .to_string()
            .starts_with("No available memory for the cache blocks.")
    );
}
