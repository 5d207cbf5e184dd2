//! What a log printed, held against what the question comes to; and, where they differ, which one thing taken
//! otherwise would make them equal.

mod closing;

use kv_resolver::log::LogLine;
use kv_resolver::memory::{self, Interval, PrintedPool, check_printed};
use kv_resolver::units::{format_gib, thousands};
use kv_resolver::{Refusal, Request, Resolution, StartupError, resolve, resolve_quietly};

use crate::clean::squeeze;
use crate::errors::KnownError;
use crate::log::Log;
use crate::pool::hundredths;

pub use closing::Closing;

/// What of a log is held against an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// The error that it stops with, or that it does not.
    Error,
    /// Tokens of the pool.
    Tokens,
    /// Requests of the longest length.
    Concurrency,
    /// The longest request.
    MaxModelLen,
    /// Tokens of a step.
    BatchedTokens,
    /// What one request needs.
    Needed,
    /// The longest request that would fit.
    EstimatedLength,
}

impl FigureKind {
    /// In a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "how it ends",
            Self::Tokens => "KV cache size",
            Self::Concurrency => "maximum concurrency",
            Self::MaxModelLen => "max_model_len",
            Self::BatchedTokens => "max_num_batched_tokens",
            Self::Needed => "one request needs",
            Self::EstimatedLength => "estimated maximum length",
        }
    }
}

/// One figure of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Which.
    pub kind: FigureKind,
    /// As the log has it.
    pub printed: String,
    /// As the question comes to it; empty where it comes to none.
    pub predicted: String,
    /// Whether they are equal, as exactly as the log prints them.
    pub agrees: bool,
    /// Where it stands in the log.
    pub line: usize,
}

/// What became of a line that is predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// It stands there, to the letter.
    Equal(usize),
    /// One of its kind stands there, and says something else.
    Differs {
        /// Where.
        line: usize,
        /// What it says.
        text: String,
    },
    /// There is none of its kind: it is cut off, or the log is of another start.
    Missing,
}

/// A line that is predicted, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// As predicted.
    pub predicted: LogLine,
    /// In the log.
    pub found: Match,
}

/// A log, explained.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// What the question comes to on the pool that was printed, or without one.
    pub result: Result<Resolution, StartupError>,
    /// The figures of the log.
    pub figures: Vec<Figure>,
    /// The lines that are predicted; none without a log.
    pub lines: Vec<Compared>,
    /// What, taken otherwise, would make every figure equal; of several, each does so alone. Empty where they are
    /// equal already.
    pub closings: Vec<Closing>,
    /// `gpu_memory_utilization` in hundredths that would leave the pool that was printed, by estimate; `None` where
    /// the one that was asked may.
    pub utilization: Option<u32>,
}

impl Explanation {
    /// Whether every figure is as predicted; also where there is none.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.figures.iter().all(|figure| figure.agrees)
    }
}

/// Explains a log by the question that it is of.
#[must_use]
pub fn explain(request: &Request, log: &Log) -> Explanation {
    let evidence = Evidence::of(log);
    let figures = evidence.figures(request, log);
    let result = resolve(&evidence.sized(request));
    let predicted = match &result {
        Ok(resolution) => &resolution.log,
        Err(error) => &error.log,
    };
    let lines = predicted
        .iter()
        .filter(|_| evidence.is_of_start)
        .map(|line| Compared {
            found: compare(line, log),
            predicted: line.clone(),
        })
        .collect();
    let agrees = figures.iter().all(|figure| figure.agrees);
    Explanation {
        closings: if agrees {
            Vec::new()
        } else {
            closing::find(request, &evidence)
        },
        utilization: closing::utilization(request, &evidence),
        result,
        figures,
        lines,
    }
}

/// The figures of a log, as exactly as it prints them.
#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    pool: PrintedPool,
    concurrency: Option<u64>,
    max_model_len: Option<u64>,
    batched_tokens: Option<u64>,
    needed: Option<Interval>,
    estimated_length: Option<u64>,
    error: Option<KnownError>,
    /// The log says itself which release it is of, …
    has_release: bool,
    /// … and who started it.
    has_usage: bool,
    /// There is a log.
    is_of_start: bool,
}

impl Evidence {
    fn of(log: &Log) -> Self {
        Self {
            pool: log.pool,
            concurrency: log.concurrency.map(|fact| fact.value),
            max_model_len: log.max_model_len.map(|fact| fact.value),
            batched_tokens: log.batched_tokens.map(|fact| fact.value),
            needed: log.needed.map(|fact| fact.value),
            estimated_length: log.estimated_length.map(|fact| fact.value),
            error: log.error.map(|fact| fact.value),
            has_release: log.release().is_some(),
            has_usage: log.usage.is_some(),
            is_of_start: log.is_of_start(),
        }
    }

