//! What to change, tried and ranked.

use kv_resolver::changes::{Change, Changes, Served};

use crate::markup::Markup;
use crate::text;

/// The attribute of a button that makes a change; its value is the change's place.
pub const CHANGE: &str = "data-change";
/// The id of the list's heading, where the focus goes when the list is drawn anew.
pub const TITLE_ID: &str = "suggestions-title";
/// Changes that are shown at once.
const AT_ONCE: usize = 6;

/// The list. `length` is the context length that was asked.
pub fn suggestions(html: &mut Markup, changes: &Changes, length: u64) {
    html.add(
        "<section class=\"changes-to-make\" aria-labelledby=\"{}\"><h3 id=\"{}\" tabindex=\"-1\">What to \
         change</h3>",
        &[TITLE_ID, TITLE_ID],
    );
    if changes.changes.is_empty() {
        html.add(
            "<p class=\"hint\">Nothing that was tried {}.</p></section>",
            &[if changes.now.is_some() {
                "holds more requests"
            } else {
                "starts, by itself"
            }],
        );
        return;
    }
    let now = changes.now.map(Served::shown);
    html.add("<ol>", &[]);
    for (index, change) in changes.changes.iter().enumerate() {
        if index == AT_ONCE {
            html.add(
                "</ol><details><summary>More</summary><ol start=\"{}\">",
                &[&(AT_ONCE + 1).to_string()],
            );
        }
        item(html, index, change, now.as_deref(), length);
    }
    html.add("</ol>", &[]);
    if changes.changes.len() > AT_ONCE {
        html.add("</details>", &[]);
    }
    html.add(
        "<p class=\"hint\">Each was tried alone on this very question and starts; requests are counted over all GPUs of \
         the deployment.</p></section>",
        &[],
    );
}

fn item(html: &mut Markup, index: usize, change: &Change, now: Option<&str>, length: u64) {
    html.add(
        "<li><div><b>{}</b> <span class=\"effect\">{} → <strong>{}</strong> requests",
        &[&change.text, now.unwrap_or("none"), &change.served.shown()],
    );
    if change.served.length != length {
        html.add(" of {}", &[&text::tokens(change.served.length)]);
    }
    html.add(
        "{}</span><small>{}</small></div><button type=\"button\" data-change=\"{}\" aria-label=\"Apply: {}\">Apply</button></li>",
        &[
            if change.is_estimated { ", estimated" } else { "" },
            &change.cost,
            &index.to_string(),
            &change.text,
        ],
    );
}
