//! The containers of a compose file or of a Kubernetes manifest: their images, words and variables. Only those
//! keys are read, by the indentation of their lines.

use std::ops::Range;

use kv_resolver::Value;
use kv_resolver::release::options::Options;

use crate::python;
use crate::shell::{Shell, Word};

/// One container.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub image: String,
    entry: Option<Vec<Word>>,
    command: Option<Vec<Word>>,
    args: Option<Vec<Word>>,
    pub variables: Vec<(String, String)>,
}

impl Service {
    /// What is started, word by word.
    pub(crate) fn words(&self) -> Vec<Word> {
        [&self.entry, &self.command, &self.args]
            .into_iter()
            .flatten()
            .flatten()
            .cloned()
            .collect()
    }

    const fn is_empty(&self) -> bool {
        self.image.is_empty()
            && self.entry.is_none()
            && self.command.is_none()
            && self.args.is_none()
            && self.variables.is_empty()
    }
}

struct Line<'a> {
    indent: usize,
    /// Without its indentation, and without a comment.
    text: &'a str,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        let text = line.trim_start_matches(' ');
        Self {
            indent: line.len() - text.len(),
            text: text.trim_end(),
        }
    }
}

/// The key that a line begins with, behind the dash of an item, and what follows it.
fn key<'a>(line: &Line<'a>) -> Option<(usize, &'a str, &'a str)> {
    let mut text = line.text;
    let mut indent = line.indent;
    while let Some(rest) = text.strip_prefix("- ") {
        let rest = rest.trim_start();
        indent += text.len() - rest.len();
        text = rest;
    }
    let (key, value) = text.split_once(':')?;
    let is_key = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_key && (value.is_empty() || value.starts_with(' '))).then(|| (indent, key, value.trim()))
}

/// Every container, and whether there is any of the keys.
pub(crate) fn services(text: &str) -> Vec<Service> {
    let lines: Vec<Line> = text.lines().map(Line::new).collect();
    let mut all = Vec::new();
    let mut now = Service::default();
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        at += 1;
        let Some((indent, name, value)) = key(line) else {
            continue;
        };
        let is_again = match name {
            "image" => !now.image.is_empty(),
            "entrypoint" => now.entry.is_some(),
            "command" => now.command.is_some(),
            "args" | "extraArgs" => now.args.is_some(),
            "environment" | "env" => !now.variables.is_empty(),
            _ => continue,
        };
        if is_again {
            all.push(std::mem::take(&mut now));
        }
        match name {
            "image" => scalar(value).0.clone_into(&mut now.image),
            "environment" | "env" => now.variables = variables(&lines, &mut at, indent),
            _ => {
                let words = words(&lines, &mut at, indent, value);
                match name {
                    "entrypoint" => now.entry = Some(words),
                    "command" => now.command = Some(words),
                    _ => now.args = Some(words),
                }
            }
        }
    }
    all.push(now);
    all.retain(|service| !service.is_empty());
    all
}

/// More keys than any file of options has: each is looked for among all options.
const MOST_KEYS: usize = 200;

/// The options of a file for `--config`, and where they stand.
pub(crate) struct Config {
    pub words: Vec<Word>,
    pub place: Range<usize>,
    /// Whether nothing stands before them.
    pub is_first: bool,
    /// Options with lines below them that are no list.
    pub nested: Vec<String>,
}

