//! A question as a command that asks it.

use std::fmt::Write as _;

use kv_resolver::args::SPECULATIVE_CONFIG;
use kv_resolver::units::python_float;
use kv_resolver::{EngineArgs, Environment, Flag, Value};

use crate::argv::json;

/// Why a question cannot be written as a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwritable {
    /// A flag that has no rule is known by its name alone.
    Unmodelled(String),
    /// A value that no command line passes: an empty list, or a list with a word that looks like an option.
    Value(Flag),
}

/// The flags and variables as a start by `vllm serve`, quoted for a POSIX shell; `model` empty for none.
///
/// # Errors
/// What cannot be written.
pub fn serve_command(
    model: &str,
    args: &EngineArgs,
    env: &Environment,
) -> Result<String, Unwritable> {
    if let Some(name) = args.unmodelled.iter().chain(&env.unmodelled).next() {
        return Err(Unwritable::Unmodelled(name.clone()));
    }
    let mut out = String::new();
    for (name, value) in variables(env) {
        out.push_str(name);
        out.push('=');
        quote(&mut out, &value);
        out.push(' ');
    }
    out.push_str("vllm serve");
    if model.starts_with('-') {
        out.push_str(" --model=");
        quote(&mut out, model);
    } else if !model.is_empty() {
        out.push(' ');
        quote(&mut out, model);
    }
    for flag in Flag::ALL {
        if let Some(value) = args.passed(flag) {
            option(&mut out, flag, &value)?;
        }
    }
    if let Some(config) = &args.speculative_config {
        long(&mut out, SPECULATIVE_CONFIG);
        out.push(' ');
        quote(&mut out, &json(config));
    }
    for (key, value) in &args.spec_flags {
        long(&mut out, &["spec_", key].concat());
        out.push('=');
        match value {
            Value::String(text) => quote(&mut out, text),
            other => quote(&mut out, &json(other)),
        }
    }
    for name in &args.idle {
        long(&mut out, name);
    }
    Ok(out)
}

fn variables(env: &Environment) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Some(layout) = &env.kv_cache_layout {
        all.push(("VLLM_KV_CACHE_LAYOUT", layout.clone()));
    }
    if env.allow_long_max_model_len {
        all.push(("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1".to_owned()));
    }
    if env.hybrid_chunks_disallowed {
        all.push((
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
            "0".to_owned(),
        ));
    }
    if let Some(partition) = &env.pp_layer_partition {
        all.push(("VLLM_PP_LAYER_PARTITION", partition.clone()));
    }
    all
}

fn long(out: &mut String, name: &str) {
    out.push_str(" --");
    out.extend(name.chars().map(|c| if c == '_' { '-' } else { c }));
}

fn option(out: &mut String, flag: Flag, value: &Value) -> Result<(), Unwritable> {
    if let Value::Bool(on) = value {
        long(out, if *on { "" } else { "no-" });
        // the name follows what was written
        out.extend(flag.name().chars().map(|c| if c == '_' { '-' } else { c }));
        return Ok(());
    }
    long(out, flag.name());
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => python_float(*number),
        Value::Array(items) => {
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            let words = words.filter(|words| {
                !words.is_empty() && !words.iter().any(|word| word.starts_with('-'))
            });
            for word in words.ok_or(Unwritable::Value(flag))? {
                out.push(' ');
                quote(out, word);
            }
            return Ok(());
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => return Err(Unwritable::Value(flag)),
    };
    // a value that begins with a dash would be taken for an option
    out.push(if text.starts_with('-') { '=' } else { ' ' });
    quote(out, &text);
    Ok(())
}

/// A word as a POSIX shell takes it whole.
fn quote(out: &mut String, word: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        out.push_str(word);
        return;
    }
    out.push('\'');
    for c in word.chars() {
        if c == '\'' {
            // a quote cannot stand within quotes
            out.push_str("'\\''");
        } else {
            // writing to a String cannot fail
            let _ = out.write_char(c);
        }
    }
    out.push('\'');
}
