//! Paste a command, a log or an error: it fills the form, and what a log printed is held against the answer.

use kv_paste::{Explanation, Match, Standing};
use leptos::prelude::*;

use crate::markup::Markup;
use crate::reading::Reading;
use crate::state::state;
use crate::text;

/// The id of what is pasted into.
pub const PASTE_ID: &str = "paste";
/// On a button: the number of what would close the gap.
pub const CLOSING: &str = "data-closing";
/// On a button: the flag to leave out.
pub const LEAVE_OUT: &str = "data-leave-out";

/// A disclosure to paste into, and what was read.
#[component]
pub fn Paste() -> impl IntoView {
    let state = state();
    let html = Signal::derive(move || {
        state.explained.with(|explained| {
            let explanation = explained.as_ref().and_then(|it| it.explanation.as_deref());
            let reading = state.reading.get();
            reading.map_or_else(String::new, |reading| told(&reading, explanation))
        })
    });
    view! {
        <details class="more paste">
            <summary>"Paste a command, a log or an error"</summary>
            <div class="more-body">
                <textarea
                    id=PASTE_ID
                    rows="4"
                    spellcheck="false"
                    autocomplete="off"
                    aria-label="A command, a log or an error of vLLM"
                    placeholder="vllm serve …, docker run …, a compose file, or lines that vLLM printed"
                ></textarea>
                <p class="hint">"It is read here, in your browser, and sent nowhere."</p>
                <div class="reading" aria-live="polite" inner_html=html></div>
            </div>
        </details>
    }
}

#[inline(never)] // of the program's second half
fn told(reading: &Reading, explanation: Option<&Explanation>) -> String {
    let mut html = Markup::new();
    let pasted = match &reading.pasted {
        Ok(pasted) if !pasted.is_empty() => pasted,
        Ok(_) => {
            return "<p class=\"ours\">There is no start of vLLM in it, no line of its log, and no error that is known.</p>"
                .to_owned();
        }
        Err(why) => {
            html.add("<p class=\"ours\">It is too long: {}.</p>", &[why]);
            return html.into_string();
        }
    };
    if let Some(text) = pasted.stops() {
        html.add(
            "<p class=\"ours\"><b>vLLM does not start with this:</b> {}. The answer is to the command without what it does not \
             take.</p>",
            &[text.trim_end_matches('.')],
        );
    }
    if pasted.commands.len() > 1 {
        html.add(
            "<p class=\"hint\">Of {} starts of vLLM in it, the first is asked.</p>",
            &[&pasted.commands.len().to_string()],
        );
    }
    flags(&mut html, reading);
    list(
        &mut html,
        "Not taken",
        reading.problems().into_iter().map(kv_paste::Problem::text),
    );
    list(&mut html, "Mind", reading.left_out.iter().cloned());
    if let Some(error) = &pasted.log.error {
        html.add(
            "<p>Line {}: vLLM stops while {}, with <b>{}</b>:</p><p class=\"mono\">{}</p>",
            &[
                &error.line.to_string(),
                error.value.stage.describe(),
                error.value.error_type,
                error.value.text,
            ],
        );
    }
    if let Some(explanation) = explanation {
        compared(&mut html, explanation);
    }
    html.into_string()
}

fn list(html: &mut Markup, title: &'static str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    html.add("<h3>{}</h3><ul>", &[title]);
    for item in items {
        html.add("<li>{}</li>", &[&item]);
    }
    html.add("</ul>", &[]);
}

/// Each flag by what it does to the answer.
fn flags(html: &mut Markup, reading: &Reading) {
    let passed = reading.passed();
    let is_modelled = |standing| matches!(standing, Standing::Modelled(_) | Standing::Drafting);
    let is_without = |standing| standing == Standing::Unmodelled;
    for (title, belongs) in [
        ("In the form", &is_modelled as &dyn Fn(Standing) -> bool),
        ("Without a rule here", &is_without),
        ("Does not touch the KV cache", &|standing| {
            !is_modelled(standing) && !is_without(standing)
        }),
    ] {
        let of_title = passed.iter().filter(|(_, standing)| belongs(*standing));
        let names: Vec<&str> = of_title.map(|(spelled, _)| spelled.as_str()).collect();
        if !names.is_empty() {
            html.add(
                "<h3>{}</h3><p class=\"mono\">{}</p>",
                &[title, &names.join("  ")],
            );
        }
    }
}

/// What was printed, beside what is predicted.
fn compared(html: &mut Markup, explanation: &Explanation) {
    if !explanation.figures.is_empty() {
        html.add(
            "<h3>{}</h3><div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Printed and predicted\"><table><thead><tr><td></td><th scope=\"col\">printed</th>\
             <th scope=\"col\">predicted</th></tr></thead><tbody>",
            &[if explanation.agrees() {
                "As predicted"
            } else {
                "Otherwise than predicted"
            }],
        );
        for figure in &explanation.figures {
            html.add(
                "<tr class=\"{}\"><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
                &[
                    if figure.agrees { "agrees" } else { "differs" },
                    figure.kind.as_str(),
                    &figure.printed,
                    &figure.predicted,
                ],
            );
        }
        html.add("</tbody></table></div>", &[]);
    }
    if !explanation.agrees() {
        if explanation.closings.is_empty() {
            html.text("No one thing of those that were tried, taken otherwise, comes to what was printed.");
        } else {
            html.add(
                "<h3>Any of these alone comes to what was printed</h3><ul>",
                &[],
            );
            for (index, closing) in explanation.closings.iter().enumerate() {
                html.add(
                    "<li>{} <button type=\"button\" data-closing=\"{}\">Apply</button></li>",
                    &[&closing.text(), &index.to_string()],
                );
            }
            html.add("</ul>", &[]);
        }
    }
    let differing: Vec<_> = explanation
        .lines
        .iter()
        .filter_map(|line| match &line.found {
            Match::Differs { line: at, text } => Some((line, *at, text)),
            Match::Equal(_) | Match::Missing => None,
        })
        .collect();
    let equal = explanation.lines.iter();
    let equal = equal
        .filter(|line| matches!(line.found, Match::Equal(_)))
        .count();
    html.add(
        "<p class=\"hint\">Of {}, {} to the letter in the log, {} otherwise.</p>",
        &[
            &text::counted(explanation.lines.len() as u64, "predicted line"),
            &equal.to_string(),
            &differing.len().to_string(),
        ],
    );
    for (line, at, found) in differing {
        html.add(
            "<p class=\"mono\">{}: {}</p><p class=\"mono hint\">predicted: {}</p>",
            &[&at.to_string(), found, &line.predicted.text],
        );
    }
}

/// The unmodelled flags that are passed, above the answer: there is none with them.
pub fn unmodelled(html: &mut Markup, names: &[String]) {
    if names.is_empty() {
        return;
    }
    html.add(
        "<div class=\"ours unmodelled-flags\"><p>Passed, and without a rule here: what vLLM would do with them is not guessed. \
         Without them it is answered.</p><p>",
        &[],
    );
    for name in names {
        html.add(
            "<button type=\"button\" data-leave-out=\"{}\">Leave out {}</button> ",
            &[name, name],
        );
    }
    html.add(
        "<button type=\"button\" data-leave-out=\"\">Leave out all</button></p></div>",
        &[],
    );
}