/// The first lines that are a map of options. Mirrors `vllm/utils/argparse_utils.py` `load_config_file`.
pub(crate) fn config(text: &str, options: Options) -> Option<Config> {
    let top = |line: &Line<'_>| {
        let (key, value) = line.text.split_once(':')?;
        let is_key = line.indent == 0
            && key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            && (value.is_empty() || value.starts_with(' '));
        is_key.then(|| (key.replace('_', "-"), value.trim().to_owned()))
    };
    let known = |key: &str| options.exact(&["--", key].concat()).is_some();
    let lines: Vec<Line> = text.lines().map(Line::new).collect();
    let is_empty =
        |line: &Line| line.text.is_empty() || line.text == "---" || line.text.starts_with('#');
    let tops = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, top(line)?.0)));
    let (first, _) = tops.take(MOST_KEYS).find(|(_, key)| known(key))?;
    let mut config = Config {
        words: Vec::new(),
        place: 0..0,
        is_first: lines[..first].iter().all(is_empty),
        nested: Vec::new(),
    };
    let (mut at, mut keys, mut known_keys) = (first, 0, 0);
    while let Some(line) = lines.get(at) {
        let Some((key, value)) = top(line) else {
            if is_empty(line) {
                at += 1;
                continue;
            }
            break;
        };
        at += 1;
        keys += 1;
        if keys > MOST_KEYS {
            break;
        }
        known_keys += usize::from(known(&key));
        let option = ["--", &key].concat();
        let is_list = value.starts_with('[')
            || value.is_empty()
                && lines
                    .get(at)
                    .is_some_and(|line| line.text.starts_with("- "));
        if is_list {
            let items = words(&lines, &mut at, 0, &value);
            if !items.is_empty() {
                config.words.push(Word::new(&option));
                config.words.extend(items);
            }
            continue;
        }
        let is_nested = (value.is_empty() || value.starts_with('#'))
            && lines.get(at).is_some_and(|line| line.indent > 0);
        if is_nested {
            match map(&lines, &mut at) {
                Some(map) => config
                    .words
                    .extend([Word::new(&option), Word::new(&crate::argv::json(&map))]),
                None => config.nested.push(option),
            }
            continue;
        }
        let text = string(&lines, &mut at, 0, &value);
        match text.to_ascii_lowercase().as_str() {
            "true" => config.words.push(Word::new(&option)),
            "false" => {
                let negated = ["no-", &key].concat();
                if known(&negated) {
                    config.words.push(Word::new(&["--", &negated].concat()));
                }
            }
            _ => {
                let text = match text.as_str() {
                    "" | "null" | "~" => "None".to_owned(),
                    map if map.starts_with('{') => crate::argv::json(&python::literal(map).value),
                    text => text.to_owned(),
                };
                config.words.extend([Word::new(&option), Word::new(&text)]);
            }
        }
    }
    let start_of = |line: usize| {
        let before = text.split_inclusive('\n').take(line);
        before.map(str::len).sum::<usize>()
    };
    config.place = start_of(first)..start_of(at);
    (known_keys * 2 >= keys).then_some(config)
}

/// The keys below one, if all are of one depth with a scalar each.
fn map(lines: &[Line], at: &mut usize) -> Option<Value> {
    let mut entries = Vec::new();
    let mut depth = None;
    let mut is_flat = true;
    while let Some(line) = lines.get(*at) {
        if line.indent == 0 && !line.text.is_empty() {
            break;
        }
        *at += 1;
        if line.text.is_empty() || line.text.starts_with('#') {
            continue;
        }
        let Some((indent, key, value)) = key(line) else {
            is_flat = false;
            continue;
        };
        let value = value.split(" #").next().unwrap_or_default();
        is_flat &= !value.is_empty() && *depth.get_or_insert(indent) == indent;
        entries.push((key.to_owned(), python::literal(value).value));
    }
    is_flat.then_some(Value::Object(entries))
}

/// A list of words that stands alone.
pub(crate) fn list(text: &str) -> Vec<Word> {
    let lines: Vec<Line> = text.lines().map(Line::new).collect();
    items(&lines, &mut 0, 0)
}

/// The value behind a key that is words.
fn words(lines: &[Line], at: &mut usize, indent: usize, value: &str) -> Vec<Word> {
    if value.starts_with('[') {
        let mut text = value.to_owned();
        // twice as many lines each time: what is left open is not read anew with every line
        let mut more = 1;
        let mut rest = lines[*at..].iter();
        while !python::bracketed(&text).1 && !rest.as_slice().is_empty() {
            if text.len() >= MOST_FLOW_BYTES {
                break;
            }
            for line in rest.by_ref().take(more) {
                text.push('\n');
                text.push_str(line.text);
            }
            more *= 2;
        }
        let (inside, is_whole) = python::bracketed(&text);
        *at = if is_whole {
            *at + inside.matches('\n').count()
        } else {
            lines.len() - rest.len()
        };
        return flow(&text);
    }
    if value.is_empty() || value.starts_with('#') {
        let first = lines[*at..].iter().find(|line| !line.text.is_empty());
        if first.is_some_and(|line| line.text.starts_with("- ") || line.text == "-") {
            return items(lines, at, indent);
        }
    }
    // a string is read as a shell would
    let text = string(lines, at, indent, value);
    let mut shell = Shell::new(&text);
    let mut words = Vec::new();
    while let Some(statement) = shell.statement() {
        words.extend(statement);
        words.push(Word::new(BREAK));
    }
    words.pop();
    words
}

/// Stands between the statements of a string.
pub(crate) const BREAK: &str = "\n";
const MOST_FLOW_BYTES: usize = 1 << 16;

/// `["a", b]`
pub(crate) fn flow(text: &str) -> Vec<Word> {
    let (inside, is_whole) = python::bracketed(text);
    python::entries(inside, ',', is_whole)
        .into_iter()
        .map(|(item, _)| {
            let (text, is_open) = scalar(item);
            Word { text, is_open }
        })
        .collect()
}

