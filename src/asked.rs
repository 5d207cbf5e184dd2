//! From what was entered to what is asked: reads the text, or says what is wrong with it.

use std::sync::Arc;

use kv_resolver::catalog::CatalogGpu;
use kv_resolver::model::Recognition;
use kv_resolver::units::quoted;
use kv_resolver::{CacheDtype, EngineArgs, Environment, Flag, Release, Request, Usage, Value};

use crate::input::{Drafting, Field, Input, short_model_name};
use crate::pool::{AskedPool, gib};

/// Pasted text beyond this is not read: real config.json files have at most 90 kB, and reading more makes the page
/// stutter.
pub const MOST_PASTED_BYTES: usize = 1 << 20;

/// A model's config.json, read.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// What to call it.
    pub name: String,
    /// How `vllm serve` would be told of it.
    pub serve_as: String,
    /// Whether the catalog has it, under that name.
    pub is_known: bool,
    /// The file.
    pub value: Value,
    /// What it was recognised as.
    pub recognition: Recognition,
}

impl ModelConfig {
    /// Of a model of the catalog.
    pub fn of_catalog(id: &str, value: Value) -> Self {
        Self {
            is_known: true,
            ..Self::new(short_model_name(id), id, value)
        }
    }

    fn new(name: &str, serve_as: &str, value: Value) -> Self {
        Self {
            name: name.to_owned(),
            serve_as: serve_as.to_owned(),
            is_known: false,
            recognition: Recognition::of(&value),
            value,
        }
    }
}

/// That there is too much to read.
pub fn too_large(bytes: u64) -> String {
    format!(
        "This has {} bytes; a config.json has a few thousand. The page reads {} at most.",
        kv_resolver::units::thousands(bytes),
        kv_resolver::units::thousands(MOST_PASTED_BYTES as u64),
    )
}

/// Reads a pasted config.json.
///
/// # Errors
/// What is wrong with the text.
pub fn pasted_config(text: &str) -> Result<ModelConfig, String> {
    named_config(text, "./the-pasted-model")
}

/// Reads a pasted config.json that `vllm serve` would be told of by a name.
///
/// # Errors
/// What is wrong with the text.
pub fn named_config(text: &str, serve_as: &str) -> Result<ModelConfig, String> {
    if text.trim().is_empty() {
        return Err("Paste the model's config.json here.".to_owned());
    }
    if text.len() > MOST_PASTED_BYTES {
        return Err(too_large(text.len() as u64));
    }
    let value = kv_cases::parse_config(text).map_err(|error| match error.text() {
        text if text.starts_with("not JSON") => format!("This is {text}."),
        text => text.to_owned(),
    })?;
    if !matches!(value, Value::Object(_)) {
        return Err(format!(
            "A config.json is an object, {{…}}; this is {}.",
            value.type_name()
        ));
    }
    Ok(ModelConfig::new("the pasted model", serve_as, value))
}

/// Reads a flag's text; `None` if it is not passed.
///
/// # Errors
/// What is wrong with it.
pub fn flag_value(flag: Flag, text: &str) -> Result<Option<Value>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value = flag.parse_text(text).map_err(|error| error.to_string())?;
    // Python has them, but they are no share of anything
    if matches!(value, Value::Float(number) if !number.is_finite()) {
        return Err(format!(
            "{flag}: expected a number, got {}",
            quoted(text.trim())
        ));
    }
    // the range is checked where the value is set
    EngineArgs::default()
        .set(flag, &value)
        .map_err(|error| error.to_string())?;
    Ok(Some(value))
}

/// Reads how many tokens are drafted in a step; `None` if it is not said.
///
/// # Errors
/// That it is no number.
pub fn draft_tokens(text: &str) -> Result<Option<i64>, String> {
    let text = text.trim();
    match text.parse() {
        Ok(tokens) => Ok(Some(tokens)),
        Err(_) if text.is_empty() => Ok(None),
        Err(_) => Err("Expected a whole number.".to_owned()),
    }
}

/// A whole, readable question, less the GPU and the dtype.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The model.
    pub config: Arc<ModelConfig>,
    /// vLLM's version.
    pub release: Release,
    /// What is left for the KV cache on each GPU.
    pub pool: AskedPool,
    /// Bytes that are free on each GPU when vLLM starts, if that is said.
    pub free_bytes: Option<u64>,
    /// The flags that are passed, each readable.
    flags: Vec<(Flag, String)>,
    /// What is asked of a drafter, if one is asked for.
    drafting: Option<AskedDrafter>,
    kv_cache_layout: Option<String>,
    allow_long: bool,
    usage: Usage,
    /// Flags and variables without a rule.
    unmodelled: Vec<String>,
}

