//! `kvx`: the resolver on the command line.

mod changes;
mod drafting;
mod explain;
mod layout;
mod lines;
mod native;
mod options;
mod plan;
mod render;
mod show;
mod stream;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, value_parser};
use clap_complete::Shell;
use kv_resolver::catalog::{GPUS, MODELS};
use kv_resolver::{Outcome, Release};

/// Exit codes, from best to worst: a batch ends with its worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exit {
    /// vLLM would start.
    Resolved = 0,
    /// vLLM would refuse.
    Refused = 1,
    /// There is no rule for it.
    Unmodelled = 3,
    /// The question is malformed.
    Usage = 2,
}

impl Exit {
    const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Works | Outcome::Becomes | Outcome::Unverified => Self::Resolved,
            Outcome::Refused | Outcome::DoesNotFit => Self::Refused,
            Outcome::Unmodelled => Self::Unmodelled,
        }
    }

    /// The worse of two.
    fn and(self, other: Self) -> Self {
        let rank = |exit| match exit {
            Self::Resolved => 0,
            Self::Refused => 1,
            Self::Unmodelled => 2,
            Self::Usage => 3,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

const AFTER_HELP: &str = "\
Exit codes: 0 vLLM would start, 1 vLLM would refuse, 2 usage, 3 not modelled.
`resolve` ends with the worst of its cases: of 2, 3, 1 and 0 the first that occurs.";

fn command() -> Command {
    Command::new("kvx")
        .about("What vLLM will do with your KV cache, before you rent the GPU")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(AFTER_HELP)
        .subcommand(
            Command::new("resolve")
                .about("Answer cases: JSON lines in, JSON lines out")
                .arg(
                    Arg::new("file")
                        .value_name("FILE")
                        .help("Cases, one a line; standard input without it or with -"),
                ),
        )
        .subcommand(
            Command::new("signatures")
                .about("What sets the kind of each case apart, one a line")
                // for `cargo xtask`, which counts vLLM's answers of each kind
                .hide(true),
        )
        .subcommand(options::show())
        .subcommand(options::plan())
        .subcommand(options::diff())
        .subcommand(options::layout())
        .subcommand(explain::command())
        .subcommand(options::native())
        .subcommand(Command::new("gpus").about("List the GPUs of the catalog"))
        .subcommand(Command::new("models").about("List the models of the catalog"))
        .subcommand(Command::new("releases").about("List the vLLM releases that are modelled"))
        .subcommand(
            Command::new("completions")
                .about("Print what makes a shell complete kvx's commands and flags")
                .arg(
                    Arg::new("shell")
                        .value_name("SHELL")
                        .required(true)
                        .value_parser(value_parser!(Shell)),
                ),
        )
}

/// The commands that take flags of `vllm serve`.
const ASKING: [&str; 5] = ["show", "plan", "diff", "layout", "native"];

/// Of an option that is none here, which vLLM may well have: in place of clap's tip to pass it as the model.
fn lead_on(error: &mut clap::Error) {
    if error.kind() == ErrorKind::UnknownArgument {
        let tip = "kvx takes the flags of `vllm serve` that its rules know of; `kvx explain` takes a whole command, \
                   whatever it has";
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
}

fn main() -> ExitCode {
    let arguments = options::normalise(std::env::args_os());
    let name = arguments.get(1).and_then(|name| name.to_str());
    let asks = name.is_some_and(|name| ASKING.contains(&name));
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(mut error) => {
            if asks {
                lead_on(&mut error);
            }
            // help and version are no errors
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Resolved
            };
            // nothing is left to do if even this cannot be printed
            let _ = error.print();
            return exit.into();
        }
    };
    let done = match matches.subcommand() {
        Some(("resolve", matches)) => lines::resolve(matches.get_one::<String>("file")),
        Some(("signatures", _)) => lines::signatures(),
        Some(("show", matches)) => show::run(matches),
        Some(("plan", matches)) => plan::run(matches),
        Some(("diff", matches)) => changes::run(matches),
        Some(("layout", matches)) => layout::run(matches),
        Some(("explain", matches)) => explain::run(matches),
        Some(("native", matches)) => native::run(matches),
        Some(("gpus", _)) => lines::print(&gpus()),
        Some(("models", _)) => lines::print(&models()),
        Some(("releases", _)) => lines::print(&releases()),
        Some(("completions", matches)) => lines::print(&completions(matches.get_one("shell"))),
        _ => Ok(Exit::Usage),
    };
    match done {
        Ok(exit) => exit.into(),
        // whoever reads has had enough
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kvx: {error}");
            Exit::Usage.into()
        }
    }
}

fn gpus() -> String {
    let row = |key: &str, capability: &str, memory: &str, name: &str| {
        format!("{key:<26}{capability:<8}{memory:>9}  {name}")
    };
    let mut lines = vec![row("KEY", "CC", "MiB", "NAME")];
    lines.extend(GPUS.iter().map(|gpu| {
        let inferred = if gpu.nvml_inferred {
            " (memory inferred)"
        } else {
            ""
        };
        row(
            gpu.key,
            &gpu.capability.to_string(),
            &gpu.nvml_total_mib.to_string(),
            &format!("{}{inferred}{}", gpu.name, also(gpu.aliases)),
        )
    }));
    listing(&lines)
}

/// Shorter keys, for the end of a line.
fn also(aliases: &[&str]) -> String {
    if aliases.is_empty() {
        String::new()
    } else {
        format!("; also {}", aliases.join(", "))
    }
}

fn models() -> String {
    listing(&MODELS.map(|model| model.id))
}

fn releases() -> String {
    listing(&Release::ALL.map(|release| {
        let families = if release.profile().models_all_families {
            "every family in docs/architectures.md"
        } else {
            "DeepSeek V4"
        };
        format!("{:<9}{families}", release.version())
    }))
}

fn completions(shell: Option<&Shell>) -> String {
    let mut script = Vec::new();
    if let Some(shell) = shell {
        clap_complete::generate(*shell, &mut command(), "kvx", &mut script);
    }
    String::from_utf8_lossy(&script).into_owned()
}

fn listing<T: AsRef<str>>(lines: &[T]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_ref(), "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in Shell::value_variants() {
            let script = completions(Some(shell));
            for command in command().get_subcommands().filter(|one| !one.is_hide_set()) {
                assert!(script.contains(command.get_name()), "{shell}: {command}");
            }
        }
    }

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn a_flag_that_is_none_here_leads_to_explain() {
        for flag in ["--headless", "--swap-space", "-O3"] {
            let given = ["kvx", "show", "Qwen/Qwen3-8B", "--gpu", "h200", flag];
            let mut error = command().try_get_matches_from(given).unwrap_err();
            lead_on(&mut error);
            let text = error.to_string();
            assert!(text.contains("tip: kvx takes the flags"), "{text}");
            assert!(text.contains("`kvx explain`"), "{text}");
            assert!(!text.contains("as a value"), "{text}");
        }
        // any other error keeps its own
        let mut error = command().try_get_matches_from(["kvx", "show"]).unwrap_err();
        lead_on(&mut error);
        assert!(!error.to_string().contains("kvx explain"));
    }

    #[test]
    fn the_worst_case_decides() {
        assert_eq!(Exit::Resolved.and(Exit::Refused), Exit::Refused);
        assert_eq!(Exit::Unmodelled.and(Exit::Refused), Exit::Unmodelled);
        assert_eq!(Exit::Usage.and(Exit::Unmodelled), Exit::Usage);
        assert_eq!(Exit::Unmodelled as u8, 3);
    }
}
