//! The matrix's table, drawn.

use std::sync::Arc;

use kv_resolver::Outcome;
use kv_resolver::catalog::CatalogGpu;
use kv_resolver::standing::Signature;
use leptos::prelude::document;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement};

use super::clicks::{CELL, GPU, focus};
use crate::answers::Cell;
use crate::grid::{Grid, GridRow, Group};
use crate::markup::Markup;
use crate::record::Record;
use crate::text;
use crate::view::{Sort, Toggle};

/// A row and a column.
type Position = (usize, usize);

/// What the table shows. The choice is not part of it, so that choosing leaves the cells and the focus alone; and
/// while its rows and columns stay, only cells that change are drawn again.
pub struct Drawing {
    grid: Arc<Grid>,
    /// Whether its cells say on what they stand.
    has_record: bool,
    /// Row by row.
    cells: Vec<CellMarkup>,
}

#[derive(PartialEq)]
struct CellMarkup {
    class: &'static str,
    inner: String,
}

impl Drawing {
    /// A grid's drawing; with the record, if it is here, and the kind of the question.
    pub fn new(grid: Arc<Grid>, record: Option<(&Record, &Signature)>) -> Self {
        let mut cells = Vec::with_capacity(grid.rows.len() * grid.columns.len());
        for row in &grid.rows {
            for (cell, dtype) in row.cells.iter().zip(&grid.columns) {
                let count = record.map(|(record, kind)| record.count(&kind.with(row.arch, *dtype)));
                cells.push(CellMarkup::new(cell, row, count));
            }
        }
        Self {
            grid,
            has_record: record.is_some(),
            cells,
        }
    }

    /// How its rows are sorted.
    pub fn sort(&self) -> Sort {
        self.grid.sort
    }

    /// Draws what differs from what is there. `chosen` gets the focus if the table had it and is drawn anew.
    pub fn draw(&self, table: &Element, drawn: Option<&Self>, chosen: Position) {
        let Some(drawn) = drawn.filter(|drawn| drawn.grid.has_shape_of(&self.grid)) else {
            let active = document().active_element();
            let active = active.filter(|active| table.contains(Some(active)));
            table.set_inner_html(&self.html());
            match active.map(|active| active.id()) {
                None => {}
                // of a cell
                Some(id) if id.is_empty() => focus_cell(table, chosen),
                Some(id) => focus(&id),
            }
            return;
        };
        if Arc::ptr_eq(&drawn.grid, &self.grid) && drawn.has_record == self.has_record {
            return;
        }
        let Ok(elements) = table.query_selector_all("td") else {
            return;
        };
        for (index, (cell, old)) in (0..).zip(self.cells.iter().zip(&drawn.cells)) {
            let element = elements.item(index).filter(|_| cell != old);
            if let Some(element) = element.and_then(|node| node.dyn_into::<Element>().ok()) {
                let _ = element.set_attribute("class", cell.class);
                element.set_inner_html(&cell.inner);
            }
        }
    }

    pub(super) fn html(&self) -> String {
        let grid = &self.grid;
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
        let mut cells = self.cells.iter();
        let mut groups = grid.groups.iter().peekable();
        for (index, row) in grid.rows.iter().enumerate() {
            while let Some(group) = groups.next_if(|group| group.first <= index) {
                group_head(&mut html, group, &width);
            }
            row_head(&mut html, row, grid.sort);
            let dtypes = grid.columns.iter().enumerate();
            for ((column, dtype), cell) in dtypes.zip(cells.by_ref()) {
                html.add(
                    "<td role=\"gridcell\" class=\"{}\" data-cell=\"{}-{}\" data-dtype=\"{}\" tabindex=\"-1\" \
                     aria-selected=\"false\">",
                    &[
                        cell.class,
                        &index.to_string(),
                        &column.to_string(),
                        dtype.as_str(),
                    ],
                );
                html.append(&cell.inner).add("</td>", &[]);
            }
            html.add("</tr>", &[]);
        }
        for group in groups {
            group_head(&mut html, group, &width);
        }
        html.into_string()
    }
}

/// An architecture's heading, which folds its rows. Its id is where the focus returns to when the table is drawn anew.
fn group_head(html: &mut Markup, group: &Group, width: &str) {
    let arch = group.arch.to_string();
    html.add(
        "<tbody><tr class=\"arch\"><th scope=\"rowgroup\" colspan=\"{}\"><button type=\"button\" id=\"fold-{}\" \
         data-toggle=\"{}\" aria-expanded=\"{}\">{} · {} <small>{}</small></button></th></tr>",
        &[
            width,
            &arch,
            &Toggle::Fold(group.arch).index(),
            if group.is_folded { "false" } else { "true" },
            &arch,
            group.arch.generation(),
            &text::counted(group.gpus as u64, "GPU"),
        ],
    );
}

