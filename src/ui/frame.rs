//! What stands around the page: its name, what the address got wrong, and on what the answers stand.

use kv_resolver::Release;
use leptos::prelude::*;
use wasm_bindgen::JsCast;

use super::clicks::copy;
use crate::address;
use crate::input::Input;
use crate::markup::Markup;
use crate::state::state;

/// Name, one line, a link to share, and the element for another page.
#[component]
pub fn Header() -> impl IntoView {
    let state = state();
    let copied = move |event: &web_sys::MouseEvent, text: fn(&Input, &str) -> String| {
        let button = event.target().and_then(|target| target.dyn_into().ok());
        if let Some(button) = button {
            let here = window().location().href().unwrap_or_default();
            let page = here.split(['?', '#']).next().unwrap_or_default();
            copy(
                &button,
                &state.input.with_untracked(|input| text(input, page)),
            );
        }
    };
    view! {
        <header class="page-header">
            <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
                <rect x="3" y="4" width="26" height="6" rx="1.5" />
                <rect x="3" y="13" width="18" height="6" rx="1.5" class="logo-2" />
                <rect x="3" y="22" width="11" height="6" rx="1.5" class="logo-3" />
            </svg>
            <h1>"KV Explorer"</h1>
            <p>"What vLLM will do with your KV cache, before you rent the GPU."</p>
            <button type="button" aria-live="polite" on:click=move |event| copied(&event, link)>
                "Copy link"
            </button>
            <button
                type="button"
                aria-live="polite"
                on:click=move |event| copied(&event, address::embedded)
            >
                "Copy embed"
            </button>
        </header>
    }
}

/// The address that asks the same whatever this page's defaults are.
fn link(input: &Input, page: &str) -> String {
    [page, "?", &address::pinned(input)].concat()
}

/// What the address held and the page did not understand.
#[component]
pub fn Problems() -> impl IntoView {
    let problems = state().problems;
    let html = Signal::derive(move || {
        let mut html = Markup::new();
        problems.with(|problems| {
            if !problems.is_empty() {
                html.add(
                    "<p>Part of the address was not understood and is left out:</p><ul>",
                    &[],
                );
                for problem in problems {
                    html.add("<li>{}</li>", &[problem]);
                }
                html.add("</ul><button type=\"button\">Dismiss</button>", &[]);
            }
        });
        html.into_string()
    });
    let dismiss = move |event: web_sys::MouseEvent| {
        let target = event.target().and_then(|target| target.dyn_into().ok());
        if target.is_some_and(|target: web_sys::Element| target.tag_name() == "BUTTON") {
            problems.set(Vec::new());
        }
    };
    view! {
        <div
            id="address-problems"
            class="problems"
            role="alert"
            on:click=dismiss
            inner_html=html
        ></div>
    }
}

/// On what the answers stand.
#[component]
pub fn Footer() -> impl IntoView {
    let mut html = Markup::new();
    html.add(
        "<p>Every rule follows vLLM's own source; each step under “Why” names its file and function. Modelled: vLLM {} in \
         vLLM's own container image.</p><p>Nothing you enter leaves this page. KV Explorer is not part of \
         the vLLM project.</p>",
        &[&Release::ALL.map(Release::version).join(", ")],
    );
    view! { <footer inner_html=html.into_string()></footer> }
}
