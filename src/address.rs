//! The input as a query string, and back. Whatever the address holds, the input is one that can be answered.

mod coding;
mod kept;

use std::sync::Arc;

use kv_resolver::catalog::find_gpu;
use kv_resolver::release::ReleaseError;
use kv_resolver::speculation::Method;
use kv_resolver::{CacheDtype, Flag, Release, Value};

use self::coding::{decode, encode, minify};
use crate::asked::{draft_tokens, flag_value, pasted_config};
use crate::catalog::Catalog;
use crate::input::{Input, ModelChoice, default_model, short_model_name};
use crate::pool::{AskedPool, gib};
use crate::view::{Sort, View};

/// Names of the parameters that are not flags; a flag goes by its `EngineArgs` name.
mod name {
    pub const MODEL: &str = "model";
    pub const CONFIG: &str = "config";
    pub const RELEASE: &str = "release";
    pub const COMPARE: &str = "compare";
    pub const GPU: &str = "gpu";
    pub const DRAFT_METHOD: &str = "spec_method";
    pub const DRAFT_TOKENS: &str = "spec_tokens";
    pub const DRAFT_MODEL: &str = "spec_model";
    pub const DRAFT_DTYPE: &str = "spec_kv_cache_dtype";
    pub const DRAFT_CONFIG: &str = "draft";
    pub const POOL: &str = "pool_gib";
    pub const FREE: &str = "free_gib";
    pub const USAGE: &str = "usage";
    pub const LAYOUT: &str = "VLLM_KV_CACHE_LAYOUT";
    pub const UNMODELLED: &str = "unmodelled";
    pub const ALLOW_LONG: &str = "VLLM_ALLOW_LONG_MAX_MODEL_LEN";
    pub const DTYPES: &str = "dtypes";
    pub const ROWS: &str = "rows";
    pub const SORT: &str = "sort";
    pub const ARCH: &str = "arch";
    pub const MEMORY: &str = "mem";
    pub const FOLD: &str = "fold";
}

const PASTED: &str = "pasted";
const ALL: &str = "all";
const EACH: &str = "each";

/// A pasted config longer than this, encoded, stays out of the address: browsers and chats cut long ones.
const MOST_CONFIG_CHARS: usize = 6000;
/// An address longer than this is not read.
const MOST_QUERY_BYTES: usize = 64 << 10;
/// Problems worth naming.
const MOST_PROBLEMS: usize = 6;

/// What the address came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// The input: defaults, where the address says nothing or nothing sensible.
    pub input: Input,
    /// What was not understood.
    pub problems: Vec<String>,
}

/// Reads a query string, with or without its `?`, and what follows it behind a `#`.
pub fn read(query: &str) -> Read {
    let mut read = Read {
        input: Input::default(),
        problems: Vec::new(),
    };
    let query = query.strip_prefix('?').unwrap_or(query);
    if query.len() > MOST_QUERY_BYTES {
        read.problems
            .push("The address is too long to be one of this page's; it was ignored.".to_owned());
        return read;
    }
    // other fragments are places on the page
    let (query, fragment) = query.split_once('#').unwrap_or((query, ""));
    let configs = fragment.split('&').filter(|text| {
        let key = text.split('=').next();
        key == Some(name::CONFIG) || key == Some(name::DRAFT_CONFIG)
    });
    // the model first, for it brings a context length
    let (models, others): (Vec<_>, Vec<_>) = query
        .split('&')
        .chain(configs)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let written = decode(key);
            (kept::spelling(&written), written, decode(value), pair)
        })
        .partition(|(key, ..)| key == name::MODEL);
    for (key, written, value, pair) in models.into_iter().chain(others) {
        if key == name::MODEL && value.trim() == PASTED {
            read.input.choose_model(ModelChoice::Pasted);
            continue;
        }
        let problem = match set(&mut read.input, &key, &value) {
            Ok(()) => continue,
            Err(Some(problem)) => problem,
            Err(None) => match kept::of_embedding(&key, &value) {
                Err(problem) => problem,
                Ok(is_known) if kept::keep(&mut read.input.kept, pair) => {
                    if is_known || kept::is_of_others(&key) {
                        continue;
                    }
                    "no such parameter here; it stays in the address".to_owned()
                }
                Ok(_) => "no such parameter".to_owned(),
            },
        };
        // by the name that the address has; an error of a flag begins with the flag's own
        let problem = problem
            .strip_prefix(&key)
            .and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(&problem);
        read.problems.push(format!("{}: {problem}", clip(&written)));
    }
    if read.input.model == ModelChoice::Pasted && read.input.pasted.is_empty() {
        read.input.choose_model(default_model());
        read.problems.push(format!(
            "The address is about a pasted config.json, which it does not hold; this is {} instead.",
            short_model_name(read.input.model_name())
        ));
    }
    let more = read.problems.len().saturating_sub(MOST_PROBLEMS);
    if more > 0 {
        read.problems.truncate(MOST_PROBLEMS);
        read.problems.push(format!("… and {more} more."));
    }
    read
}

