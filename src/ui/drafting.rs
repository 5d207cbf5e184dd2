//! Speculative decoding: `--speculative-config`, key by key.

use std::sync::Arc;

use kv_resolver::CacheDtype;
use kv_resolver::speculation::Method;
use leptos::prelude::*;

use super::field::{Choices, PasteField, SelectField, TextField};
use super::model_field::left_out;
use crate::catalog::Shelf;
use crate::input::{Drafting as Entered, Field, Input};
use crate::markup::Markup;
use crate::page::Page;
use crate::state::{State, state};

const MODEL_LIST: &str = "draft-models";

/// A disclosure with a drafter's fields.
#[component]
pub fn Drafting() -> impl IntoView {
    let state = state();
    // a link that sets one shows it; afterwards the user opens and closes
    let starts_open = state.input.with_untracked(|input| method(input).is_some());
    let is_off = Signal::derive(move || state.input.with(method).is_none());
    let takes_none = Signal::derive(move || {
        let method = state.input.with(method);
        !method.is_some_and(Method::takes_model)
    });
    view! {
        <details class="more" open=starts_open>
            <summary>
                "Speculative decoding"
                <span class="count">
                    {state.entered(|input| method(input).map_or("off", |_| "on").to_owned())}
                </span>
            </summary>
            <div class="more-body">
                {method_field(state)} <div class="dependent" hidden=is_off>
                    {tokens_field(state)} {dtype_field(state)}
                </div> <div class="dependent" hidden=takes_none>
                    {model_field(state)}
                    <datalist id=MODEL_LIST inner_html=state.shown(models)></datalist>
                    {config_field(state)}
                </div>
            </div>
        </details>
    }
}

fn method(input: &Input) -> Option<Method> {
    input.drafting.method
}

fn method_field(state: State) -> impl IntoView {
    let methods = Method::MODELLED.map(|method| (method.as_str(), method.as_str()));
    view! {
        <SelectField
            id="field-spec_method".to_owned()
            label="method"
            hint="how tokens are drafted"
            choices=Choices::new(&[("", "off")]).and(&methods)
            value=state.entered(|input| method(input).map_or("", Method::as_str).to_owned())
            on_choose=Box::new(move |name| {
                let mut methods = Method::MODELLED.into_iter();
                let method = methods.find(|method| method.as_str() == name);
                change(state, &|drafting| drafting.method = method);
            })
        />
    }
}

fn tokens_field(state: State) -> impl IntoView {
    view! {
        <TextField
            field=Field::DraftTokens
            label="num_speculative_tokens"
            hint="tokens drafted in a step"
            placeholder=Signal::stored("not passed".to_owned())
            value=state.entered(|input| input.drafting.tokens.clone())
            on_text=Box::new(move |text| {
                change(state, &|drafting| text.clone_into(&mut drafting.tokens));
            })
        />
    }
}

fn dtype_field(state: State) -> impl IntoView {
    let dtypes = CacheDtype::ALL.map(|dtype| (dtype.as_str(), dtype.as_str()));
    view! {
        <SelectField
            id="field-spec_kv_cache_dtype".to_owned()
            label="kv_cache_dtype"
            hint="of the drafter's own layers"
            choices=Choices::new(&[("", "the target's")]).and(&dtypes)
            value=state.entered(|input| {
                let dtype = input.drafting.dtype;
                dtype.map_or("", CacheDtype::as_str).to_owned()
            })
            on_choose=Box::new(move |name| {
                change(state, &|drafting| drafting.dtype = name.parse().ok());
            })
        />
    }
}

fn model_field(state: State) -> impl IntoView {
    view! {
        <TextField
            field=Field::DraftModel
            label="model"
            hint="the drafter: one of the list, or the name of your own"
            placeholder=Signal::stored("not passed".to_owned())
            value=state.entered(|input| input.drafting.model.clone())
            on_text=Box::new(move |text| {
                change(state, &|drafting| text.clone_into(&mut drafting.model));
            })
            is_text=true
            list=MODEL_LIST
        />
    }
}

/// The models of the catalog, as suggestions.
fn models(page: &Page) -> String {
    let mut html = Markup::new();
    if let Shelf::Here(catalog) = page.shelf() {
        for id in catalog.search("") {
            html.add("<option value=\"{}\">", &[&id]);
        }
    }
    html.into_string()
}

fn config_field(state: State) -> impl IntoView {
    view! {
        <PasteField
            field=Field::DraftConfig
            label="The drafter's config.json"
            placeholder="{\n  \"architectures\": [\"LlamaForCausalLMEagle3\"],\n  …\n}"
            value=state.entered(|input| input.drafting.pasted.to_string())
            on_text=Box::new(move |text| {
                change(state, &|drafting| drafting.pasted = Arc::from(text.as_str()));
            })
            notice=state
                .shown(|page| {
                    let kept = "Paste it, or drop it here; it stays in your browser.";
                    left_out(page.address.draft_left_out, kept)
                })
            is_hidden=Signal::derive(move || state.page.with(Page::drafter_is_known))
        />
    }
}

/// Not generic, for each copy would add to the page.
fn change(state: State, change: &dyn Fn(&mut Entered)) {
    state.change(|input| change(&mut input.drafting));
}