fn row_head(html: &mut Markup, row: &GridRow, sort: Sort) {
    html.add("<tr", &[]);
    if row.is_outside {
        html.add(" class=\"outside\"", &[]);
    }
    html.add("><th scope=\"row\">", &[]);
    for gpu in &row.gpus {
        html.add(
            "<span data-gpu=\"{}\">{}<small>{}</small></span> ",
            &[
                gpu.key,
                gpu.label,
                text::gpu_memory(gpu).as_deref().unwrap_or(""),
            ],
        );
    }
    // where no heading says it
    if sort != Sort::Arch {
        html.add(
            "<small class=\"of-arch\">{}</small>",
            &[&row.arch.to_string()],
        );
    }
    if row.is_outside {
        html.add("<em>chosen, but filtered out</em>", &[]);
    }
    html.add("</th>", &[]);
}

impl CellMarkup {
    fn new(cell: &Cell, row: &GridRow, answers: Option<u64>) -> Self {
        let outcome = cell.outcome();
        let mut html = Markup::new();
        html.add(
            "<span class=\"outcome\"><i aria-hidden=\"true\">{}</i>{}</span>",
            &[text::glyph(outcome), outcome.as_str()],
        );
        let says_so = !matches!(
            outcome,
            // what fits may follow from an estimate, of which nothing is claimed
            Outcome::Unmodelled | Outcome::Unverified | Outcome::DoesNotFit
        );
        if let Some(count) = answers.filter(|_| says_so) {
            let (mark, why) = match count {
                0 => ("○", "derived".to_owned()),
                count => ("●", ["verified, ", &text::number(count)].concat()),
            };
            html.add(
                "<small class=\"stands\" title=\"{}\"><i aria-hidden=\"true\">{}</i><span class=\"hidden\">{}</span></small>",
                &[&why, mark, &why],
            );
        }
        match cell {
            Cell::Starts {
                dtype,
                marginal,
                fits,
                ..
            } => {
                let fits = fits.as_ref().map(|fits| fits.shown() + "×");
                html.add(
                    "<b>{}</b><span class=\"figures\"><span>{}/token</span> <span class=\"fits\">{}</span></span>",
                    &[
                        dtype.as_str(),
                        &text::per_token(*marginal),
                        if row.pool_exceeds {
                            text::POOL_EXCEEDS
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
        Self {
            class: text::cell_class(outcome),
            inner: html.into_string(),
        }
    }
}

/// Marks what is chosen: the cell, its row, its column, by which rows may be sorted, and the GPU's name.
pub fn mark(table: &Element, (row, column): Position, gpu: &CatalogGpu, sort: Sort) {
    let chosen = cell_selector((row, column));
    let set = |selector: &str, attributes: &[(&str, &str)]| {
        if let Ok(Some(element)) = table.query_selector(selector) {
            for (name, value) in attributes {
                let _ = element.set_attribute(name, value);
            }
        }
    };
    set(
        "[aria-selected=\"true\"]",
        &[("aria-selected", "false"), ("tabindex", "-1")],
    );
    set(&chosen, &[("aria-selected", "true"), ("tabindex", "0")]);
    for marked in ["th[data-on]", "tr[data-on]", "span[data-on]"] {
        if let Ok(Some(element)) = table.query_selector(marked) {
            let _ = element.remove_attribute("data-on");
            let _ = element.remove_attribute("aria-sort");
        }
    }
    let on = [("data-on", "")];
    let sorted = [("data-on", ""), ("aria-sort", "descending")];
    let head = if sort == Sort::Arch { &on[..] } else { &sorted };
    set(&format!("thead th:nth-child({})", column + 2), head);
    set(&format!("tr:has({chosen})"), &on);
    set(&format!("[{GPU}=\"{}\"]", gpu.key), &on);
}

/// Puts the focus on a cell.
pub fn focus_cell(table: &Element, position: Position) {
    let cell = table.query_selector(&cell_selector(position));
    let cell = cell.ok().flatten();
    if let Some(cell) = cell.and_then(|cell| cell.dyn_into::<HtmlElement>().ok()) {
        let _ = cell.focus();
    }
}

fn cell_selector((row, column): Position) -> String {
    format!("[{CELL}=\"{row}-{column}\"]")
}
