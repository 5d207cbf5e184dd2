//! The start-up log, as far as it is predicted.

use kv_resolver::log::LogLine;
use leptos::prelude::*;

use super::figures::is_estimated;
use crate::answer::Answer;
use crate::markup::Markup;

/// The lines, to be compared one by one with a log; until it stops, where it does.
pub fn log(html: &mut Markup, answer: &Answer) {
    let (lines, stops): (&[LogLine], bool) = match &answer.result {
        Ok(resolution) => (&resolution.log, false),
        Err(error) => (&error.log, true),
    };
    if lines.is_empty() {
        return;
    }
    // an answer is drawn anew with every change of the question: what was opened stays open
    let was_open = document().query_selector(".startup[open]");
    let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
    html.add(
        if was_open.is_ok_and(|element| element.is_some()) {
            "<details class=\"startup\" open=\"\">"
        } else {
            "<details class=\"startup\">"
        },
        &[],
    );
    html.add(
        "<summary>The start-up log, as far as it is predicted{}</summary><p class=\"hint\">In vLLM’s order, without \
         times and places; a log has others between. Where it says “each rank”, every GPU’s worker has its own copy.{}</p>\
         <div class=\"with-copy\"><pre tabindex=\"0\">{}</pre>\
         <button type=\"button\" data-copy=\"\">Copy</button></div></details>",
        &[
            if stops { ", until it stops" } else { "" },
            if is_estimated(answer) {
                " What follows from the size of the pool is left out: it is estimated here."
            } else {
                ""
            },
            &shown.join("\n"),
        ],
    );
}
