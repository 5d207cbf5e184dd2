//! Laws that hold for every answer, whatever the question.
//!
//! They are asked of every model of the catalog and of every case of the vectors that drafts, in every release, on every
//! GPU, over ranks and stages. The questions are the same in every run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` ask others
//! and more of them.

mod input;
mod many;
mod places;
mod pool;
mod questions;
mod written;

use proptest::test_runner::{Config, RngSeed};

/// So many questions, the same ones in every run.
fn config(cases: u32) -> Config {
    let from_env = Config::default();
    let is_set = |name| std::env::var_os(name).is_some();
    Config {
        cases: if is_set("PROPTEST_CASES") {
            from_env.cases
        } else {
            cases
        },
        rng_seed: if is_set("PROPTEST_RNG_SEED") {
            from_env.rng_seed
        } else {
            RngSeed::Fixed(33)
        },
        // a question that fails is printed; it goes into a test of its own
        failure_persistence: None,
        ..from_env
    }
}
