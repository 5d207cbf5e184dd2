//! `kvx diff`: what changed from one release to another.

use std::fmt::Write as _;
use std::io;

use clap::ArgMatches;
use kv_cases::Compared;
use kv_resolver::catalog::{CatalogGpu, GPUS, find_gpu};
use kv_resolver::diff::{Change, Diff, FieldChange, StepChange, Weight, diff, dtypes};
use kv_resolver::{CacheDtype, Gpu, Release, Request};

use crate::render::{counted, wrap};
use crate::{Exit, lines, show};

/// Decisions that are printed of one change; `--json` has all.
const STEPS_SHOWN: usize = 8;

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let asked = Asked::new(matches).map_err(io::Error::other)?;
    let found = diff(
        &asked.request,
        asked.from,
        asked.to,
        &asked.gpus,
        &asked.dtypes,
    );
    if matches.get_flag("json") {
        let value = Compared::new(&found, &asked.keys).value();
        let json = serde_json::to_string_pretty(&value).map_err(io::Error::other)?;
        lines::print(&format!("{json}\n"))?;
    } else {
        lines::print(&text(&asked, &found))?;
    }
    Ok(if found.unmodelled == found.cells {
        Exit::Unmodelled
    } else {
        Exit::Resolved
    })
}

struct Asked {
    model: String,
    request: Request,
    from: Release,
    to: Release,
    gpus: Vec<Gpu>,
    /// What the GPUs are called here, in their order.
    keys: Vec<String>,
    dtypes: Vec<CacheDtype>,
}

impl Asked {
    fn new(matches: &ArgMatches) -> Result<Self, String> {
        let (from, to) = (
            show::release(matches, "from")?,
            show::release(matches, "to")?,
        );
        let (gpus, keys) = if matches.contains_id("gpu") || matches.contains_id("cc") {
            let gpu = show::gpu(matches)?;
            let key = matches.get_one::<String>("gpu");
            let key = key.and_then(|key| find_gpu(key)).map(|known| known.key);
            let key = key.map_or_else(|| gpu.name.clone(), str::to_owned);
            (vec![gpu], vec![key])
        } else {
            (
                GPUS.iter().map(CatalogGpu::gpu).collect(),
                GPUS.iter().map(|gpu| gpu.key.to_owned()).collect(),
            )
        };
        let first = gpus.first().cloned().ok_or("no GPU")?;
        let (model, request) = show::request(matches, to, first)?;
        let dtypes = match request.args.kv_cache_dtype.as_deref() {
            None => dtypes(from, to),
            Some(asked) => vec![asked.parse().map_err(|_| {
                format!(
                    "--kv-cache-dtype: neither release knows {asked:?}; `kvx show` has the error"
                )
            })?],
        };
        Ok(Self {
            model,
            request,
            from,
            to,
            gpus,
            keys,
            dtypes,
        })
    }
}

fn text(asked: &Asked, found: &Diff) -> String {
    let mut out = String::new();
    let changed: usize = found.changes.iter().map(|change| change.cells.len()).sum();
    let _ = writeln!(
        out,
        "{}, vLLM {} to {}: {} of {} ({} × {}) changed{}\n",
        asked.model,
        found.from,
        found.to,
        changed,
        counted(found.cells as u64, "cell"),
        counted(asked.gpus.len() as u64, "GPU"),
        counted(asked.dtypes.len() as u64, "dtype"),
        match found.changes.len() {
            0 => ".".to_owned(),
            1 => ", all in one way.".to_owned(),
            ways => format!(", in {ways} ways."),
        }
    );
    if found.unmodelled > 0 {
        let _ = writeln!(
            out,
            "{} cannot be compared: there is no rule in one of the releases or in both \
             (`kvx releases`; `kvx show` says what is missing).\n",
            counted(found.unmodelled as u64, "cell")
        );
    }
    for (number, change) in found.changes.iter().enumerate() {
        let _ = writeln!(
            out,
            "{}. {}",
            number + 1,
            match change.weight {
                Weight::Outcome => format!("{} → {}", change.from.as_str(), change.to.as_str()),
                Weight::Bytes => "starts in both, with other bytes".to_owned(),
                Weight::Words => format!("{} in both, in other words", change.to.as_str()),
            }
        );
        wrap(&mut out, &cells(asked, change), "   ");
        for field in &change.fields {
            print_field(&mut out, field);
        }
        if change.weight != Weight::Words {
            print_why(&mut out, found, &change.why);
        }
        out.push('\n');
    }
    out
}

/// "auto, fp8 on h100, h200", by dtypes that share their GPUs.
fn cells(asked: &Asked, change: &Change) -> String {
    let lot = |(gpus, dtypes): &(Vec<usize>, Vec<&str>)| {
        let dtypes = dtypes.join(", ");
        if gpus.len() == asked.gpus.len() && gpus.len() > 1 {
            return format!("{dtypes} on every GPU");
        }
        let names: Vec<&str> = gpus.iter().map(|gpu| asked.keys[*gpu].as_str()).collect();
        format!("{dtypes} on {}", names.join(", "))
    };
    let by_gpus = change.by_gpus(&asked.dtypes);
    by_gpus.iter().map(lot).collect::<Vec<_>>().join("; ")
}

fn print_field(out: &mut String, field: &FieldChange) {
    if field.goes_without_saying() {
        return;
    }
    let [from, to] = field.sides();
    if from.len() + to.len() < 60 {
        let _ = writeln!(out, "   {:<26}{from} → {to}", field.field);
        return;
    }
    let _ = writeln!(out, "   {}", field.field);
    for (sign, text) in [('-', &field.from), ('+', &field.to)] {
        if let Some(text) = text {
            wrap(out, &format!("{sign} {text}"), "     ");
        }
    }
}

fn print_why(out: &mut String, found: &Diff, why: &[StepChange]) {
    out.push_str("   why\n");
    for change in why.iter().take(STEPS_SHOWN) {
        for (release, step) in [(found.from, &change.from), (found.to, &change.to)] {
            if let Some(step) = step {
                let line = format!(
                    "{release}  {} ({} {})",
                    step.decided, step.rule.file, step.rule.function
                );
                wrap(out, &line, "     ");
            }
        }
    }
    if let Some(more) = why.len().checked_sub(STEPS_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(out, "     … and {more} more decisions (--json)");
    }
}
