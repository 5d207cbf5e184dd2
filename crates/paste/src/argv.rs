//! The words behind `vllm serve` as vLLM's own parser takes them. Mirrors `vllm/utils/argparse_utils.py`
//! `FlexibleArgumentParser.parse_args` and, below it, Python's `argparse`.

use kv_resolver::release::options::{CliOption, OptionError, Options, Takes};
use kv_resolver::{Flag, FlagKind, Value};

use crate::dotted::{dotted, is_negative, merge, nested};
use crate::problem::Problem;
use crate::secret;
use crate::shell::Word;

/// One option with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Set {
    /// As it was written.
    pub spelled: String,
    pub option: CliOption,
    pub value: Value,
}

/// A word that belongs to no option.
#[derive(Debug)]
pub(crate) struct Positional {
    /// Empty for one that is not in the text.
    pub word: String,
    /// The unknown option that it stands right behind.
    pub behind: Option<String>,
    /// Its place among the words that nothing takes.
    pub place: usize,
}

/// What the parser made of the words.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub set: Vec<Set>,
    /// The words that belong to no option.
    pub positional: Vec<Positional>,
    pub problems: Vec<Problem>,
    /// What argparse ends with, in its words.
    pub error: Option<String>,
    /// The words that nothing takes, in their order.
    pub unrecognized: Vec<String>,
}

/// Reads the words.
pub(crate) fn parse(words: &[Word], options: Options) -> Parsed {
    let mut parser = Parser {
        options,
        unknown: None,
        has_ambiguous: false,
        out: Parsed::default(),
    };
    let words = Parser::normal(words);
    let words = parser.join_dotted(words);
    let mut at = 0;
    while at < words.len() {
        at += parser.step(&words[at..]);
    }
    parser.out
}

struct Parser {
    options: Options,
    /// The option before, if it is unknown and words are behind it.
    unknown: Option<String>,
    has_ambiguous: bool,
    out: Parsed,
}

impl Parser {
    /// Dashes for underscores in names, and `-O3` as the long option.
    fn normal(words: &[Word]) -> Vec<Word> {
        let mut normal = Vec::with_capacity(words.len());
        for (at, word) in words.iter().enumerate() {
            let text = &word.text;
            let long = |text: &str| Word {
                text: text.to_owned(),
                is_open: word.is_open,
            };
            if text.starts_with("--") {
                let end = text.find(['=', '.']).unwrap_or(text.len());
                let name = text[..end].replace('_', "-");
                normal.push(long(&[&name, &text[end..]].concat()));
            } else if let Some(level) = text.strip_prefix("-O").filter(|level| !level.is_empty()) {
                normal.push(long("--optimization-level"));
                normal.push(long(level.strip_prefix('=').unwrap_or(level)));
            } else if text == "-O"
                && words
                    .get(at + 1)
                    .is_some_and(|next| matches!(next.text.as_str(), "0" | "1" | "2" | "3"))
            {
                normal.push(long("--optimization-level"));
            } else {
                normal.push(word.clone());
            }
        }
        normal
    }

