//! `kvx explain`: a command, a log or an error, as it was pasted.

mod json;

use std::fmt::Write as _;
use std::io::{self, Read as _};

use clap::{Arg, ArgAction, ArgMatches, Command};
use kv_paste::{
    Command as Start, Explanation, Match, Passed, Pasted, Problem, Question, explain, named_model,
    serve_command, shortened,
};
use kv_resolver::catalog::MODELS;
use kv_resolver::units::thousands;
use kv_resolver::{Outcome, Release, Request};

use crate::render::{self, wrap_hanging};
use crate::{Exit, lines, show};

/// A text beyond this is not read.
const MOST_BYTES: u64 = 64 << 20;

/// `kvx explain`
pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("explain")
        .about("What a pasted command, log or error says, and what it comes to")
        .after_help(
            "What the text names goes before the options. With a model and a GPU, what a log printed is held against \
             the answer, and where they differ, what would make them equal is looked for.",
        )
        .arg(Arg::new("file").value_name("FILE").help("The text; standard input without it or with -"))
        .arg(option("release", "VERSION", "vLLM's version, where the text names none").default_value(Release::LATEST.version()))
        .arg(option("gpu", "KEY", "A GPU of the catalog, where the text names none"))
        .arg(option("model", "ID|PATH", "The model's config.json, where the catalog has none of the model that is named"))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("As JSON, indented"),
        )
}

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let text = read(matches.get_one::<String>("file").map(String::as_str))?;
    let release = show::release(matches, "release").map_err(io::Error::other)?;
    let pasted = kv_paste::read(&shortened(&text), release)
        .map_err(|long| io::Error::other(format!("{} bytes are not read", long.bytes)))?;
    if pasted.is_empty() {
        return Err(io::Error::other(
            "there is no start of vLLM in it, no line of its log, and no error that is known",
        ));
    }
    let report = Report::new(&pasted, matches, release).map_err(io::Error::other)?;
    let text = if matches.get_flag("json") {
        serde_json::to_string_pretty(&report.json()).map_err(io::Error::other)? + "\n"
    } else {
        report.text()
    };
    lines::print(&text)?;
    Ok(report.exit())
}

