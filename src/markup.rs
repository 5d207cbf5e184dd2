//! HTML as text, safely: templates are ours and literal, values are escaped.

/// HTML under construction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Markup(String, Vec<usize>);

impl Markup {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a template, each `{}` in it replaced by the next value, escaped for text and for quoted attributes.
    pub fn add(&mut self, template: &'static str, values: &[&str]) -> &mut Self {
        let mut values = values.iter();
        for (index, part) in template.split("{}").enumerate() {
            if index > 0 {
                let value = values.next();
                debug_assert!(value.is_some(), "a value short: {template}");
                self.text(value.unwrap_or(&""));
            }
            self.0.push_str(part);
        }
        debug_assert!(values.next().is_none(), "a value too many: {template}");
        self
    }

    /// Appends text, escaped.
    pub fn text(&mut self, text: &str) -> &mut Self {
        if !text.contains(['&', '<', '>', '"', '\'']) {
            self.0.push_str(text);
            return self;
        }
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                _ => self.0.push(character),
            }
        }
        self
    }

    /// Appends a name, escaped, which may break after each underscore.
    pub fn name(&mut self, name: &str) -> &mut Self {
        for part in name.split_inclusive('_') {
            self.text(part);
            if part.ends_with('_') {
                self.0.push_str("<wbr>");
            }
        }
        self
    }

    /// Appends markup that this builder has made.
    pub fn append(&mut self, made: &str) -> &mut Self {
        self.0.push_str(made);
        self
    }

    /// Begins another part: what is drawn anew alone, if it alone changes.
    pub fn cut(&mut self) -> &mut Self {
        self.1.push(self.0.len());
        self
    }

    /// The HTML, part by part.
    pub fn into_parts(self) -> Vec<String> {
        let mut rest = self.0.as_str();
        let mut parts = Vec::with_capacity(self.1.len() + 1);
        let mut from = 0;
        for cut in self.1 {
            let (part, after) = rest.split_at(cut - from);
            parts.push(part.to_owned());
            (rest, from) = (after, cut);
        }
        parts.push(rest.to_owned());
        parts
    }

    /// The HTML.
    pub fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        let mut markup = Markup::new();
        markup.cut().add("<p>{}</p>", &["é"]).cut().cut().text("x");
        let parts = markup.clone().into_parts();
        assert_eq!(parts, ["", "<p>é</p>", "", "x"]);
        assert_eq!(parts.concat(), markup.into_string());
    }

    #[test]
    fn values_are_escaped_and_templates_are_not() {
        let mut markup = Markup::new();
        markup.add("<b title=\"{}\">{}</b>", &["\" onclick=\"x", "<script>&'"]);
        assert_eq!(
            markup.into_string(),
            "<b title=\"&quot; onclick=&quot;x\">&lt;script&gt;&amp;&#39;</b>"
        );
    }
}