/// `--speculative-config`.
#[derive(Debug, Clone, PartialEq)]
struct AskedDrafter {
    method: &'static str,
    json: String,
    /// Its own config.json, if it has one.
    config: Option<Arc<ModelConfig>>,
}

impl AskedDrafter {
    fn read(
        drafting: &Drafting,
        config: Option<Arc<ModelConfig>>,
        wrong: &mut Vec<(Field, String)>,
    ) -> Option<Self> {
        let method = drafting.method?;
        let takes_model = method.takes_model();
        let method = method.as_str();
        let mut json = format!("{{\"method\": {}", quoted(method));
        let mut put = |key: &str, value: &str| {
            json.push_str(", ");
            json.push_str(&quoted(key));
            json.push_str(": ");
            json.push_str(value);
        };
        // without a config, vLLM may still need a name
        let name = match &config {
            Some(config) => config.serve_as.clone(),
            None if takes_model => drafting.name(),
            None => String::new(),
        };
        if !name.is_empty() {
            put("model", &quoted(&name));
        }
        match draft_tokens(&drafting.tokens) {
            Ok(None) => {}
            Ok(Some(tokens)) => put("num_speculative_tokens", &tokens.to_string()),
            Err(error) => wrong.push((Field::DraftTokens, error)),
        }
        if let Some(dtype) = drafting.dtype {
            put("kv_cache_dtype", &quoted(dtype.as_str()));
        }
        json.push('}');
        Some(Self {
            method,
            json,
            config,
        })
    }
}

