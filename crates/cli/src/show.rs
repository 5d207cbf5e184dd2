//! `kvx show`: one question, with flags as `vllm serve` spells them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use kv_cases::{parse_config, result_value};
use kv_resolver::catalog::{find_gpu, find_model};
use kv_resolver::{
    ComputeCapability, EngineArgs, Environment, Flag, FlagKind, Gpu, Release, Request, Usage,
    Value, resolve,
};

use crate::{Exit, lines, render};

/// vLLM's short options of several letters, which clap does not know.
const SHORT: [(&str, Flag); 3] = [
    ("-tp", Flag::TensorParallelSize),
    ("-dp", Flag::DataParallelSize),
    ("-dcp", Flag::DecodeContextParallelSize),
];

/// `--kv_cache_dtype` as `--kv-cache-dtype`, `-tp` as `--tensor-parallel-size`:
/// vLLM takes both spellings.
pub fn normalise(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    arguments
        .map(|argument| {
            let Some(text) = argument.to_str() else {
                return argument;
            };
            let (name, rest) = match text.split_once('=') {
                Some((name, value)) => (name, format!("={value}")),
                None => (text, String::new()),
            };
            if let Some((_, flag)) = SHORT.iter().find(|(short, _)| *short == name) {
                return format!("{}{rest}", flag.option()).into();
            }
            if name.starts_with("--") {
                return format!("{}{rest}", name.replace('_', "-")).into();
            }
            argument
        })
        .collect()
}

pub fn command() -> Command {
    let mut command = Command::new("show")
        .about("Answer one question, readably")
        .arg(
            Arg::new("model")
                .long("model")
                .required(true)
                .value_name("ID|PATH")
                .help("A model of the catalog, or a config.json (or a folder that holds one)"),
        )
        .arg(
            Arg::new("gpu")
                .long("gpu")
                .value_name("KEY")
                .required_unless_present("cc")
                .help("A GPU of the catalog (`kvx gpus`)"),
        )
        .arg(
            Arg::new("cc")
                .long("cc")
                .value_name("MAJOR.MINOR")
                .conflicts_with("gpu")
                .requires("gpu-memory-gib")
                .help("Another GPU: its compute capability …"),
        )
        .arg(
            Arg::new("gpu-memory-gib")
                .long("gpu-memory-gib")
                .value_name("GIB")
                .requires("cc")
                .help("… its total memory in GiB …"),
        )
        .arg(
            Arg::new("gpu-name")
                .long("gpu-name")
                .value_name("NAME")
                .requires("cc")
                .help("… and its name"),
        )
        .arg(
            Arg::new("release")
                .long("release")
                .value_name("VERSION")
                .default_value(Release::LATEST.version())
                .help("vLLM's version"),
        )
        .arg(
            Arg::new("pool")
                .long("pool")
                .value_name("SIZE")
                .help("What is left for the KV cache on each GPU: 40GiB, 512MiB or bytes"),
        )
        .arg(
            Arg::new("usage")
                .long("usage")
                .value_name("server|llm")
                .default_value("server")
                .help("Whose defaults apply: vllm serve's or the LLM class's"),
        )
        .arg(
            Arg::new("env")
                .long("env")
                .short('e')
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("An environment variable"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("The raw answer, indented"),
        );
    for flag in Flag::ALL {
        command = command.arg(known(flag));
        if flag.kind() == FlagKind::Bool {
            command = command.arg(
                Arg::new(format!("no_{}", flag.name()))
                    .long(format!("no-{}", flag.name().replace('_', "-")))
                    .help_heading(HEADING)
                    .action(ArgAction::SetTrue)
                    .overrides_with(flag.name())
                    .hide(true),
            );
        }
    }
    for name in unruled() {
        command = command.arg(
            Arg::new(name)
                .long(name.replace('_', "-"))
                .num_args(0..=1)
                .default_missing_value("true")
                .allow_hyphen_values(true)
                .hide(true),
        );
    }
    command
}

const HEADING: &str = "Flags of vllm serve";

fn known(flag: Flag) -> Arg {
    let arg = Arg::new(flag.name())
        .long(flag.option().trim_start_matches('-').to_owned())
        .help_heading(HEADING)
        .help(flag.help());
    match flag.kind() {
        FlagKind::Bool => arg.action(ArgAction::SetTrue),
        FlagKind::Text => arg.value_name("TEXT"),
        FlagKind::List => arg.value_name("WORD,WORD"),
        FlagKind::Integer | FlagKind::HumanInteger => arg.value_name("N").allow_hyphen_values(true),
        FlagKind::Float => arg.value_name("X").allow_hyphen_values(true),
    }
}

/// Flags that vLLM takes and the resolver has no rule for.
fn unruled() -> impl Iterator<Item = &'static str> {
    Release::LATEST
        .profile()
        .engine_args
        .lines()
        .filter(|name| name.parse::<Flag>().is_err() && *name != "model")
}

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let (model, request) = request(matches).map_err(io::Error::other)?;
    let result = resolve(&request);
    let outcome = match &result {
        Ok(resolution) => resolution.outcome,
        Err(error) => error.refusal.outcome(),
    };
    if matches.get_flag("json") {
        let value = result_value(&Value::Null, &result);
        let json = serde_json::to_string_pretty(&value).map_err(io::Error::other)?;
        lines::print(&format!("{json}\n"))?;
    } else {
        lines::print(&render::answer(&model, &request, &result))?;
    }
    Ok(Exit::of(outcome))
}

