//! What the words in the matrix mean.

use kv_resolver::Outcome;

use crate::markup::Markup;
use crate::text;

/// A list of every outcome.
pub fn legend() -> String {
    let mut html = Markup::new();
    for outcome in Outcome::ALL {
        html.add(
            "<li class=\"{}\"><span class=\"swatch\" aria-hidden=\"true\">{}</span><b>{}</b> {}</li>",
            &[
                text::outcome_class(outcome),
                text::glyph(outcome),
                outcome.as_str(),
                outcome.meaning(),
            ],
        );
    }
    html.add(
        "<li class=\"plain-word\"><b>B/token</b> what one more token takes, past every window</li>\
         <li class=\"plain-word\"><b>≈ n×</b> so many requests of the context length fit, by what a start-up is \
         likely to leave for the KV cache. A GPU of less memory can hold more: vLLM’s defaults for it are smaller steps, and \
         windows reserve less</li>",
        &[],
    );
    html.add(
        "<li class=\"plain-word\"><b>●</b> verified: vLLM’s own answers of this kind are recorded, and equal <b>○</b> \
         derived: the rules are modelled, this combination is in no recorded answer</li>",
        &[],
    );
    html.into_string()
}
