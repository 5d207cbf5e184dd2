//! `kvx show`: one question, with flags as `vllm serve` spells them.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use clap::ArgMatches;
use kv_cases::{MOST_CONFIG_BYTES, parse_config, result_value};
use kv_resolver::catalog::{find_gpu, find_model};
use kv_resolver::memory::resolve_loaded;
use kv_resolver::{
    ComputeCapability, EngineArgs, Environment, Flag, FlagKind, Gpu, Refusal, Release, Request,
    Usage, Value,
};

use crate::options::unruled;
use crate::{Exit, drafting, lines, render};

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let (model, request) = release(matches, "release")
        .and_then(|release| request(matches, release, gpu(matches)?))
        .map_err(io::Error::other)?;
    let result = resolve_loaded(&request);
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
        hf_config: config(model)?.into(),
        draft_config: draft_config(&args)?,
        gpu,
        args,
        env: environment(matches)?,
        available_memory: text("pool")
            .map(|size| {
                parse_size(size).ok_or_else(|| {
                    format!("--pool: {size:?} is no size; write 40GiB, 512MiB, 1TiB or bytes")
                })
            })
            .transpose()?,
        free_memory: None,
        usage,
    };
    Ok((model.to_owned(), request))
}

/// The drafter's config.json. A name that leads to none is left to the rules,
/// which may not need one.
pub fn draft_config(args: &EngineArgs) -> Result<Option<Value>, String> {
    match args.draft_model() {
        Some(model)
            if find_model(model).is_some() || Path::new(model).exists() || is_path(model) =>
        {
            config(model)
                .map(Some)
                .map_err(|error| format!("the drafter: {}", error.trim_start_matches("--model: ")))
        }
        Some(_) | None => Ok(None),
    }
}

/// Whether it is meant as a file's, not as a repository's.
fn is_path(model: &str) -> bool {
    let starts = ["./", "../", "/", "~"]
        .iter()
        .any(|start| model.starts_with(start));
    starts
        || Path::new(model)
            .extension()
            .is_some_and(|end| end == "json")
}

