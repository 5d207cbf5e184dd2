//! The matrix: GPUs × dtypes, a grid that the arrow keys walk.

use std::sync::Arc;

use leptos::html;
use leptos::prelude::*;
use web_sys::Element;

use super::clicks::{ANSWER_ID, choose, focus};
use super::grid::{Drawing, focus_cell, mark};
use super::legend::legend;
use crate::answers::Move;
use crate::page::Answers;
use crate::state::{State, state};

/// The matrix, what can be folded in it, and its legend.
#[component]
pub fn Matrix() -> impl IntoView {
    let state = state();
    let table = NodeRef::<html::Table>::new();
    Effect::new(move |drawn: Option<Option<Drawing>>| {
        let drawn = drawn.flatten();
        let found = state.page.with(|page| {
            let answers = page.answers.as_ref()?;
            let (gpu, dtype) = (answers.answer.gpu, answers.answer.dtype);
            let position = answers.grid.position(gpu, dtype);
            Some((Drawing::new(Arc::clone(&answers.grid)), position, gpu))
        });
        let (drawing, position, gpu) = found?;
        if let Some(table) = table.get() {
            drawing.draw(&table, drawn.as_ref(), position);
            mark(&table, position, gpu);
        }
        Some(drawing)
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
    let folded = state.shown(|page| {
        let grid = page.answers.as_ref().map(|answers| &answers.grid);
        let count = grid.map_or(0, |grid| grid.folded.len());
        if grid.is_none_or(|grid| grid.has_rules) {
            format!("+ {count} refused everywhere")
        } else {
            format!("+ {count} without rules")
        }
    });
    let names = state.shown(|page| {
        let folded = page.answers.iter().flat_map(|answers| &answers.grid.folded);
        let names: Vec<&str> = folded.map(|dtype| dtype.as_str()).collect();
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
        let Answers { grid, answer, .. } = page.answers.as_ref()?;
        Some(grid.step(grid.position(answer.gpu, answer.dtype), step))
    });
    if let Some(to) = to {
        focus_cell(table, to);
        choose(state, to);
    }
}
