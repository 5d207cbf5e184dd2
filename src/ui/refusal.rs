//! A start-up that stops, or a question without a rule.

use kv_resolver::{Outcome, StartupError};

use super::detail::notes;
use crate::answers::Answer;
use crate::markup::Markup;

/// vLLM's error and what works instead; or, looking otherwise, that there is no rule here.
pub fn refusal(html: &mut Markup, answer: &Answer, error: &StartupError) {
    let refusal = &error.refusal;
    let text = refusal.to_string();
    if refusal.outcome() == Outcome::Unmodelled {
        html.add(
            "<div class=\"ours\"><p><b>This is not vLLM's refusal.</b> KV Explorer has no rule for it, and does not \
             guess.</p><p>{}</p></div>",
            &[&text],
        );
    } else {
        html.add(
            "<div class=\"error\"><p>vLLM stops while <b>{}</b>, with <code>{}</code>:</p><div class=\"with-copy\">\
             <pre tabindex=\"0\">{}: {}</pre><button type=\"button\" data-copy=\"\">Copy</button></div></div>",
            &[
                refusal.stage().describe(),
                refusal.error_type(),
                refusal.error_type(),
                &text,
            ],
        );
    }
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
