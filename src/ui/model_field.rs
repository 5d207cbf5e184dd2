//! The model: one of the catalog, or one's own config.json.

use std::sync::Arc;

use leptos::prelude::*;

use super::field::PasteField;
use super::model_search::ModelSearch;
use super::recognised::Recognised;
use crate::catalog::Shelf;
use crate::input::{Field, ModelChoice};
use crate::markup::Markup;
use crate::state::state;

/// The id of what opens a file.
pub const FILE_ID: &str = "config-file";

/// Chooses the model.
#[component]
pub fn ModelField() -> impl IntoView {
    let state = state();
    let is_catalog =
        Signal::derive(move || state.input.with(|input| input.model != ModelChoice::Pasted));
    let notice = state.shown(|page| left_out(page.address.config_left_out, ""));
    // where there is no answer yet, the verdict says it
    let missing = state.shown(|page| {
        let mut html = Markup::new();
        if let (Some(_), Shelf::Missing(why)) = (page.answer(), page.shelf()) {
            html.add(
                "The models did not load: {}. <button type=\"button\" data-retry=\"\">Try again</button>",
                &[why],
            );
        }
        html.into_string()
    });
    view! {
        <div class="model">
            <ModelSearch />
            <div role="alert" class="field-error" inner_html=missing></div>
            <Recognised />
            <div class="own">
                <button type="button" data-own="">
                    "Paste"
                </button>
                <label class="button">
                    "Open"
                    <input
                        id=FILE_ID
                        type="file"
                        class="hidden"
                        accept=".json,application/json"
                        aria-label="Open a config.json"
                    />
                </label>
                <span class="hint">"or drop a config.json; it stays in your browser"</span>
            </div>
            <div id="file-problem" role="alert" class="field-error">
                {state.file_problem}
            </div>
            <PasteField
                field=Field::Config
                label="Its config.json"
                placeholder="{\n  \"architectures\": [\"DeepseekV4ForCausalLM\"],\n  …\n}"
                value=state.entered(|input| input.pasted.to_string())
                on_text=Box::new(move |text| {
                    state.file_problem.set(String::new());
                    state.change(|input| input.pasted = Arc::from(text));
                })
                notice
                is_hidden=is_catalog
            />
        </div>
    }
}

/// What there is to say below a pasted config.json.
pub fn left_out(is_left_out: bool, otherwise: &str) -> String {
    if is_left_out {
        "It is too long for the address: a link to this page will not carry it."
    } else {
        otherwise
    }
    .to_owned()
}
