//! Python's literals, as vLLM logs them and as its users write them. They are respelled as JSON, which is then
//! read by the reader that is there anyway.

use kv_resolver::Value;
use kv_resolver::units::parse_float;

/// Stands before what is no literal: a name, a call, an `<Enum.X: 3>`.
const RAW: char = '\u{1}';

/// A value, and whether all of it was a literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Literal {
    pub value: Value,
    pub is_whole: bool,
}

/// Reads a literal. What is none becomes a string of itself.
pub(crate) fn literal(text: &str) -> Literal {
    let text = text.trim();
    let mut json = Json::default();
    json.read(text);
    let is_whole = !json.has_raw;
    let value = serde_json::from_str::<Value>(&json.out);
    match value {
        Ok(value) => Literal {
            value: if is_whole { value } else { unmarked(value) },
            is_whole,
        },
        Err(_) => Literal {
            value: Value::String(text.to_owned()),
            is_whole: false,
        },
    }
}

fn unmarked(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.trim_start_matches(RAW).to_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(unmarked).collect()),
        Value::Object(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| (key, unmarked(value)))
                .collect(),
        ),
        other => other,
    }
}

#[derive(Default)]
struct Json {
    out: String,
    has_raw: bool,
}

impl Json {
    fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = match c {
                '\'' | '"' => {
                    let end = string_end(rest);
                    self.string(&rest[..end]);
                    end
                }
                '[' | '(' => self.bracket('['),
                ']' | ')' => self.close(']'),
                '{' => self.bracket('{'),
                '}' => self.close('}'),
                ',' | ':' => self.bracket(c),
                _ if c.is_whitespace() => c.len_utf8(),
                _ => self.bare(rest),
            };
            rest = &rest[length..];
        }
    }

    fn bracket(&mut self, c: char) -> usize {
        self.out.push(c);
        1
    }

    /// Python takes a comma before a bracket that closes, and JSON does not.
    fn close(&mut self, c: char) -> usize {
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.bracket(c)
    }

    /// A number, a name or anything else up to the next comma outside of brackets.
    fn bare(&mut self, rest: &str) -> usize {
        let end = item_end(rest);
        let word = rest[..end].trim_end();
        match word {
            "True" | "true" => self.out.push_str("true"),
            "False" | "false" => self.out.push_str("false"),
            "None" | "null" => self.out.push_str("null"),
            _ => {
                if let Some(number) = number(word) {
                    self.out.push_str(&number);
                } else if let Some(quoted) = prefixed(word) {
                    self.string(quoted);
                } else {
                    self.has_raw = true;
                    self.out.push('"');
                    self.character(RAW);
                    for c in word.chars() {
                        self.character(c);
                    }
                    self.out.push('"');
                }
            }
        }
        end
    }

    /// A string with its quotes, which may lack the last one.
    fn string(&mut self, quoted: &str) {
        let (body, _) = body(quoted);
        self.out.push('"');
        let mut rest = body.chars();
        while let Some(c) = rest.next() {
            if c == '\\' {
                match rest.next() {
                    Some('n') => self.character('\n'),
                    Some('t') => self.character('\t'),
                    Some('r') => self.character('\r'),
                    Some('x') => self.escaped(&mut rest, 2),
                    Some('u') => self.escaped(&mut rest, 4),
                    // the rest of a line that goes on
                    Some('\n') | None => {}
                    Some(c) => self.character(c),
                }
            } else {
                self.character(c);
            }
        }
        self.out.push('"');
    }

    fn escaped(&mut self, rest: &mut std::str::Chars<'_>, digits: usize) {
        let code: String = rest.by_ref().take(digits).collect();
        let code = u32::from_str_radix(&code, 16).ok();
        self.character(
            code.and_then(char::from_u32)
                .unwrap_or(char::REPLACEMENT_CHARACTER),
        );
    }

    fn character(&mut self, c: char) {
        match c {
            '"' | '\\' => {
                self.out.push('\\');
                self.out.push(c);
            }
            '\n' => self.out.push_str("\\n"),
            RAW => self.out.push_str("\\u0001"),
            _ if c < ' ' => self.out.push(' '),
            _ => self.out.push(c),
        }
    }
}

/// `r'…'` and `f"…"` as the string; one with fields is none.
fn prefixed(word: &str) -> Option<&str> {
    let quoted = word.strip_prefix(['r', 'R', 'b', 'u', 'f', 'F'])?;
    let is_field = word.starts_with(['f', 'F']) && word.contains('{');
    (quoted.starts_with(['\'', '"']) && !is_field && string_end(quoted) == quoted.len())
        .then_some(quoted)
}

/// Without the quotes, and how many stand on each side.
fn body(quoted: &str) -> (&str, usize) {
    for quote in ["'''", "\"\"\"", "'", "\""] {
        if let Some(rest) = quoted.strip_prefix(quote) {
            return (rest.strip_suffix(quote).unwrap_or(rest), quote.len());
        }
    }
    (quoted, 0)
}

