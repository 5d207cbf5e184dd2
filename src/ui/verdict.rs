//! The answer in a sentence.

use kv_resolver::{Flag, Outcome, Resolution};
use leptos::prelude::*;

use super::figures::is_estimated;
use super::memory::size;
use super::unmodelled;
use crate::answer::{Answer, Memory};
use crate::catalog::Shelf;
use crate::input::Input;
use crate::markup::Markup;
use crate::page::Page;
use crate::second;
use crate::state::{State, state};
use crate::text;

/// Beside the answer that is built in, once something else is asked.
const AWAITED: &str = "<p class=\"stale-notice\">The rules are on their way: this is still the answer to what you had before.</p>";

/// The chosen cell in one sentence, at the top of the page.
#[component]
pub fn Verdict() -> impl IntoView {
    let state = state();
    let first = second::first_answer(".verdict");
    let html = Signal::derive(move || {
        if !state.is_whole.get() {
            let is_other = state.input.with(|input| *input != Input::default());
            return if is_other {
                [&first, AWAITED].concat()
            } else {
                first.clone()
            };
        }
        state
            .page
            .with(|page| state.input.with(|input| said(page, input, state)))
    });
    view! { <div class="verdict" aria-live="polite" aria-atomic="true" inner_html=html></div> }
}

/// The sentence; of what is being dragged, before the page has followed.
fn said(page: &Page, input: &Input, state: State) -> String {
    let Some(answer) = page.answer() else {
        return without_catalog(page.shelf());
    };
    let is_dragged = state.rested.with_untracked(|rested| rested != input);
    let quick = if is_dragged { page.quick(input) } else { None };
    let mut html = sentence(quick.as_ref().unwrap_or(answer));
    unmodelled(&mut html, &input.unmodelled);
    if page.is_stale && quick.is_none() {
        html.add(
            "<p class=\"stale-notice\">A field cannot be read: this is still the answer to what you had before.</p>",
            &[],
        );
    }
    html.into_string()
}

/// What there is to say before the models are here.
fn without_catalog(shelf: &Shelf) -> String {
    let mut html = Markup::new();
    match shelf {
        Shelf::Loading | Shelf::Here(_) => {
            html.add("<p class=\"sentence\">Loading the models …</p>", &[]);
        }
        Shelf::Missing(why) => {
            html.add(
                "<p class=\"sentence refused\"><em>The models did not load</em>: {}.</p>\
                 <p class=\"without\"><button type=\"button\" data-retry=\"\">Try again</button> \
                 Your own config.json needs no list: paste it, open it, or drop it on this page.</p>",
                &[why],
            );
        }
    }
    html.into_string()
}

pub(super) fn sentence(answer: &Answer) -> Markup {
    let mut html = Markup::new();
    let outcome = answer.outcome();
    html.add(
        "<p class=\"sentence {}\"><b>{}</b>",
        &[text::outcome_class(outcome), &answer.asked.config.name],
    );
    if let Some(method) = answer.asked.draft_method() {
        html.add(" with <b>{}</b>", &[method]);
    }
    html.add(" on <b>", &[]);
    for (flag, what) in [
        (Flag::DataParallelSize, " replicas of "),
        (Flag::PipelineParallelSize, " stages of "),
        (Flag::TensorParallelSize, " × "),
    ] {
        if let Some(size) = answer.asked.several(flag) {
            html.add("{}{}", &[&size.to_string(), what]);
        }
    }
    html.add(
        "{}</b>, vLLM {}: ",
        &[answer.gpu.label, answer.asked.release.version()],
    );
    match &answer.result {
        Ok(resolution) => starts(&mut html, answer, resolution),
        Err(error) => {
            let dtype = answer.dtype.as_str();
            match outcome {
                Outcome::Unmodelled => html.add(
                    "<em>KV Explorer has no rule</em> for this and does not guess.",
                    &[],
                ),
                Outcome::DoesNotFit if is_estimated(answer) => {
                    let pool = answer.planned().map(|memory| size(memory.planned.pool));
                    html.add(
                        "<code>{}</code> <em>is not expected to fit</em>: by an estimate, {} are left for the KV cache.",
                        &[dtype, &pool.unwrap_or_default()],
                    )
                }
                Outcome::DoesNotFit => html.add(
                    "<code>{}</code> <em>does not fit</em>: vLLM stops for want of memory.",
                    &[dtype],
                ),
                Outcome::Works | Outcome::Becomes | Outcome::Unverified | Outcome::Refused => html
                    .add(
                        "<code>{}</code> <em>is refused</em> while {}: {}",
                        &[
                            dtype,
                            error.refusal.stage().describe(),
                            &first_sentence(&error.refusal.to_string()),
                        ],
                    ),
            };
        }
    }
    html.add("</p>", &[]);
    html
}