    /// The question on the pool that was printed.
    fn sized(&self, request: &Request) -> Request {
        let pool = self
            .pool
            .pool(request)
            .ok()
            .flatten()
            .or(self.pool.available);
        match pool {
            Some(pool) => {
                let mut sized = memory::without_pool(request);
                sized.available_memory = Some(pool.pools()[1]);
                sized
            }
            None => request.clone(),
        }
    }

    /// Every figure, with its place.
    fn figures(&self, request: &Request, log: &Log) -> Vec<Figure> {
        let mut figures = self.compare(request);
        for figure in &mut figures {
            figure.line = match figure.kind {
                FigureKind::Error => log.error.map_or(0, |fact| fact.line),
                FigureKind::Tokens => log.tokens_line,
                FigureKind::Concurrency => log.concurrency.map_or(0, |fact| fact.line),
                FigureKind::MaxModelLen => log.max_model_len.map_or(0, |fact| fact.line),
                FigureKind::BatchedTokens => log.batched_tokens.map_or(0, |fact| fact.line),
                FigureKind::Needed => log.needed.map_or(0, |fact| fact.line),
                FigureKind::EstimatedLength => log.estimated_length.map_or(0, |fact| fact.line),
            };
        }
        figures
    }

    /// Every figure that the log has, held against the question.
    fn compare(&self, request: &Request) -> Vec<Figure> {
        let mut figures = Vec::new();
        let base = match resolve_quietly(&memory::without_pool(request)) {
            Ok(base) => base,
            Err(refusal) => {
                if self.is_of_start {
                    self.stops_early(&refusal, &mut figures);
                }
                return figures;
            }
        };
        let pool = self.pool.pool(request).ok().flatten();
        let ends = pool.map(Interval::pools).map(|[least, _, most]| {
            [least, most].map(|bytes| {
                let mut sized = memory::without_pool(request);
                sized.available_memory = Some(bytes);
                resolve_quietly(&sized)
            })
        });
        self.end(ends.as_ref(), &mut figures);
        self.tokens(request, pool.is_some(), &mut figures);
        let at_ends = |value: fn(&Resolution) -> u64| match &ends {
            Some([Ok(least), Ok(most)]) => Some((value(least), value(most))),
            _ => None,
        };
        let lengths = at_ends(|resolution| resolution.max_model_len);
        let lengths = lengths.unwrap_or((base.max_model_len, base.max_model_len));
        between(
            FigureKind::MaxModelLen,
            self.max_model_len,
            Some(lengths),
            thousands,
            &mut figures,
        );
        if self.concurrency.is_some() {
            let requests = at_ends(|resolution| {
                let capacity = resolution.capacity.as_ref();
                let shown = capacity.map_or("", |capacity| {
                    capacity.printed_concurrency.trim_end_matches('x')
                });
                hundredths(shown).map_or(0, i64::unsigned_abs)
            });
            between(
                FigureKind::Concurrency,
                self.concurrency,
                requests,
                times,
                &mut figures,
            );
        }
        let batched = base.max_num_batched_tokens;
        between(
            FigureKind::BatchedTokens,
            self.batched_tokens,
            Some((batched, batched)),
            thousands,
            &mut figures,
        );
        self.does_not_fit(ends.as_ref(), &mut figures);
        figures
    }

    /// The question does not come so far as to have a pool.
    fn stops_early(&self, refusal: &Refusal, figures: &mut Vec<Figure>) {
        let text = refusal.to_string();
        let agrees = self.error.is_some_and(|error| error.is_of(&text));
        let printed = match self.error {
            Some(error) => error.text.to_owned(),
            None => "it starts, as far as the log goes".to_owned(),
        };
        figures.push(Figure {
            kind: FigureKind::Error,
            printed,
            predicted: text,
            agrees,
            line: 0,
        });
    }

    /// Whether it starts on the pool.
    fn end(&self, ends: Option<&[Result<Resolution, Box<Refusal>>; 2]>, figures: &mut Vec<Figure>) {
        let refusals = ends
            .into_iter()
            .flatten()
            .filter_map(|end| end.as_ref().err());
        let texts: Vec<String> = refusals.map(ToString::to_string).collect();
        let starts = "it starts".to_owned();
        match self.error {
            Some(error) => figures.push(Figure {
                kind: FigureKind::Error,
                printed: error.text.to_owned(),
                agrees: texts.iter().any(|text| error.is_of(text)),
                predicted: texts.into_iter().next().unwrap_or(starts),
                line: 0,
            }),
            // a log that has tokens came past the plan
            None if self.pool.tokens.is_some() && texts.len() == 2 => figures.push(Figure {
                kind: FigureKind::Error,
                printed: starts,
                predicted: texts.into_iter().next().unwrap_or_default(),
                agrees: false,
                line: 0,
            }),
            None => {}
        }
    }

