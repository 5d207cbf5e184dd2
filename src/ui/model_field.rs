//! The model: one of the catalog, or a pasted config.json.

use std::sync::Arc;

use kv_resolver::catalog::{CatalogModel, MODELS};
use leptos::prelude::*;

use super::field::{Choices, FieldError, SelectField, error_id, is_invalid};
use crate::input::{Field, ModelChoice, short_model_name};
use crate::state::state;

/// The select's value for a pasted config; no id is like it.
const PASTED: &str = "pasted";

/// Chooses the model.
#[component]
pub fn ModelField() -> impl IntoView {
    let state = state();
    let value = state.entered(|input| {
        match input.model {
            ModelChoice::Catalog(index) => MODELS[index].id,
            ModelChoice::Pasted => PASTED,
        }
        .to_owned()
    });
    let on_choose = move |chosen: String| {
        let index = MODELS.iter().position(|model| model.id == chosen);
        let model = index.map_or(ModelChoice::Pasted, ModelChoice::Catalog);
        state.change(|input| input.choose_model(model));
    };
    let is_catalog =
        Signal::derive(move || state.input.with(|input| input.model != ModelChoice::Pasted));
    view! {
        <div class="model">
            <SelectField
                id="field-model".to_owned()
                label="Model"
                hint="its config.json decides; weights do not matter"
                choices=models()
                value
                on_choose=Box::new(on_choose)
            />
            <div class="paste" hidden=is_catalog>
                <PastedConfig />
            </div>
        </div>
    }
}

/// By owner, which comes before the slash; one's own first, for it is not in any list.
fn models() -> Choices {
    let mut choices = Choices::new([(PASTED, "Paste a config.json …")]);
    let mut rest: &[CatalogModel] = &MODELS;
    while let Some(first) = rest.first() {
        let owner = |model: &CatalogModel| model.id.split('/').next();
        let count = rest
            .iter()
            .take_while(|model| owner(model) == owner(first))
            .count();
        let (group, others) = rest.split_at(count);
        let group = group
            .iter()
            .map(|model| (model.id, short_model_name(model.id)));
        choices = choices.and_group(owner(first).unwrap_or_default(), &Choices::new(group));
        rest = others;
    }
    choices
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
