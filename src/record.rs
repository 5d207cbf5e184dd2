//! On what an answer stands: how many of vLLM's own answers are of its kind. The counts are a file beside the page.

use kv_resolver::memory::Source;
use kv_resolver::standing::Signature;
use kv_resolver::{Outcome, Value};

use crate::answer::Answer;
use crate::catalog::fetch_text;
use crate::text;

/// Where it is, beside the page. `cargo xtask record` writes it.
const ADDRESS: &str = "record.json";

/// vLLM's answers by release, architecture and kind.
#[derive(Debug)]
pub struct Record(Value);

impl Record {
    /// Reads the file; `None` if it is not one of these.
    pub fn parse(text: &str) -> Option<Self> {
        let record = kv_cases::parse_config(text).ok()?;
        matches!(record, Value::Object(_)).then_some(Self(record))
    }

    /// Loads the file; `None` if it does not come: the answers are the same without it.
    pub async fn load() -> Option<Self> {
        Self::parse(&fetch_text(ADDRESS).await.ok()?)
    }

    /// How many answers are of this kind.
    pub fn count(&self, kind: &Signature) -> u64 {
        let of_architecture = self
            .0
            .get(kind.release)
            .and_then(|release| release.get(&kind.architecture));
        let within = kind.within();
        let (arch, asked) = within.split_once(' ').unwrap_or_default();
        let of_arch = of_architecture.and_then(|archs| archs.get(arch));
        let count = of_arch.and_then(|kinds| kinds.get(asked));
        let count = count.and_then(Value::as_integer);
        count.map_or(0, |count| u64::try_from(count).unwrap_or(0))
    }

    /// In a word and a sentence.
    pub fn standing(&self, answer: &Answer) -> (&'static str, String) {
        match answer.outcome() {
            Outcome::Unmodelled => {
                return ("unmodelled", "there is no rule for it here".to_owned());
            }
            Outcome::Unverified => {
                return (
                    "unverified",
                    "vLLM’s plan has it so, and declares or checks otherwise later".to_owned(),
                );
            }
            Outcome::DoesNotFit if !estimate(answer).is_empty() => {
                return (
                    "estimated",
                    "whether it fits follows from an estimate, of which nothing is claimed"
                        .to_owned(),
                );
            }
            Outcome::Works | Outcome::Becomes | Outcome::Refused | Outcome::DoesNotFit => {}
        }
        let kind = Signature::of(&answer.request());
        match kind.map_or(0, |kind| self.count(&kind)) {
            0 => (
                "derived",
                "its rules are modelled; none of vLLM’s own answers here is of this very combination".to_owned(),
            ),
            1 => (
                "verified",
                "one of vLLM’s own answers is of this kind, and equal".to_owned() + estimate(answer),
            ),
            count => (
                "verified",
                format!(
                    "{} of vLLM’s own answers are of this kind, and all equal{}",
                    text::number(count),
                    estimate(answer)
                ),
            ),
        }
    }
}

/// That a pool is not among what is compared.
fn estimate(answer: &Answer) -> &'static str {
    match answer.planned().map(|memory| &memory.planned) {
        Some(planned) if planned.source == Source::Estimated && planned.stops.is_none() => {
            "; the pool is an estimate"
        }
        Some(_) | None => "",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::catalog::tests::shelf;
    use crate::input::Input;
    use crate::page::Page;
    use kv_resolver::{CacheDtype, Flag};

    fn answer(input: &Input) -> Arc<Answer> {
        Arc::clone(Page::new(input, &shelf(), None).answer().unwrap())
    }

    #[test]
    fn what_is_no_question_is_never_verified() {
        let record = Record::parse(include_str!("../public/record.json")).unwrap();
        let mut answer = Answer::clone(&answer(&Input::default()));
        assert_eq!(record.standing(&answer).0, "verified");
        let mut request = answer.request();
        request.args.gpu_memory_utilization = Some(f64::NAN);
        answer.result = kv_resolver::resolve(&request);
        assert!(answer.result.is_err());
        assert_eq!(record.standing(&answer).0, "unmodelled");
    }

    #[test]
    fn every_answer_stands_on_something() {
        let record = Record::parse(include_str!("../public/record.json")).unwrap();
        let mut input = Input::default();
        let (word, why) = record.standing(&answer(&input));
        assert_eq!(word, "verified");
        assert!(
            why.contains("of vLLM’s own answers are of this kind"),
            "{why}"
        );
        input.dtype = CacheDtype::Fp8;
        input.set_flag(Flag::DecodeContextParallelSize, "2");
        input.set_flag(Flag::PrefillContextParallelSize, "2");
        input.set_flag(Flag::EnableExpertParallel, "true");
        let (word, _) = record.standing(&answer(&input));
        assert!(["derived", "verified"].contains(&word));
        input = Input::default();
        input.set_flag(Flag::AttentionBackend, "NO_SUCH");
        assert_ne!(record.standing(&answer(&input)).0, "unmodelled");
        assert!(Record::parse("[]").is_none() && Record::parse("x").is_none());
    }
}
