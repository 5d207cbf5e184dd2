//! Every target, for some seconds: what `fuzz/` does for hours.

use std::cell::Cell;
use std::path::PathBuf;
use std::{fs, io};

use kv_hostile::Target;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

const MOST_BYTES: usize = 1 << 15;

/// Spoils the seeds of a target in so many ways, which are the same in every run.
fn hold(target: Target, ways: u32) {
    let seeds = target.seeds();
    let words = target.words();
    assert!(
        seeds.len() >= 20 && words.len() >= 20,
        "{} and {}",
        seeds.len(),
        words.len()
    );
    let good = seeds.iter().filter(|seed| target.check(seed)).count();
    assert!(good * 2 > seeds.len(), "{good} of {}", seeds.len());
    for known in found(target) {
        target.check(&known);
    }
    let config = ProptestConfig {
        cases: ways,
        rng_seed: RngSeed::Fixed(0x6b76_6578),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let spoilt = (0..seeds.len(), prop::collection::vec(any::<u64>(), 1..5));
    let spoilt = spoilt.prop_map(|(seed, ways)| {
        let spoil = |bytes: Vec<u8>, way| target.spoil(&bytes, way, MOST_BYTES);
        Bytes(ways.into_iter().fold(seeds[seed].clone(), spoil))
    });
    let good = Cell::new(0);
    let held = TestRunner::new(config).run(&spoilt, |Bytes(bytes)| {
        good.set(good.get() + u32::from(target.check(&bytes)));
        Ok(())
    });
    if let Err(error) = held {
        panic!("{error}");
    }
    // what is spoilt is not all nonsense: laws are asked of answers
    assert!(
        (ways / 20..ways).contains(&good.get()),
        "{} of {ways}",
        good.get()
    );
}

/// What fuzzing found before it was mended.
fn found(target: Target) -> Vec<Vec<u8>> {
    let folder = [env!("CARGO_MANIFEST_DIR"), "tests", "found", target.name()];
    let Ok(entries) = fs::read_dir(folder.iter().collect::<PathBuf>()) else {
        return Vec::new();
    };
    let read = |entry: io::Result<fs::DirEntry>| fs::read(entry?.path());
    let inputs: io::Result<Vec<_>> = entries.map(read).collect();
    inputs.expect("a folder that is committed")
}

/// Shown as a text, for that is what it is.
struct Bytes(Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[test]
fn any_config() {
    hold(Target::Config, 300);
}

#[test]
fn any_cases() {
    hold(Target::Cases, 300);
}

#[cfg(feature = "page")]
#[test]
fn any_address() {
    hold(Target::Address, 600);
}

#[test]
fn any_command() {
    hold(Target::Command, 300);
}

#[test]
fn any_log() {
    hold(Target::Log, 40);
}

#[test]
fn any_explanation() {
    hold(Target::Explanation, 10);
}

#[test]
fn any_field() {
    hold(Target::Field, 5000);
}

#[test]
fn any_error() {
    hold(Target::Errors, 300);
}
