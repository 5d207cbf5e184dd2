//! What `kvx` says of what is wrong with a question, or strange.

use std::process::Command;

/// What it prints, and its exit code.
fn kvx(given: &str) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_kvx"))
        .args(given.split_whitespace())
        .output()
        .unwrap();
    let bytes = [output.stdout, output.stderr].concat();
    (String::from_utf8(bytes).unwrap(), output.status.code())
}

#[test]
fn a_folder_in_place_of_a_file_is_named() {
    let folder = env!("CARGO_MANIFEST_DIR");
    for command in ["explain", "resolve", "plan Qwen/Qwen3-8B --gpu h200 --log"] {
        let (text, code) = kvx(&format!("{command} {folder}"));
        assert!(text.contains(&format!("{folder}: ")), "{text}");
        assert_eq!(code, Some(2), "{text}");
    }
    let (text, _) = kvx("explain no-such-file");
    assert!(text.starts_with("kvx: no-such-file: "), "{text}");
}

#[test]
fn more_memory_than_the_gpu_has_is_told() {
    for (given, what) in [
        ("plan --pool 500GiB", "The pool that is given is more"),
        ("plan --free 500GiB", "What is said to be free is more"),
        ("layout --pool 500GiB", "The pool that is given is more"),
        ("layout --c --pool 500GiB", "The pool that is given is more"),
    ] {
        let (text, code) = kvx(&format!("{given} Qwen/Qwen3-8B --gpu h200"));
        assert!(text.contains(what), "{given}: {text}");
        assert_eq!(code, Some(0), "{given}: {text}");
        let within = given.replace("500", "100");
        let (text, _) = kvx(&format!("{within} Qwen/Qwen3-8B --gpu h200"));
        assert!(!text.contains("than this GPU has"), "{within}: {text}");
    }
}

#[test]
fn less_than_nothing_is_said_of_its_option() {
    for (given, error) in [
        ("--free -5GiB", "--free: \"-5GiB\" is no size"),
        (
            "--mean-length -1",
            "--mean-length: \"-1\" is no number of tokens",
        ),
    ] {
        let (text, code) = kvx(&format!("plan Qwen/Qwen3-8B --gpu h200 {given}"));
        assert!(text.contains(error), "{text}");
        assert_eq!(code, Some(2));
    }
}

#[test]
fn one_cell_is_one() {
    let (text, _) =
        kvx("diff --from 0.32.0 --to 0.33.0 Qwen/Qwen3-8B --gpu h200 --kv-cache-dtype auto");
    assert!(
        text.contains("of 1 cell (1 GPU × 1 dtype) changed"),
        "{text}"
    );
}

#[test]
fn a_flag_without_a_place_here_leads_to_explain() {
    let (text, code) = kvx("show Qwen/Qwen3-8B --gpu h200 --headless");
    assert!(
        text.contains("`kvx explain` takes a whole command"),
        "{text}"
    );
    assert_eq!(code, Some(2));
}
