//! What people have at hand, read as a question: a command, a log, an error. Pure: text in, facts out, no I/O, and
//! no panic on any text; the time it takes grows with the length of the text alone.

mod argv;
mod clean;
mod command;
mod dotted;
mod errors;
mod explain;
mod find;
mod log;
mod pool;
mod problem;
mod python;
mod question;
mod render;
mod secret;
mod shell;
mod yaml;

pub use command::{Command, Passed, Standing};
pub use dotted::{dotted, merge, nested};
pub use errors::KnownError;
pub use explain::{Closing, Compared, Explanation, Figure, FigureKind, Match, explain};
pub use log::{Fact, Log};
pub use pool::printed_pool;
pub use problem::Problem;
pub use question::{NamedModel, Question, named_model};
pub use render::{Unwritable, serve_command};

use std::ops::Range;

use kv_resolver::Release;

/// Longer texts are not read. Of a longer log, the beginning and the end say what matters: [`shortened`].
pub const MOST_PASTED_BYTES: usize = 4 << 20;
/// A longer text is searched no further for commands.
const MOST_SCRIPT_BYTES: usize = 256 << 10;

/// What a text holds.
#[derive(Debug, Clone, Default)]
pub struct Pasted {
    /// The starts of vLLM that are written in it.
    pub commands: Vec<Command>,
    /// What it says as a log.
    pub log: Log,
}

impl Pasted {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.log.is_empty()
    }

    /// What vLLM ends with as it reads the options of the first command, before any rule and with exit code 2: the
    /// answer to such a command, whatever the model. `None` where it takes them, where they are of a version without
    /// rules, and where a log says that vLLM came further.
    #[must_use]
    pub fn stops(&self) -> Option<String> {
        let question = self.question();
        if question.version.is_some() && question.release.is_none() || self.log.is_of_start() {
            return None;
        }
        self.commands.first()?.stops()
    }

    /// The question, of the first command where there are more.
    #[must_use]
    pub fn question(&self) -> Question {
        Question::of(&self.log, self.commands.first())
    }
}

/// A text that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// Its bytes.
    pub bytes: usize,
}

/// Reads a text, whatever it is. `release` is whose options are meant where it names no version.
///
/// # Errors
/// That it is longer than [`MOST_PASTED_BYTES`].
pub fn read(text: &str, release: Release) -> Result<Pasted, TooLong> {
    if text.len() > MOST_PASTED_BYTES {
        return Err(TooLong { bytes: text.len() });
    }
    let mut log = Log::without_error(text, release);
    let script = script(&log.text);
    let release = log.release().unwrap_or(release);
    let (commands, places) = find::commands(&script, release);
    let lines = lines_of(&script, &places);
    // a command has words of errors
    log.find_error(!commands.is_empty() || !lines.is_empty(), &lines);
    Ok(Pasted { commands, log })
}

/// The lines, from 0, of places in their order.
fn lines_of(text: &str, places: &[Range<usize>]) -> Vec<Range<usize>> {
    let count = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    let (mut at, mut line) = (0, 0);
    let mut all = Vec::with_capacity(places.len());
    for place in places {
        line += count(&text[at..place.start]);
        at = place.start;
        let whole = text[place.clone()].trim_end_matches('\n');
        all.push(line..line + count(whole) + 1);
    }
    all
}

/// The lines that may be of a command: what vLLM logs is none of one.
fn script(text: &str) -> String {
    let mut script = String::new();
    // a terminal writes > before each line that goes on
    let mut goes_on = false;
    for (line, whole) in clean::lines(text).zip(text.lines()) {
        if script.len() + whole.len() > MOST_SCRIPT_BYTES {
            break;
        }
        if !line.is_logged {
            let prompted = whole.trim_start().strip_prefix("> ");
            let whole = prompted.filter(|_| goes_on).unwrap_or(whole);
            script.push_str(whole);
            goes_on = whole.trim_end().ends_with('\\');
        }
        script.push('\n');
    }
    script
}

/// The beginning and the end of a longer log, with a line of dots between them; the text itself where it is short
/// enough.
#[must_use]
pub fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    if text.len() <= MOST_PASTED_BYTES {
        return text.into();
    }
    let half = MOST_PASTED_BYTES / 2 - 8;
    let head = (0..=half)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let from = text.len() - half;
    let tail = (from..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    // whole lines: a figure that is cut is another figure
    let head = text[..head].rfind('\n').unwrap_or(head);
    let tail = text[tail..].find('\n').map_or(tail, |at| tail + at);
    [&text[..head], "\n…", &text[tail..]].concat().into()
}
