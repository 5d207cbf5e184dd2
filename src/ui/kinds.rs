//! The kinds of layers, one of which is taken apart.

use kv_resolver::Resolution;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, Event, HtmlInputElement};

use super::clicks::{above, copy};
use super::figures::is_estimated;
use super::taken_apart::taken_apart;
use crate::answer::Answer;
use crate::markup::Markup;
use crate::state::State;
use crate::text;

/// On a kind's radio button: the number of the kind.
const KIND: &str = "data-kind";
/// On a kind's pages in the block: the same.
pub const PAGES: &str = "data-pages";
/// On what is drawn: what is said of it when it is pointed at or has the focus.
const SAYS: &str = "data-says";
/// On a button: copies the anatomy, as `json` or `c`.
pub const ANATOMY: &str = "data-anatomy";

const PANEL_ID: &str = "taken-apart";

/// Where what is pointed at is told; as high with words as without.
pub fn nothing_said(html: &mut Markup, hint: &'static str) {
    html.add("<p class=\"says\" aria-live=\"polite\">{}</p>", &[hint]);
}

/// The kind that is taken apart now, by its first layer's name, so that it stays chosen
/// while answers change.
pub fn shown() -> String {
    checked().map_or_else(String::new, |radio| radio.value())
}

fn checked() -> Option<HtmlInputElement> {
    let radio = document().query_selector("[data-kind]:checked").ok()??;
    radio.dyn_into().ok()
}

/// The kinds to choose from, and the chosen one.
pub fn kinds(html: &mut Markup, resolution: &Resolution, shown: &str) {
    let mut layers = resolution.layers.iter();
    let chosen = layers.position(|layer| layer.first == shown);
    let chosen = chosen.unwrap_or_default();
    html.add(
        "<div class=\"kinds\"><fieldset><legend>What a layer stores</legend><div class=\"choices\">",
        &[],
    );
    for (index, layer) in resolution.layers.iter().enumerate() {
        let number = index.to_string();
        // as it is laid out: pages may have been brought to one size
        let members = resolution.groups.iter().flat_map(|group| &group.members);
        let page = members
            .filter(|member| member.layer == index)
            .map(|member| member.page_size_bytes)
            .next();
        html.add(
            "<label><input type=\"radio\" name=\"kind\" {}=\"{}\" value=\"{}\"",
            &[KIND, &number, &layer.first],
        );
        if index == chosen {
            html.add(" checked", &[]);
        }
        html.add(
            "><span><b>{}{}</b><small>{} · {} a slot · {} a page</small></span></label>",
            &[
                layer.role.label(),
                if layer.is_draft { " · draft" } else { "" },
                &text::counted(layer.count as u64, "layer"),
                &text::exact_bytes(layer.slot_bytes),
                &text::exact_bytes(page.unwrap_or(layer.page_size_bytes)),
            ],
        );
    }
    html.add("</div></fieldset><div id=\"{}\">", &[PANEL_ID]);
    taken_apart(html, resolution, chosen);
    html.add("</div></div>", &[]);
}

/// What happens to what is drawn, clicks apart.
pub fn on_event(state: State, event: &Event, target: &Element) {
    match event.type_().as_str() {
        // not "mouseover": what is scrolled beneath a mouse at rest, as the focus moves, is not pointed at
        "mousemove" | "focusin" => say(target),
        "change" => {
            if let Some(index) = target.get_attribute(KIND) {
                choose(state, &index);
            }
        }
        _ => {}
    }
}

/// Tells of what is pointed at, beneath it.
fn say(target: &Element) {
    let Some((drawn, words)) = above(target, SAYS) else {
        return;
    };
    let line = drawn
        .closest(".drawn")
        .ok()
        .flatten()
        .and_then(|around| around.query_selector(".says").ok()?);
    if let Some(line) = line.filter(|line| line.text_content().as_ref() != Some(&words)) {
        line.set_text_content(Some(&words));
    }
}

/// Takes apart another kind; what shows the others stays as it is.
pub fn choose(state: State, index: &str) {
    let Ok(index) = index.parse() else { return };
    with_resolution(state, |_, resolution| {
        let mut html = Markup::new();
        taken_apart(&mut html, resolution, index);
        if let Some(panel) = document().get_element_by_id(PANEL_ID) {
            panel.set_inner_html(&html.into_string());
        }
    });
    // where a page of the block was pressed
    let radio = document().query_selector(&format!("input[{KIND}='{index}']"));
    if let Ok(Some(radio)) = radio
        && let Ok(radio) = radio.dyn_into::<HtmlInputElement>()
    {
        radio.set_checked(true);
    }
}

/// Copies the anatomy of the chosen kind.
pub fn copy_anatomy(state: State, button: &Element, form: &str) {
    let index = checked().and_then(|radio| radio.get_attribute(KIND)?.parse().ok());
    with_resolution(state, |answer, resolution| {
        let Some(kind) = index.and_then(|index| resolution.anatomy_of(index)) else {
            return;
        };
        let text = if form == "json" {
            kind.json(resolution)
        } else {
            kind.c_comment(resolution, &heading(answer))
        };
        copy(button, &text);
    });
}

/// What the anatomy is of.
fn heading(answer: &Answer) -> String {
    let about = if is_estimated(answer) {
        "; the pool is an estimate"
    } else {
        ""
    };
    [
        &answer.asked.command(answer.dtype.as_str()),
        ", on ",
        answer.gpu.label,
        about,
    ]
    .concat()
}

fn with_resolution(state: State, then: impl FnOnce(&Answer, &Resolution)) {
    let answer = state.page.with_untracked(|page| page.answer().cloned());
    if let Some(answer) = answer
        && let Ok(resolution) = &answer.result
    {
        then(&answer, resolution);
    }
}
