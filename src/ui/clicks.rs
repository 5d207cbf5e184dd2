//! What a click on an answer does: answers are markup, so one listener for the page reads what was clicked from
//! `data-` attributes.

use std::sync::Arc;
use std::time::Duration;

use kv_resolver::catalog::find_gpu;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, MouseEvent};

use super::export::{EXPORT, export};
use super::paste::{CLOSING, LEAVE_OUT};
use super::suggestions::{self, CHANGE};
use super::{kinds, model_search, releases};
use crate::state::State;
use crate::view::Toggle;

/// On a cell: `row-column`.
pub const CELL: &str = "data-cell";
/// On a GPU's name: its key.
pub const GPU: &str = "data-gpu";
/// On a button: the release to choose.
pub const RELEASE: &str = "data-release";
/// On a button: the number of the advice to apply.
pub const APPLY: &str = "data-apply";
/// On a button: shows one's own config.json.
pub const OWN: &str = "data-own";
/// On a button: loads the catalog once more.
pub const RETRY: &str = "data-retry";
/// On a button: the place of what it turns on and off.
pub const TOGGLE: &str = "data-toggle";
/// On a button: copies the text beside it.
pub const COPY: &str = "data-copy";

/// The id of the answer.
pub const ANSWER_ID: &str = "answer";
/// The id of its heading.
pub const TITLE_ID: &str = "answer-title";

/// How long "Copied" stays, and what a browser may still be busy with.
pub const AFTER_A_MOMENT: Duration = Duration::from_millis(1600);

/// Does what the clicked element says.
pub fn on_click(state: State, event: &MouseEvent) {
    let target = event.target().and_then(|target| target.dyn_into().ok());
    let Some(target): Option<Element> = target else {
        return;
    };
    if let Some(gpu) = above(&target, GPU).and_then(|(_, key)| find_gpu(&key)) {
        state.change(|input| input.gpu = gpu);
    } else if let Some((_, position)) = above(&target, CELL) {
        let position = position.split_once('-');
        let numbers = position.and_then(|(row, column)| row.parse().ok().zip(column.parse().ok()));
        if let Some(position) = numbers {
            choose(state, position);
        }
    } else if let Some((_, index)) = above(&target, TOGGLE) {
        if let Some(toggle) = Toggle::of_index(&index) {
            state.change(|input| input.view.flip(toggle));
        }
    } else if let Some((_, number)) = above(&target, CLOSING) {
        if let Ok(number) = number.parse() {
            state.close_gap(number);
        }
    } else if let Some((_, name)) = above(&target, LEAVE_OUT) {
        state.leave_out(&name);
    } else if let Some((button, index)) = above(&target, EXPORT) {
        export(state, &button, &index);
    } else if let Some((_, version)) = above(&target, RELEASE) {
        if let Ok(release) = version.parse() {
            state.change(|input| input.release = release);
            focus_anew(releases::chip_id(release));
        }
    } else if let Some((_, index)) = above(&target, APPLY) {
        let answer = state.page.with_untracked(|page| page.answer().cloned());
        let error = answer
            .as_ref()
            .and_then(|answer| answer.result.as_ref().err());
        let advice = index.parse::<usize>().ok().zip(error);
        if let Some(advice) = advice.and_then(|(index, error)| error.advice.get(index)) {
            state.change(|input| input.apply(advice));
            // the button goes with the error
            focus_anew(TITLE_ID.to_owned());
        }
    } else if let Some((_, index)) = above(&target, CHANGE) {
        let answer = state.page.with_untracked(|page| page.answer().cloned());
        let memory = answer.as_ref().and_then(|answer| answer.planned());
        let change = index.parse::<usize>().ok().zip(memory);
        if let Some(change) = change.and_then(|(index, memory)| memory.changes.changes.get(index)) {
            state.change(|input| input.change(change));
            // by its place, the next press would make another change
            focus_anew(suggestions::TITLE_ID.to_owned());
        }
    } else if target.id() == model_search::ID {
        model_search::open(state);
    } else if let Some((_, index)) = above(&target, model_search::OPTION) {
        if let Ok(index) = index.parse() {
            model_search::choose(state, index);
        }
    } else if above(&target, OWN).is_some() {
        model_search::choose_own(state);
    } else if above(&target, RETRY).is_some() {
        state.load_catalog();
        // the button goes with its message
        focus(model_search::ID);
    } else if let Some((button, form)) = above(&target, kinds::ANATOMY) {
        kinds::copy_anatomy(state, &button, &form);
    } else if let Some((_, index)) = above(&target, kinds::PAGES) {
        kinds::choose(state, &index);
    } else if let Some((button, _)) = above(&target, COPY) {
        let text = button
            .parent_element()
            .and_then(|parent| parent.query_selector("pre").ok()?)
            .and_then(|element| element.text_content());
        copy(&button, &text.unwrap_or_default());
    }
}

/// Chooses the cell at a row and column of the grid.
pub fn choose(state: State, (row, column): (usize, usize)) {
    let grid = state
        .page
        .with_untracked(|page| Some(Arc::clone(&page.answers.as_ref()?.grid)));
    let Some(grid) = grid else { return };
    if let (Some(row), Some(dtype)) = (grid.rows.get(row), grid.columns.get(column)) {
        state.change(|input| {
            input.gpu = row.representative(input.gpu);
            input.dtype = *dtype;
        });
    }
}

/// Copies text and says so on the button.
pub fn copy(button: &Element, text: &str) {
    // without a secure context there is no clipboard to ask
    if !window().is_secure_context() {
        return;
    }
    // the browser may refuse; there is nothing to do about it
    let _ = window().navigator().clipboard().write_text(text);
    let label = button.text_content();
    if label.as_deref() == Some("Copied") {
        return;
    }
    button.set_text_content(Some("Copied"));
    let button = button.clone();
    set_timeout(
        move || button.set_text_content(label.as_deref()),
        AFTER_A_MOMENT,
    );
}

/// Puts the focus on an element that is being drawn anew: where what was pressed is, or was.
fn focus_anew(id: String) {
    request_animation_frame(move || focus(&id));
}

/// Puts the focus on an element by its id.
pub fn focus(id: &str) {
    let element = document().get_element_by_id(id);
    if let Some(element) = element.and_then(|element| element.dyn_into::<HtmlElement>().ok()) {
        let _ = element.focus();
    }
}

/// The element, or the nearest around it, that has the attribute; with its value.
pub fn above(element: &Element, name: &str) -> Option<(Element, String)> {
    let element = element.closest(&format!("[{name}]")).ok()??;
    let value = element.get_attribute(name)?;
    Some((element, value))
}