fn starts(html: &mut Markup, answer: &Answer, resolution: &Resolution) {
    let asked_for = resolution.requested_cache_dtype.as_str();
    let resolved = resolution.cache_dtype.as_str();
    html.add("<code>{}</code> ", &[asked_for]);
    if resolution.outcome == Outcome::Unverified {
        html.add("<em>starts, unverified</em>", &[]);
        if asked_for != resolved {
            html.add(", as <code>{}</code>", &[resolved]);
        }
        html.add(".", &[]);
    } else if asked_for == resolved {
        html.add("<em>works as asked</em>.", &[]);
    } else {
        html.add("<em>becomes</em> <code>{}</code>.", &[resolved]);
    }
    html.add(
        " A request of <b class=\"n\">{}</b> takes <b class=\"n\">{}</b>, each further token <b class=\"n\">{}</b>.",
        &[
            &text::tokens(resolution.max_model_len),
            &text::bytes(resolution.request_bytes),
            &text::per_token(resolution.marginal_bytes_per_token),
        ],
    );
    if let (Some(capacity), Some(pool)) = (&resolution.capacity, resolution.available_memory) {
        if let Some(memory) = answer.planned().filter(|_| is_estimated(answer)) {
            estimated(html, answer, memory, resolution, &capacity.requests);
            return;
        }
        html.add(
            " <b class=\"n\">{}</b> such requests fit in <b class=\"n\">{}</b> per GPU{}{}.",
            &[
                &capacity.requests,
                &text::gib(pool),
                if answer.asked.pool_exceeds(answer.gpu) {
                    ", more than this GPU has"
                } else {
                    ""
                },
                &beside(answer, resolution),
            ],
        );
        if answer
            .planned()
            .and_then(|memory| memory.check)
            .is_some_and(|check| !check.agrees())
        {
            html.add(" <b>Your log’s tokens do not agree</b>; see below.", &[]);
        }
    }
}

/// What limits or multiplies the requests that fit.
fn beside(answer: &Answer, resolution: &Resolution) -> String {
    let is_replicated = answer.planned().is_some_and(|memory| memory.is_replicated);
    let fit = answer
        .planned()
        .and_then(|memory| memory.planned.likely().fit.as_ref().ok());
    let is_bounded = fit.is_some_and(|fit| fit.requests.whole() > resolution.max_num_seqs);
    let most = text::number(resolution.max_num_seqs);
    match (is_replicated, is_bounded) {
        (false, false) => String::new(),
        (true, false) => ", on each replica".to_owned(),
        (false, true) => [", of which at most ", &most, " run at once"].concat(),
        (true, true) => [
            ", on each replica, of which at most ",
            &most,
            " run at once",
        ]
        .concat(),
    }
}

/// The first sentence of an error, short enough for ours.
fn first_sentence(text: &str) -> String {
    const MOST: usize = 160;
    let line = text.lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(". ").next().unwrap_or(line).trim_end();
    if sentence.chars().count() <= MOST {
        return sentence.to_owned();
    }
    let short: String = sentence.chars().take(MOST).collect();
    short + "…"
}

/// How many fit by an estimate: with both ends.
fn estimated(
    html: &mut Markup,
    answer: &Answer,
    memory: &Memory,
    resolution: &Resolution,
    likely: &str,
) {
    let planned = &memory.planned;
    let at = |end: usize| match &planned.ends[end].fit {
        Ok(fit) => fit.requests.shown(),
        Err(_) => "none".to_owned(),
    };
    let [low, _, high] = planned.pool.pools();
    html.add(
        " About <b class=\"n\">{}</b> such requests fit ({} to {}{}), for vLLM is estimated to leave <b class=\"n\">{} to {} GiB</b> \
         per GPU.",
        &[
            likely,
            &at(0),
            &at(2),
            &beside(answer, resolution),
            &text::gib_short(low),
            &text::gib_short(high),
        ],
    );
    if planned.ends[0].fit.is_err() {
        html.text(" With the least of that, it does not start.");
    }
    if memory.check.is_some_and(|check| !check.agrees()) {
        html.add(
            " <b>Your log’s tokens lead to no such pool</b>; see below.",
            &[],
        );
    }
}
