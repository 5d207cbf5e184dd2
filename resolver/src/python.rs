//! Texts as Python and pydantic make them.

use std::fmt::Write as _;

use crate::units::{TWO_TO_63, parse_float, python_float};
use crate::value::Value;

/// `repr(str)`.
pub(crate) fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c == quote => {
                out.push('\\');
                out.push(c);
            }
            _ if c.is_control() => {
                let code = u32::from(c);
                // writing to a String cannot fail
                let _ = if code < 0x100 {
                    write!(out, "\\x{code:02x}")
                } else {
                    write!(out, "\\u{code:04x}")
                };
            }
            _ => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// A list of strings, each by [`repr`].
pub(crate) fn repr_list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(repr).collect();
    format!("[{}]", items.join(", "))
}

/// Why pydantic does not take a value: its words and its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TypeProblem {
    message: &'static str,
    code: &'static str,
}

impl TypeProblem {
    /// Anything that is no list, for a `list` field.
    pub(crate) const NOT_A_LIST: Self = Self {
        message: "Input should be a valid list",
        code: "list_type",
    };
    /// Anything that is no string, for a `str` field.
    pub(crate) const NOT_A_STRING: Self = Self {
        message: "Input should be a valid string",
        code: "string_type",
    };
}

/// `int(text)` of ASCII text: blanks around, a sign, underscores between digits.
/// `None` where Python raises, or past 128 bits.
pub(crate) fn parse_int(text: &str) -> Option<i128> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits.split('_').all(whole) {
        return None;
    }
    trimmed.replace('_', "").parse().ok()
}

const fn problem<T>(message: &'static str, code: &'static str) -> Result<T, TypeProblem> {
    Err(TypeProblem { message, code })
}

/// An `int` field, which takes whole floats, digits in a string and booleans.
pub(crate) fn lax_int(value: &Value) -> Result<i128, TypeProblem> {
    match value {
        Value::Bool(on) => Ok(i128::from(*on)),
        Value::Integer(number) => Ok(*number),
        Value::Float(number) => whole(*number).map_or(
            problem(
                "Input should be a valid integer, got a number with a fractional part",
                "int_from_float",
            ),
            Ok,
        ),
        Value::String(text) => digits(text).parse().or(problem(
            "Input should be a valid integer, unable to parse string as an integer",
            "int_parsing",
        )),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            problem("Input should be a valid integer", "int_type")
        }
    }
}

/// A float that is a whole number of 64 bits.
#[allow(clippy::cast_possible_truncation)] // bounded by the guard
fn whole(number: f64) -> Option<i128> {
    (number.fract() == 0.0 && number.abs() < TWO_TO_63).then_some(number as i128)
}

/// `" 1_024.0"` as `1024`: pydantic looks past spaces, a fraction of zeros, and
/// underscores between digits.
fn digits(text: &str) -> String {
    let text = text.trim();
    let text = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    };
    let parts: Vec<&str> = text.split('_').collect();
    let is_grouped = parts.iter().all(|part| {
        let unsigned = part.strip_prefix(['-', '+']).unwrap_or(part);
        !part.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit())
    });
    if is_grouped {
        parts.concat()
    } else {
        text.to_owned()
    }
}

/// A `float` field.
#[allow(clippy::cast_precision_loss)] // as Python's float() does
pub(crate) fn lax_float(value: &Value) -> Result<f64, TypeProblem> {
    match value {
        Value::Bool(on) => Ok(f64::from(u8::from(*on))),
        Value::Integer(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        Value::String(text) => parse_float(text).map_or(
            problem(
                "Input should be a valid number, unable to parse string as a number",
                "float_parsing",
            ),
            Ok,
        ),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            problem("Input should be a valid number", "float_type")
        }
    }
}

