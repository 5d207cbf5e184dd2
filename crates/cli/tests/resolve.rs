//! `kvx resolve` between two pipes: what it holds while its results are not read, and how it ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of cases that may be on their way at once: what pipes and buffers hold, and some chunks for each thread.
fn most() -> usize {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    (1 << 20) + threads * (32 << 10)
}

fn start() -> (Child, ChildStdin) {
    let mut kvx = Command::new(env!("CARGO_BIN_EXE_kvx"))
        .arg("resolve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = kvx.stdin.take().unwrap();
    (kvx, input)
}

fn case(id: usize) -> String {
    // a hundred bytes, so that pipes hold few
    format!(
        "{{\"id\":{id},\"gpu\":\"{:86}\"}}\n",
        "no board of the catalog"
    )
}

fn id(result: &str) -> usize {
    let answer: serde_json::Value = serde_json::from_str(result).unwrap();
    usize::try_from(answer["id"].as_u64().unwrap()).unwrap()
}

#[test]
fn while_nobody_reads_results_few_cases_are_taken() {
    let (mut kvx, mut input) = start();
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    // far more than that, and quickly answered
    let cases = 8 * most() / case(0).len();
    let writer = thread::spawn(move || {
        for id in 0..cases {
            let case = case(id);
            input.write_all(case.as_bytes()).unwrap();
            count.fetch_add(case.len(), Ordering::Relaxed);
        }
    });
    // until no more is taken for two seconds: all cases would be, were there no bound
    let (mut taken, mut rests) = (0, 0);
    while rests < 4 {
        thread::sleep(Duration::from_millis(500));
        let before = std::mem::replace(&mut taken, written.load(Ordering::Relaxed));
        rests = if taken == before && taken > 0 {
            rests + 1
        } else {
            0
        };
    }
    assert!(taken < most(), "{taken} bytes of cases are taken");
    assert!(!writer.is_finished());

    let results = BufReader::new(kvx.stdout.take().unwrap()).lines();
    let mut next = 0;
    for result in results {
        assert_eq!(id(&result.unwrap()), next);
        next += 1;
    }
    assert_eq!(next, cases);
    writer.join().unwrap();
    assert_eq!(kvx.wait().unwrap().code(), Some(2));
}

#[test]
fn a_case_is_answered_before_the_next_one_comes() {
    let (mut kvx, mut input) = start();
    let mut results = BufReader::new(kvx.stdout.take().unwrap()).lines();
    input.write_all(case(0).as_bytes()).unwrap();
    for number in 0..3 {
        // nor does what has come of the next one hold it up
        let next = case(number + 1);
        let (begun, rest) = next.split_at(20);
        input.write_all(begun.as_bytes()).unwrap();
        assert_eq!(id(&results.next().unwrap().unwrap()), number);
        input.write_all(rest.as_bytes()).unwrap();
    }
    assert_eq!(id(&results.next().unwrap().unwrap()), 3);
    drop(input);
    assert!(results.next().is_none());
    assert_eq!(kvx.wait().unwrap().code(), Some(2));
}

#[test]
fn it_ends_quietly_when_results_are_read_no_more_though_cases_may_come() {
    let (mut kvx, mut input) = start();
    let mut results = BufReader::new(kvx.stdout.take().unwrap());
    input.write_all(case(0).as_bytes()).unwrap();
    let mut line = String::new();
    results.read_line(&mut line).unwrap();
    drop(results);
    input.write_all(case(1).as_bytes()).unwrap();
    // `input` stays open
    assert_eq!(kvx.wait().unwrap().code(), Some(0));
    let mut errors = String::new();
    let mut stderr = kvx.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "");
    drop(input);
}
