//! A config.json dropped anywhere on the page.

use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{DataTransfer, DragEvent, Element};

use crate::state::{State, state};

/// Where a drafter's config.json is dropped.
const DRAFTER: &str = ".paste:has(#field-draft)";

/// Shows that files would be taken, while some are held over the page.
#[component]
pub fn Drop() -> impl IntoView {
    let is_hidden = state().hides_drop;
    view! {
        <div class="drop" hidden=is_hidden>
            <p>
                <b>"Drop the config.json"</b>
                "It is read here, in your browser, and sent nowhere."
            </p>
        </div>
    }
}

/// Something is held over the page, leaves it, or is dropped.
pub fn on_drag(state: State, event: &DragEvent) {
    let Some(held) = event.data_transfer().filter(holds_files) else {
        return;
    };
    let hide = move |hides: bool| {
        // the browser says so many times a second
        if state.hides_drop.get_untracked() != hides {
            state.hides_drop.set(hides);
        }
    };
    match event.type_().as_str() {
        // it leaves one element for another within the page, too
        "dragleave" => hide(event.related_target().is_none()),
        "drop" => {
            event.prevent_default();
            hide(true);
            if let Some(files) = held.files() {
                let target = event.target().and_then(|target| target.dyn_into().ok());
                let on_drafter = target
                    .is_some_and(|target: Element| matches!(target.closest(DRAFTER), Ok(Some(_))));
                state.read_files(&files, on_drafter);
            }
        }
        _ => {
            // which says that a drop is welcome
            event.prevent_default();
            hide(false);
        }
    }
}

/// Text that is dragged belongs into the field on which it is dropped.
fn holds_files(held: &DataTransfer) -> bool {
    held.types().includes(&JsValue::from_str("Files"), 0)
}
