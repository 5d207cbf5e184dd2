//! The matrix: GPUs × dtypes, a grid that the arrow keys walk.

use kv_resolver::CacheDtype;
use kv_resolver::catalog::CatalogGpu;
use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement};

use super::clicks::{ANSWER_ID, CELL, choose, focus};
use super::legend::legend;
use crate::answers::{Cell, Grid, GridRow, Move};
use crate::markup::Markup;
use crate::state::{State, state};
use crate::text;

/// The matrix, what can be folded in it, and its legend.
#[component]
pub fn Matrix() -> impl IntoView {
    let state = state();
    let table = NodeRef::<html::Table>::new();
    Effect::new(move |drawn: Option<String>| {
        let (html, position, gpu) = state.page.with(|page| {
            let (gpu, dtype) = (page.answer.gpu, page.answer.dtype);
            (grid_html(&page.grid), page.grid.position(gpu, dtype), gpu)
        });
        if let Some(table) = table.get() {
            draw(&table, &html, drawn.as_deref(), position, gpu);
        }
        html
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

/// Draws the grid if it changed, and marks what is chosen. The choice is not part of the markup, so that choosing
/// leaves the cells and the focus alone.
fn draw(
    table: &Element,
    html: &str,
    drawn: Option<&str>,
    (row, column): (usize, usize),
    gpu: &CatalogGpu,
) {
    let chosen = format!("[{CELL}=\"{row}-{column}\"]");
    if drawn != Some(html) {
        let has_focus = document()
            .active_element()
            .is_some_and(|active| table.contains(Some(&active)));
        table.set_inner_html(html);
        if has_focus {
            focus_in(table, &chosen);
        }
    }
    let mark = |selector: &str, attributes: &[(&str, &str)]| {
        if let Ok(Some(element)) = table.query_selector(selector) {
            for (name, value) in attributes {
                let _ = element.set_attribute(name, value);
            }
        }
    };
    mark(
        "[aria-selected=\"true\"]",
        &[("aria-selected", "false"), ("tabindex", "-1")],
    );
    mark(&chosen, &[("aria-selected", "true"), ("tabindex", "0")]);
    for current in ["thead [data-on]", "tr[data-on]", "span[data-on]"] {
        if let Ok(Some(element)) = table.query_selector(current) {
            let _ = element.remove_attribute("data-on");
        }
    }
    mark(
        &format!("thead th:nth-child({})", column + 2),
        &[("data-on", "")],
    );
    mark(&format!("tr:has({chosen})"), &[("data-on", "")]);
    mark(&format!("[data-gpu=\"{}\"]", gpu.key), &[("data-on", "")]);
}

fn focus_in(table: &Element, selector: &str) {
    let element = table.query_selector(selector).ok().flatten();
    if let Some(element) = element.and_then(|element| element.dyn_into::<HtmlElement>().ok()) {
        let _ = element.focus();
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
    let (row, column) = state.page.with_untracked(|page| {
        let from = page.grid.position(page.answer.gpu, page.answer.dtype);
        page.grid.step(from, step)
    });
    focus_in(table, &format!("[{CELL}=\"{row}-{column}\"]"));
    choose(state, (row, column));
}

fn grid_html(grid: &Grid) -> String {
    let mut html = Markup::new();
    html.add(
        "<thead><tr><th scope=\"col\" class=\"corner\">GPU</th>",
        &[],
    );
    for dtype in &grid.columns {
        html.add("<th scope=\"col\">", &[])
            .name(dtype.as_str())
            .add("</th>", &[]);
    }
    html.add("</tr></thead>", &[]);
    let width = (grid.columns.len() + 1).to_string();
    for (index, row) in grid.rows.iter().enumerate() {
        if index == 0 || grid.rows[index - 1].arch != row.arch {
            html.add(
                "<tbody><tr class=\"arch\"><th scope=\"rowgroup\" colspan=\"{}\">{} · {}</th></tr>",
                &[&width, &row.arch.to_string(), row.arch.generation()],
            );
        }
        row_html(&mut html, row, index, &grid.columns);
        if grid
            .rows
            .get(index + 1)
            .is_none_or(|next| next.arch != row.arch)
        {
            html.add("</tbody>", &[]);
        }
    }
    html.into_string()
}

fn row_html(html: &mut Markup, row: &GridRow, index: usize, columns: &[CacheDtype]) {
    html.add("<tr><th scope=\"row\">", &[]);
    for gpu in &row.gpus {
        html.add(
            "<span data-gpu=\"{}\">{}<small>{}</small></span> ",
            &[gpu.key, gpu.label, &text::gpu_memory(gpu)],
        );
    }
    html.add("</th>", &[]);
    for (column, (cell, dtype)) in row.cells.iter().zip(columns).enumerate() {
        let outcome = cell.outcome();
        html.add(
            "<td role=\"gridcell\" class=\"cell {}\" data-cell=\"{}-{}\" data-dtype=\"{}\" tabindex=\"-1\" \
             aria-selected=\"false\"><span class=\"outcome\"><i aria-hidden=\"true\">{}</i>{}</span>",
            &[
                text::outcome_class(outcome),
                &index.to_string(),
                &column.to_string(),
                dtype.as_str(),
                text::glyph(outcome),
                outcome.as_str(),
            ],
        );
        match cell {
            Cell::Starts {
                dtype,
                marginal,
                fits,
                ..
            } => {
                let fits = fits.as_ref().map(|fits| format!("{fits}×"));
                html.add(
                    "<b>{}</b><span class=\"figures\"><span>{}/token</span> <span class=\"fits\">{}</span></span>",
                    &[
                        dtype.as_str(),
                        &text::per_token(*marginal),
                        if row.pool_exceeds {
                            "pool > GPU"
                        } else {
                            fits.as_deref().unwrap_or_default()
                        },
                    ],
                );
            }
            Cell::Stops { stage, .. } => {
                html.add("<b>{}</b>", &[text::short_stage(*stage)]);
            }
        }
        html.add("</td>", &[]);
    }
    html.add("</tr>", &[]);
}
