//! The matrix: GPUs × dtypes, a grid that the arrow keys walk, and what is around it.

use std::sync::Arc;

use kv_resolver::standing::Signature;
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::Element;

use super::clicks::{ANSWER_ID, CELL, choose, focus};
use super::grid::{Drawing, focus_cell, mark};
use super::legend::legend;
use super::tools::{TITLE_ID, tools, update};
use crate::grid::Move;
use crate::page::Answers;
use crate::second;
use crate::state::{State, state};

/// The matrix, what can be done with it, and its legend.
#[component]
pub fn Matrix() -> impl IntoView {
    let state = state();
    let (head, table) = (NodeRef::<html::Div>::new(), NodeRef::<html::Table>::new());
    Effect::new(move |drawn: Option<Option<Drawing>>| {
        let drawn = drawn.flatten();
        let record = state.record.get();
        let found = state.page.with(|page| {
            let answers = page.answers.as_ref();
            if let Some(head) = head.get() {
                update(&head, &page.view, answers.map(|answers| &*answers.grid));
            }
            let answers = answers?;
            let (gpu, dtype) = (answers.answer.gpu, answers.answer.dtype);
            let position = answers.grid.position(gpu, dtype);
            let kind = Signature::of(&answers.answer.request());
            let record = record.as_deref().zip(kind.as_ref());
            let drawing = Drawing::new(Arc::clone(&answers.grid), record);
            Some((drawing, position, gpu))
        });
        let (drawing, position, gpu) = found?;
        if let Some(table) = table.get() {
            drawing.draw(&table, drawn.as_ref(), position);
            mark(&table, position, gpu, drawing.sort());
        }
        Some(drawing)
    });
    let on_key = move |event: web_sys::KeyboardEvent| {
        if let Some(table) = table.get_untracked() {
            walk(state, &table, &event);
        }
    };
    let mut first_tools = second::first_answer(".matrix > div");
    if first_tools.is_empty() {
        first_tools = tools(None);
    }
    view! {
        <section class="matrix" aria-labelledby=TITLE_ID>
            <div node_ref=head inner_html=first_tools></div>
            <div class="scroll">
                <table
                    role="grid"
                    node_ref=table
                    aria-labelledby=TITLE_ID
                    aria-describedby="matrix-help"
                    on:keydown=on_key
                    inner_html=second::first_answer("table")
                ></table>
            </div>
            <p id="matrix-help" class="hidden">
                "Arrow keys move between cells; Enter goes to the whole answer."
            </p>
            <ul class="legend" aria-label="What the words mean" inner_html=legend()></ul>
        </section>
    }
}

/// Moves the choice, and the focus with it.
fn walk(state: State, table: &Element, event: &web_sys::KeyboardEvent) {
    if event.key() == "Enter" {
        let target = event.target().and_then(|target| target.dyn_into().ok());
        // on a heading it folds, as on every button
        if target.is_some_and(|target: Element| target.has_attribute(CELL)) {
            event.prevent_default();
            focus(ANSWER_ID);
        }
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