/// `32_768`, `0.9`, `1e-3` and `32 * 1024` as JSON.
fn number(word: &str) -> Option<String> {
    if word.contains('*') && !word.contains("**") {
        let product = word.split('*').try_fold(1_i128, |product, part| {
            let part: i128 = part.trim().replace('_', "").parse().ok()?;
            product.checked_mul(part)
        })?;
        return Some(product.to_string());
    }
    let starts = word.trim_start_matches('-').as_bytes().first()?;
    if !starts.is_ascii_digit() && *starts != b'.' {
        return None;
    }
    let plain = word.replace('_', "");
    if let Ok(whole) = plain.parse::<i128>() {
        return Some(whole.to_string());
    }
    parse_float(&plain)?;
    // JSON wants digits around the point
    let plain = plain.replacen("-.", "-0.", 1);
    Some(match plain.strip_prefix('.') {
        Some(rest) => ["0.", rest].concat(),
        None if plain.ends_with('.') => [&plain, "0"].concat(),
        None => plain,
    })
}

/// Where the string that a text begins with ends, quotes and all.
pub(crate) fn string_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let quote = bytes[0];
    let is_triple = bytes.starts_with(&[quote; 3]);
    let width = if is_triple { 3 } else { 1 };
    let mut at = width;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' if !is_triple => return at,
            byte if byte == quote && (!is_triple || bytes[at..].starts_with(&[quote; 3])) => {
                return at + width;
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Where an item ends: at a comma, or at a bracket that it did not open.
fn item_end(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '\'' | '"' => {
                at += string_end(&text[at..]);
                continue;
            }
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' if depth > 0 => depth -= 1,
            ')' | ']' | '}' => return at,
            ',' | ':' if depth == 0 => return at,
            _ => {}
        }
        at += c.len_utf8();
    }
    at
}

/// What stands between a bracket, at the beginning of a text, and the one that closes it; and whether that is
/// there.
pub(crate) fn bracketed(text: &str) -> (&str, bool) {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '\'' | '"' => {
                at += string_end(&text[at..]);
                continue;
            }
            // a comment may have an apostrophe
            '#' => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (text.get(1..at).unwrap_or(""), true);
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    (text.get(1..).unwrap_or(""), false)
}

/// The items between commas outside of brackets, each split at the first `separator` outside of them.
/// The last is left out if the text was cut inside of it.
pub(crate) fn entries(text: &str, separator: char, is_whole: bool) -> Vec<(&str, Option<&str>)> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        while let Some(comment) = rest.strip_prefix('#') {
            rest = comment
                .split_once('\n')
                .map_or("", |(_, rest)| rest)
                .trim_start();
        }
        if rest.is_empty() {
            return all;
        }
        let mut end = 0;
        let mut split = None;
        // up to the comma
        loop {
            end += item_end(&rest[end..]);
            match rest[end..].chars().next() {
                Some(':') => {
                    if separator == ':' && split.is_none() {
                        split = Some(end);
                    }
                    end += 1;
                }
                Some(',') | None => break,
                // a bracket too many
                Some(c) => end += c.len_utf8(),
            }
        }
        let is_last = end >= rest.len();
        let item = &rest[..end];
        if separator == '=' {
            split = item.find('=');
        }
        if !is_last || is_whole {
            all.push(match split {
                Some(at) => (item[..at].trim(), Some(item[at + 1..].trim())),
                None => (item.trim(), None),
            });
        }
        rest = rest.get(end + 1..).unwrap_or("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> String {
        serde_json::to_string(&literal(text).value).unwrap()
    }

    #[test]
    fn literals_as_python_writes_them() {
        for (python, json) in [
            (
                "{'a': True, 'b': [1, 2,], 'c': None}",
                r#"{"a":true,"b":[1,2],"c":null}"#,
            ),
            ("'it\\'s \"q\" \\u00e9\\n'", r#""it's \"q\" é\n""#),
            ("(8_192, .5, 1e-3)", "[8192,0.5,0.001]"),
            ("32 * 1024", "32768"),
            ("r'\\d'", "\"d\""),
            ("{}", "{}"),
        ] {
            assert_eq!(value(python), json, "{python}");
            assert!(literal(python).is_whole, "{python}");
        }
        for (python, json) in [
            ("torch.bfloat16", r#""torch.bfloat16""#),
            (
                "{'mode': <CompilationMode.VLLM_COMPILE: 3>, 'x': f(a, 'b')}",
                r#"{"mode":"<CompilationMode.VLLM_COMPILE: 3>","x":"f(a, 'b')"}"#,
            ),
            ("args.tp", r#""args.tp""#),
            ("f'{x}/y'", r#""f'{x}/y'""#),
            ("2 ** 15", r#""2 ** 15""#),
        ] {
            assert_eq!(value(python), json, "{python}");
            assert!(!literal(python).is_whole, "{python}");
        }
    }

    #[test]
    fn entries_end_at_commas_outside_of_brackets() {
        let (inside, is_whole) = bracketed("(model='a,b', x=[1, 2], # it's\n y=f(a=1),) + 1");
        assert!(is_whole);
        assert_eq!(
            entries(inside, '=', true),
            [
                ("model", Some("'a,b'")),
                ("x", Some("[1, 2]")),
                ("y", Some("f(a=1)"))
            ]
        );
        let (inside, is_whole) = bracketed("{'a': {'b': 1}, 'c': 'cut");
        assert!(!is_whole);
        assert_eq!(entries(inside, ':', is_whole), [("'a'", Some("{'b': 1}"))]);
    }

    #[test]
    fn nothing_panics() {
        for text in [
            "'",
            "\\",
            "'\\",
            "é'é\\é",
            "[[[[",
            "{1:",
            ")",
            "",
            "\"\"\"",
            "-",
            "<",
            "f'",
        ] {
            literal(text);
            bracketed(text);
            entries(text, '=', true);
            entries(text, ':', false);
        }
    }
}
