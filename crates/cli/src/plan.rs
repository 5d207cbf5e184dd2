//! `kvx plan`: from a GPU to a pool, what it holds, and what to change.

use std::fmt::Write as _;
use std::io::{self, Read as _};

use clap::ArgMatches;
use kv_cases::plan_value;
use kv_paste::printed_pool;
use kv_resolver::capacity::{Fit, MOST_TOKENS, Share};
use kv_resolver::catalog::GPUS;
use kv_resolver::changes::{Changes, Served, changes};
use kv_resolver::memory::{self, Budget, Interval, Planned, PrintedCheck, PrintedPool, Source};
use kv_resolver::resolution::human_bytes;
use kv_resolver::units::{format_gib, thousands};
use kv_resolver::{Outcome, Refusal, Request, Resolution, StartupError, resolve};

use crate::render::{self, wrap, wrap_hanging};
use crate::show::{self, parse_size};
use crate::{Exit, lines};

/// A log beyond this is not read whole.
const MOST_LOG_BYTES: u64 = 64 << 20;
/// Suggestions that are printed.
const MOST_CHANGES: usize = 12;

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let (model, request) = show::release(matches, "release")
        .and_then(|release| {
            question(
                matches,
                show::request(matches, release, show::gpu(matches)?)?,
            )
        })
        .map_err(io::Error::other)?;
    let printed = log(matches)?;
    let mean = mean_length(matches).map_err(io::Error::other)?;
    let report = match Report::new(&request, printed, mean) {
        Ok(report) => report,
        Err(error) => {
            if let Refusal::BadCase(why) = &error.refusal {
                return Err(io::Error::other(why.clone()));
            }
            let outcome = error.refusal.outcome();
            let stopped = Err(*error);
            let text = if matches.get_flag("json") {
                let value = kv_cases::result_value(&kv_resolver::Value::Null, &stopped);
                serde_json::to_string_pretty(&value).map_err(io::Error::other)? + "\n"
            } else {
                let mut text = render::answer(&model, &request, &stopped);
                if outcome == Outcome::Unmodelled {
                    wrap(
                        &mut text,
                        "With --pool SIZE or --log FILE, what such a pool holds may be answered all the same.",
                        "  ",
                    );
                }
                text
            };
            lines::print(&text)?;
            return Ok(Exit::of(outcome));
        }
    };
    if matches.get_flag("json") {
        let value = plan_value(&report.base, &report.planned, &report.changes);
        let json = serde_json::to_string_pretty(&value).map_err(io::Error::other)?;
        lines::print(&format!("{json}\n"))?;
    } else {
        lines::print(&report.text(&model, &request))?;
    }
    Ok(Exit::of(report.outcome()))
}

/// What `plan` asks beside `show`.
fn question(
    matches: &ArgMatches,
    (model, mut request): (String, Request),
) -> Result<(String, Request), String> {
    if let Some(size) = matches.get_one::<String>("free") {
        let free = parse_size(size);
        request.free_memory = Some(free.ok_or_else(|| {
            format!("--free: {size:?} is no size; write 70GiB, 512MiB, 1TiB or bytes")
        })?);
    }
    Ok((model, request))
}

fn mean_length(matches: &ArgMatches) -> Result<Option<u64>, String> {
    let text = matches.get_one::<String>("mean-length");
    text.map(|text| {
        let length: Option<u64> = text.parse().ok();
        length
            .filter(|length| (1..=MOST_TOKENS).contains(length))
            .ok_or_else(|| format!("--mean-length: {text:?} is no number of tokens"))
    })
    .transpose()
}

/// The pool that a log prints.
fn log(matches: &ArgMatches) -> io::Result<Option<PrintedPool>> {
    let Some(path) = matches.get_one::<String>("log") else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let limited = |reader: Box<dyn io::Read>, bytes: &mut Vec<u8>| {
        reader.take(MOST_LOG_BYTES).read_to_end(bytes)
    };
    if path == "-" {
        limited(Box::new(io::stdin()), &mut bytes)?;
    } else {
        let file =
            lines::open(path).map_err(|error| io::Error::other(format!("--log: {error}")))?;
        limited(Box::new(file), &mut bytes)?;
    }
    let printed = printed_pool(&String::from_utf8_lossy(&bytes));
    printed.map(Some).ok_or_else(|| {
        io::Error::other(
            "--log: no line says \"Available KV cache memory: … GiB\" or \"GPU KV cache size: … \
             tokens\"",
        )
    })
}