impl Asked {
    /// Reads every field. `config` is `None` while the catalog is not here, and so is
    /// `draft`, which is of a drafter that has one of its own.
    ///
    /// # Errors
    /// Every field that cannot be read, with what is wrong with it.
    pub fn read(
        input: &Input,
        config: Option<&Result<Arc<ModelConfig>, String>>,
        draft: Option<Option<&Result<Arc<ModelConfig>, String>>>,
    ) -> Result<Self, Vec<(Field, String)>> {
        let mut wrong = Vec::new();
        let mut take = |field, config: Option<&Result<Arc<ModelConfig>, String>>| match config {
            Some(Ok(config)) => Some(Arc::clone(config)),
            Some(Err(error)) => {
                wrong.push((field, error.clone()));
                None
            }
            None => None,
        };
        let config = take(Field::Config, config);
        let draft = draft.map(|draft| take(Field::DraftConfig, draft));
        let is_waiting = matches!(draft, Some(None));
        for (flag, text) in &input.flags {
            if let Err(error) = flag_value(*flag, text) {
                wrong.push((Field::Flag(*flag), error));
            }
        }
        let drafting = AskedDrafter::read(&input.drafting, draft.flatten(), &mut wrong);
        let pool = AskedPool::read(&input.pool_gib).unwrap_or_else(|error| {
            wrong.push((Field::Pool, error));
            AskedPool::Estimated
        });
        let free_bytes = gib(&input.free_gib).unwrap_or_else(|error| {
            wrong.push((Field::Free, error));
            None
        });
        match config {
            Some(config) if wrong.is_empty() && !is_waiting => Ok(Self {
                config,
                release: input.release,
                pool,
                free_bytes,
                flags: input.flags.clone(),
                drafting,
                kv_cache_layout: Some(input.kv_cache_layout.trim())
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned),
                allow_long: input.allow_long,
                usage: input.usage,
                unmodelled: input.unmodelled.clone(),
            }),
            _ => Err(wrong),
        }
    }

    /// The question for one cell.
    pub fn request(&self, gpu: &CatalogGpu, dtype: CacheDtype) -> Request {
        let mut args = EngineArgs::default();
        for (flag, text) in &self.flags {
            if let Ok(Some(value)) = flag_value(*flag, text) {
                // it has been set before
                let _ = args.set(*flag, &value);
            }
        }
        args.kv_cache_dtype = Some(dtype.as_str().to_owned());
        let drafter = self.drafting.as_ref();
        // it is JSON, for so it was written
        args.speculative_config =
            drafter.and_then(|drafter| kv_cases::parse_config(&drafter.json).ok());
        let draft = drafter.and_then(|drafter| drafter.config.as_ref());
        let (variables, flags): (Vec<_>, Vec<_>) = self
            .unmodelled
            .iter()
            .cloned()
            .partition(|name| name.starts_with("VLLM_"));
        args.unmodelled = flags;
        Request {
            release: self.release,
            hf_config: self.config.value.clone().into(),
            draft_config: draft.map(|config| config.value.clone()),
            gpu: gpu.gpu(),
            args,
            env: Environment {
                kv_cache_layout: self.kv_cache_layout.clone(),
                allow_long_max_model_len: self.allow_long,
                unmodelled: variables,
                ..Environment::default()
            },
            available_memory: match self.pool {
                AskedPool::Given(bytes) => Some(bytes),
                AskedPool::Estimated | AskedPool::Printed(_) => None,
            },
            free_memory: self.free_bytes,
            usage: self.usage,
        }
    }

    /// How tokens are drafted, for prose.
    pub fn draft_method(&self) -> Option<&'static str> {
        self.drafting.as_ref().map(|drafter| drafter.method)
    }

    /// Whether the GPU has less memory than the pool.
    pub fn pool_exceeds(&self, gpu: &CatalogGpu) -> bool {
        match self.pool {
            AskedPool::Given(bytes) => bytes > gpu.gpu().total_memory_bytes,
            AskedPool::Estimated | AskedPool::Printed(_) => false,
        }
    }

    /// Tokens of the longest request, as asked: -1 for what fits, `None` for the model's own.
    pub fn context_length(&self) -> Option<i64> {
        let text = self.text_of(Flag::MaxModelLen)?;
        match flag_value(Flag::MaxModelLen, text) {
            Ok(Some(Value::Integer(tokens))) => i64::try_from(tokens).ok(),
            Ok(_) | Err(_) => None,
        }
    }

    /// GPUs that share each layer, replicas or stages, for prose: where there are several.
    pub fn several(&self, flag: Flag) -> Option<i128> {
        match flag_value(flag, self.text_of(flag)?) {
            Ok(Some(Value::Integer(size))) => Some(size).filter(|size| *size > 1),
            Ok(_) | Err(_) => None,
        }
    }

    fn text_of(&self, flag: Flag) -> Option<&str> {
        self.flags
            .iter()
            .find(|(other, _)| *other == flag)
            .map(|(_, text)| text.trim())
    }

    /// The question as a case, one line of JSON.
    pub fn case(&self, gpu: &CatalogGpu, dtype: CacheDtype) -> String {
        let json = kv_cases::value_json;
        let mut case = String::from("{\"release\":");
        case.push_str(&quoted(self.release.version()));
        if self.config.is_known {
            case.push_str(",\"model\":");
            case.push_str(&json(&Value::String(self.config.serve_as.clone())));
        } else {
            case.push_str(",\"hf_config\":");
            case.push_str(&json(&self.config.value));
        }
        case.push_str(",\"gpu\":");
        case.push_str(&quoted(gpu.key));
        case.push_str(",\"args\":{\"kv_cache_dtype\":");
        case.push_str(&quoted(dtype.as_str()));
        for (flag, text) in &self.flags {
            if let Ok(Some(value)) = flag_value(*flag, text) {
                for part in [",\"", flag.name(), "\":", &json(&value)] {
                    case.push_str(part);
                }
            }
        }
        let drafter = self.drafting.as_ref();
        if let Some(drafter) = drafter {
            case.push_str(",\"speculative_config\":");
            case.push_str(&drafter.json);
        }
        case.push('}');
        if let Some(config) = drafter.and_then(|drafter| drafter.config.as_ref()) {
            case.push_str(",\"draft_hf_config\":");
            case.push_str(&json(&config.value));
        }
        let layout = self.kv_cache_layout.as_deref().map(str::to_owned);
        let allow_long = self.allow_long.then(|| "1".to_owned());
        let env = [
            ("VLLM_KV_CACHE_LAYOUT", layout),
            ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", allow_long),
        ];
        let env = env
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))));
        case.push_str(",\"env\":");
        case.push_str(&json(&Value::Object(env.collect())));
        let given = match self.pool {
            AskedPool::Given(bytes) => Some(bytes),
            AskedPool::Estimated | AskedPool::Printed(_) => None,
        };
        for (key, bytes) in [
            ("available_memory", given),
            ("free_memory", self.free_bytes),
        ] {
            if let Some(bytes) = bytes {
                for part in [",\"", key, "\":", &bytes.to_string()] {
                    case.push_str(part);
                }
            }
        }
        case.push_str(",\"usage\":");
        case.push_str(&quoted(self.usage.as_str()));
        case.push('}');
        case
    }

    /// The command that this question is about, with a cache dtype as a shell takes it.
    pub fn command(&self, dtype: &str) -> String {
        let mut command = String::new();
        if let Some(layout) = &self.kv_cache_layout {
            command.push_str("VLLM_KV_CACHE_LAYOUT=");
            command.push_str(&shell(layout));
            command.push(' ');
        }
        if self.allow_long {
            command.push_str("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 ");
        }
        command.push_str("vllm serve ");
        command.push_str(&shell(&self.config.serve_as));
        command.push_str(" --kv-cache-dtype ");
        command.push_str(dtype);
        for (flag, text) in &self.flags {
            match flag_value(*flag, text) {
                Ok(Some(Value::Bool(true))) => {
                    command.push(' ');
                    command.push_str(&flag.option());
                }
                Ok(Some(Value::Bool(false))) => {
                    command.push_str(" --no-");
                    command.push_str(flag.option().trim_start_matches("--"));
                }
                Ok(Some(_)) => {
                    command.push(' ');
                    command.push_str(&flag.option());
                    command.push(' ');
                    command.push_str(&shell(text.trim()));
                }
                Ok(None) | Err(_) => {}
            }
        }
        if let Some(drafter) = &self.drafting {
            command.push_str(" --speculative-config ");
            command.push_str(&shell(&drafter.json));
        }
        command
    }
}

