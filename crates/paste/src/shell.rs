//! A script as a shell reads it: statements of words. Only what a start of vLLM is written with is understood;
//! whatever else a script does is skipped as words.

/// One word, with its quotes taken off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Word {
    pub text: String,
    /// Some of it is a variable or a command whose value is not in the text, or a placeholder such as `<model>`.
    pub is_open: bool,
}

impl Word {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_open: false,
        }
    }
}

/// A variable's words: several of an array, one of any other.
type Variable = (String, Vec<Word>);

/// Reads statement by statement, and knows what was assigned so far.
pub(crate) struct Shell<'a> {
    rest: &'a str,
    variables: Vec<Variable>,
    /// Bytes that variables may still put into words: a variable of variables of variables grows without end.
    budget: usize,
    /// A quote without its end was read.
    pub is_cut: bool,
}

/// More variables than any script has.
const MOST_VARIABLES: usize = 256;
/// Longer names, with what is done to them, are none.
const MOST_NAME: usize = 512;
const MOST_PLACEHOLDER: usize = 64;
const MOST_EXPANDED_BYTES: usize = 1 << 16;

/// What ends a name.
fn name_end(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len())
}

/// `NAME=value`, if it is one.
pub(crate) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts && name_end(name) == name.len()).then_some((name, value))
}