/// Sets what a parameter says.
///
/// # Errors
/// Why it cannot be; `None` where there is no such parameter.
fn set(input: &mut Input, key: &str, value: &str) -> Result<(), Option<String>> {
    let unknown = || format!("{} is not known here", quoted(value));
    match key {
        // the catalog, once it is here, says whether there is one: see `settle`
        name::MODEL => {
            let id = clip(value.trim());
            input.choose_model(ModelChoice::Catalog(Arc::from(id.trim_end())));
        }
        name::CONFIG => {
            pasted_config(value)?;
            input.pasted = Arc::from(value);
        }
        name::DRAFT_METHOD => {
            let mut methods = Method::MODELLED.into_iter();
            let method = methods.find(|method| method.as_str() == value);
            input.drafting.method = Some(method.ok_or_else(unknown)?);
        }
        name::DRAFT_TOKENS => {
            draft_tokens(value)?;
            value.trim().clone_into(&mut input.drafting.tokens);
        }
        name::DRAFT_MODEL => clip(value).clone_into(&mut input.drafting.model),
        name::DRAFT_DTYPE => {
            input.drafting.dtype = Some(value.parse::<CacheDtype>().map_err(|_| unknown())?);
        }
        name::DRAFT_CONFIG => {
            pasted_config(value)?;
            input.drafting.pasted = Arc::from(value);
        }
        name::RELEASE => {
            input.release = value
                .parse()
                .map_err(|error: ReleaseError| Some(error.to_string()))?;
        }
        name::COMPARE => {
            let release: Result<Release, ReleaseError> = value.parse();
            input.compare = Some(release.map_err(|error| Some(error.to_string()))?);
        }
        name::GPU => input.gpu = find_gpu(value).ok_or_else(unknown)?,
        name::POOL => {
            AskedPool::read(value)?;
            value.trim().clone_into(&mut input.pool_gib);
        }
        name::FREE => {
            gib(value)?;
            value.trim().clone_into(&mut input.free_gib);
        }
        name::USAGE => input.usage = value.parse().map_err(|()| unknown())?,
        name::LAYOUT => clip(value).clone_into(&mut input.kv_cache_layout),
        name::UNMODELLED => input.unmodelled = names(value),
        name::ALLOW_LONG => input.allow_long = value == "1" || value == "true",
        name::DTYPES => input.view.all_dtypes = value == ALL,
        name::ROWS => input.view.row_per_gpu = value == EACH,
        name::SORT => input.view.sort = value.parse().map_err(|()| unknown())?,
        name::ARCH => input.view.only = value.parse().map_err(|()| unknown())?,
        name::MEMORY => input.view.memory = value.parse().map_err(|()| unknown())?,
        name::FOLD => input.view.folded = value.parse().map_err(|()| unknown())?,
        _ => match key.parse() {
            Ok(Flag::KvCacheDtype) => {
                input.dtype = value.parse::<CacheDtype>().map_err(|_| unknown())?;
            }
            Ok(flag) => match flag_value(flag, value)? {
                // the spelling that the select has
                Some(Value::Bool(on)) => input.set_flag(flag, &on.to_string()),
                _ => input.set_flag(flag, &clip(value)),
            },
            Err(()) => return Err(None),
        },
    }
    Ok(())
}

/// Takes the catalog's spelling of the model that the address names.
///
/// # Errors
/// That the catalog has no such model; then the model is the default one.
pub fn settle(input: &mut Input, catalog: &Catalog) -> Result<(), String> {
    let ModelChoice::Catalog(id) = &input.model else {
        return Ok(());
    };
    if let Some(spelling) = catalog.spelling(id) {
        input.choose_model(ModelChoice::Catalog(Arc::clone(spelling)));
        return Ok(());
    }
    let problem = format!("{}: {} is not known here", name::MODEL, quoted(id));
    input.choose_model(default_model());
    Err(problem)
}

/// The query string, without `?`, and the fragment; empty for the default question.
#[derive(Debug, PartialEq, Eq, Clone, Default)]
pub struct Written {
    /// The query string, and behind a `#` the pasted config.
    pub query: String,
    /// Whether the pasted config is too long for it.
    pub config_left_out: bool,
    /// Whether the drafter's is.
    pub draft_left_out: bool,
}

/// Writes what differs from the defaults.
pub fn write(input: &Input) -> Written {
    written(input, false)
}

/// Writes the question whole, for a link that still asks it when the defaults are others.
#[inline(never)] // of the program's second half
pub fn pinned(input: &Input) -> String {
    written(input, true).query
}

/// The element that shows a part of the explorer at `page` within another page, with the question whole.
#[inline(never)] // of the program's second half
pub fn embedded(input: &Input, page: &str) -> String {
    let mut html = [
        "<script src=\"",
        page,
        "embed.js\" defer></script>\n<kv-explorer part=\"matrix\"",
    ]
    .concat();
    let query = pinned(input);
    for pair in query.split('#').next().unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if kept::of_embedding(key, "").is_err() {
            continue;
        }
        let value = decode(value).replace('&', "&amp;").replace('"', "&quot;");
        for text in [" ", &key.replace('_', "-"), "=\"", &value, "\""] {
            html.push_str(text);
        }
    }
    html.push_str("></kv-explorer>");
    html
}