/// A `bool` field.
pub(crate) fn lax_bool(value: &Value) -> Result<bool, TypeProblem> {
    let word = match value {
        Value::Bool(on) => Some(on.to_string()),
        // neither a fraction nor what is past 64 bits is a number here
        Value::Integer(_) | Value::Float(_) => value
            .as_integer()
            .filter(|number| i64::try_from(*number).is_ok())
            .map(|number| number.to_string()),
        Value::String(text) => Some(text.to_ascii_lowercase()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match word.as_deref() {
        Some("1" | "on" | "t" | "true" | "y" | "yes") => Ok(true),
        Some("0" | "off" | "f" | "false" | "n" | "no") => Ok(false),
        Some(_) => problem(
            "Input should be a valid boolean, unable to interpret input",
            "bool_parsing",
        ),
        None => problem("Input should be a valid boolean", "bool_type"),
    }
}

/// `repr` of a scalar and the name of its type.
fn scalar_repr(value: &Value) -> (String, &'static str) {
    match value {
        Value::Bool(true) => ("True".into(), "bool"),
        Value::Bool(false) => ("False".into(), "bool"),
        Value::Integer(number) => (number.to_string(), "int"),
        Value::Float(number) => (python_float(*number), "float"),
        Value::String(text) => (repr(text), "str"),
        Value::Null => ("None".into(), "NoneType"),
        // never asked: a container is refused before it comes here
        Value::Array(_) => ("[...]".into(), "list"),
        Value::Object(_) => ("{...}".into(), "dict"),
    }
}

/// A bound of a pydantic field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// `Field(gt=…)`
    GreaterThan(i64),
    /// `Field(ge=…)`
    AtLeast(i64),
    /// `Field(le=…)`
    AtMost(i64),
}

impl Bound {
    /// Whether the number keeps to it.
    pub(crate) fn allows(self, number: i128) -> bool {
        match self {
            Self::GreaterThan(limit) => number > i128::from(limit),
            Self::AtLeast(limit) => number >= i128::from(limit),
            Self::AtMost(limit) => number <= i128::from(limit),
        }
    }

    const fn parts(self) -> (&'static str, &'static str, i64) {
        match self {
            Self::GreaterThan(n) => ("greater than", "greater_than", n),
            Self::AtLeast(n) => ("greater than or equal to", "greater_than_equal", n),
            Self::AtMost(n) => ("less than or equal to", "less_than_equal", n),
        }
    }
}

/// `'a', 'b' or 'c'`
fn or_list(choices: &[&str]) -> String {
    let quoted: Vec<String> = choices.iter().map(|choice| repr(choice)).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

/// The errors of one config class, as pydantic prints them together.
pub(crate) struct FieldErrors {
    class: &'static str,
    blocks: Vec<String>,
}

/// The version in pydantic's links, of the pydantic that vLLM 0.33.0 installs.
const PYDANTIC: &str = "2.14";

impl FieldErrors {
    pub(crate) const fn new(class: &'static str) -> Self {
        Self {
            class,
            blocks: Vec::new(),
        }
    }

    fn block(&mut self, field: &str, message: &str, code: &str, value: &Value) {
        let (shown, kind) = scalar_repr(value);
        self.blocks.push(format!(
            "{field}\n  {message} [type={code}, input_value={shown}, input_type={kind}]\n    \
             For further information visit https://errors.pydantic.dev/{PYDANTIC}/v/{code}"
        ));
    }

    /// Notes that `value` breaks the bound of `field`.
    pub(crate) fn out_of_bounds(&mut self, field: &str, bound: Bound, value: &Value) {
        let (words, code, limit) = bound.parts();
        self.block(
            field,
            &format!("Input should be {words} {limit}"),
            code,
            value,
        );
    }

    /// Notes that `value` is not of the field's type.
    pub(crate) fn wrong_type(&mut self, field: &str, problem: TypeProblem, value: &Value) {
        self.block(field, problem.message, problem.code, value);
    }

    /// Notes that `value` is none of a literal's choices.
    pub(crate) fn not_a_literal(&mut self, field: &str, choices: &[&str], value: &Value) {
        let message = format!("Input should be {}", or_list(choices));
        self.block(field, &message, "literal_error", value);
    }

    /// Notes that `value` is none of a literal's choices, nor an instance of
    /// the class that is taken beside them.
    pub(crate) fn not_a_choice(
        &mut self,
        field: &str,
        choices: &[&str],
        class: &str,
        value: &Value,
    ) {
        let quoted: Vec<String> = choices.iter().map(|choice| repr(choice)).collect();
        self.block(
            &format!("{field}.literal[{}]", quoted.join(",")),
            &format!("Input should be {}", or_list(choices)),
            "literal_error",
            value,
        );
        self.block(
            &format!("{field}.is-instance[{class}]"),
            &format!("Input should be an instance of {class}"),
            "is_instance_of",
            value,
        );
    }

    /// Notes that there is no such field.
    pub(crate) fn unexpected(&mut self, field: &str, value: &Value) {
        self.block(
            field,
            "Unexpected keyword argument",
            "unexpected_keyword_argument",
            value,
        );
    }

    /// The whole text, if there is an error.
    pub(crate) fn text(&self) -> Option<String> {
        let count = self.blocks.len();
        (count > 0).then(|| {
            format!(
                "{count} validation error{} for {}\n{}",
                if count == 1 { "" } else { "s" },
                self.class,
                self.blocks.join("\n")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repr_quotes_as_python_does() {
        assert_eq!(repr("fp16"), "'fp16'");
        assert_eq!(repr("it's"), "\"it's\"");
        assert_eq!(repr("a'b\"c\n\u{1}"), "'a\\'b\"c\\n\\x01'");
    }

    #[test]
    fn field_errors_read_as_pydantic_prints_them() {
        let mut errors = FieldErrors::new("CacheConfig");
        assert_eq!(errors.text(), None);
        errors.out_of_bounds("block_size", Bound::GreaterThan(0), &Value::Integer(0));
        assert_eq!(
            errors.text().unwrap(),
            "1 validation error for CacheConfig\nblock_size\n  Input should be greater than 0 \
             [type=greater_than, input_value=0, input_type=int]\n    For further information \
             visit https://errors.pydantic.dev/2.14/v/greater_than"
        );
    }
}