/// Items, a line each, of which some go on below.
fn items(lines: &[Line], at: &mut usize, indent: usize) -> Vec<Word> {
    let mut words = Vec::new();
    while let Some(line) = lines.get(*at) {
        if line.text.is_empty() || line.text.starts_with('#') {
            *at += 1;
            continue;
        }
        let Some(item) = line
            .text
            .strip_prefix('-')
            .filter(|rest| rest.is_empty() || rest.starts_with(' '))
        else {
            break;
        };
        if line.indent < indent {
            break;
        }
        *at += 1;
        let text = string(lines, at, line.indent, item.trim());
        let is_open = text.contains("$(") || text.contains("${");
        words.push(Word { text, is_open });
    }
    words
}

/// A scalar with the lines below that belong to it: those that are indented further.
fn string(lines: &[Line], at: &mut usize, indent: usize, value: &str) -> String {
    let style = value.chars().next().filter(|c| matches!(c, '|' | '>'));
    let mut text = match style {
        Some(_) => String::new(),
        None => value.to_owned(),
    };
    let joint = if style == Some('|') { '\n' } else { ' ' };
    while let Some(line) = lines.get(*at) {
        if !line.text.is_empty() && line.indent <= indent {
            break;
        }
        *at += 1;
        if !text.is_empty() && !line.text.is_empty() {
            text.push(joint);
        }
        text.push_str(line.text);
    }
    if style.is_some() {
        return text.trim_end().to_owned();
    }
    scalar(&text).0
}

/// Without quotes or a comment; and whether a variable is left in it.
fn scalar(text: &str) -> (String, bool) {
    let text = text.trim();
    let value = if let Some(inside) = text.strip_prefix('\'') {
        let inside = inside
            .rsplit_once('\'')
            .map_or(inside, |(inside, _)| inside);
        inside.replace("''", "'")
    } else if text.starts_with('"') {
        match python::literal(
            text.rsplit_once('"')
                .map_or(text, |(inside, _)| &text[..=inside.len()]),
        )
        .value
        {
            kv_resolver::Value::String(text) => text,
            _ => text.to_owned(),
        }
    } else {
        text.split(" #")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned()
    };
    let is_open = value.contains("$(") || value.contains("${");
    (value, is_open)
}

/// `A: b`, `- A=b`, or `- name: A` and `value: b`.
fn variables(lines: &[Line], at: &mut usize, indent: usize) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut name = None;
    while let Some(line) = lines.get(*at) {
        let is_item = line.text.starts_with("- ");
        if !line.text.is_empty() && (line.indent < indent || line.indent == indent && !is_item) {
            break;
        }
        *at += 1;
        match key(line) {
            Some((_, "name", value)) => name = Some(scalar(value).0),
            Some((_, "value", value)) => {
                all.extend(name.take().map(|name| (name, scalar(value).0)));
            }
            Some((_, key, value)) if name.is_none() && !is_item => {
                all.push((key.to_owned(), scalar(value).0));
            }
            Some(_) => {}
            None => {
                let item = scalar(line.text.trim_start_matches("- ")).0;
                if let Some((name, value)) = item.split_once('=') {
                    all.push((name.to_owned(), value.to_owned()));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[Word]) -> Vec<&str> {
        words.iter().map(|word| word.text.as_str()).collect()
    }

    #[test]
    fn a_compose_file() {
        let all = services(
            "services:\n  vllm:\n    image: vllm/vllm-openai:v0.31.0  # pinned\n    environment:\n      - VLLM_X=1\n      - HF_TOKEN\n    \
             command: >\n      --model meta/x\n      --tensor-parallel-size 2\n    ports:\n      - \"8000:8000\"\n  web:\n    image: nginx\n    environment:\n      A: \"b\"\n    command: [\"a b\", 'c', --d=1]\n",
        );
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].image, "vllm/vllm-openai:v0.31.0");
        assert_eq!(
            texts(&all[0].words()),
            ["--model", "meta/x", "--tensor-parallel-size", "2"]
        );
        assert_eq!(all[0].variables, [("VLLM_X".to_owned(), "1".to_owned())]);
        assert_eq!(texts(&all[1].words()), ["a b", "c", "--d=1"]);
        assert_eq!(all[1].variables, [("A".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn a_manifest() {
        let all = services(
            "containers:\n- name: vllm\n  image: \"vllm/vllm-openai:latest\"\n  command: [\"/bin/sh\", \"-c\"]\n  args:\n  - |\n    vllm serve meta/x \\\n      -tp 2\n  env:\n  - name: VLLM_A\n    value: \"1\"\n  - name: HF_TOKEN\n    valueFrom:\n      secretKeyRef:\n        name: x\n        key: y\n  resources:\n    limits: {}\n",
        );
        assert_eq!(all.len(), 1);
        assert_eq!(
            texts(&all[0].words()),
            ["/bin/sh", "-c", "vllm serve meta/x \\\n-tp 2"]
        );
        assert_eq!(all[0].variables, [("VLLM_A".to_owned(), "1".to_owned())]);
    }
}