    /// `--speculative-config.method mtp` and the like as one option with JSON, which comes last.
    fn join_dotted(&mut self, words: Vec<Word>) -> Vec<Word> {
        let mut joined = Vec::with_capacity(words.len());
        let mut configs: Vec<(String, Value)> = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some((option, keys, value)) = dotted(&word.text) else {
                joined.push(word);
                continue;
            };
            let (value, is_open) = if let Some(value) = value {
                (value.to_owned(), word.is_open)
            } else if let Some(next) = words.next() {
                (next.text, next.is_open)
            } else {
                self.error("IndexError: list index out of range".to_owned());
                // argparse is not asked at all
                self.has_ambiguous = true;
                self.out.problems.push(Problem::NoValue(word.text));
                continue;
            };
            if is_open {
                self.out.problems.push(Problem::Open {
                    option: word.text,
                    text: value,
                });
                continue;
            }
            let nested = nested(keys, &value);
            match configs.iter_mut().find(|(known, _)| known == option) {
                Some((_, config)) => merge(config, nested),
                None => configs.push((option.to_owned(), nested)),
            }
        }
        for (option, config) in configs {
            joined.push(Word::new(&option));
            joined.push(Word::new(&json(&config)));
        }
        joined
    }

    /// Takes the first word, with the values that belong to it; how many words those are.
    fn step(&mut self, words: &[Word]) -> usize {
        let word = &words[0];
        let Some((spelled, found, explicit)) = self.as_option(word) else {
            if word.text != "--" {
                self.positional(word);
            }
            return 1;
        };
        self.unknown = None;
        let option = match found {
            Ok(option) => option,
            Err(OptionError::Unknown) => {
                self.out
                    .unrecognized
                    .push(whole(&spelled, explicit.as_deref()));
                if explicit.is_none() {
                    self.unknown = Some(spelled.clone());
                }
                self.out.problems.push(Problem::Unknown(spelled));
                return 1;
            }
            Err(OptionError::Ambiguous(one, two)) => {
                self.ambiguous(&whole(&spelled, explicit.as_deref()), one, two);
                self.out.problems.push(Problem::Ambiguous {
                    option: spelled,
                    one,
                    two,
                });
                return 1;
            }
        };
        let values: Vec<&Word> = words[1..]
            .iter()
            .take_while(|word| self.as_option(word).is_none() && word.text != "--")
            .take(MOST_VALUES)
            .collect();
        let explicit = explicit.map(|text| Word {
            text,
            is_open: word.is_open,
        });
        match (option.takes, explicit) {
            (Takes::Switch(_), Some(value)) => {
                let shown = if secret::is_secret(&spelled) {
                    "…"
                } else {
                    &value.text
                };
                let shown = secret::shown(shown);
                self.argument(
                    option,
                    &["ignored explicit argument '", &shown, "'"].concat(),
                );
                self.out.problems.push(Problem::NotTaken {
                    option: spelled,
                    value: secret::shown(&value.text),
                });
                1
            }
            (Takes::Switch(on), None) => {
                self.set(spelled, option, Value::Bool(on));
                1
            }
            (Takes::Value | Takes::MayValue | Takes::Values, Some(value)) => {
                self.values(spelled, option, &[&value]);
                1
            }
            (Takes::MayValue, None) if values.is_empty() => {
                self.set(spelled, option, Value::Bool(true));
                1
            }
            (_, None) if values.is_empty() => {
                self.argument(
                    option,
                    if option.takes == Takes::Values {
                        "expected at least one argument"
                    } else {
                        "expected one argument"
                    },
                );
                self.out.problems.push(Problem::NoValue(spelled));
                1
            }
            (Takes::Values, None) => {
                self.values(spelled, option, &values);
                1 + values.len()
            }
            (Takes::Value | Takes::MayValue, None) => {
                self.values(spelled, option, &values[..1]);
                2
            }
        }
    }

    /// The option that a word is, how it is spelled, and the value behind its `=`; `None` of a word that is none.
    /// Mirrors `argparse` `ArgumentParser._parse_optional`.
    fn as_option(
        &self,
        word: &Word,
    ) -> Option<(String, Result<CliOption, OptionError>, Option<String>)> {
        let text = &word.text;
        if !text.starts_with('-') || text.len() == 1 || text == "--" {
            return None;
        }
        if let Some(option) = self.options.exact(text) {
            return Some((text.clone(), Ok(option), None));
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_str(), None),
        };
        if value.is_some()
            && let Some(option) = self.options.exact(name)
        {
            return Some((name.to_owned(), Ok(option), value));
        }
        let found = if name.starts_with("--") {
            self.options.find(name)
        } else {
            match text.char_indices().nth(2) {
                // a letter with its value right behind it
                Some((end, _)) if self.options.exact(&text[..end]).is_some() => {
                    let option = self.options.find(&text[..end]);
                    return Some((text[..end].to_owned(), option, Some(text[end..].to_owned())));
                }
                // the value of one that is abbreviated is not split off
                _ => self.options.find(text),
            }
        };
        if found == Err(OptionError::Unknown) && (is_negative(text) || text.contains(' ')) {
            return None;
        }
        Some((name.to_owned(), found, value))
    }

    fn positional(&mut self, word: &Word) {
        if word.is_open {
            self.out.problems.push(Problem::Open {
                option: String::new(),
                text: word.text.clone(),
            });
            // it has its place all the same
            self.out.positional.push(Positional {
                word: String::new(),
                behind: None,
                place: self.out.unrecognized.len(),
            });
            self.out.unrecognized.push(word.text.clone());
        } else {
            self.out.positional.push(Positional {
                word: word.text.clone(),
                behind: self.unknown.clone(),
                place: self.out.unrecognized.len(),
            });
            self.out.unrecognized.push(match self.unknown {
                Some(_) => "…".to_owned(),
                None => secret::shown(&word.text),
            });
        }
    }

    fn set(&mut self, spelled: String, option: CliOption, value: Value) {
        // of the same option twice, the last counts
        self.out.set.retain(|set| set.option.name != option.name);
        self.out.set.push(Set {
            spelled,
            option,
            value,
        });
    }

    fn values(&mut self, spelled: String, option: CliOption, words: &[&Word]) {
        if let Some(open) = words.iter().find(|word| word.is_open) {
            self.out.problems.push(Problem::Open {
                option: spelled,
                text: open.text.clone(),
            });
            return;
        }
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match value(option, &texts) {
            Ok(value) => self.set(spelled, option, value),
            Err(why) => {
                let text = texts.first().copied().unwrap_or_default();
                self.argument(option, &not_of_type(option, text));
                self.out.problems.push(Problem::Wrong {
                    option: spelled,
                    why,
                });
            }
        }
    }

    /// The first that argparse stops at.
    fn error(&mut self, text: String) {
        self.out.error.get_or_insert(text);
    }

    /// argparse looks for these before it takes any.
    fn ambiguous(&mut self, option: &str, one: &str, two: &str) {
        if !self.has_ambiguous {
            self.has_ambiguous = true;
            let (one, two) = (long(one), long(two));
            let parts = [
                "vllm serve: error: ambiguous option: ",
                option,
                " could match ",
                &one,
                ", ",
                &two,
                ", …",
            ];
            self.out.error = Some(parts.concat());
        }
    }

    /// `argument --x/-y: …`
    fn argument(&mut self, option: CliOption, says: &str) {
        // the first is what it ends with
        if self.out.error.is_some() {
            return;
        }
        let mut name = long(option.name);
        let is_its = |spelled: &str| {
            let other = self.options.exact(spelled);
            other.is_some_and(|other| other.name == option.name)
        };
        for other in OTHER_NAMES.split(' ').filter(|other| is_its(other)) {
            name.push('/');
            name.push_str(other);
        }
        if matches!(option.takes, Takes::Switch(_)) {
            let bare = &long(option.name)[2..];
            let inverse = match bare.split_once('-') {
                Some(("enable", rest)) => ["--disable-", rest].concat(),
                Some(("disable", rest)) => ["--enable-", rest].concat(),
                _ => String::new(),
            };
            let negated = [inverse, ["--no-", bare].concat()];
            if let Some(other) = negated.iter().find(|other| is_its(other)) {
                name.push('/');
                name.push_str(other);
            }
        }
        self.error(["vllm serve: error: argument ", &name, ": ", says].concat());
    }
}