/// A word that a shell takes whole.
fn shell(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::shelf;
    use crate::page::Page;

    fn read(input: &Input) -> Result<Arc<Asked>, Vec<(Field, String)>> {
        let page = Page::new(input, &shelf(), None);
        page.answers.map(|answers| answers.asked).ok_or(page.wrong)
    }

    #[test]
    fn the_default_question_is_readable() {
        let input = Input::default();
        let asked = read(&input).unwrap();
        let request = asked.request(input.gpu, input.dtype);
        assert_eq!(request.args.tensor_parallel_size, Some(8));
        assert_eq!(request.args.max_model_len, Some(262_144));
        assert_eq!(request.available_memory, None);
        assert_eq!(asked.pool, AskedPool::Estimated);
        assert_eq!(
            asked.command(input.dtype.as_str()),
            "vllm serve deepseek-ai/DeepSeek-V4-Flash --kv-cache-dtype auto \
             --tensor-parallel-size 8 --max-model-len 262144"
        );
    }

    #[test]
    fn every_wrong_field_is_named() {
        let mut input = Input::default();
        input.set_flag(Flag::TensorParallelSize, "eight");
        input.set_flag(Flag::BlockSize, "99999999999999999999");
        input.pool_gib = "-3".to_owned();
        let fields: Vec<Field> = read(&input)
            .unwrap_err()
            .into_iter()
            .map(|(field, _)| field)
            .collect();
        assert_eq!(
            fields,
            [
                Field::Flag(Flag::TensorParallelSize),
                Field::Flag(Flag::BlockSize),
                Field::Pool,
            ]
        );
    }

    #[test]
    fn only_several_gpus_are_counted() {
        let mut input = Input::default();
        for (text, several) in [("8", Some(8)), ("1", None), ("0", None), ("-1", None)] {
            input.set_flag(Flag::TensorParallelSize, text);
            let asked = read(&input).unwrap();
            assert_eq!(asked.several(Flag::TensorParallelSize), several, "{text}");
        }
    }

    #[test]
    fn pasted_text_that_is_no_config_is_refused() {
        let refused = |text: &str| pasted_config(text).unwrap_err();
        assert!(refused("  ").starts_with("Paste"));
        assert!(refused("hello").starts_with("This is not JSON"));
        assert!(refused("[1]").contains("an array"));
        assert!(refused(&"x".repeat(10 << 20)).contains("10,485,760 bytes"));
        // nested beyond any config: an error, not an overflow
        assert!(refused(&"[".repeat(100_000)).starts_with("This is not JSON"));
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(shell("BLHNC"), "BLHNC");
        assert_eq!(shell("a b'c"), r"'a b'\''c'");
    }
}
