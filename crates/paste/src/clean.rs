//! A log without what terminals, containers and vLLM's own logger put around its messages.

/// How loud vLLM's logger may be.
const LEVELS: [&str; 5] = ["INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL"];

/// One line of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// What it says, without what comes before.
    pub message: &'a str,
    /// Whether a message of vLLM's logger begins here; otherwise it may be the rest of one.
    pub is_logged: bool,
    /// Whether it is no warning and no error.
    pub is_quiet: bool,
}

/// Without the sequences by which terminals colour text, whole or with their first byte lost.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\u{1b}', '[', '\r']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let skipped = if from.starts_with('\r') {
            1
        } else if from.starts_with('\u{1b}') {
            // up to the letter that ends it, which is near
            let letter = from
                .char_indices()
                .take(32)
                .find(|(_, c)| c.is_ascii_alphabetic());
            letter.map_or(1, |(at, _)| at + 1)
        } else {
            let inside = from[1..].trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
            match inside.strip_prefix('m') {
                Some(rest) if inside.len() + 1 < from.len() => from.len() - rest.len(),
                _ => 0,
            }
        };
        if skipped == 0 {
            out.push('[');
            rest = &from[1..];
        } else {
            rest = &from[skipped..];
        }
    }
    out.push_str(rest);
    out
}

/// The lines of a text without escapes.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().map(|(at, line)| {
        let (message, level) = without_prefix(line);
        Line {
            number: at + 1,
            message,
            is_logged: level.is_some(),
            is_quiet: matches!(level, Some("INFO" | "DEBUG")),
        }
    })
}

/// What a line says, and how loud vLLM's logger began it, if it did.
fn without_prefix(line: &str) -> (&str, Option<&'static str>) {
    let mut rest = line.trim();
    // a time, a pod, a process, …: each a prefix of its own
    for _ in 0..8 {
        match prefix(rest) {
            Some(Prefix::Outer(after)) => rest = after.trim_start(),
            Some(Prefix::Level(level, after)) => return (after.trim_start(), Some(level)),
            None => break,
        }
    }
    (rest, None)
}

const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

enum Prefix<'a> {
    /// What carries the line.
    Outer(&'a str),
    /// The logger's own.
    Level(&'static str, &'a str),
}

fn prefix(text: &str) -> Option<Prefix<'_>> {
    if let Some(level) = LEVELS.iter().find(|level| text.starts_with(**level)) {
        let rest = &text[level.len()..];
        if let Some(message) = rest.strip_prefix(':') {
            return Some(Prefix::Level(level, message));
        }
        // a date, a time and a place in brackets
        let mut words = rest.strip_prefix(' ')?.split_whitespace();
        let is_date = |word: &str| {
            word.contains(['-', ':']) && word.starts_with(|c: char| c.is_ascii_digit())
        };
        if !is_date(words.next()?) {
            return None;
        }
        let end = match rest.find("] ") {
            Some(end) if end < 120 => end + 2,
            // cut behind its place
            _ if rest.len() < 120 && rest.ends_with(']') => rest.len(),
            _ => return None,
        };
        return Some(Prefix::Level(level, &rest[end..]));
    }
    let first = text.split(' ').next()?;
    let after = text[first.len()..].trim_start();
    // (EngineCore_DP0 pid=7)
    if let Some(inside) = text.strip_prefix('(') {
        let end = inside.find(')')?;
        return inside[..end]
            .contains("pid=")
            .then(|| Prefix::Outer(&inside[end + 1..]));
    }
    // vllm-1  | …
    if let Some(rest) = after.strip_prefix('|') {
        let is_name = first
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        return (is_name && !first.is_empty()).then_some(Prefix::Outer(rest));
    }
    // [rank0]: , [pod/x/y], [2026-05-31 …]
    if let Some(inside) = text.strip_prefix('[') {
        let end = inside.find(']')?;
        let name = &inside[..end];
        let known = ["rank", "pod/", "20"]
            .iter()
            .any(|start| name.starts_with(start));
        let rest = &inside[end + 1..];
        return known.then(|| Prefix::Outer(rest.strip_prefix(':').unwrap_or(rest)));
    }
    // 2026-05-31T11:48:12.123Z, 2026-05-31 11:48:12,123, 11:48:12
    let digits = first.bytes().filter(u8::is_ascii_digit).count();
    if first.starts_with(|c: char| c.is_ascii_digit())
        && first.contains([':', '-', '/'])
        && digits >= 6
        && first
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-:/.,TZ+".contains(&byte))
    {
        return Some(Prefix::Outer(after));
    }
    // Nov 30 04:30:14 host vllm[123]: …
    if first.len() == 3 && MONTHS.contains(first) && text.as_bytes().get(9) == Some(&b':') {
        let end = text.find("]: ").filter(|end| *end < 160)?;
        return Some(Prefix::Outer(&text[end + 3..]));
    }
    None
}

/// A text without blanks, in which a line that was wrapped is whole; and where its lines begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Squeezed {
    pub text: String,
    /// Where each line begins, and its number.
    starts: Vec<(usize, usize)>,
}

impl Squeezed {
    pub(crate) fn new<'a>(lines: impl Iterator<Item = Line<'a>>) -> Self {
        let mut squeezed = Self::default();
        for line in lines {
            squeezed.starts.push((squeezed.text.len(), line.number));
            squeezed.text.extend(line.message.split_whitespace());
        }
        squeezed
    }

    /// The number of the line that a place is in.
    pub(crate) fn line_at(&self, place: usize) -> usize {
        let after = self.starts.partition_point(|(start, _)| *start <= place);
        after.checked_sub(1).map_or(0, |at| self.starts[at].1)
    }
}

/// Without blanks.
pub(crate) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_off() {
        let plain = "Available KV cache memory: 47.43 GiB";
        for before in [
            "INFO 11-29 12:00:01 [gpu_worker.py:770] ",
            "(EngineCore_DP0 pid=7) INFO 11-29 12:00:01 [gpu_worker.py:770] ",
            "\u{1b}[1;36m(Worker_TP3 pid=7)\u{1b}[0;0m INFO 11-29 12:00:01 [gpu_worker.py:770] ",
            "[1;36m(Worker_TP3 pid=7)[0;0m INFO 11-29 12:00:01 [v1/worker/gpu_worker.py:770] ",
            "vllm-1  | (EngineCore pid=7) INFO 11-29 12:00:01 [gpu_worker.py:770] ",
            "2026-05-31T11:48:12.123456789Z (EngineCore pid=7) INFO 05-31 11:48:12 [gpu_worker.py:770] ",
            "Nov 30 04:30:14 gpu-7 vllm[123]: INFO 11-30 04:30:14 [gpu_worker.py:770] ",
            "[pod/vllm-0/vllm] 2026-05-31 11:48:12,123 INFO 05-31 11:48:12 [gpu_worker.py:770] ",
            "INFO 06-12 08:12:23 distributed_gpu_executor.py:45] ",
        ] {
            let text = without_escapes(&[before, plain].concat());
            let line = lines(&text).next().unwrap();
            assert_eq!((line.message, line.is_logged), (plain, true), "{before}");
        }
        let rest = without_escapes("(EngineCore pid=316) e is needed");
        let line = lines(&rest).next().unwrap();
        assert_eq!((line.message, line.is_logged), ("e is needed", false));
        assert_eq!(without_escapes("a[1] [0m[x] é\u{1b}"), "a[1] [x] é");
    }
}
