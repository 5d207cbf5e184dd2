//! vLLM's errors, recognised by a piece of their text. The texts are those that the resolver can print, and an older
//! one or two; `…` stands for what differs from case to case.

use kv_resolver::{CacheDtype, Release, Stage};

const TABLE: &str = include_str!("errors/table.txt");

/// Letters in a row, without blanks, by which a text is noticed.
const WINDOW: usize = 8;
/// Letters in a row that count in a log, which has other lines with the same words.
const RUN_OF_LOG: usize = 14;
/// Letters that must be alike before a text is taken for an error: of any, and of a piece that was pasted alone, of
/// which they must be a good part.
const ENOUGH_OF_LOG: usize = 36;
const ENOUGH_ALONE: usize = 10;
const LEAST_PART: usize = 4;
/// What is shorter is a piece.
const PIECE_BYTES: usize = 600;
/// Pieces of one error lie no further apart.
const REACH: usize = 4096;

/// An error that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownError {
    /// Where vLLM stops with it.
    pub stage: Stage,
    /// Python's class.
    pub error_type: &'static str,
    /// Its text, with `…` for what differs.
    pub text: &'static str,
}

impl KnownError {
    /// Every error, in no order.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut stage = Stage::Args;
        let mut error_type = "";
        TABLE.lines().filter_map(move |line| {
            let Some(heading) = line.strip_prefix("# ") else {
                return Some(Self {
                    stage,
                    error_type,
                    text: line,
                });
            };
            let (name, class) = heading.split_once(' ').unwrap_or_default();
            stage = [
                Stage::Config,
                Stage::Model,
                Stage::Specs,
                Stage::Plan,
                Stage::Engine,
            ]
            .into_iter()
            .find(|stage| stage.as_str() == name)
            .unwrap_or(stage);
            error_type = class;
            None
        })
    }

    /// Whether a whole text is one of this error's.
    #[must_use]
    pub fn is_of(&self, text: &str) -> bool {
        let text = crate::clean::squeeze(text);
        let mut rest = text.as_str();
        for part in self.text.split('…').filter(|part| !part.starts_with('{')) {
            let part = crate::clean::squeeze(part);
            match rest.find(&part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Where an error was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub error: KnownError,
    /// Others of which the text has as much.
    pub others: Vec<KnownError>,
    /// Where its first piece begins, in the text without blanks.
    pub at: usize,
}

/// One text without blanks, its parts one behind the other.
struct Pattern {
    text: Vec<u8>,
    /// Where parts end: nothing matches across.
    ends: Vec<usize>,
}

impl Pattern {
    fn new(error: &KnownError) -> Self {
        let mut pattern = Self {
            text: Vec::new(),
            ends: Vec::new(),
        };
        for part in error.text.split('…') {
            match part {
                "{dtypes}" => pattern.list(CacheDtype::ALL.iter().map(|dtype| dtype.as_str()), "'"),
                "{bare}" => pattern.list(CacheDtype::ALL.iter().map(|dtype| dtype.as_str()), ""),
                "{backends}" => {
                    let backends = Release::LATEST.profile().attention_backends;
                    pattern.list(backends.iter().map(|backend| backend.as_str()), "");
                }
                "{methods}" => pattern.list(METHODS.lines(), "'"),
                _ => pattern.part(part),
            }
        }
        pattern
    }

    fn part(&mut self, part: &str) {
        self.text
            .extend(part.bytes().filter(|byte| !byte.is_ascii_whitespace()));
        self.ends.push(self.text.len());
    }

    fn list(&mut self, names: impl Iterator<Item = &'static str>, quote: &str) {
        for name in names {
            self.text
                .extend(quote.bytes().chain(name.bytes()).chain(quote.bytes()));
            self.text.push(b',');
        }
        self.ends.push(self.text.len());
    }

    /// The end of the part that a place is in.
    fn end_of(&self, place: usize) -> usize {
        let at = self.ends.partition_point(|end| *end <= place);
        self.ends.get(at).copied().unwrap_or(self.text.len())
    }
}

/// The methods that a drafter may have, in vLLM's order; releases leave out some.
const METHODS: &str = "ngram\n\
     draft_model\n\
     suffix\n\
     custom_class\n\
     eagle\n\
     eagle3\n\
     extract_hidden_states\n\
     deepseek_mtp\n\
     dots3_note_mtp\n\
     mimo_mtp\n\
     mimo_v2_mtp\n\
     glm4_moe_mtp\n\
     glm4_moe_lite_mtp\n\
     glm_ocr_mtp\n\
     ernie_mtp\n\
     nemotron_h_mtp\n\
     exaone_moe_mtp\n\
     exaone4_5_mtp\n\
     qwen3_next_mtp\n\
     qwen4_exp_mtp\n\
     qwen3_5_mtp\n\
     longcat_flash_mtp\n\
     bailing_hybrid_v3_mtp\n\
     minimax_m3_mtp\n\
     bailing_hybrid_mtp\n\
     mtp\n\
     kimi_k3_mtp\n\
     pangu_ultra_moe_mtp\n\
     step3p5_mtp\n\
     step5_mtp\n\
     hy_v3_mtp\n\
     hy_v4_mtp\n\
     gemma4_mtp\n\
     inkling_mtp\n\
     glm5_next_mtp\n\
     dflash\n\
     ngram_gpu\n\
     dspark";

const BASE: u32 = 0x0100_0193;

fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |hash, byte| {
        hash.wrapping_mul(BASE).wrapping_add(u32::from(*byte))
    })
}

