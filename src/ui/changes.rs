//! What changed from another release, over the whole matrix.

use kv_resolver::catalog::GPUS;
use kv_resolver::diff::{Change, Diff, FieldChange, StepChange, Weight, dtypes};
use kv_resolver::{Outcome, Release};
use leptos::prelude::*;

use super::field::{Choices, SelectField};
use super::releases::label;
use crate::markup::Markup;
use crate::state::state;
use crate::text;

/// A release to compare with, and what changed since or before.
#[component]
pub fn Changes() -> impl IntoView {
    let state = state();
    let releases = Release::ALL.map(|release| (release.version(), release.version()));
    let choices = Choices::new(&[("", "no other release")]).and(&releases);
    let html = state.shown(|page| {
        let mut html = Markup::new();
        let diff = page
            .answers
            .as_ref()
            .and_then(|answers| answers.changes.as_ref());
        if let Some(diff) = diff {
            changes(&mut html, diff);
        }
        html.into_string()
    });
    let compared = state.entered(|input| {
        let compare = input.compare.map(Release::version);
        compare.unwrap_or_default().to_owned()
    });
    view! {
        <section class="changes" aria-labelledby="changes-title">
            <h2 id="changes-title">"What changed between releases"</h2>
            <SelectField
                id="field-compare".to_owned()
                label="Compare with vLLM"
                hint="every cell of the matrix, in both releases"
                choices=choices
                value=compared
                on_choose=Box::new(move |version| {
                    state.change(|input| input.compare = version.parse().ok());
                })
            />
            <div class="changes-body" aria-live="polite" inner_html=html></div>
        </section>
    }
}

fn changes(html: &mut Markup, diff: &Diff) {
    let changed: usize = diff.changes.iter().map(|change| change.cells.len()).sum();
    html.add(
        "<p class=\"hint\">From vLLM <b>{}</b> to <b>{}</b>, {} of {} cells answer otherwise",
        &[
            diff.from.version(),
            diff.to.version(),
            &text::number(changed as u64),
            &text::number(diff.cells as u64),
        ],
    );
    match diff.changes.len() {
        0 => html.add(".</p>", &[]),
        1 => html.add(", all in one way.</p>", &[]),
        ways => html.add(", in {} ways.</p>", &[&ways.to_string()]),
    };
    if diff.unmodelled > 0 {
        html.add(
            "<p class=\"ours\"><b>{} of them cannot be compared:</b> there is no rule for them in one of the releases or in \
             both.</p>",
            &[&text::number(diff.unmodelled as u64)],
        );
    }
    let (in_words, others): (Vec<&Change>, Vec<&Change>) = diff
        .changes
        .iter()
        .partition(|change| change.weight == Weight::Words);
    for change in others {
        one(html, diff, change);
    }
    if !in_words.is_empty() {
        html.add(
            "<details class=\"change\"><summary>Refused in both, in other words: {}</summary>",
            &[&text::counted(in_words.len() as u64, "way")],
        );
        for change in in_words {
            one(html, diff, change);
        }
        html.add("</details>", &[]);
    }
}

fn one(html: &mut Markup, diff: &Diff, change: &Change) {
    html.add("<article class=\"change\"><h3>", &[]);
    match change.weight {
        Weight::Outcome => {
            badge(html, change.from);
            html.add(" <span class=\"arrow\">→</span> ", &[]);
            badge(html, change.to);
        }
        Weight::Bytes => {
            html.add("Starts in both, with other bytes", &[]);
        }
        Weight::Words => {
            badge(html, change.to);
            html.add(" in both, in other words", &[]);
        }
    }
    html.add("</h3><p class=\"cells\">{}</p>", &[&cells(diff, change)]);
    match change.weight {
        // many of these differ by GPU alone: the figures that people compare are enough at first
        Weight::Bytes => {
            headline(html, &change.fields);
            html.add("<details><summary>Every figure, and why</summary>", &[]);
            fields(html, diff, &change.fields);
            why(html, diff, &change.why);
            html.add("</details>", &[]);
        }
        Weight::Outcome => {
            fields(html, diff, &change.fields);
            html.add("<details><summary>Why</summary>", &[]);
            why(html, diff, &change.why);
            html.add("</details>", &[]);
        }
        Weight::Words => fields(html, diff, &change.fields),
    }
    html.add("</article>", &[]);
}

/// The figures that people compare first.
const HEADLINE: [&str; 4] = [
    "marginal_bytes_per_token",
    "request_bytes",
    "bytes_per_block",
    "printed_concurrency",
];

fn headline(html: &mut Markup, fields: &[FieldChange]) {
    let is_first = |field: &&FieldChange| HEADLINE.contains(&field.field);
    let mut compared = fields.iter().filter(is_first).peekable();
    if compared.peek().is_none() {
        return;
    }
    html.add("<ul class=\"headline\">", &[]);
    for field in compared {
        let [from, to] = field.sides();
        html.add(
            "<li>{} <span class=\"n\">{}</span> → <b class=\"n\">{}</b></li>",
            &[label(field.field), from, to],
        );
    }
    html.add("</ul>", &[]);
}

fn badge(html: &mut Markup, outcome: Outcome) {
    html.add(
        "<span class=\"badge {}\"><i aria-hidden=\"true\">{}</i>{}</span>",
        &[
            text::outcome_class(outcome),
            text::glyph(outcome),
            outcome.as_str(),
        ],
    );
}

/// `auto, fp8 on every GPU; fp8 on GB10`
fn cells(diff: &Diff, change: &Change) -> String {
    let lot = |(gpus, dtypes): &(Vec<usize>, Vec<&str>)| {
        let on = if gpus.len() == GPUS.len() {
            "every GPU".to_owned()
        } else {
            let labels = gpus.iter().filter_map(|gpu| GPUS.get(*gpu));
            labels.map(|gpu| gpu.label).collect::<Vec<_>>().join(", ")
        };
        format!("{} on {on}", dtypes.join(", "))
    };
    let lots = change.by_gpus(&dtypes(diff.from, diff.to));
    lots.iter().map(lot).collect::<Vec<_>>().join("; ")
}

fn fields(html: &mut Markup, diff: &Diff, fields: &[FieldChange]) {
    html.add(
        "<table><thead><tr><td></td><th scope=\"col\">{}</th><th scope=\"col\">{}</th></tr></thead><tbody>",
        &[diff.from.version(), diff.to.version()],
    );
    for field in fields {
        if field.goes_without_saying() {
            continue;
        }
        // an error beside a start has the room to itself
        let lone = match (field.field, &field.from, &field.to) {
            ("error", Some(text), None) => Some((diff.from, text)),
            ("error", None, Some(text)) => Some((diff.to, text)),
            _ => None,
        };
        if let Some((release, text)) = lone {
            html.add(
                "<tr><th scope=\"row\">error of {}</th><td colspan=\"2\">{}</td></tr>",
                &[release.version(), text],
            );
            continue;
        }
        let [from, to] = field.sides();
        html.add(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            &[label(field.field), from, to],
        );
    }
    html.add("</tbody></table>", &[]);
}

fn why(html: &mut Markup, diff: &Diff, why: &[StepChange]) {
    html.add("<ol>", &[]);
    for change in why {
        for (release, step) in [(diff.from, &change.from), (diff.to, &change.to)] {
            if let Some(step) = step {
                html.add(
                    "<li><b>{}</b> {}<small><code>{}</code> · <code>{}</code></small></li>",
                    &[
                        release.version(),
                        &step.decided,
                        step.rule.function,
                        step.rule.file,
                    ],
                );
            }
        }
    }
    html.add("</ol>", &[]);
}
