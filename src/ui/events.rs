//! What happens on the page, clicks on answers apart: one listener for all of it, for each of its own adds two
//! kilobytes to the page.

use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{
    DragEvent, Element, Event, HtmlInputElement, HtmlSelectElement, HtmlTextAreaElement,
};

use super::{drop, export, kinds, model_field, model_search, paste, tools};
use crate::state::State;

const KINDS: [&str; 11] = [
    "mousedown",
    "mousemove",
    "focusin",
    "focusout",
    "input",
    "keydown",
    "change",
    "dragenter",
    "dragover",
    "dragleave",
    "drop",
];

/// Listens while the page is mounted.
pub fn listen(state: State) {
    for kind in KINDS {
        let listening = window_event_listener_untyped(kind, move |event| on_event(state, &event));
        on_cleanup(move || listening.remove());
    }
}

fn on_event(state: State, event: &Event) {
    if let Some(event) = event.dyn_ref::<DragEvent>() {
        return drop::on_drag(state, event);
    }
    let Some(target) = event.target().and_then(|target| target.dyn_into().ok()) else {
        return;
    };
    let target: Element = target;
    model_search::on_event(state, event, &target);
    if event.type_() == "input"
        && target.id() == paste::PASTE_ID
        && let Some(field) = target.dyn_ref::<HtmlTextAreaElement>()
    {
        state.read_pasted(&field.value());
    }
    kinds::on_event(state, event, &target);
    if event.type_() == "focusin" {
        export::leave(&target);
    }
    if event.type_() != "change" {
        return;
    }
    if let Some(select) = target.dyn_ref::<HtmlSelectElement>() {
        tools::on_change(state, select);
    }
    if target.id() == model_field::FILE_ID {
        let Some(input) = target.dyn_ref::<HtmlInputElement>() else {
            return;
        };
        if let Some(files) = input.files() {
            state.read_files(&files, false);
        }
        // the same file can be chosen again, once it is mended
        input.set_value("");
    }
}
