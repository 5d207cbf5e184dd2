//! What sets releases apart, on cases that are known from outside.

use kv_cases::parse_case;
use kv_resolver::resolution::{Capacity, Resolution, TensorRow};
use kv_resolver::{Outcome, Refusal, Release, StartupError, resolve};

fn ask(release: Release, args: &str, pool: u64) -> Result<Resolution, StartupError> {
    let case = format!(
        r#"{{"id":1,"release":"{release}","model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{{{args}}},"available_memory":{pool}}}"#
    );
    resolve(&parse_case(&case).1.expect("a well-formed case"))
}

fn capacity(release: Release, args: &str, pool: u64) -> Capacity {
    let resolution = ask(release, args, pool).expect("it starts");
    resolution.capacity.expect("a pool was given")
}

const GIB: u64 = 1 << 30;
const FLASH: &str = r#""kv_cache_dtype":"fp8","tensor_parallel_size":4,"max_model_len":131072"#;

/// A public start-up log of 0.23.0: "Available KV cache memory: 32.08 GiB",
/// "GPU KV cache size: 1,247,687 tokens", "Maximum concurrency … 9.52x". A pool
/// that is printed as 32.08 may have any size between the two of this test.
#[test]
fn a_start_up_log_of_0_23_comes_out_as_it_was_printed() {
    let (least, most) = (32_075 * GIB / 1000 + 1, 32_085 * GIB / 1000 - 1);
    let tokens = |pool| capacity(Release::V0_23_0, FLASH, pool).printed_tokens;
    assert_eq!((tokens(least), tokens(most)), (1_247_273, 1_247_687));
    let printed = capacity(Release::V0_23_0, FLASH, most);
    assert_eq!(
        printed.log_line,
        "GPU KV cache size: 1,247,687 tokens\nMaximum concurrency for 131,072 tokens per \
         request: 9.52x"
    );
}

/// `auto` fails an assertion through 0.29, whose words changed twice, and works since.
#[test]
fn auto_on_the_packed_layout_works_since_0_30() {
    for release in Release::ALL {
        let answer = ask(release, r#""tensor_parallel_size":4"#, 40 * GIB);
        if release >= Release::V0_30_0 {
            assert_eq!(answer.unwrap().outcome, Outcome::Becomes);
            continue;
        }
        let error = answer.unwrap_err();
        assert!(matches!(error.refusal, Refusal::PackedAssertsFp8 { .. }));
        assert_eq!(error.refusal.error_type(), "AssertionError");
        assert!(error.refusal.to_string().ends_with(", got auto"));
        assert!(!error.advice.is_empty(), "{release}: fp8 works");
    }
}

/// Bytes of a block by era: layer tuples, slots by page size, pages side by side.
#[test]
fn a_block_shrank_twice() {
    let bytes = |release| ask(release, FLASH, 40 * GIB).unwrap().bytes_per_block;
    for release in Release::ALL {
        let expected = match release {
            Release::V0_20_2 | Release::V0_21_0 | Release::V0_22_1 => 1_051_776,
            Release::V0_23_0 | Release::V0_24_0 | Release::V0_25_1 | Release::V0_26_0 => 1_039_680,
            _ => 1_002_240,
        };
        assert_eq!(bytes(release), expected, "{release}");
    }
}

/// Allocations of their own through 0.23, then views into one; runs since 0.29.
#[test]
fn tensors_are_what_the_release_lists() {
    let rows = |release| capacity(release, FLASH, 40 * GIB).tensors;
    let shared = |row: &TensorRow| match row {
        TensorRow::Shared(row) => (row.offset, row.block_stride, row.size),
        TensorRow::Run(_) => panic!("a run"),
    };
    let old = rows(Release::V0_23_0);
    assert_eq!(old.len(), 63);
    assert_eq!(shared(&old[0]), (None, None, 8640 * 41_310));
    let views = rows(Release::V0_24_0);
    assert_eq!(
        shared(&views[1]),
        (Some(8640), Some(1_039_680), 1_039_680 * 41_310)
    );
    assert_eq!(rows(Release::V0_27_1).len(), 139);
    assert!(
        rows(Release::V0_29_0)
            .iter()
            .all(|row| matches!(row, TensorRow::Run(_)))
    );
}

/// What the log promises, what the metrics say and what whole blocks hold.
#[test]
fn a_misleading_line_is_called_so() {
    let codes = |release| -> Vec<&str> {
        let resolution = ask(release, FLASH, 40 * GIB).unwrap();
        resolution.notes.iter().map(|note| note.code).collect()
    };
    assert!(codes(Release::V0_23_0).contains(&"printed-too-high"));
    assert!(codes(Release::V0_26_0).contains(&"metric-differs"));
    assert!(!codes(Release::V0_26_0).contains(&"one-batch-reserved"));
    assert!(!codes(Release::V0_27_1).contains(&"printed-too-high"));
}

#[test]
fn auto_fit_says_what_it_found_in_each_releases_words() {
    let line = |release: &str, pool: u64| {
        let case = format!(
            r#"{{"id":1,"release":"{release}","model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{{"kv_cache_dtype":"fp8","tensor_parallel_size":8,"max_model_len":-1}},"available_memory":{pool}}}"#
        );
        let request = kv_cases::parse_case(&case).1.unwrap();
        let resolution = kv_resolver::resolve(&request).unwrap();
        let length = resolution.max_model_len;
        (length, resolution.capacity.unwrap().auto_fit_line.unwrap())
    };
    let (length, shortened) = line("0.33.0", 7 << 30);
    assert_eq!(
        shortened,
        format!(
            "Auto-fit max_model_len: reduced from 1048576 to {length} to fit in available KV cache \
             memory (7.0 GiB GPU)"
        )
    );
    let (length, shortened) = line("0.31.0", 7 << 30);
    assert_eq!(
        shortened,
        format!(
            "Auto-fit max_model_len: reduced from 1048576 to {length} to fit in available GPU \
             memory (7.0 GiB available for KV cache)"
        )
    );
    assert_eq!(
        line("0.33.0", 100 << 30).1,
        "Auto-fit max_model_len: full model context length 1048576 fits in available KV cache \
         memory (100.0 GiB GPU)"
    );
    assert_eq!(
        line("0.22.1", 100 << 30).1,
        "Auto-fit max_model_len: full model context length 1048576 fits in available GPU memory"
    );
}
