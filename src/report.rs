//! A report on a wrong answer, for a person to send: the question, our answer, and room for vLLM's.

use std::fmt::Write as _;

use kv_resolver::resolution::Capacity;

use crate::answer::Answer;
use crate::text;

/// Our version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The whole report. Nothing is sent: it is text to copy.
pub fn report(answer: &Answer) -> String {
    let mut out = String::from("KV Explorer ");
    // writing to a String cannot fail, here and below
    let _ = write!(
        out,
        "{VERSION} on vLLM {}\n\ncase, for `kvx resolve`:\n{}\n\ncommand:\n{}\n\nour answer:\n",
        answer.asked.release.version(),
        answer.asked.case(answer.gpu, answer.dtype),
        answer.asked.command(answer.dtype.as_str()),
    );
    match &answer.result {
        Ok(resolution) => {
            let _ = write!(
                out,
                "{}: {} → {}, {} a token, {} fixed, {} at {}\nbackends {}, block {} of {}\n",
                answer.outcome().as_str(),
                resolution.requested_cache_dtype.as_str(),
                resolution.cache_dtype.as_str(),
                text::per_token(resolution.marginal_bytes_per_token),
                text::exact_bytes(resolution.fixed_bytes_per_request),
                text::exact_bytes(resolution.request_bytes),
                text::tokens(resolution.max_model_len),
                resolution.backends.join(", "),
                text::exact_bytes(resolution.bytes_per_block),
                text::tokens(resolution.block_size),
            );
            for line in resolution.capacity.iter().flat_map(Capacity::lines) {
                out.push_str(line);
                out.push('\n');
            }
        }
        Err(error) => {
            let _ = writeln!(
                out,
                "{} while {}: {}: {}",
                answer.outcome().as_str(),
                error.refusal.stage().describe(),
                error.refusal.error_type(),
                error.refusal
            );
        }
    }
    out.push_str(
        "\nvLLM's lines (paste those with: Available KV cache memory, GPU KV cache size, Using … attention backend, \
         Setting … block size; or the error):\n\n",
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::shelf;
    use crate::input::{Input, ModelChoice};
    use crate::page::Page;
    use kv_resolver::{CacheDtype, Flag};
    use std::sync::Arc;

    fn case_of(input: &Input) -> (String, Arc<Answer>) {
        let page = Page::new(input, &shelf(), None);
        let answer = Arc::clone(page.answer().unwrap());
        (answer.asked.case(answer.gpu, answer.dtype), answer)
    }

    #[test]
    fn the_case_of_a_report_is_the_question() {
        let mut input = Input {
            pool_gib: "40".to_owned(),
            allow_long: true,
            kv_cache_layout: "BLNHC".to_owned(),
            ..Input::default()
        };
        input.set_flag(Flag::AsyncScheduling, "false");
        input.set_flag(Flag::GpuMemoryUtilization, "0.9");
        let mut pasted = Input {
            pasted: Arc::from(r#"{"architectures":["X"],"model_type":"x\"y"}"#),
            free_gib: "70".to_owned(),
            ..Input::default()
        };
        pasted.choose_model(ModelChoice::Pasted);
        pasted.dtype = CacheDtype::Fp8;
        for input in [Input::default(), input, pasted] {
            let (case, answer) = case_of(&input);
            let (_, request) = kv_cases::parse_case(&case);
            assert_eq!(
                request.unwrap_or_else(|error| panic!("{case}: {}", error.text())),
                answer.request()
            );
            let report = report(&answer);
            assert!(report.contains(&case) && report.contains("our answer:\n"));
        }
    }
}
