//! The chosen cell, whole.

use kv_resolver::resolution::Note;
use kv_resolver::speculation::Drafter;
use kv_resolver::weights::WeightBytes;
use kv_resolver::{Outcome, Resolution};
use leptos::html;
use leptos::prelude::*;
use web_sys::Element;

use super::block::block;
use super::chart::chart;
use super::clicks::{ANSWER_ID, TITLE_ID};
use super::figures::{capacity, figures};
use super::groups::groups;
use super::kinds::{kinds, shown};
use super::log::log;
use super::memory::memory;
use super::refusal::refusal;
use super::releases::releases;
use super::suggestions::suggestions;
use super::why::why;
use super::words::words;
use crate::answer::Answer;
use crate::markup::Markup;
use crate::record::Record;
use crate::report::report;
use crate::state::state;
use crate::text;

/// Until it is here.
const AWAITED: &str = "<p class=\"awaited\">The whole answer is on its way …</p>";

/// The whole answer for the chosen cell. Its parts are drawn anew one by one, as they change: while the context length
/// is dragged, most stay as they are.
#[component]
pub fn Detail() -> impl IntoView {
    let state = state();
    let section = NodeRef::<html::Section>::new();
    Effect::new(move |drawn: Option<Vec<String>>| {
        let record = state.record.get();
        let parts = state.page.with(|page| {
            let whole = page.answer();
            whole.map(|whole| answer(whole, record.as_deref(), &shown()))
        });
        let parts = parts.unwrap_or_else(|| vec![AWAITED.to_owned()]);
        if let Some(section) = section.get() {
            draw(&section, &parts, &drawn.unwrap_or_default());
        }
        parts
    });
    view! {
        <section
            id=ANSWER_ID
            class="detail"
            tabindex="-1"
            aria-labelledby=TITLE_ID
            node_ref=section
        ></section>
    }
}

/// Draws the parts that differ.
fn draw(section: &Element, parts: &[String], drawn: &[String]) {
    let children = section.children();
    if parts.len() != drawn.len() || children.length() as usize != drawn.len() {
        let mut html = String::new();
        for part in parts {
            html.push_str("<div class=\"part-of-answer\">");
            html.push_str(part);
            html.push_str("</div>");
        }
        section.set_inner_html(&html);
        return;
    }
    for (index, (part, old)) in (0..).zip(parts.iter().zip(drawn)) {
        if let Some(child) = children.item(index).filter(|_| part != old) {
            child.set_inner_html(part);
        }
    }
}

fn answer(answer: &Answer, record: Option<&Record>, shown: &str) -> Vec<String> {
    let mut html = Markup::new();
    head(&mut html, answer);
    standing(&mut html, answer, record);
    words(html.cut());
    html.cut();
    match &answer.result {
        Ok(resolution) => resolved(&mut html, answer, resolution, shown),
        Err(error) => {
            refusal(&mut html, answer, error);
            log(html.cut(), answer);
            from_the_gpu(html.cut(), answer);
        }
    }
    html.cut().add(
        "<div class=\"command\"><h3>The command this is about</h3><div class=\"with-copy\"><pre tabindex=\"0\">{}</pre>\
         <button type=\"button\" data-copy=\"\">Copy</button></div></div>",
        &[&answer.asked.command(answer.dtype.as_str())],
    );
    releases(html.cut(), answer);
    why(html.cut(), answer);
    html.cut().add(
        "<details class=\"report\"><summary>Report a wrong answer</summary><p class=\"hint\">Copy this, add what vLLM \
         printed, and send it to whoever keeps this explorer. Nothing is sent from here.</p><div class=\"with-copy\"><pre \
         tabindex=\"0\">{}</pre><button type=\"button\" data-copy=\"\">Copy</button></div></details>",
        &[&report(answer)],
    );
    html.into_parts()
}

/// On what the answer stands. Its place is kept while the record is not here.
fn standing(html: &mut Markup, answer: &Answer, record: Option<&Record>) {
    html.add("<p class=\"standing\">", &[]);
    if let Some(record) = record {
        let (word, why) = record.standing(answer);
        html.add(
            "<b class=\"{}\">{}</b> {}. <a href=\"accuracy.html\">What the answers stand on</a>",
            &[word, word, &why],
        );
    }
    html.add("</p>", &[]);
}

fn head(html: &mut Markup, answer: &Answer) {
    let outcome = answer.outcome();
    let gpu = answer.gpu;
    html.add(
        "<div class=\"detail-head\"><h2 id=\"{}\" tabindex=\"-1\">{}",
        &[TITLE_ID, answer.dtype.as_str()],
    );
    match &answer.result {
        Ok(resolution) if resolution.cache_dtype != answer.dtype => {
            html.add(
                " <span class=\"arrow\">→</span> {}",
                &[resolution.cache_dtype.as_str()],
            );
        }
        Ok(_) | Err(_) => {}
    }
    html.add(
        "</h2><span class=\"badge {}\" title=\"{}\"><i aria-hidden=\"true\">{}</i>{}</span>\
         <p class=\"place\">{} · compute capability {} · vLLM {}</p></div>",
        &[
            text::outcome_class(outcome),
            outcome.meaning(),
            text::glyph(outcome),
            outcome.as_str(),
            gpu.label,
            &gpu.capability.to_string(),
            answer.asked.release.version(),
        ],
    );
}

