//! `kvx show`: one question, with flags as `vllm serve` spells them.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use clap::ArgMatches;
use kv_cases::{MOST_CONFIG_BYTES, parse_config, result_value};
use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::catalog::{find_gpu, find_model};
use kv_resolver::{
    ComputeCapability, EngineArgs, Environment, Flag, FlagKind, Gpu, Refusal, Release, Request,
    Usage, Value, resolve,
};

use crate::options::unruled;
use crate::{Exit, lines, render};

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let (model, request) = release(matches, "release")
        .and_then(|release| request(matches, release, gpu(matches)?))
        .map_err(io::Error::other)?;
    let result = resolve(&request);
    if let Err(error) = &result
        && let Refusal::BadCase(why) = &error.refusal
    {
        return Err(io::Error::other(why.clone()));
    }
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

/// The question, but for its release and GPU.
pub fn request(
    matches: &ArgMatches,
    release: Release,
    gpu: Gpu,
) -> Result<(String, Request), String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let model = text("model").or(text("model-tag")).unwrap_or_default();
    let usage: Usage = text("usage")
        .unwrap_or_default()
        .parse()
        .map_err(|()| "--usage: expected server or llm".to_owned())?;
    let args = arguments(matches)?;
    let request = Request {
        release,
        hf_config: config(model)?,
        draft_config: draft_config(&args)?,
        gpu,
        args,
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

/// The drafter's config.json. A name that leads to none is left to the rules,
/// which may not need one.
fn draft_config(args: &EngineArgs) -> Result<Option<Value>, String> {
    match args.draft_model() {
        Some(model) if find_model(model).is_some() || Path::new(model).exists() => {
            config(model).map(Some)
        }
        Some(_) | None => Ok(None),
    }
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
    let text = read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    parse_config(&text).map_err(|error| format!("{}: {}", file.display(), error.text()))
}

/// A file as text, as far as a config.json may be long.
fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?
        .take(MOST_CONFIG_BYTES as u64 + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// The release that an option names.
pub fn release(matches: &ArgMatches, option: &str) -> Result<Release, String> {
    let text = matches.get_one::<String>(option).map(String::as_str);
    text.unwrap_or_default()
        .parse()
        .map_err(|error| format!("--{option}: {error}"))
}

/// `--gpu`, or `--cc` and what goes with it.
pub fn gpu(matches: &ArgMatches) -> Result<Gpu, String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
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
    let name = text("gpu-name").unwrap_or("NVIDIA GPU");
    if name.chars().any(char::is_control) {
        return Err(format!("--gpu-name: {name:?} is no name"));
    }
    Ok(Gpu {
        name: name.to_owned(),
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
                .get_many::<String>(flag.name())
                .map(|words| {
                    let words: Vec<&str> = words.map(String::as_str).collect();
                    flag.parse_text(&words.join(" "))
                })
                .transpose()
                .map_err(|error| {
                    let text = error.to_string();
                    format!("{}{}", flag.option(), text.trim_start_matches(flag.name()))
                })?
        };
        if let Some(value) = value {
            args.set(flag, &value).map_err(|error| error.to_string())?;
        }
    }
    for name in unruled() {
        if let Some(text) = matches.get_one::<String>(name) {
            let value = if name == SPECULATIVE_CONFIG {
                parse_config(text)
                    .map_err(|error| format!("--speculative-config: {}", error.text()))?
            } else {
                guess(text)
            };
            args.set_by_name(name, &value)
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
            .filter(|(name, _)| !name.is_empty())
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
}
