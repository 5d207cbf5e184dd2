//! Texts as Python and pydantic make them.

use std::fmt::Write as _;

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

/// A bound of a pydantic field.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// `Field(gt=…)`
    GreaterThan(i64),
    /// `Field(ge=…)`
    AtLeast(i64),
    /// `Field(le=…)`
    AtMost(i64),
}

impl Bound {
    const fn parts(self) -> (&'static str, &'static str, i64) {
        match self {
            Self::GreaterThan(n) => ("greater than", "greater_than", n),
            Self::AtLeast(n) => ("greater than or equal to", "greater_than_equal", n),
            Self::AtMost(n) => ("less than or equal to", "less_than_equal", n),
        }
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

    /// Notes that `value` (of Python's `kind`) breaks the bound of `field`.
    pub(crate) fn out_of_bounds(&mut self, field: &str, bound: Bound, value: &str, kind: &str) {
        let (words, code, limit) = bound.parts();
        self.blocks.push(format!(
            "{field}\n  Input should be {words} {limit} [type={code}, input_value={value}, \
             input_type={kind}]\n    For further information visit \
             https://errors.pydantic.dev/{PYDANTIC}/v/{code}"
        ));
    }

    /// An integer field that must be at least `least`.
    pub(crate) fn at_least(&mut self, field: &str, value: Option<i64>, least: i64) {
        if let Some(value) = value.filter(|value| *value < least) {
            self.out_of_bounds(field, Bound::AtLeast(least), &value.to_string(), "int");
        }
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
        errors.out_of_bounds("block_size", Bound::GreaterThan(0), "0", "int");
        assert_eq!(
            errors.text().unwrap(),
            "1 validation error for CacheConfig\nblock_size\n  Input should be greater than 0 \
             [type=greater_than, input_value=0, input_type=int]\n    For further information \
             visit https://errors.pydantic.dev/2.14/v/greater_than"
        );
    }
}