/// Second names of options with values, and of `--enable-expert-parallel`.
const OTHER_NAMES: &str = "--device-memory-utilization -tp -pp -dp -dcp -pcp -dpl -dpn -dpr -dpa -dpp -dpb -n -r -q -sc -cc -ac -dc -asc -ep";

/// An option with the value behind its `=`, as far as that may be told.
fn whole(spelled: &str, value: Option<&str>) -> String {
    match value {
        Some(_) if secret::is_secret(spelled) => [spelled, "=…"].concat(),
        Some(value) => [spelled, "=", &secret::shown(value)].concat(),
        None => spelled.to_owned(),
    }
}

fn long(name: &str) -> String {
    ["--", &name.replace('_', "-")].concat()
}

/// What argparse says of a value.
/// Mirrors `vllm/engine/arg_utils.py` `parse_type` and `vllm/utils/argparse_utils.py` `human_readable_int`.
fn not_of_type(option: CliOption, text: &str) -> String {
    let flag = option.name.parse::<Flag>().ok();
    let (name, place) = match flag.map(Flag::kind) {
        Some(FlagKind::HumanInteger) if flag == Some(Flag::MaxModelLen) => {
            ("human_readable_int_or_auto", true)
        }
        Some(FlagKind::HumanInteger) => ("human_readable_int", true),
        Some(FlagKind::Float) => ("float", false),
        Some(_) => ("int", false),
        None if option.name == "spec_tokens" => ("int", false),
        // what is in it is nobody's business
        None => return "Value … cannot be converted to <function loads at 0x…>.".to_owned(),
    };
    let trimmed = text.trim();
    if let Some(suffix) = trimmed
        .chars()
        .last()
        .filter(|suffix| "KMGT".contains(*suffix))
        && place
        && let Some((whole, fraction)) = trimmed[..trimmed.len() - 1].split_once('.')
        && is_digits(whole)
        && is_digits(fraction)
    {
        let suffix = suffix.to_string();
        return [
            "Decimals are not allowed with binary suffixes like ",
            &suffix,
            ". Did you mean to use ",
            &trimmed[..trimmed.len() - 1],
            &suffix.to_ascii_lowercase(),
            " instead?",
        ]
        .concat();
    }
    let text = secret::shown(text);
    if flag.is_none_or(Flag::takes_null) {
        let of = if place {
            ["<function ", name, " at 0x…>."].concat()
        } else {
            ["<class '", name, "'>."].concat()
        };
        return ["Value ", &text, " cannot be converted to ", &of].concat();
    }
    ["invalid ", name, " value: '", &text, "'"].concat()
}