/// What is known of one error while a text is read.
#[derive(Clone, Copy, Default)]
struct Score {
    /// Letters that are alike, of the pieces at hand.
    now: usize,
    first: usize,
    /// Behind the last piece, in the text and in the error.
    end: usize,
    end_in_error: usize,
    best: usize,
    best_at: usize,
}

/// The error of which a text without blanks has most; of a log, more of it is asked for.
pub(crate) fn find(text: &str, is_log: bool) -> Option<Found> {
    let text = text.as_bytes();
    let is_piece = !is_log && text.len() < PIECE_BYTES;
    let (run, enough) = if is_piece {
        (
            WINDOW,
            ENOUGH_ALONE.max(text.len() / LEAST_PART).min(ENOUGH_OF_LOG),
        )
    } else {
        (RUN_OF_LOG, ENOUGH_OF_LOG)
    };
    let errors: Vec<KnownError> = KnownError::all().collect();
    let patterns: Vec<Pattern> = errors.iter().map(Pattern::new).collect();
    let windows = Windows::new(&patterns);
    let mut scores = vec![Score::default(); errors.len()];
    let leading = (1..WINDOW).fold(1_u32, |power, _| power.wrapping_mul(BASE));
    let mut rolling = hash(text.get(..WINDOW)?);
    for at in 0..=text.len() - WINDOW {
        if at > 0 {
            let out = u32::from(text[at - 1]).wrapping_mul(leading);
            rolling = rolling
                .wrapping_sub(out)
                .wrapping_mul(BASE)
                .wrapping_add(u32::from(text[at + WINDOW - 1]));
        }
        let mut next = windows.heads[Windows::head(rolling)];
        // nearly all places of a text have none
        while let Some(window) = windows.all.get(next as usize) {
            if window.hash == rolling {
                scores[window.error].see(text, at, &patterns[window.error], window.place, run);
            }
            next = window.next;
        }
    }
    let counts = |index: &usize| {
        let whole = patterns[*index].text.len();
        let best = scores[*index].best;
        best >= enough || best >= run && best * 10 >= whole * 9
    };
    // of two that have as much, the one of which less is left
    let best = (0..errors.len()).filter(counts).max_by_key(|index| {
        (
            scores[*index].best,
            usize::MAX - patterns[*index].text.len(),
        )
    });
    let Some(best) = best else {
        let is_list = is_piece && names_classes(text);
        let of_list = errors
            .iter()
            .find(|error| is_list && error.text.starts_with(ARCHITECTURES))?;
        return Some(Found {
            error: *of_list,
            others: Vec::new(),
            at: 0,
        });
    };
    // a piece of few words may be of several
    let least = if is_piece {
        scores[best].best * 3 / 4
    } else {
        scores[best].best
    };
    let as_much = |index: &usize| *index != best && scores[*index].best >= least.max(run);
    Some(Found {
        error: errors[best],
        others: (0..errors.len())
            .filter(as_much)
            .map(|index| errors[index])
            .collect(),
        at: scores[best].best_at,
    })
}

