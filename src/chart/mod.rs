//! The charts as geometry: what is drawn where, and what it says. Every place is in percent of a plot's width from
//! the left and of its height from the top, so that one drawing fits every screen; the HTML of it is in `ui::chart`.

mod axis;
mod memory;
mod requests;
#[cfg(test)]
mod tests;

use kv_resolver::Resolution;
use kv_resolver::capacity::{MOST_TOKENS, Requests};

use crate::text;
use axis::Lengths;

/// A place in a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
}

/// A text beside a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Along the side that it is on.
    pub at: f64,
    /// What it says.
    pub text: String,
}

/// What a filled outline stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// A group's part of the stack.
    Group(usize),
    /// What lies under a curve.
    Under,
    /// What lies between the least and the most.
    Band,
}

/// A filled outline.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// What it stands for.
    pub paint: Paint,
    /// Its corners, in turn.
    pub outline: Vec<Point>,
}

/// A line across, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Where; `None` where that is above the plot.
    pub at: Option<f64>,
    /// The top and the bottom of what it may be instead, where that is not one figure and in the plot.
    pub band: Option<[f64; 2]>,
    /// Its name and value.
    pub text: String,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The figure in words, for those who do not see it.
    pub words: String,
    /// Along the bottom.
    pub lengths: Vec<Tick>,
    /// Along the left side.
    pub heights: Vec<Tick>,
    /// From back to front.
    pub shapes: Vec<Shape>,
    /// Lines over them: the curve, or what parts the layers of the stack.
    pub lines: Vec<Vec<Point>>,
    /// A limit.
    pub level: Option<Level>,
    /// The chosen length, and what it comes to.
    pub here: Point,
    /// Both in figures.
    pub here_text: String,
    /// At the right side, a place for the number of each group.
    pub keys: Vec<f64>,
}

/// What one length comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Tokens.
    pub length: u64,
    /// Bytes of all groups.
    pub total: u64,
    /// Each group's.
    pub by_group: Vec<u64>,
    /// How many such requests fit: at least, most likely, at most.
    pub requests: Option<[Requests; 3]>,
}

/// Both figures, and the table behind them.
#[derive(Debug, Clone, PartialEq)]
pub struct Charts {
    /// One request's bytes, stacked by group.
    pub memory: Plot,
    /// Requests that fit, if there is a pool.
    pub requests: Option<Plot>,
    /// What the pool comes to, in words, if there is one.
    pub pool_words: Option<String>,
    /// Every doubling, and the chosen length.
    pub table: Vec<Sample>,
}

/// A pool of one size, or of three: at least, most likely, at most.
struct Pool {
    bytes: [u64; 3],
    blocks: [u64; 3],
    longest: [u64; 3],
}

impl Pool {
    fn new(resolution: &Resolution, bytes: [u64; 3]) -> Self {
        let held = bytes.map(|bytes| held(resolution, bytes));
        Self {
            bytes,
            blocks: held.map(|[blocks, _]| blocks),
            longest: held.map(|[_, longest]| longest),
        }
    }

    fn is_exact(&self) -> bool {
        self.bytes[0] == self.bytes[2]
    }

    fn words(&self) -> String {
        let mut words = "A pool of ".to_owned();
        let mut bytes = self.bytes.map(text::gib);
        if !self.is_exact() {
            bytes[0].truncate(bytes[0].len() - " GiB".len());
        }
        words += &interval(bytes);
        match self.longest[1] {
            0 => words += " does not hold one request.",
            MOST_TOKENS.. => words += " holds a request of any length.",
            _ => {
                words += " holds one request of up to ";
                words += &interval(self.longest.map(text::number));
                words += " tokens.";
            }
        }
        if !self.is_exact() {
            words += " The bands reach from its least to its most.";
        }
        words
    }
}

/// Blocks of a pool, and tokens of the longest request in it.
fn held(resolution: &Resolution, bytes: u64) -> [u64; 2] {
    let blocks = match resolution.fit(bytes) {
        Ok(fit) => fit.requests.num_blocks,
        // vLLM would not start with it, but a shorter request may fit
        Err(_) => bytes.checked_div(resolution.bytes_per_block).unwrap_or(0),
    };
    [blocks, resolution.longest_request(bytes).unwrap_or(0)]
}

impl Charts {
    /// Of an answer, and a pool of so many bytes at least, most likely and at most.
    pub fn new(resolution: &Resolution, pools: Option<[u64; 3]>) -> Self {
        let pool = pools.map(|bytes| Pool::new(resolution, bytes));
        let pool = pool.as_ref();
        let axis = Lengths::new(resolution.max_model_len);
        let mut samples = Vec::new();
        for length in axis.lengths() {
            samples.extend(sample(resolution, pool, length));
        }
        Self {
            memory: memory::plot(resolution, &axis, &samples, pool),
            requests: pool.map(|pool| requests::plot(resolution, &axis, &samples, pool)),
            pool_words: pool.map(Pool::words),
            table: {
                let here = resolution.max_model_len;
                samples.retain(|row| row.length.is_power_of_two() || row.length == here);
                samples
            },
        }
    }
}

/// Nothing for a length that is too large for 64 bits.
fn sample(resolution: &Resolution, pool: Option<&Pool>, length: u64) -> Option<Sample> {
    let bytes = resolution.request_bytes_at(length).ok()?;
    let requests = match pool {
        Some(pool) => {
            let one = resolution.requests_of(0, length).ok()?;
            Some(pool.blocks.map(|num_blocks| Requests { num_blocks, ..one }))
        }
        None => None,
    };
    Some(Sample {
        length,
        total: bytes.total,
        by_group: bytes.by_group,
        requests,
    })
}

/// `5.56`, or `5.56 (5.10–6.02)` where the ends differ.
pub fn interval([low, likely, high]: [String; 3]) -> String {
    if low == high {
        likely
    } else {
        format!("{likely} ({low}–{high})")
    }
}

/// `7.19 GiB at 262,144 tokens, …` of the shortest, the chosen and the longest sample.
fn words_of(samples: &[Sample], here: u64, value: impl Fn(&Sample) -> String) -> String {
    let at_here = samples.iter().find(|sample| sample.length == here);
    let told = [samples.first(), at_here, samples.last()];
    let mut words = String::new();
    for sample in told.into_iter().flatten() {
        if !words.is_empty() {
            words += ", ";
        }
        words += &value(sample);
        words += " at ";
        words += &text::tokens(sample.length);
    }
    words
}