    fn tokens(&self, request: &Request, has_pool: bool, figures: &mut Vec<Figure>) {
        let Some(printed) = self.pool.tokens else {
            return;
        };
        let (predicted, agrees) = match self.pool.available(request).ok().flatten() {
            Some(available) => match check_printed(request, available, printed) {
                Ok(check) => (range(check.least, check.most, thousands), check.agrees()),
                Err(_) => (String::new(), false),
            },
            // tokens alone lead to a pool, or to none
            None if has_pool => (thousands(printed), true),
            None => (String::new(), false),
        };
        figures.push(Figure {
            kind: FigureKind::Tokens,
            printed: thousands(printed),
            predicted,
            agrees,
            line: 0,
        });
    }

    /// The figures of the error that one request does not fit.
    fn does_not_fit(
        &self,
        ends: Option<&[Result<Resolution, Box<Refusal>>; 2]>,
        figures: &mut Vec<Figure>,
    ) {
        let figures_of = |end: &Result<Resolution, Box<Refusal>>| match end
            .as_ref()
            .err()
            .map(|refusal| &**refusal)
        {
            Some(Refusal::RequestDoesNotFit {
                needed_bytes,
                estimated_max_len,
                ..
            }) => Some((*needed_bytes, *estimated_max_len)),
            _ => None,
        };
        let least = ends.and_then(|[least, _]| figures_of(least));
        let most = ends.and_then(|[_, most]| figures_of(most)).or(least);
        if let Some(printed) = self.needed {
            let needed = least.map(|(needed, _)| needed);
            let is_in = |bytes: u64| {
                i64::try_from(bytes)
                    .is_ok_and(|bytes| (printed.low..=printed.high).contains(&bytes))
            };
            figures.push(Figure {
                kind: FigureKind::Needed,
                printed: gib(u64::try_from(printed.likely).unwrap_or(0)),
                predicted: needed.map(gib).unwrap_or_default(),
                agrees: needed.is_some_and(is_in),
                line: 0,
            });
        }
        let lengths = least.zip(most).map(|((_, least), (_, most))| (least, most));
        between(
            FigureKind::EstimatedLength,
            self.estimated_length,
            lengths,
            thousands,
            figures,
        );
    }
}

fn gib(bytes: u64) -> String {
    [&format_gib(i128::from(bytes)), " GiB"].concat()
}

/// `556` as `5.56x`.
fn times(hundredths: u64) -> String {
    let rest = hundredths % 100;
    let zero = if rest < 10 { "0" } else { "" };
    [
        &(hundredths / 100).to_string(),
        ".",
        zero,
        &rest.to_string(),
        "x",
    ]
    .concat()
}

fn range(least: u64, most: u64, shown: fn(u64) -> String) -> String {
    if least == most {
        shown(least)
    } else {
        [&shown(least), " to ", &shown(most)].concat()
    }
}

/// A figure that must lie between what the ends of the pool come to.
fn between(
    kind: FigureKind,
    printed: Option<u64>,
    predicted: Option<(u64, u64)>,
    shown: fn(u64) -> String,
    figures: &mut Vec<Figure>,
) {
    let Some(printed) = printed else { return };
    figures.push(Figure {
        kind,
        printed: shown(printed),
        predicted: predicted.map_or_else(String::new, |(least, most)| range(least, most, shown)),
        agrees: predicted.is_some_and(|(least, most)| (least..=most).contains(&printed)),
        line: 0,
    });
}

/// Words by which a kind of line is told, of those in docs/log.md.
const KINDS: [&str; 25] = [
    "Resolved architecture: ",
    "casting torch.",
    "Using max model len ",
    "data type to store kv cache.",
    "Chunked prefill is enabled with ",
    "kv-cache for ",
    "Mamba cache mode",
    "Mamba cache 'all' mode",
    "Asynchronous scheduling is ",
    "precluded higher-priority backend",
    "attention backend out of potential backends",
    "Using AttentionBackendEnum.",
    "Using FlashAttention version ",
    "KV cache format",
    "indexer cache for ",
    "Setting kv cache block size to ",
    "Setting attention block size to ",
    "Padding mamba page size by ",
    "KV cache layout",
    "padding layers, may waste",
    "Available KV cache memory: ",
    "Overriding num_gpu_blocks=",
    "KV cache size: ",
    "Maximum concurrency for ",
    "kv cache group sizes ",
];

fn compare(predicted: &LogLine, log: &Log) -> Match {
    let text = squeeze(&predicted.text);
    if let Some(at) = log.squeezed.text.rfind(&text) {
        return Match::Equal(log.squeezed.line_at(at));
    }
    let kind = KINDS.iter().find(|kind| predicted.text.contains(**kind));
    let at = kind.and_then(|kind| log.squeezed.text.rfind(&squeeze(kind)));
    at.map_or(Match::Missing, |at| {
        let line = log.squeezed.line_at(at);
        Match::Differs {
            line,
            text: log.line(line).to_owned(),
        }
    })
}