/// `1_024` without what Python's `int()` takes between digits; `None` of anything else.
fn whole_number(text: &str) -> Option<String> {
    let digits = text.trim().trim_start_matches(['+', '-']);
    (text.contains('_') && digits.split('_').all(is_digits)).then(|| text.replace('_', ""))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// More values than any option has.
const MOST_VALUES: usize = 1024;

/// The value as the option's type makes it.
fn value(option: CliOption, texts: &[&str]) -> Result<Value, String> {
    let text = texts.first().copied().unwrap_or_default();
    if option.takes == Takes::Values {
        let items = texts.iter().map(|text| Value::String((*text).to_owned()));
        return Ok(Value::Array(items.collect()));
    }
    if let Ok(flag) = option.name.parse::<Flag>() {
        // `vllm/engine/arg_utils.py` `optional_type`
        if flag.takes_null() && matches!(text, "" | "None") {
            return Ok(Value::Null);
        }
        let whole = whole_number(text);
        let text = match flag.kind() {
            // human_readable_int() ends in int() as well
            FlagKind::Integer | FlagKind::HumanInteger => whole.as_deref().unwrap_or(text),
            _ => text,
        };
        return flag.parse_text(text).map_err(|error| error.to_string());
    }
    if text == "None" {
        return Ok(Value::Null);
    }
    if option.name == "spec_tokens" {
        let whole = whole_number(text);
        let number = whole.as_deref().unwrap_or(text).trim().parse();
        let number = number.map(Value::Integer);
        return number.map_err(|_| "expected a whole number".to_owned());
    }
    if option.name.ends_with("_config") {
        return match serde_json::from_str(text) {
            Ok(value) => Ok(value),
            // some are names or numbers as well
            Err(_) if !text.trim_start().starts_with('{') && option.name != SPECULATIVE => {
                Ok(Value::String(text.to_owned()))
            }
            Err(_) => Err("expected JSON".to_owned()),
        };
    }
    Ok(Value::String(text.to_owned()))
}

const SPECULATIVE: &str = kv_resolver::args::SPECULATIVE_CONFIG;

pub(crate) fn json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv_resolver::Release;

    fn parsed(text: &str) -> Parsed {
        let words: Vec<Word> = text.split(' ').map(Word::new).collect();
        parse(&words, Release::LATEST.options())
    }

    fn set(text: &str) -> Vec<(&'static str, String)> {
        let parsed = parsed(text);
        assert_eq!(parsed.problems, [], "{text}");
        parsed
            .set
            .iter()
            .map(|set| (set.option.name, json(&set.value)))
            .collect()
    }

    #[test]
    fn options_as_argparse_takes_them() {
        assert_eq!(
            set(
                "-tp 8 --kv_cache_dtype=fp8 --max-model-l 32K -O3 -q=awq --no-enable-prefix-caching -ep"
            ),
            [
                ("tensor_parallel_size", "8".into()),
                ("kv_cache_dtype", "\"fp8\"".into()),
                ("max_model_len", "32768".into()),
                ("optimization_level", "\"3\"".into()),
                ("quantization", "\"awq\"".into()),
                ("enable_prefix_caching", "false".into()),
                ("enable_expert_parallel", "true".into()),
            ]
        );
        assert_eq!(
            set("--max-num-seqs 1_024 --max-model-len 32_768"),
            [
                ("max_num_seqs", "1024".into()),
                ("max_model_len", "32768".into())
            ]
        );
        for text in [
            "--max-num-seqs _1",
            "--max-num-seqs 1__0",
            "--max-model-len 1_0k",
        ] {
            assert_ne!(parsed(text).problems, [], "{text}");
        }
        // of two the last, a negative number is a value, and words in a row
        assert_eq!(
            set(
                "-tp 8 -tp 4 --max-model-len -1 --kv-cache-dtype-skip-layers 0 sliding_window --async-scheduling"
            ),
            [
                ("tensor_parallel_size", "4".into()),
                ("max_model_len", "-1".into()),
                (
                    "kv_cache_dtype_skip_layers",
                    "[\"0\",\"sliding_window\"]".into()
                ),
                ("async_scheduling", "true".into()),
            ]
        );
    }

    #[test]
    fn keys_behind_dots_are_one_option() {
        assert_eq!(
            set(
                "--speculative_config.method mtp -sc.num_speculative_tokens=3 --compilation-config.a.b+ x,y -cc.c 1k"
            ),
            [
                // a short name with dots is another option to the parser, which takes the last of both
                (
                    "speculative_config",
                    r#"{"num_speculative_tokens":3}"#.into()
                ),
                ("compilation_config", r#"{"c":1000}"#.into()),
            ]
        );
        assert_eq!(
            set(
                "--speculative-config.method mtp --speculative-config.a.b+ x,y --speculative-config.a.b+ z"
            ),
            [(
                "speculative_config",
                r#"{"method":"mtp","a":{"b":["x","y","z"]}}"#.into()
            )]
        );
    }

    #[test]
    fn what_the_parser_stops_at_is_told() {
        assert_eq!(
            parsed("--tensor-paralel 2 -d 8 --kv-cache-dtype --enforce-eager=1 --block-size x")
                .problems,
            [
                Problem::Unknown("--tensor-paralel".into()),
                Problem::Ambiguous {
                    option: "-d".into(),
                    one: "diffusion_config",
                    two: "decode_context_parallel_size",
                },
                Problem::NoValue("--kv-cache-dtype".into()),
                Problem::NotTaken {
                    option: "--enforce-eager".into(),
                    value: "1".into()
                },
                Problem::Wrong {
                    option: "--block-size".into(),
                    why: "block_size: expected a whole number, got \"x\"".into()
                },
            ]
        );
    }
}