fn resolved(html: &mut Markup, answer: &Answer, resolution: &Resolution, shown: &str) {
    if resolution.outcome == Outcome::Unverified {
        html.add(
            "<p class=\"ours\"><b>Unverified:</b> {}. These figures are what the plan comes to, not a promise that it \
             runs.</p>",
            &[Outcome::Unverified.meaning()],
        );
    }
    facts(html, answer, resolution);
    figures(html.cut(), answer, resolution);
    capacity(html, answer, resolution);
    log(html.cut(), answer);
    from_the_gpu(html.cut(), answer);
    let given = resolution.available_memory.map(|pool| [pool; 3]);
    let planned = answer.planned().map(|memory| memory.planned.pool.pools());
    chart(html.cut(), resolution, planned.or(given));
    groups(html.cut(), resolution);
    block(html.cut(), resolution);
    kinds(html.cut(), resolution, shown);
    notes(html.cut(), &resolution.notes);
}

/// The pool, what it holds, and what to change.
fn from_the_gpu(html: &mut Markup, answer: &Answer) {
    memory(html, answer);
    html.cut();
    if let Some(memory) = answer.planned() {
        suggestions(html, &memory.changes, memory.length());
    }
}

fn facts(html: &mut Markup, answer: &Answer, resolution: &Resolution) {
    html.add(
        "<dl class=\"facts\"><div><dt>Backends</dt><dd class=\"mono\">{}</dd></div>\
         <div><dt>Block size</dt><dd>{}",
        &[
            &resolution.backends.join(", "),
            &text::tokens(resolution.block_size),
        ],
    );
    if resolution.reported_block_size != resolution.block_size {
        html.add(
            " <small>metrics will show {}, the smallest group's</small>",
            &[&text::number(resolution.reported_block_size)],
        );
    }
    html.add(
        "</dd></div><div><dt>Layout</dt><dd class=\"mono\">{}</dd></div>\
         <div><dt>In flight</dt><dd>{} <small>{} × max_num_batched_tokens {}</small></dd></div>",
        &[
            // before 0.29 a block has no layout by name
            resolution
                .kv_cache_layout
                .map_or("—", |layout| layout.as_str()),
            &text::tokens(resolution.reserved_in_flight_tokens),
            &text::number(
                resolution.reserved_in_flight_tokens / resolution.max_num_batched_tokens.max(1),
            ),
            &text::number(resolution.max_num_batched_tokens),
        ],
    );
    weights(html, &resolution.weights);
    if let Some(drafter) = &answer.drafter {
        drafting(html, drafter, resolution);
    }
    html.add("</dl>", &[]);
}

/// What the weights take of each GPU, or why that is not counted.
fn weights(html: &mut Markup, weights: &WeightBytes) {
    let counted = |bytes: Option<u64>, uncounted: &Option<String>| match (bytes, uncounted) {
        (Some(bytes), _) => Some((text::bytes(bytes), text::exact_bytes(bytes))),
        (None, Some(why)) => Some(("not counted".to_owned(), why.clone())),
        (None, None) => None,
    };
    let Some((own, more)) = counted(weights.parameter_bytes, &weights.parameters_uncounted) else {
        return;
    };
    html.add(
        "<div class=\"weights\"><dt>Weights a GPU, as built</dt><dd>{} <small>{}",
        &[&own, &more],
    );
    let drafter = counted(
        weights.draft_parameter_bytes,
        &weights.draft_parameters_uncounted,
    );
    if let Some((own, more)) = drafter {
        html.add(" · the drafter {}: {}", &[&own, &more]);
    }
    html.add("</small></dd></div>", &[]);
}

/// The drafter, its layers and what it costs.
fn drafting(html: &mut Markup, drafter: &Drafter, resolution: &Resolution) {
    html.add(
        "<div class=\"drafter\"><dt>Drafter</dt><dd>{}, {} a step<small>",
        &[
            drafter.method.as_str(),
            &text::tokens(drafter.num_speculative_tokens),
        ],
    );
    for layer in &resolution.draft_layers {
        html.add(
            " · {} × {}",
            &[&layer.count.to_string(), layer.role.label()],
        );
    }
    if let Some(cost) = &drafter.cost {
        if cost.is_nothing() {
            html.text(" · costs nothing: no byte more a token or a request");
        } else if let Some((marginal, fixed)) = &cost.bytes {
            html.add(
                " · costs {}{} a token, {}{} a request",
                &[
                    marginal.sign(),
                    &text::per_token(marginal.by),
                    fixed.sign(),
                    &text::bytes(fixed.by),
                ],
            );
        }
        if let Some([without, with]) = cost.requests.as_ref().filter(|[a, b]| a != b) {
            html.add(" · fits {}×, {}× without it", &[with, without]);
        }
    }
    html.add("</small></dd></div>", &[]);
}

/// What the answer does not say by itself.
pub fn notes(html: &mut Markup, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    html.add("<div class=\"notes\"><h3>Worth knowing</h3><ul>", &[]);
    for note in notes {
        html.add("<li>{}</li>", &[&note.text]);
    }
    html.add("</ul></div>", &[]);
}