#[inline(never)] // of the program's second half
fn written(input: &Input, is_pinned: bool) -> Written {
    let mut default = Input::default();
    default.choose_model(input.model.clone());
    let mut query = String::new();
    let (mut config_left_out, mut draft_left_out) = (false, false);
    let mut fragment = Vec::new();
    let mut put = |key: &str, value: &str| {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(key);
        query.push('=');
        query.push_str(value);
    };
    match &input.model {
        ModelChoice::Pasted => {
            put(name::MODEL, PASTED);
            config_left_out = put_config(&mut fragment, name::CONFIG, &input.pasted);
        }
        ModelChoice::Catalog(id) => {
            if is_pinned || input.model != default_model() {
                put(name::MODEL, &encode(id));
            }
        }
    }
    if is_pinned || input.release != default.release {
        put(name::RELEASE, input.release.version());
    }
    if let Some(release) = input.compare {
        put(name::COMPARE, release.version());
    }
    if is_pinned || input.gpu != default.gpu {
        put(name::GPU, input.gpu.key);
    }
    if is_pinned || input.dtype != default.dtype {
        put(Flag::KvCacheDtype.name(), input.dtype.as_str());
    }
    for flag in Flag::ALL {
        let text = input.flag(flag);
        if text != default.flag(flag) || is_pinned && !text.is_empty() {
            put(flag.name(), &encode(text));
        }
    }
    let drafting = &input.drafting;
    if let Some(method) = drafting.method {
        put(name::DRAFT_METHOD, method.as_str());
        if drafting.tokens != default.drafting.tokens {
            put(name::DRAFT_TOKENS, &encode(&drafting.tokens));
        }
        if method.takes_model() {
            if !drafting.model.is_empty() {
                put(name::DRAFT_MODEL, &encode(&drafting.model));
            }
            draft_left_out = put_config(&mut fragment, name::DRAFT_CONFIG, &drafting.pasted);
        }
        if let Some(dtype) = drafting.dtype {
            put(name::DRAFT_DTYPE, dtype.as_str());
        }
    }
    if input.pool_gib != default.pool_gib {
        put(name::POOL, &encode(&input.pool_gib));
    }
    if input.free_gib != default.free_gib {
        put(name::FREE, &encode(&input.free_gib));
    }
    if input.usage != default.usage {
        put(name::USAGE, input.usage.as_str());
    }
    if !input.kv_cache_layout.is_empty() {
        put(name::LAYOUT, &encode(&input.kv_cache_layout));
    }
    if input.allow_long {
        put(name::ALLOW_LONG, "1");
    }
    if !input.unmodelled.is_empty() {
        put(name::UNMODELLED, &encode(&input.unmodelled.join(",")));
    }
    write_view(&input.view, &mut put);
    for pair in &input.kept {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(pair);
    }
    // behind the `#`, which no browser sends to a server
    for (index, (key, config)) in fragment.into_iter().enumerate() {
        query.push(if index == 0 { '#' } else { '&' });
        query.push_str(key);
        query.push('=');
        query.push_str(&config);
    }
    Written {
        query,
        config_left_out,
        draft_left_out,
    }
}

/// Writes how the matrix is looked at.
fn write_view(view: &View, put: &mut dyn FnMut(&str, &str)) {
    if view.all_dtypes {
        put(name::DTYPES, ALL);
    }
    if view.row_per_gpu {
        put(name::ROWS, EACH);
    }
    if view.sort != Sort::default() {
        put(name::SORT, view.sort.as_str());
    }
    // none of them is nothing to write
    for (key, text) in [
        (name::ARCH, view.only.to_string()),
        (name::MEMORY, view.memory.to_string()),
        (name::FOLD, view.folded.to_string()),
    ] {
        if !text.is_empty() {
            put(key, &text);
        }
    }
}

/// Adds a pasted config to what follows the `#`, unless there is none; whether it is too long for it.
fn put_config(fragment: &mut Vec<(&'static str, String)>, key: &'static str, text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let config = Some(text)
        .filter(|text| text.len() <= MOST_QUERY_BYTES)
        .map(|text| encode(&minify(text)))
        .filter(|config| config.len() <= MOST_CONFIG_CHARS);
    let is_too_long = config.is_none();
    fragment.extend(config.map(|config| (key, config)));
    is_too_long
}

/// Names of flags and variables, as many as anybody passes.
fn names(text: &str) -> Vec<String> {
    const MOST: usize = 40;
    let is_name = |name: &&str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.len() <= 80 && name.bytes().all(is_plain)
    };
    let names = text.split(',').filter(is_name).take(MOST);
    names.map(str::to_owned).collect()
}

/// Text from the address, short enough for the page.
fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

fn quoted(text: &str) -> String {
    kv_resolver::units::quoted(&clip(text))
}

#[cfg(test)]
mod tests;