/// Everything that is printed.
struct Report {
    base: Resolution,
    planned: Planned,
    changes: Changes,
    /// At the likeliest pool.
    likely: Result<Resolution, StartupError>,
    /// What was printed, …
    printed: PrintedPool,
    /// … held against the answer.
    check: Option<PrintedCheck>,
    /// Data-parallel engines.
    replicas: u64,
    mean: Option<u64>,
}

impl Report {
    fn new(
        request: &Request,
        printed: Option<PrintedPool>,
        mean: Option<u64>,
    ) -> Result<Self, Box<StartupError>> {
        let open = memory::without_pool(request);
        let base = memory::if_free(request, resolve(&open)).map_err(Box::new)?;
        let stop = |refusal: Box<Refusal>| {
            Box::new(memory::stopped(request, &refusal, &base.log, &base.trace))
        };
        let printed = printed.unwrap_or_default();
        let pool = printed.pool(request).map_err(stop)?;
        let planned = memory::plan_on(request, &base, pool).map_err(stop)?;
        let check = printed.check(request, planned.pool, pool.is_some());
        let mut sized = open;
        sized.available_memory = Some(planned.likely().pool_bytes);
        let mut likely = match &planned.stops {
            Some(refusal) => Err(*stop(refusal.clone())),
            None => resolve(&sized),
        };
        memory::by_estimate(request, &planned, &mut likely);
        Ok(Self {
            changes: changes(request, &base, &planned, &GPUS),
            likely,
            check,
            printed,
            replicas: u64::try_from(request.args.data_parallel_size.unwrap_or(1)).unwrap_or(1),
            mean,
            base,
            planned,
        })
    }

    /// Tokens of the longest request that is taken, at the likeliest pool.
    fn length(&self) -> u64 {
        match &self.planned.likely().fit {
            Ok(fit) => fit.max_model_len,
            Err(_) => self.base.max_model_len,
        }
    }

    fn outcome(&self) -> Outcome {
        match &self.likely {
            Ok(resolution) => resolution.outcome,
            Err(error) => error.refusal.outcome(),
        }
    }
}

/// A row of three figures; of one where they are alike.
fn row(out: &mut String, name: &str, ends: [String; 3]) {
    let [low, likely, high] = ends;
    if low == high {
        let _ = writeln!(out, "  {name:<36}{likely:>14}");
    } else {
        let _ = writeln!(out, "  {name:<36}{low:>14}{likely:>14}{high:>14}");
    }
}

fn gib(interval: Interval) -> [String; 3] {
    [interval.low, interval.likely, interval.high]
        .map(|bytes| format!("{} GiB", format_gib(i128::from(bytes))))
}

fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n  {text}");
}

impl Report {
    fn text(&self, model: &str, request: &Request) -> String {
        let mut out = String::new();
        render::title(&mut out, model, request);
        match &self.likely {
            Ok(likely) => {
                render::headline(&mut out, likely.outcome, &render::dtype(likely));
            }
            Err(error) => {
                render::headline(
                    &mut out,
                    error.refusal.outcome(),
                    error.refusal.error_type(),
                );
                out.push('\n');
                for line in error.to_string().lines() {
                    wrap(&mut out, line, "  ");
                }
                for advice in &error.advice {
                    wrap_hanging(&mut out, &advice.text, "  · ", "    ");
                }
            }
        }
        self.by_estimate(&mut out, request);
        self.pool(&mut out);
        self.capacity(&mut out);
        self.shares(&mut out);
        self.changes(&mut out);
        let (lines, stops) = match &self.likely {
            Ok(likely) => (&likely.log, false),
            Err(error) => (&error.log, true),
        };
        render::log(&mut out, "THE LOG", lines, stops);
        render::printable(&out)
    }