impl<'a> Shell<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            variables: Vec::new(),
            budget: MOST_EXPANDED_BYTES,
            is_cut: false,
        }
    }

    /// Bytes that are not read yet.
    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next statement that has words; `None` at the end.
    pub(crate) fn statement(&mut self) -> Option<Vec<Word>> {
        while !self.rest.is_empty() {
            let words = self.words(false);
            if words.is_empty() {
                continue;
            }
            // assignments alone set variables of the shell
            let all = words.iter().all(|word| assignment(&word.text).is_some());
            let exported = matches!(
                words[0].text.as_str(),
                "export" | "set" | "local" | "readonly"
            );
            if all || exported {
                for word in &words {
                    if let Some((name, value)) = assignment(&word.text) {
                        let value = Word {
                            text: value.trim_matches('"').to_owned(),
                            is_open: word.is_open,
                        };
                        self.assign(name, vec![value], false);
                    }
                }
            }
            return Some(words);
        }
        None
    }

    fn assign(&mut self, name: &str, mut value: Vec<Word>, appends: bool) {
        let room = self.variables.len() < MOST_VARIABLES;
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, words)) if appends => words.append(&mut value),
            Some((_, words)) => *words = value,
            None if room => {
                self.variables.push((name.to_owned(), value));
            }
            None => {}
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// The words up to what ends a statement, or to the bracket that ends an array.
    fn words(&mut self, in_array: bool) -> Vec<Word> {
        let mut line = Line::default();
        while let Some(c) = self.next() {
            match c {
                '\\' | '`' | '^' if self.continues() => {}
                '\\' => match self.next() {
                    Some(c) => line.push(c),
                    None => line.push('\\'),
                },
                // in prose there are such quotes around a command
                '`' | '\n' if !in_array => break,
                _ if c.is_whitespace() => line.end(),
                ')' if in_array => break,
                ';' | '|' | '(' | ')' if !in_array => {
                    if c == '(' && self.array(&mut line) {
                        continue;
                    }
                    break;
                }
                '&' if !in_array && !line.drops_next => break,
                '#' if line.is_between() => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                '\'' => self.single(&mut line),
                '"' => self.double(&mut line),
                '$' => self.dollar(&mut line, false),
                '<' if self.placeholder(&mut line) => {}
                '<' | '>' => {
                    // 2>&1 and the like: neither the number nor the target is a word of the command
                    line.redirect();
                    self.rest = self.rest.trim_start_matches(['<', '>', '&', '-', '|']);
                }
                _ => line.push(c),
            }
        }
        line.end();
        line.words
    }

    /// Whether the line goes on behind the mark that was read: nothing but blanks follows on it.
    fn continues(&mut self) -> bool {
        let after = self.rest.trim_start_matches([' ', '\t', '\r']);
        if let Some(rest) = after.strip_prefix('\n') {
            self.rest = rest;
            return true;
        }
        if after.is_empty() {
            self.rest = after;
        }
        after.is_empty()
    }

    /// `NAME=(…)` and `NAME+=(…)`, behind whose bracket we are.
    fn array(&mut self, line: &mut Line) -> bool {
        let Some(before) = line.word.text.strip_suffix('=') else {
            return false;
        };
        let (name, appends) = match before.strip_suffix('+') {
            Some(name) => (name, true),
            None => (before, false),
        };
        if name.is_empty() || name_end(name) != name.len() {
            return false;
        }
        let name = name.to_owned();
        line.word = Word::default();
        line.has_word = false;
        let words = self.words(true);
        self.assign(&name, words, appends);
        true
    }

    /// `<model>`, as documentation has it: no redirection.
    fn placeholder(&mut self, line: &mut Line) -> bool {
        // a longer one is none: and each is looked for from its beginning
        let end = self
            .rest
            .char_indices()
            .take(MOST_PLACEHOLDER)
            .find(|(_, c)| c.is_whitespace() || matches!(c, '>' | '<'))
            .map(|(end, _)| end);
        match end {
            Some(end)
                if self.rest[end..].starts_with('>')
                    && self.rest.starts_with(|c: char| c.is_ascii_alphabetic()) =>
            {
                line.push('<');
                line.text(&self.rest[..=end]);
                line.word.is_open = true;
                self.rest = &self.rest[end + 1..];
                true
            }
            _ => false,
        }
    }

    fn single(&mut self, line: &mut Line) {
        let end = self.rest.find('\'');
        self.is_cut |= end.is_none();
        line.text(&self.rest[..end.unwrap_or(self.rest.len())]);
        self.rest = end.map_or("", |end| &self.rest[end + 1..]);
    }

    fn double(&mut self, line: &mut Line) {
        line.text("");
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => line.push(c),
                    Some(c) => {
                        line.push('\\');
                        line.push(c);
                    }
                    None => line.push('\\'),
                },
                '$' => self.dollar(line, true),
                _ => line.push(c),
            }
        }
        self.is_cut = true;
    }

    /// A variable or a command, behind whose dollar we are.
    fn dollar(&mut self, line: &mut Line, is_quoted: bool) {
        if let Some(rest) = self.rest.strip_prefix('\'')
            && !is_quoted
        {
            self.rest = rest;
            self.single(line);
            return;
        }
        let (name, whole) = if let Some(rest) = self.rest.strip_prefix('{') {
            let end = rest
                .char_indices()
                .take(MOST_NAME)
                .find(|(_, c)| matches!(c, '}' | '\n'));
            match end {
                Some((end, '}')) => (&rest[..end], end + 2),
                // it is not closed
                _ => ("", 0),
            }
        } else if self.rest.starts_with('(') {
            let end = closing(self.rest);
            ("", end)
        } else {
            let end = name_end(self.rest).max(usize::from(
                self.rest.starts_with(['@', '*', '?', '#', '!']),
            ));
            (&self.rest[..end], end)
        };
        let spelled = &self.rest[..whole];
        self.rest = &self.rest[whole..];
        if spelled.is_empty() {
            line.push('$');
            return;
        }
        // how it would be changed (:-x, %%x, [@]) does not matter where it is set, or it is left open
        let end = name_end(name);
        let plain = matches!(&name[end..], "" | "[@]" | "[*]")
            || name[end..].starts_with(":-")
            || name[end..].starts_with(":?");
        let known = self
            .variables
            .iter()
            .find(|(known, _)| known == &name[..end]);
        if let Some((_, words)) = known.filter(|_| plain && end > 0) {
            let bytes = words.iter().map(|word| word.text.len() + 1).sum::<usize>();
            if bytes <= self.budget {
                self.budget -= bytes;
                line.expand(words, is_quoted);
                return;
            }
        }
        line.push('$');
        line.text(spelled);
        line.word.is_open = true;
    }
}

