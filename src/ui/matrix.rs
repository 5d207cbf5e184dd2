//! The matrix: GPUs × dtypes, a grid that the arrow keys walk.

use std::sync::Arc;

use leptos::html;
use leptos::prelude::*;
use web_sys::Element;

use super::clicks::{ANSWER_ID, choose, focus};
use super::grid::{Drawing, focus_cell, mark};
use super::legend::legend;
use crate::answers::Move;
use crate::state::{State, state};

/// The matrix, what can be folded in it, and its legend.
#[component]
pub fn Matrix() -> impl IntoView {
    let state = state();
    let table = NodeRef::<html::Table>::new();
    Effect::new(move |drawn: Option<Drawing>| {
        let (drawing, position, gpu) = state.page.with(|page| {
            let (gpu, dtype) = (page.answer.gpu, page.answer.dtype);
            let position = page.grid.position(gpu, dtype);
            (Drawing::new(Arc::clone(&page.grid)), position, gpu)
        });
        if let Some(table) = table.get() {
            drawing.draw(&table, drawn.as_ref(), position);
            mark(&table, position, gpu);
        }
        drawing
    });
    let on_key = move |event: web_sys::KeyboardEvent| {
        if let Some(table) = table.get_untracked() {
            walk(state, &table, &event);
        }
    };
    view! {
        <section class="matrix" aria-labelledby="matrix-title">
            <div class="section-head">
                <h2 id="matrix-title">"Every GPU × every " <code>"--kv-cache-dtype"</code></h2>
                <Folding />
            </div>
            <div class="scroll">
                <table
                    role="grid"
                    node_ref=table
                    aria-labelledby="matrix-title"
                    aria-describedby="matrix-help"
                    on:keydown=on_key
                ></table>
            </div>
            <p id="matrix-help" class="hidden">
                "Arrow keys move between cells; Enter goes to the whole answer."
            </p>
            <ul class="legend" aria-label="What the words mean" inner_html=legend()></ul>
        </section>
    }
}

#[component]
fn Folding() -> impl IntoView {
    let state = state();
    let folded = state.shown(|page| format!("+ {} refused everywhere", page.grid.folded.len()));
    let names = state.shown(|page| {
        let names: Vec<&str> = page
            .grid
            .folded
            .iter()
            .map(|dtype| dtype.as_str())
            .collect();
        names.join(", ")
    });
    view! {
        <div class="folding">
            <button
                type="button"
                aria-pressed=state.entered(|input| input.row_per_gpu.to_string())
                on:click=move |_| state.change(|input| input.row_per_gpu = !input.row_per_gpu)
            >
                "One row per GPU"
            </button>
            <button
                type="button"
                aria-pressed=state.entered(|input| input.all_dtypes.to_string())
                title=names
                on:click=move |_| state.change(|input| input.all_dtypes = !input.all_dtypes)
            >
                {folded}
            </button>
        </div>
    }
}

/// Moves the choice, and the focus with it.
fn walk(state: State, table: &Element, event: &web_sys::KeyboardEvent) {
    if event.key() == "Enter" {
        event.prevent_default();
        focus(ANSWER_ID);
        return;
    }
    let with_control = event.ctrl_key() || event.meta_key();
    let Some(step) = Move::of_key(&event.key(), with_control) else {
        return;
    };
    event.prevent_default();
    let to = state.page.with_untracked(|page| {
        let from = page.grid.position(page.answer.gpu, page.answer.dtype);
        page.grid.step(from, step)
    });
    focus_cell(table, to);
    choose(state, to);
}