    /// What to bear in mind of a verdict that rests on an estimate, or on no such GPU.
    fn by_estimate(&self, out: &mut String, request: &Request) {
        let least = &self.planned.ends[0].fit;
        let text = match (&self.likely, self.planned.source) {
            (Err(error), Source::Estimated)
                if error.refusal.outcome() == Outcome::DoesNotFit
                    && self.planned.stops.is_none() =>
            {
                "Its GiB are an estimate (less the null block, where vLLM counts it)."
            }
            (Ok(_), Source::Estimated) if least.is_err() => {
                "By the likeliest estimate: with the least that may be left, it does not start."
            }
            _ => "",
        };
        if !text.is_empty() {
            wrap(out, text, "  ");
        }
        render::more_than_there_is(out, request);
    }

    fn pool(&self, out: &mut String) {
        let source = match self.planned.source {
            Source::Given => "THE POOL on each GPU, as given",
            Source::Pinned => "THE POOL on each GPU, as kv_cache_memory_bytes pins it",
            Source::Printed if self.printed.available.is_none() => {
                "THE POOL on each GPU, that comes to the tokens of vLLM's log"
            }
            Source::Printed => "THE POOL on each GPU, as vLLM's log printed it",
            Source::Estimated => "THE POOL on each GPU, estimated: least, likely, most",
        };
        heading(out, source);
        match (&self.planned.budget, self.planned.source) {
            (Ok(budget), Source::Estimated) => budget_rows(out, budget),
            (Ok(budget), _) => {
                row(out, "for the KV cache", gib(self.planned.pool));
                row(out, "(an estimate would be)", gib(budget.pool));
            }
            (Err(why), _) => {
                row(out, "for the KV cache", gib(self.planned.pool));
                wrap(
                    out,
                    &format!("There is no estimate beside it: {why}."),
                    "  ",
                );
            }
        }
        let fitted = self.length();
        if let Some(printed) = self
            .printed
            .max_model_len
            .filter(|printed| *printed != fitted)
        {
            wrap(
                out,
                &format!(
                    "The log is of max_model_len {}; this question is of {}.",
                    thousands(printed),
                    thousands(fitted)
                ),
                "  ",
            );
        }
        if let Some(check) = self.check {
            let verdict = if check.agrees() {
                "agrees with what vLLM printed"
            } else {
                "vLLM printed something else: another release, model or flag than asked here"
            };
            wrap(
                out,
                &format!(
                    "That is {} to {} tokens in vLLM's log line; it printed {}: {verdict}.",
                    thousands(check.least),
                    thousands(check.most),
                    thousands(check.printed)
                ),
                "  ",
            );
        }
    }

    fn capacity(&self, out: &mut String) {
        if self.planned.stops.is_some() {
            return;
        }
        let each = if self.replicas > 1 {
            format!(" on each of {} replicas", self.replicas)
        } else {
            String::new()
        };
        heading(out, &format!("WHAT IT HOLDS{each}"));
        let at = |show: &dyn Fn(&Fit) -> String| {
            [0, 1, 2].map(|end| match &self.planned.ends[end].fit {
                Ok(fit) => show(fit),
                Err(_) => "does not start".to_owned(),
            })
        };
        let length = self.length();
        if self.base.is_auto_fit() {
            row(
                out,
                "max_model_len, as it is fitted",
                at(&|fit| thousands(fit.max_model_len)),
            );
            row(
                out,
                "requests of that length",
                at(&|fit| format!("{}x", fit.requests.shown())),
            );
        } else {
            row(
                out,
                &format!("requests of {} tokens", thousands(length)),
                at(&|fit| format!("{}x", fit.requests.shown())),
            );
        }
        row(
            out,
            "longest the pool could hold, tokens",
            [0, 1, 2].map(|end| {
                let pool = self.planned.ends[end].pool_bytes;
                self.base
                    .longest_request(pool)
                    .map_or_else(|_| "—".to_owned(), longest)
            }),
        );
        row(out, "blocks", at(&|fit| thousands(fit.requests.num_blocks)));
        for mean in self.mean.map_or_else(|| lengths(length), |mean| vec![mean]) {
            row(
                out,
                &format!("requests of {} tokens", thousands(mean)),
                at(&|fit| {
                    if mean > fit.max_model_len {
                        return "refused".to_owned();
                    }
                    let requests = self.base.requests_of(fit.requests.num_blocks, mean);
                    requests.map_or_else(|_| "—".to_owned(), |requests| requests.shown() + "x")
                }),
            );
        }
        let _ = writeln!(
            out,
            "  {:<36}{:>14}",
            "at once, at most (max_num_seqs)",
            thousands(self.base.max_num_seqs)
        );
        if let Ok(Some(capacity)) = self.likely.as_ref().map(|likely| &likely.capacity) {
            out.push('\n');
            for line in capacity.lines() {
                let _ = writeln!(out, "  INFO {line}");
            }
            wrap(
                out,
                "Its tokens are requests times max_model_len, not what the cache can hold of short \
                 ones: each request reserves its windows and what is in flight whatever its length.",
                "  ",
            );
        }
    }

