//! Speculative decoding: `--speculative-config`, key by key.

use std::sync::Arc;

use kv_resolver::CacheDtype;
use kv_resolver::speculation::Method;
use leptos::prelude::*;

use super::field::{Choices, PasteField, SelectField, TextField};
use crate::catalog::Shelf;
use crate::input::{Drafting as Entered, Field};
use crate::markup::Markup;
use crate::page::Page;
use crate::state::{State, state};

/// The id of the group.
const ID: &str = "drafting";
const MODEL_LIST: &str = "draft-models";

/// A disclosure with a drafter's fields.
#[component]
pub fn Drafting() -> impl IntoView {
    let state = state();
    let method = state.entered(|input| {
        let method = input.drafting.method;
        method.map_or("", Method::as_str).to_owned()
    });
    // a link that sets one shows it; afterwards the user opens and closes
    let starts_open = state.input.with_untracked(|input| input.drafting.method.is_some());
    let is_off = Signal::derive(move || method.with(String::is_empty));
    let shown = Signal::derive(move || if is_off.get() { "off".to_owned() } else { method.get() });
    let methods = [("", "off")];
    let methods = methods.into_iter().chain(Method::MODELLED.map(|method| (method.as_str(), method.as_str())));
    let dtypes = [("", "the target's")];
    let dtypes = dtypes.into_iter().chain(CacheDtype::ALL.map(|dtype| (dtype.as_str(), dtype.as_str())));
    view! {
        <details class="more" id=ID open=starts_open>
            <summary>"Speculative decoding" <span class="count">{shown}</span></summary>
            <div class="more-body">
                <SelectField
                    id="field-spec_method".to_owned()
                    label="method"
                    hint="how tokens are drafted"
                    choices=Choices::new(methods)
                    value=method
                    on_choose=Box::new(move |name| {
                        let mut methods = Method::MODELLED.into_iter();
                        let method = methods.find(|method| method.as_str() == name);
                        change(state, |drafting| drafting.method = method);
                    })
                />
                <div class="drafting" hidden=is_off>
                    <TextField
                        field=Field::DraftTokens
                        label="num_speculative_tokens"
                        hint="tokens drafted in a step"
                        placeholder=Signal::stored("not passed".to_owned())
                        value=state.entered(|input| input.drafting.tokens.clone())
                        on_text=Box::new(move |text| change(state, |drafting| drafting.tokens = text))
                    />
                    <SelectField
                        id="field-spec_kv_cache_dtype".to_owned()
                        label="kv_cache_dtype"
                        hint="of the drafter's own layers"
                        choices=Choices::new(dtypes)
                        value=state.entered(|input| {
                            let dtype = input.drafting.dtype;
                            dtype.map_or("", CacheDtype::as_str).to_owned()
                        })
                        on_choose=Box::new(move |name| {
                            change(state, |drafting| drafting.dtype = name.parse().ok());
                        })
                    />
                    <DraftModel />
                </div>
            </div>
        </details>
    }
}

/// The drafter's own checkpoint.
#[component]
fn DraftModel() -> impl IntoView {
    let state = state();
    let takes_none = Signal::derive(move || {
        let method = state.input.with(|input| input.drafting.method);
        !method.is_some_and(Method::takes_model)
    });
    let models = state.shown(|page| {
        let mut html = Markup::new();
        if let Shelf::Here(catalog) = page.shelf() {
            for id in catalog.search("") {
                html.add("<option value=\"{}\">", &[&id]);
            }
        }
        html.into_string()
    });
    let is_known = Signal::derive(move || state.page.with(Page::drafter_is_known));
    let notice = state.shown(|page| {
        if page.address.draft_left_out {
            "It is too long for the address: a link to this page will not carry it."
        } else {
            "Paste it, or drop it here; it stays in your browser."
        }
        .to_owned()
    });
    view! {
        <div class="drafting" hidden=takes_none>
            <TextField
                field=Field::DraftModel
                label="model"
                hint="the drafter: one of the list, or the name of your own"
                placeholder=Signal::stored("not passed".to_owned())
                value=state.entered(|input| input.drafting.model.clone())
                on_text=Box::new(move |text| change(state, |drafting| drafting.model = text))
                is_text=true
                list=MODEL_LIST
            />
            <datalist id=MODEL_LIST inner_html=models></datalist>
            <div class="paste" hidden=is_known>
                <PasteField
                    field=Field::DraftConfig
                    label="The drafter's config.json"
                    placeholder="{\n  \"architectures\": [\"LlamaForCausalLMEagle3\"],\n  …\n}"
                    value=state.entered(|input| input.drafting.pasted.to_string())
                    on_text=Box::new(move |text| {
                        change(state, |drafting| drafting.pasted = Arc::from(text));
                    })
                    notice
                />
            </div>
        </div>
    }
}

fn change(state: State, change: impl FnOnce(&mut Entered)) {
    state.change(|input| change(&mut input.drafting));
}