/// The config.json of a model of the catalog, of a file or of a folder.
pub fn config(model: &str) -> Result<Value, String> {
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
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("--gpu-memory-gib: {gib:?} is no number of GiB above 0"))?;
    let name = text("gpu-name").unwrap_or("NVIDIA GPU");
    if name.chars().any(char::is_control) {
        return Err(format!("--gpu-name: {name:?} is no name"));
    }
    Ok(Gpu {
        name: name.to_owned(),
        capability: ComputeCapability::new(major, minor),
        total_memory_bytes: bytes,
        torch_total_bytes: None,
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
            args.set_by_name(name, &guess(text))
                .map_err(|error| error.to_string())?;
        }
    }
    drafting::set(matches, &mut args)?;
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
pub fn parse_size(text: &str) -> Option<u64> {
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
    use crate::options;
    use kv_resolver::resolve;

    /// A question as it is typed; `'…'` is one word.
    fn asked(given: &str) -> Result<(String, Request), String> {
        let parts = given.split('\'').enumerate();
        let words: Vec<std::ffi::OsString> = parts
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(Into::into).collect(),
                _ => vec![part.into()],
            })
            .collect();
        let matches = options::show()
            .try_get_matches_from(options::normalise(words.into_iter()))
            .map_err(|error| error.to_string())?;
        request(&matches, release(&matches, "release")?, gpu(&matches)?)
    }

    fn said(given: &str) -> String {
        let (model, request) = asked(given).unwrap();
        render::answer(&model, &request, &resolve_loaded(&request))
    }

    const R1: &str = "show deepseek-ai/DeepSeek-R1 --gpu h200 -tp 8 --pool 40GiB";

    #[test]
    fn a_drafter_is_asked_for_in_each_of_vllms_ways() {
        let plain = said(R1);
        assert!(!plain.contains("drafter") && !plain.contains("draft "));
        let json = said(&format!(
            "{R1} --speculative-config '{{\"method\": \"mtp\", \"num_speculative_tokens\": 2}}'"
        ));
        for part in [
            "drafter                   mtp, 2 tokens a step",
            "its layers                1 × MLA",
            "it costs                  +1,152 B one more token",
            "3.73 requests fit without it, 3.67 with it",
            "draft MLA",
        ] {
            assert!(json.contains(part), "{part} in {json}");
        }
        for spelling in [
            "-sc '{\"method\": \"mtp\", \"num_speculative_tokens\": 2}'",
            "--speculative_config={\"method\":\"mtp\",\"num_speculative_tokens\":2}",
            "--speculative-config.method mtp --speculative-config.num_speculative_tokens 2",
            "-sc.method=mtp -sc.num-speculative-tokens=2",
            "--spec-method mtp --spec-tokens 2",
            "--spec-method mtp -sc.num_speculative_tokens 2",
        ] {
            assert_eq!(said(&format!("{R1} {spelling}")), json, "{spelling}");
        }
    }

    #[test]
    fn a_draft_model_is_of_the_catalog_or_a_file() {
        let of = |model: &str| {
            asked(&format!(
                "show Qwen/Qwen3-32B --gpu h200 --spec-method draft_model --spec-tokens 3 --spec-model {model}"
            ))
        };
        let known = of("Qwen/Qwen3-0.6B").unwrap().1;
        let folder = std::env::temp_dir().join(format!("kvx-drafter-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config.json");
        let config = find_model("Qwen/Qwen3-0.6B").unwrap().config_json;
        fs::write(&file, config).unwrap();
        for path in [&folder, &file] {
            let (_, asked) = of(path.to_str().unwrap()).unwrap();
            assert_eq!(asked.draft_config, known.draft_config);
            assert_eq!(
                resolve(&asked).unwrap().marginal_bytes_per_token,
                resolve(&known).unwrap().marginal_bytes_per_token
            );
        }
        fs::write(&file, "{").unwrap();
        assert!(
            of(folder.to_str().unwrap())
                .unwrap_err()
                .starts_with("the drafter: ")
        );
        fs::remove_dir_all(&folder).unwrap();
        // a name that leads nowhere is left to the rules
        assert_eq!(of("no/such").unwrap().1.draft_config, None);
    }

    #[test]
    fn what_is_no_drafter_gets_one_line() {
        for (given, part) in [
            ("-sc mtp", "--speculative-config: not JSON: "),
            ("-sc '{\"method\": }'", "--speculative-config: not JSON: "),
            (
                "--spec-tokens three",
                "--spec-tokens: expected a whole number",
            ),
        ] {
            let error = asked(&format!("{R1} {given}")).unwrap_err();
            assert!(error.starts_with(part) && !error.contains('\n'), "{error}");
        }
        assert!(
            asked(&format!("{R1} -sc"))
                .unwrap_err()
                .contains("--speculative-config")
        );
    }

    #[test]
    fn weights_that_do_not_fit_stop_it_as_they_stop_a_plan() {
        let flash = "show deepseek-ai/DeepSeek-V4-Flash --gpu rtx-5090";
        let said = said(&[flash, " --pool 8GiB"].concat());
        for part in [
            "DOES NOT FIT: building the model",
            "OutOfMemoryError: ",
            "of weights on each GPU, as built",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("get_kv_cache_config"), "{said}");
        // without a pool, memory is not looked at
        let (_, open) = asked(flash).unwrap();
        assert!(resolve_loaded(&open).is_ok());
    }

    #[test]
    fn what_is_no_value_is_said_of_its_option() {
        for (given, part) in [
            ("--gpu h200 --pool -1GiB", "--pool: \"-1GiB\" is no size"),
            ("--gpu h200 --pool x", "40GiB, 512MiB, 1TiB or bytes"),
            (
                "--cc 9.0 --gpu-memory-gib 0",
                "--gpu-memory-gib: \"0\" is no number of GiB above 0",
            ),
            ("--cc 9.0 --gpu-memory-gib -1", "--gpu-memory-gib: \"-1\""),
            (
                "--gpu h200 --gpu-memory-gib 80",
                "'--gpu <KEY>' cannot be used with '--gpu-memory-gib <GIB>'",
            ),
            (
                "--gpu h200 --gpu-name Foo",
                "'--gpu <KEY>' cannot be used with '--gpu-name <NAME>'",
            ),
        ] {
            let error = asked(&format!("show Qwen/Qwen3-8B {given}")).unwrap_err();
            assert!(error.contains(part), "{given}: {error}");
        }
        assert!(asked("show Qwen/Qwen3-8B --cc 9.0 --gpu-memory-gib 80 --gpu-name Foo").is_ok());
    }

    #[test]
    fn a_pool_that_the_gpu_has_not_is_told() {
        let said = |pool| {
            said(&format!(
                "show Qwen/Qwen3-8B --gpu h200 -tp 8 --pool {pool}"
            ))
        };
        let note = "The pool that is given is more than this GPU has: 500.00 GiB of 140.40 GiB.";
        let far = said("500GiB");
        assert!(far.contains(note), "{far}");
        assert!(!said("100GiB").contains("more than this GPU has"));
    }

    #[test]
    fn a_name_keeps_its_number() {
        let said = said("show Qwen/Qwen3-8B --gpu rtx-5080");
        assert!(said.contains("RTX 5080 counts as the small tier"), "{said}");
        assert!(!said.contains("5,080"), "{said}");
    }

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