    fn shares(&self, out: &mut String) {
        let length = self.length();
        let Ok(shares) = self.base.shares(length) else {
            return;
        };
        let total: u64 = shares.iter().map(|share| share.total_bytes).sum();
        heading(
            out,
            &format!(
                "WHO HOLDS A REQUEST OF {} TOKENS: {}",
                thousands(length),
                human_bytes(total)
            ),
        );
        let _ = writeln!(
            out,
            "  {:<36}{:>8}{:>14}{:>14}{:>14}",
            "group", "share", "tokens kept", "in flight", "padding"
        );
        let names = self.base.group_names();
        for share in shares {
            let Share {
                group,
                total_bytes,
                content_bytes,
                in_flight_bytes,
                padding_bytes,
            } = share;
            let _ = writeln!(
                out,
                "  {:<36}{:>7}%{:>14}{:>14}{:>14}",
                names[group],
                tenths(total_bytes, total),
                human_bytes(content_bytes),
                human_bytes(in_flight_bytes),
                human_bytes(padding_bytes)
            );
        }
    }

    fn changes(&self, out: &mut String) {
        let over = if self.replicas > 1 {
            ", over all replicas"
        } else {
            ""
        };
        heading(
            out,
            &format!("WHAT TO CHANGE, most effect first; each alone{over}"),
        );
        if self.changes.changes.is_empty() {
            let text = if self.changes.now.is_some() {
                "Nothing that was tried holds more."
            } else {
                "Nothing that was tried starts, by itself."
            };
            wrap(out, text, "  ");
        }
        let now = self.changes.now.map(Served::shown);
        let shown = self.changes.changes.iter().take(MOST_CHANGES);
        for (number, change) in (1..).zip(shown) {
            let before = now.as_deref().unwrap_or("0");
            let of = if change.served.length == self.length() {
                String::new()
            } else {
                format!(" of {} tokens", thousands(change.served.length))
            };
            let estimate = if change.is_estimated {
                " (estimate)"
            } else {
                ""
            };
            let _ = writeln!(
                out,
                "  {number:>2}. {}: {before} → {} requests{of}{estimate}",
                change.text,
                change.served.shown()
            );
            wrap_hanging(out, &change.cost, "      ", "      ");
        }
    }
}

fn budget_rows(out: &mut String, budget: &Budget) {
    row(out, "torch's total", gib(budget.torch_total));
    if budget.is_unified {
        wrap(
            out,
            "(one memory with the host: what is free of it varies by gigabytes between boots)",
            "    ",
        );
    }
    row(
        out,
        &format!("× gpu_memory_utilization {}", budget.gpu_memory_utilization),
        gib(budget.requested),
    );
    for part in &budget.parts {
        // what takes most leaves least
        let [low, likely, high] = gib(part.bytes);
        row(
            out,
            &format!("− {}", part.kind.label()),
            [high, likely, low],
        );
    }
    row(out, "= for the KV cache", gib(budget.pool));
    out.push('\n');
    for part in &budget.parts {
        wrap_hanging(
            out,
            &format!("{}: {}.", part.kind.label(), part.source),
            "    · ",
            "      ",
        );
    }
}

fn longest(tokens: u64) -> String {
    if tokens >= MOST_TOKENS {
        "any".to_owned()
    } else {
        thousands(tokens)
    }
}

/// A part of a whole in percent, with one decimal.
fn tenths(part: u64, whole: u64) -> String {
    let tenths = (u128::from(part) * 2000 / u128::from(whole.max(1))).div_ceil(2);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Lengths to tell of beside the longest: each four times the one before.
fn lengths(most: u64) -> Vec<u64> {
    let lengths = (0..).map(|step| 1024_u64 << (2 * step));
    lengths
        .take_while(|length| *length < most)
        .take(8)
        .collect()
}