fn read(path: Option<&str>) -> io::Result<String> {
    let mut bytes = Vec::new();
    match path {
        None | Some("-") => io::stdin().take(MOST_BYTES).read_to_end(&mut bytes)?,
        Some(path) => lines::open(path)?
            .take(MOST_BYTES)
            .read_to_end(&mut bytes)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Report<'a> {
    pasted: &'a Pasted,
    question: Question,
    /// The release that is asked, and whether it is the text's.
    release: Release,
    /// Why there is no answer.
    missing: Option<String>,
    /// What vLLM ends with as it reads the options, if it does not take them.
    stops: Option<String>,
    answer: Option<(Request, Explanation)>,
}

impl<'a> Report<'a> {
    fn new(pasted: &'a Pasted, matches: &ArgMatches, default: Release) -> Result<Self, String> {
        let question = pasted.question();
        let mut report = Self {
            pasted,
            release: question.release.unwrap_or(default),
            question,
            missing: None,
            stops: pasted.stops(),
            answer: None,
        };
        if report.stops.is_some() {
            return Ok(report);
        }
        match report.request(matches) {
            Ok(request) => {
                let explanation = explain(&request, &pasted.log);
                report.answer = Some((request, explanation));
            }
            Err(Missing::Told(why)) => report.missing = Some(why),
            Err(Missing::Wrong(why)) => return Err(why),
        }
        Ok(report)
    }

    fn request(&self, matches: &ArgMatches) -> Result<Request, Missing> {
        if let (Some(version), None) = (&self.question.version, self.question.release)
            && matches.value_source("release") != Some(clap::parser::ValueSource::CommandLine)
        {
            return Err(Missing::Told(format!(
                "vLLM {version} has no rules here; --release VERSION asks another"
            )));
        }
        let given = matches.get_one::<String>("model");
        let named = self.question.model.as_deref();
        let model = match (given, named) {
            (Some(given), _) => given.clone(),
            (None, Some(named)) => {
                match named_model(named, &MODELS.each_ref().map(|model| model.id)) {
                    Some(found) => found.id.to_owned(),
                    None => {
                        return Err(Missing::Told(format!(
                            "the catalog has no config.json of {named:?}; --model ID|PATH names one"
                        )));
                    }
                }
            }
            (None, None) => {
                return Err(Missing::Told(
                    "the text names no model; --model ID|PATH does".to_owned(),
                ));
            }
        };
        let gpu = match (matches.get_one::<String>("gpu"), self.question.gpu) {
            (Some(_), _) => show::gpu(matches).map_err(Missing::Wrong)?,
            (None, Some(gpu)) => gpu.gpu(),
            (None, None) => {
                return Err(Missing::Told(
                    "the text names no GPU; --gpu KEY does".to_owned(),
                ));
            }
        };
        let config = show::config(&model).map_err(Missing::Wrong)?;
        let drafter = show::draft_config(&self.question.args).map_err(Missing::Wrong)?;
        Ok(self.question.request(self.release, gpu, config, drafter))
    }

    fn exit(&self) -> Exit {
        match &self.answer {
            _ if self.stops.is_some() => Exit::Refused,
            Some((_, explanation)) => Exit::of(match &explanation.result {
                Ok(resolution) => resolution.outcome,
                Err(error) => error.refusal.outcome(),
            }),
            None => Exit::of(Outcome::Unmodelled),
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        if let Some(error) = &self.stops {
            heading_of(
                &mut out,
                "REFUSED: vLLM ends as it reads the options, before any rule",
            );
            wrap_hanging(&mut out, error, "  ", "    ");
            if error.starts_with("vllm") {
                out.push_str("  stage args, SystemExit 2\n");
            }
        }
        self.found(&mut out);
        for start in &self.pasted.commands {
            command_text(&mut out, start);
        }
        if self.pasted.log.passed_line > 0 {
            let heading = if self.pasted.log.is_effective {
                "THE FLAGS, as the engine's line has them"
            } else {
                "THE FLAGS, as the log has them"
            };
            heading_of(&mut out, heading);
            flags(&mut out, &self.pasted.log.passed);
        }
        problems(&mut out, &self.question.problems);
        match (&self.answer, &self.missing) {
            (Some((request, explanation)), _) => {
                explained(&mut out, explanation);
                let name = self.question.model.as_deref().unwrap_or_default();
                heading_of(&mut out, "THE ANSWER");
                out.push('\n');
                out.push_str(&render::answer(name, request, &explanation.result));
            }
            (None, Some(why)) => {
                heading_of(&mut out, "NO ANSWER");
                wrap_hanging(&mut out, why, "  ", "  ");
            }
            (None, None) => {}
        }
        render::printable(&out)
    }

    fn found(&self, out: &mut String) {
        heading_of(out, "READ");
        let log = &self.pasted.log;
        let mut fact = |name: &str, value: &str, line: usize| {
            let place = if line > 0 {
                format!("line {line}")
            } else {
                String::new()
            };
            // writing to a String cannot fail, here and below
            let _ = writeln!(out, "  {name:<24}{value:<40} {place}");
        };
        if let Some(version) = &self.question.version {
            let line = log.version.as_ref().map_or(0, |fact| fact.line);
            let known = if self.question.release.is_some() {
                ""
            } else {
                " (no rules here)"
            };
            fact("vLLM", &format!("{version}{known}"), line);
        }
        if let Some(model) = &self.question.model {
            fact(
                "model",
                model,
                log.model.as_ref().map_or(0, |fact| fact.line),
            );
        }
        if let Some(gpu) = log.gpu {
            fact("GPU", gpu.value.name, gpu.line);
        }
        if log.starts > 1 {
            fact(
                "start-ups",
                &format!("{}, of which the last counts", log.starts),
                0,
            );
        }
        if let Some(available) = log.pool.available {
            let gib = kv_resolver::units::format_gib(i128::from(available.likely));
            fact("available", &format!("{gib} GiB"), log.available_line);
        }
        if let Some(tokens) = log.pool.tokens {
            fact(
                "KV cache size",
                &format!("{} tokens", thousands(tokens)),
                log.tokens_line,
            );
        }
        if let Some(error) = log.error {
            let stage = error.value.stage.describe();
            fact(
                "error",
                &format!("{} while {stage}", error.value.error_type),
                error.line,
            );
            wrap_hanging(out, error.value.text, "    ", "    ");
            for other in &log.or_errors {
                wrap_hanging(
                    out,
                    &format!("or {}: {}", other.error_type, other.text),
                    "    ",
                    "    ",
                );
            }
        }
    }
}

enum Missing {
    /// It is left at what was read.
    Told(String),
    /// An option is wrong.
    Wrong(String),
}

fn heading_of(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n  {text}");
}

fn command_text(out: &mut String, start: &Start) {
    let name = match start.usage {
        kv_resolver::Usage::Server => "THE COMMAND: vllm serve",
        kv_resolver::Usage::Llm => "THE COMMAND: LLM(…)",
    };
    heading_of(
        out,
        &format!("{name} {}", start.model.as_deref().unwrap_or_default()),
    );
    flags(out, &start.passed);
    for (name, value) in &start.variables {
        let _ = writeln!(out, "  {name}={value}");
    }
    problems(out, &start.problems);
    let (args, _) = start.args();
    if let Ok(command) = serve_command(
        start.model.as_deref().unwrap_or_default(),
        &args,
        &start.environment(),
    ) {
        wrap_hanging(
            out,
            &format!("What touches the KV cache: {command}"),
            "  ",
            "    ",
        );
    }
}

fn flags(out: &mut String, passed: &[Passed]) {
    for flag in passed {
        let value = kv_cases::value_json(&flag.value);
        let shown: String = value.chars().take(40).collect();
        let _ = writeln!(
            out,
            "  {:<34}{shown:<42}{}",
            flag.name,
            flag.standing.as_str()
        );
    }
}

fn problems(out: &mut String, problems: &[Problem]) {
    for problem in problems {
        wrap_hanging(out, &problem.text(), "  ! ", "    ");
    }
}

fn explained(out: &mut String, explanation: &Explanation) {
    if !explanation.figures.is_empty() {
        let verdict = if explanation.agrees() {
            "EXPLAINED: every figure is as predicted"
        } else {
            "PREDICTED AGAINST PRINTED"
        };
        heading_of(out, verdict);
        for figure in &explanation.figures {
            let mark = if figure.agrees { "=" } else { "≠" };
            let of = |text: &str| text.chars().take(60).collect::<String>();
            let _ = writeln!(
                out,
                "  {mark} {:<28}printed {}, predicted {}",
                figure.kind.as_str(),
                of(&figure.printed),
                if figure.predicted.is_empty() {
                    "none".to_owned()
                } else {
                    of(&figure.predicted)
                },
            );
        }
    }
    if !explanation.agrees() {
        heading_of(out, "WHAT WOULD MAKE THEM EQUAL, each alone");
        if explanation.closings.is_empty() {
            out.push_str("  nothing of what was tried\n");
        }
        for closing in &explanation.closings {
            let _ = writeln!(out, "  · {}", closing.text());
        }
    }
    if let Some(hundredths) = explanation.utilization {
        let text = format!(
            "The pool that was printed is none that is estimated of this GPU and these flags; one of \
             gpu_memory_utilization 0.{hundredths:02} is."
        );
        wrap_hanging(out, &text, "  · ", "    ");
    }
    if explanation.lines.is_empty() {
        return;
    }
    heading_of(
        out,
        "THE LINES: = stands there, ≠ says something else, ? is missing",
    );
    for line in &explanation.lines {
        let (mark, more) = match &line.found {
            Match::Equal(at) => ("=", format!("  [line {at}]")),
            Match::Differs { line, text } => ("≠", format!("\n      line {line}: {text}")),
            Match::Missing => ("?", String::new()),
        };
        let _ = writeln!(out, "  {mark} {}{more}", line.predicted);
    }
}
