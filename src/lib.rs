//! KV Explorer's page: maps the resolver's answers to pixels and knows no rule of vLLM itself.

pub mod address;
pub mod answer;
pub mod answers;
pub mod asked;
pub mod catalog;
pub mod chart;
pub mod export;
mod file;
pub mod grid;
pub mod input;
pub mod markup;
pub mod page;
pub mod pool;
pub mod reading;
pub mod record;
pub mod report;
pub mod scale;
mod second;
pub mod state;
pub mod text;
mod ui;
pub mod view;

use leptos::prelude::*;

use catalog::Shelf;
use state::State;

/// The whole page. Its state comes from the address.
///
/// Controls are reactive views that stay mounted. Answers are read-only documents: each is markup that is set as a
/// whole when it changes, which keeps the page a third of the size that views of them have.
#[component]
pub fn App() -> impl IntoView {
    let location = window().location();
    let query = location.search().unwrap_or_default() + &location.hash().unwrap_or_default();
    let state = State::new(address::read(&query));
    provide_context(state);
    state.mirror_in_address();
    state.load_catalog();
    state.follow_second_half();
    ui::listen(state);
    let results = state.shown(move |page| {
        match (&page.answers, page.is_stale) {
            (None, _) => match page.shelf() {
                _ if !state.is_whole.get() => "results early",
                Shelf::Missing(_) => "results missing",
                Shelf::Loading | Shelf::Here(_) => "results awaited",
            },
            (Some(_), true) => "results stale",
            (Some(_), false) => "results",
        }
        .to_owned()
    });
    view! {
        <a class="skip" href="#answer">
            "Skip to the answer"
        </a>
        <ui::Header />
        <main on:click=move |event| ui::on_click(state, &event)>
            <ui::Problems />
            <ui::Verdict />
            <div class="layout">
                <ui::Controls />
                <div class=results>
                    <ui::Matrix />
                    <ui::Detail />
                    <ui::Changes />
                </div>
            </div>
            <ui::Drop />
        </main>
        <ui::Footer />
    }
}
