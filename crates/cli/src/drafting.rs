//! `--speculative-config` and its parts, in the ways that vLLM's own parser takes them.

use std::ffi::OsString;

use clap::{Arg, ArgMatches};
use kv_paste::{dotted, merge, nested};
use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::{EngineArgs, Value};

const OPTION: &str = "--speculative-config";
const SHORT: &str = "-sc";
/// Its parts that are flags of their own, by `EngineArgs` name.
const METHOD: &str = "spec_method";
const MODEL: &str = "spec_model";
const TOKENS: &str = "spec_tokens";

const EXAMPLE: &str = r#"{"method": "mtp", "num_speculative_tokens": 1}"#;

/// What of `EngineArgs` is read here.
pub fn is_read(name: &str) -> bool {
    [SPECULATIVE_CONFIG, METHOD, MODEL, TOKENS].contains(&name)
}

/// The options.
pub fn options() -> [Arg; 4] {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name.replace('_', "-"))
            .value_name(value)
            .help(help)
            // of the same option twice, vLLM's parser takes the last
            .overrides_with(name)
    };
    [
        option(
            SPECULATIVE_CONFIG,
            "JSON",
            "speculative decoding, such as {\"method\": \"mtp\", \"num_speculative_tokens\": 1}; also -sc, or key \
             by key: --speculative-config.method mtp. Its model is one of the catalog, or a config.json (or a \
             folder that holds one)",
        ),
        option(METHOD, "TEXT", "the drafter's method, without JSON"),
        option(MODEL, "ID|PATH", "the drafter, without JSON"),
        option(TOKENS, "N", "tokens it drafts in a step, without JSON").allow_hyphen_values(true),
    ]
}

/// `--speculative-config.method mtp` and the like as one `--speculative-config`
/// with JSON, which comes last. Mirrors `vllm/utils/argparse_utils.py`
/// `FlexibleArgumentParser.parse_args`.
pub fn join_dotted(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut joined = Vec::with_capacity(arguments.len());
    let mut config = Value::Object(Vec::new());
    let mut is_dotted = false;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let Some((keys, value)) = argument.to_str().and_then(ours) else {
            joined.push(argument);
            continue;
        };
        let value = match value {
            Some(value) => Some(value.to_owned()),
            None => arguments.next().and_then(|value| value.into_string().ok()),
        };
        // without a value it is left for the parser to complain about
        let Some(value) = value else {
            joined.push(argument);
            continue;
        };
        merge(&mut config, nested(keys, &value));
        is_dotted = true;
    }
    if is_dotted {
        joined.push(OPTION.into());
        // a value of numbers and strings is always JSON
        joined.push(serde_json::to_string(&config).unwrap_or_default().into());
    }
    joined
}

/// The keys behind the first dot of ours, and the value behind `=`.
fn ours(argument: &str) -> Option<(&str, Option<&str>)> {
    let (option, keys, value) = dotted(argument)?;
    let is_ours = option == SHORT
        || option
            .strip_prefix("--")
            .is_some_and(|name| name.replace('-', "_") == SPECULATIVE_CONFIG);
    is_ours.then_some((keys, value))
}

/// Sets what is passed.
pub fn set(matches: &ArgMatches, args: &mut EngineArgs) -> Result<(), String> {
    for name in [SPECULATIVE_CONFIG, METHOD, MODEL, TOKENS] {
        let Some(text) = matches.get_one::<String>(name) else {
            continue;
        };
        let value = match name {
            SPECULATIVE_CONFIG => serde_json::from_str(text).map_err(|error| {
                format!("{OPTION}: not JSON: {error}; expected such as {EXAMPLE}")
            })?,
            TOKENS => match text.trim().parse() {
                Ok(number) => Value::Integer(number),
                Err(_) => {
                    return Err(format!(
                        "--spec-tokens: expected a whole number, got {text:?}"
                    ));
                }
            },
            _ => Value::String(text.clone()),
        };
        args.set_by_name(name, &value)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(given: &str) -> Vec<String> {
        let words = given.split_whitespace().map(OsString::from);
        let joined = join_dotted(words.collect());
        joined
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect()
    }

    #[test]
    fn keys_are_joined_as_vllm_joins_them() {
        assert_eq!(
            joined(
                "show --speculative-config.method mtp -tp 8 --speculative_config.num_speculative_tokens=3 --json"
            ),
            [
                "show",
                "-tp",
                "8",
                "--json",
                "--speculative-config",
                r#"{"method":"mtp","num_speculative_tokens":3}"#
            ]
        );
        // each spelling of a value, nested keys, lists, and the last of two
        assert_eq!(
            joined(
                "--speculative-config.a 1k --speculative-config.b true --speculative-config.c.d 0.5 \
                 --speculative-config.c.e-f null --speculative-config.g+ x,y --speculative-config.g+ z \
                 --speculative-config.a 2"
            )
            .last()
            .unwrap(),
            r#"{"a":2,"b":true,"c":{"d":0.5,"e-f":null},"g":["x","y","z"]}"#
        );
        // a dot in a value is none of a name
        let plain = "--speculative-config={\"model\":\"a.b\"} --model a.json";
        assert_eq!(joined(plain).join(" "), plain);
        assert_eq!(
            joined("-sc.model 0.5x").last().unwrap(),
            r#"{"model":"0.5x"}"#
        );
        assert_eq!(
            joined("--speculative-config.method"),
            ["--speculative-config.method"]
        );
    }
}