const ARCHITECTURES: &str = "Model architectures";

/// Whether it is a piece of the longest list that an error has: `','` between names of classes.
fn names_classes(text: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(text) else {
        return false;
    };
    let mut parts = text.trim_matches(['\'', ',']).split("','");
    let first = parts.next().unwrap_or_default();
    let is_name = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut rest = parts.clone().peekable();
    rest.peek().is_some()
        && is_name(first)
        && rest.all(|part| is_name(part) && part.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Where every window of every error is, by its hash.
struct Windows {
    /// The first of those of a head; past the end where there is none.
    heads: Vec<u32>,
    all: Vec<Window>,
}

struct Window {
    hash: u32,
    error: usize,
    place: usize,
    /// The next of the same head.
    next: u32,
}

impl Windows {
    const HEAD_BITS: u32 = 16;

    fn new(patterns: &[Pattern]) -> Self {
        let mut windows = Self {
            heads: vec![u32::MAX; 1 << Self::HEAD_BITS],
            all: Vec::new(),
        };
        for (error, pattern) in patterns.iter().enumerate() {
            let mut start = 0;
            for end in &pattern.ends {
                for place in start..(end + 1).saturating_sub(WINDOW).max(start) {
                    windows.add(hash(&pattern.text[place..place + WINDOW]), error, place);
                }
                start = *end;
            }
        }
        windows
    }

    fn add(&mut self, hash: u32, error: usize, place: usize) {
        let head = &mut self.heads[Self::head(hash)];
        let next = std::mem::replace(head, u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(Window {
            hash,
            error,
            place,
            next,
        });
    }

    const fn head(hash: u32) -> usize {
        (hash.wrapping_mul(0x9e37_79b1) >> (u32::BITS - Self::HEAD_BITS)) as usize
    }
}

impl Score {
    /// A window of the error is at this place of the text.
    fn see(&mut self, text: &[u8], at: usize, pattern: &Pattern, place: usize, run: usize) {
        if at < self.end {
            return;
        }
        let end = pattern.end_of(place);
        let most = (end - place).min(text.len() - at);
        let alike = (0..most)
            .find(|step| text[at + step] != pattern.text[place + step])
            .unwrap_or(most);
        if alike < run {
            return;
        }
        let goes_on = self.now > 0 && place >= self.end_in_error && at - self.end < REACH;
        if !goes_on {
            self.now = 0;
            self.first = at;
        }
        self.now += alike;
        self.end = at + alike;
        self.end_in_error = place + alike;
        if self.now > self.best {
            self.best = self.now;
            self.best_at = self.first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::squeeze;

    #[test]
    fn a_piece_leads_to_its_error() {
        let of = |text: &str| {
            find(&squeeze(text), false).map(|found| (found.error.stage, found.error.error_type))
        };
        assert_eq!(
            of("needed, which is larger than the available KV cache"),
            Some((Stage::Plan, "ValueError"))
        );
        assert_eq!(
            of("integer division or modulo by zero"),
            Some((Stage::Plan, "ZeroDivisionError"))
        );
        assert_eq!(
            of("DeepseekV4 fp8_ds_mla layout only sup"),
            Some((Stage::Model, "AssertionError"))
        );
        assert_eq!(of("a text about nothing of the sort at all"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn every_row_is_a_text_with_a_class() {
        let mut count = 0;
        for error in KnownError::all() {
            assert!(
                !error.text.is_empty()
                    && (error.error_type.ends_with("Error") || error.stage == Stage::Args),
                "{error:?}"
            );
            count += 1;
        }
        assert!(count > 100, "{count}");
    }
}