fn request(matches: &ArgMatches) -> Result<(String, Request), String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let model = text("model").unwrap_or_default();
    let release: Release = text("release")
        .unwrap_or_default()
        .parse()
        .map_err(|error| format!("--release: {error}"))?;
    let usage: Usage = text("usage")
        .unwrap_or_default()
        .parse()
        .map_err(|()| "--usage: expected server or llm".to_owned())?;
    let request = Request {
        release,
        hf_config: config(model)?,
        gpu: gpu(&text)?,
        args: arguments(matches)?,
        env: environment(matches)?,
        available_memory: text("pool")
            .map(|size| {
                parse_size(size).ok_or_else(|| {
                    format!("--pool: {size:?} is no size; write 40GiB, 512MiB or bytes")
                })
            })
            .transpose()?,
        usage,
    };
    Ok((model.to_owned(), request))
}

fn config(model: &str) -> Result<Value, String> {
    if let Some(known) = find_model(model) {
        return parse_config(known.config_json).map_err(|error| error.text().to_owned());
    }
    let path = Path::new(model);
    let file = if path.is_dir() {
        path.join("config.json")
    } else {
        path.to_owned()
    };
    if !file.exists() {
        return Err(format!(
            "--model: {model:?} is neither in the catalog (`kvx models`) nor a file"
        ));
    }
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    parse_config(&text).map_err(|error| format!("{}: {}", file.display(), error.text()))
}

fn gpu<'a>(text: &impl Fn(&str) -> Option<&'a str>) -> Result<Gpu, String> {
    if let Some(key) = text("gpu") {
        return find_gpu(key)
            .map(kv_resolver::catalog::CatalogGpu::gpu)
            .ok_or_else(|| format!("--gpu: {key:?} is not in the catalog; `kvx gpus` lists it"));
    }
    let capability = text("cc").unwrap_or_default();
    let parsed = capability
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = parsed
        .ok_or_else(|| format!("--cc: {capability:?} is no compute capability such as 9.0"))?;
    let gib = text("gpu-memory-gib").unwrap_or_default();
    let bytes = parse_size(&format!("{gib}GiB"))
        .ok_or_else(|| format!("--gpu-memory-gib: {gib:?} is no number"))?;
    Ok(Gpu {
        name: text("gpu-name").unwrap_or("NVIDIA GPU").to_owned(),
        capability: ComputeCapability::new(major, minor),
        total_memory_bytes: bytes,
    })
}

fn arguments(matches: &ArgMatches) -> Result<EngineArgs, String> {
    let mut args = EngineArgs::default();
    for flag in Flag::ALL {
        let value = if flag.kind() == FlagKind::Bool {
            if matches.get_flag(flag.name()) {
                Some(Value::Bool(true))
            } else if matches.get_flag(&format!("no_{}", flag.name())) {
                Some(Value::Bool(false))
            } else {
                None
            }
        } else {
            matches
                .get_one::<String>(flag.name())
                .map(|text| flag.parse_text(text))
                .transpose()
                .map_err(|error| format!("--{error}"))?
        };
        if let Some(value) = value {
            args.set(flag, &value).map_err(|error| error.to_string())?;
        }
    }
    for name in unruled() {
        if let Some(text) = matches.get_one::<String>(name) {
            args.set_by_name(name, &guess(text))
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(args)
}

/// The value of a flag whose type is not known here.
fn guess(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text
            .parse()
            .map_or_else(|_| Value::String(text.to_owned()), Value::Integer),
    }
}

fn environment(matches: &ArgMatches) -> Result<Environment, String> {
    let mut env = Environment::default();
    for entry in matches.get_many::<String>("env").unwrap_or_default() {
        let (name, value) = entry
            .split_once('=')
            .ok_or_else(|| format!("--env: {entry:?} is not NAME=VALUE"))?;
        env.set(name, value);
    }
    Ok(env)
}

/// Bytes, or a number with a binary unit.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, scale) = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)]
        .iter()
        .find_map(|(unit, power)| Some((text.strip_suffix(unit)?, 1_u64 << power)))
        .unwrap_or((text, 1));
    let number = number.trim();
    if scale == 1 {
        return number.parse().ok();
    }
    let number: f64 = number.parse().ok()?;
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    // bounded: 2^53 bytes are more than any pool
    let bytes = (0.0..9e15)
        .contains(&(number * scale as f64))
        .then_some((number * scale as f64) as u64);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_binary_units() {
        assert_eq!(parse_size("42949672960"), Some(42_949_672_960));
        assert_eq!(parse_size("40GiB"), Some(42_949_672_960));
        assert_eq!(parse_size(" 1.5 MiB"), Some(1_572_864));
        for bad in [
            "", "GiB", "-1GiB", "NaNGiB", "infGiB", "1e30TiB", "40GB", "x",
        ] {
            assert_eq!(parse_size(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn both_spellings_and_short_options_are_taken() {
        let given = [
            "kvx",
            "show",
            "--kv_cache_dtype=fp8_e4m3",
            "-tp",
            "8",
            "-dcp=2",
        ];
        let normal = normalise(given.iter().map(OsString::from));
        assert_eq!(
            normal,
            [
                "kvx",
                "show",
                "--kv-cache-dtype=fp8_e4m3",
                "--tensor-parallel-size",
                "8",
                "--decode-context-parallel-size=2"
            ]
        );
    }
}