/// Where a bracket that was opened at the beginning is closed, and behind that.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '\n' => return at,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// The words so far.
#[derive(Default)]
struct Line {
    words: Vec<Word>,
    word: Word,
    /// There is a word, though it may be empty: of `''`.
    has_word: bool,
    drops_next: bool,
}

impl Line {
    fn push(&mut self, c: char) {
        self.word.text.push(c);
        self.has_word = true;
    }

    fn text(&mut self, text: &str) {
        self.word.text.push_str(text);
        self.has_word = true;
    }

    const fn is_between(&self) -> bool {
        !self.has_word
    }

    fn end(&mut self) {
        if !self.has_word {
            return;
        }
        let word = std::mem::take(&mut self.word);
        self.has_word = false;
        if std::mem::take(&mut self.drops_next) {
            return;
        }
        self.words.push(word);
    }

    fn redirect(&mut self) {
        if self.word.text.bytes().all(|byte| byte.is_ascii_digit()) {
            self.word = Word::default();
            self.has_word = false;
        }
        self.end();
        self.drops_next = true;
    }

    /// A variable's value: without quotes it falls apart at blanks.
    fn expand(&mut self, words: &[Word], is_quoted: bool) {
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                self.end();
            }
            if is_quoted {
                self.text(&word.text);
                self.word.is_open |= word.is_open;
                continue;
            }
            let mut parts = word.text.split_whitespace().peekable();
            if word.text.starts_with(char::is_whitespace) {
                self.end();
            }
            while let Some(part) = parts.next() {
                self.text(part);
                self.word.is_open |= word.is_open;
                if parts.peek().is_some() || word.text.ends_with(char::is_whitespace) {
                    self.end();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let mut shell = Shell::new(text);
        let mut all = Vec::new();
        while let Some(statement) = shell.statement() {
            all.push(statement.into_iter().map(|word| word.text).collect());
        }
        all
    }

    #[test]
    fn quotes_continuations_and_comments() {
        assert_eq!(
            words(
                "vllm serve 'a b' \\\n  --x=\"c \\\"d\\\" $\" \\  \n --y # no\n# none\nls > /dev/null 2>&1 && z"
            ),
            vec![
                vec!["vllm", "serve", "a b", "--x=c \"d\" $", "--y"],
                vec!["ls"],
                vec!["z"]
            ]
        );
        assert_eq!(words("a `\n b ^\r\n c"), vec![vec!["a", "b", "c"]]);
        assert_eq!(
            words("vllm serve <model> --x"),
            vec![vec!["vllm", "serve", "<model>", "--x"]]
        );
        assert_eq!(words("a '' \"\""), vec![vec!["a", "", ""]]);
    }

    #[test]
    fn variables_of_the_text_are_put_in_and_others_left_open() {
        let text = "M=meta/x\nARGS=\"-tp 8 --y\"\nL=(--a 'b c')\nL+=(d)\nvllm serve $M $ARGS \"${L[@]}\" \"$ARGS\" ${N:-z} $(nproc)";
        assert_eq!(
            words(text).last().unwrap(),
            &[
                "vllm",
                "serve",
                "meta/x",
                "-tp",
                "8",
                "--y",
                "--a",
                "b c",
                "d",
                "-tp 8 --y",
                "${N:-z}",
                "$(nproc)"
            ]
        );
        let mut shell = Shell::new("x $N '$N'");
        let open: Vec<bool> = shell
            .statement()
            .unwrap()
            .iter()
            .map(|word| word.is_open)
            .collect();
        assert_eq!(open, [false, true, false]);
    }

    #[test]
    fn what_grows_without_end_is_left() {
        let mut text = "A=aaaaaaaaaaaaaaaa\n".to_owned();
        for _ in 0..60 {
            text.push_str("A=$A$A\n");
        }
        text.push_str("echo $A");
        let longest = words(&text).concat().iter().map(String::len).max().unwrap();
        assert!(longest <= MOST_EXPANDED_BYTES, "{longest}");
    }

    #[test]
    fn a_quote_without_an_end_is_told() {
        let mut shell = Shell::new("vllm serve 'x");
        assert_eq!(shell.statement().unwrap().len(), 3);
        assert!(shell.is_cut);
    }
}
