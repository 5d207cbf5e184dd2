//! KV Explorer's page: maps the resolver's answers to pixels and knows no rule of vLLM itself.

use leptos::prelude::*;

/// The whole page.
#[component]
pub fn App() -> impl IntoView {
    view! {
        <main>
            <h1>"KV Explorer"</h1>
        </main>
    }
}
