//! Input that means harm. Each [`Target`] is a way into KV Explorer; [`Target::check`] takes any bytes that way and
//! asserts what must hold of whatever comes out: no panic, no wait, and no answer from nonsense. [`Target::spoil`]
//! makes such bytes of good input, which [`Target::seeds`] has.
//!
//! `tests/` runs it all for some seconds with every test run, `fuzz/` (a workspace of its own, for it takes a nightly
//! compiler) for as long as one likes.

pub mod laws;
mod mutate;
mod seeds;
mod targets;
mod words;

use std::time::Duration;

use cpu_time::ThreadTime;

/// A way into KV Explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `config`: a config.json that is pasted or opened. Four bytes before it choose the rest of the question.
    Config,
    /// `cases`: lines of JSON, as `kvx resolve` reads them.
    Cases,
    /// `address`: what follows the `?` in the page's address.
    #[cfg(feature = "page")]
    Address,
    /// `command`: a pasted start of vLLM.
    Command,
    /// `log`: a pasted start-up log.
    Log,
    /// `explanation`: the same, held against an answer.
    Explanation,
    /// `errors`: a pasted piece of an error.
    Errors,
    /// `field`: one field of a form, or one value of a command line.
    Field,
}

impl Target {
    /// All.
    pub const ALL: &[Self] = &[
        Self::Config,
        Self::Cases,
        #[cfg(feature = "page")]
        Self::Address,
        Self::Command,
        Self::Log,
        Self::Explanation,
        Self::Errors,
        Self::Field,
    ];

    /// What the fuzz target and its folders are called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Cases => "cases",
            #[cfg(feature = "page")]
            Self::Address => "address",
            Self::Command => "command",
            Self::Log => "log",
            Self::Explanation => "explanation",
            Self::Errors => "errors",
            Self::Field => "field",
        }
    }

    /// Takes the bytes as they are; whether something came of them that is no refusal.
    ///
    /// # Panics
    /// Where something does not hold that must.
    pub fn check(self, bytes: &[u8]) -> bool {
        match self {
            Self::Config => targets::config(bytes),
            Self::Cases => targets::cases(bytes),
            #[cfg(feature = "page")]
            Self::Address => targets::page::address(bytes),
            Self::Command => targets::command(bytes),
            Self::Log => targets::log(bytes),
            Self::Explanation => targets::explanation(bytes),
            Self::Errors => targets::errors(bytes),
            Self::Field => targets::field(bytes),
        }
    }

    /// Good input, of what is committed.
    #[must_use]
    pub fn seeds(self) -> Vec<Vec<u8>> {
        match self {
            Self::Config => seeds::configs(),
            Self::Cases => seeds::cases(),
            #[cfg(feature = "page")]
            Self::Address => seeds::addresses(),
            Self::Command => seeds::commands(),
            Self::Log | Self::Explanation => seeds::logs(),
            Self::Errors => seeds::errors(),
            Self::Field => seeds::fields(),
        }
    }

    /// Words that mean something there.
    #[must_use]
    pub fn words(self) -> &'static [String] {
        words::of(self)
    }

    /// Input that is spoilt in one of many ways, which `seed` chooses; it may be a little longer than `most` bytes.
    #[must_use]
    pub fn spoil(self, bytes: &[u8], seed: u64, most: usize) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        match self {
            Self::Config => {
                let (head, text) = targets::split(bytes);
                let mut head = head.to_vec();
                if rng.u8(..) < 64 {
                    let at = rng.usize(..head.len());
                    head[at] = rng.u8(..);
                }
                head.extend(mutate::json(text, &mut rng, self.words(), most));
                head
            }
            Self::Cases => mutate::json(bytes, &mut rng, self.words(), most),
            #[cfg(feature = "page")]
            Self::Address => mutate::text(bytes, &mut rng, self.words(), most),
            Self::Command | Self::Log | Self::Explanation | Self::Errors | Self::Field => {
                mutate::text(bytes, &mut rng, self.words(), most)
            }
        }
    }
}

/// As long as one input may take: what a person does not notice. A build that is not optimised has more.
#[allow(unexpected_cfgs)] // cargo fuzz sets it
const MOST_TIME: Duration = if cfg!(debug_assertions) && !cfg!(fuzzing) {
    Duration::from_secs(2)
} else {
    Duration::from_millis(100)
};

/// Calls what may not take long.
///
/// # Panics
/// Where it does.
pub(crate) fn within<T>(what: &str, call: impl FnOnce() -> T) -> T {
    timed(what, MOST_TIME, call)
}

/// Calls what asks some hundred questions: a list that is as long whatever the input.
///
/// # Panics
/// Where it takes longer than so many.
pub(crate) fn within_many<T>(what: &str, call: impl FnOnce() -> T) -> T {
    timed(what, MOST_TIME * 10, call)
}

fn timed<T>(what: &str, most: Duration, call: impl FnOnce() -> T) -> T {
    let start = ThreadTime::now();
    let out = call();
    let time = start.elapsed();
    assert!(time < most, "{what} took {time:?}");
    out
}
