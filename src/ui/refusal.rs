//! A start-up that stops, or a question without a rule.

use kv_resolver::memory::Source;
use kv_resolver::{Outcome, Refusal, StartupError};

use super::detail::notes;
use super::memory::size;
use crate::answer::Answer;
use crate::markup::Markup;
use crate::text;

/// vLLM's error and what works instead; or, looking otherwise, that there is no rule here.
pub fn refusal(html: &mut Markup, answer: &Answer, error: &StartupError) {
    let refusal = &error.refusal;
    let said = refusal.to_string();
    if text::outcome_of(refusal) == Outcome::Unmodelled {
        html.add(
            "<div class=\"ours\"><p><b>This is not vLLM's refusal.</b> KV Explorer has no rule for it, and does not \
             guess.</p><p>{}</p></div>",
            &[&said],
        );
    } else {
        html.add(
            "<div class=\"error\"><p>vLLM stops while <b>{}</b>, with <code>{}</code>:</p><div class=\"with-copy\">\
             <pre tabindex=\"0\">{}: {}</pre><button type=\"button\" data-copy=\"\">Copy</button></div></div>",
            &[
                refusal.stage().describe(),
                refusal.error_type(),
                refusal.error_type(),
                &said,
            ],
        );
    }
    by_estimate(html, answer, refusal);
    if !error.advice.is_empty() {
        html.add(
            "<div class=\"advice\"><h3>What works on {}</h3><ul>",
            &[answer.gpu.label],
        );
        for (index, advice) in error.advice.iter().enumerate() {
            html.add("<li><span>{}</span>", &[&advice.text]);
            if !advice.set.is_empty() {
                html.add(
                    "<button type=\"button\" class=\"apply\" data-apply=\"{}\" aria-label=\"Apply: {}\">Apply</button>",
                    &[&index.to_string(), &advice.text],
                );
            }
            html.add("</li>", &[]);
        }
        html.add("</ul></div>", &[]);
    }
    notes(html, &error.notes);
}

/// That an error's GiB are estimated, and what the best end of the estimate comes to.
fn by_estimate(html: &mut Markup, answer: &Answer, refusal: &Refusal) {
    let Some(memory) = answer.planned() else {
        return;
    };
    let planned = &memory.planned;
    let is_estimated = planned.source == Source::Estimated && planned.stops.is_none();
    if refusal.outcome() != Outcome::DoesNotFit || !is_estimated {
        return;
    }
    html.add(
        "<p class=\"ours\"><b>By an estimate:</b> vLLM is likely to leave {} for the KV cache. ",
        &[&size(planned.pool)],
    );
    match &planned.ends[2].fit {
        Ok(fit) => html.add(
            "With the most of it, {} such requests would fit.</p>",
            &[&fit.requests.shown()],
        ),
        Err(_) => html.add("Even the most of it is too little.</p>", &[]),
    };
}
