//! What people have at hand, read as a question: a command, a log, an error. Pure: text in, facts out, no I/O, and
//! no panic on any text; the time it takes grows with the length of the text alone.

mod argv;
mod command;
mod find;
mod problem;
mod python;
mod shell;
mod yaml;

pub use command::{Command, Passed, Standing};
pub use problem::Problem;

use kv_resolver::Release;

/// Longer texts are not read. Of a longer log, the beginning and the end say what matters.
pub const MOST_PASTED_BYTES: usize = 4 << 20;

/// Every start of vLLM in a text.
pub fn commands(text: &str, release: Release) -> Vec<Command> {
    find::commands(text, release)
}
