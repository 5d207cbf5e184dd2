//! The model: one of the catalog, or a pasted config.json.

use std::sync::Arc;

use kv_resolver::catalog::MODELS;
use leptos::prelude::*;

use super::field::{Choices, FieldError, SelectField, error_id, is_invalid};
use crate::input::{Field, ModelChoice, short_model_name};
use crate::state::state;

/// The select's value for a pasted config; no index is like it.
const PASTED: &str = "pasted";

/// Chooses the model.
#[component]
pub fn ModelField() -> impl IntoView {
    let state = state();
    let indices: Vec<String> = (0..MODELS.len()).map(|index| index.to_string()).collect();
    let models = indices.iter().zip(&MODELS);
    let choices = models.map(|(index, model)| (index.as_str(), short_model_name(model.id)));
    let choices = Choices::new(choices.chain([(PASTED, "Paste a config.json …")]));
    let value = state.entered(|input| match input.model {
        ModelChoice::Catalog(index) => index.to_string(),
        ModelChoice::Pasted => PASTED.to_owned(),
    });
    let on_choose = move |chosen: String| {
        let model = match chosen.parse() {
            Ok(index) if index < MODELS.len() => ModelChoice::Catalog(index),
            Ok(_) | Err(_) => ModelChoice::Pasted,
        };
        state.change(|input| input.model = model);
    };
    let is_catalog =
        Signal::derive(move || state.input.with(|input| input.model != ModelChoice::Pasted));
    view! {
        <div class="model">
            <SelectField
                id="field-model".to_owned()
                label="Model"
                hint="its config.json decides; weights do not matter"
                choices
                value
                on_choose=Box::new(on_choose)
            />
            <div class="paste" hidden=is_catalog>
                <PastedConfig />
            </div>
        </div>
    }
}

#[component]
fn PastedConfig() -> impl IntoView {
    let state = state();
    let id = Field::Config.id();
    let notice = state.shown(|page| {
        if page.address.config_left_out {
            "It is too long for the address: a link to this page will not carry it."
        } else {
            ""
        }
        .to_owned()
    });
    view! {
        <label for=id.clone()>"Its config.json"</label>
        <textarea
            id=id
            rows="7"
            spellcheck="false"
            autocomplete="off"
            placeholder="{\n  \"architectures\": [\"DeepseekV4ForCausalLM\"],\n  …\n}"
            prop:value=state.entered(|input| input.pasted.to_string())
            aria-describedby=error_id(Field::Config)
            aria-invalid=is_invalid(Field::Config)
            on:input=move |event| {
                let text = event_target_value(&event);
                state.change(|input| input.pasted = Arc::from(text));
            }
        ></textarea>
        <FieldError field=Field::Config />
        <div role="status" class="hint">
            {notice}
        </div>
    }
}
