//! What can be done with the matrix: show more of it, or less; sort it; take it along. Markup, as what it is about: with
//! views and signals the page would be two kilobytes larger.

use kv_resolver::Arch;
use kv_resolver::catalog::GPUS;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlSelectElement};

use super::export;
use crate::grid::Grid;
use crate::markup::Markup;
use crate::state::State;
use crate::view::{Memory, Sort, Toggle, View};

/// The id of the matrix's heading.
pub const TITLE_ID: &str = "matrix-title";
/// The ids of the selects.
const SORT_ID: &str = "matrix-sort";
const MEMORY_ID: &str = "matrix-memory";

/// The matrix's heading with its buttons, and a line of controls; with a grid, as [`update`] leaves them.
pub fn tools(grid: Option<&Grid>) -> String {
    let mut html = Markup::new();
    html.add(
        "<div class=\"section-head\"><h2 id=\"{}\">Every GPU × every <code>--kv-cache-dtype</code></h2>\
         <div class=\"folding\">",
        &[TITLE_ID],
    );
    switch(&mut html, Toggle::RowPerGpu, "One row per GPU");
    switch(
        &mut html,
        Toggle::AllDtypes,
        &grid.map(all_dtypes).unwrap_or_default(),
    );
    html.add("</div></div><div class=\"tools\">", &[]);
    let sorts = Sort::ALL.map(|sort| (sort.as_str().to_owned(), sort.label().to_owned()));
    select(&mut html, SORT_ID, "Sort", &sorts);
    html.add(
        "<div class=\"only\" role=\"group\" aria-label=\"Only these architectures\"><span aria-hidden=\"true\">Only</span>",
        &[],
    );
    for arch in Arch::ALL {
        switch(&mut html, Toggle::Only(arch), &arch.to_string());
    }
    html.add("</div>", &[]);
    let sizes = Memory::ALL.map(|memory| (memory.to_string(), memory.label()));
    select(&mut html, MEMORY_ID, "Memory", &sizes);
    html.add("<p role=\"status\"></p><div class=\"export\">", &[]);
    html.append(&export::menu()).add("</div></div>", &[]);
    html.into_string()
}

/// A button that stays pressed.
fn switch(html: &mut Markup, toggle: Toggle, label: &str) {
    html.add(
        "<button type=\"button\" data-toggle=\"{}\">{}</button>",
        &[&toggle.index(), label],
    );
}

fn select(html: &mut Markup, id: &str, label: &str, choices: &[(String, String)]) {
    html.add("<label>{} <select id=\"{}\">", &[label, id]);
    for (value, label) in choices {
        html.add("<option value=\"{}\">{}</option>", &[value, label]);
    }
    html.add("</select></label>", &[]);
}

/// Makes the controls say what is so. `head` holds them.
pub fn update(head: &Element, view: &View, grid: Option<&Grid>) {
    let find = |selector: &str| head.query_selector(selector).ok().flatten();
    let say = |element: Option<Element>, text: &str| {
        // the same again would be read out again
        if let Some(element) = element.filter(|it| it.text_content().as_deref() != Some(text)) {
            element.set_text_content(Some(text));
        }
    };
    for toggle in Toggle::ALL {
        if let Some(button) = find(&selector(toggle)) {
            let is_on = if view.is_on(toggle) { "true" } else { "false" };
            let _ = button.set_attribute("aria-pressed", is_on);
        }
    }
    let memory = view.memory.to_string();
    for (id, value) in [(SORT_ID, view.sort.as_str()), (MEMORY_ID, &memory)] {
        let select = find(&format!("#{id}")).and_then(|found| found.dyn_into().ok());
        let select: Option<HtmlSelectElement> = select;
        if let Some(select) = select {
            select.set_value(value);
        }
    }
    let Some(grid) = grid else { return };
    let left = if grid.matching < GPUS.len() {
        format!("{} of {} GPUs", grid.matching, GPUS.len())
    } else {
        String::new()
    };
    say(find("[role=\"status\"]"), &left);
    let refused = find(&selector(Toggle::AllDtypes));
    if let Some(button) = &refused {
        let names: Vec<&str> = grid.refused.iter().map(|dtype| dtype.as_str()).collect();
        let _ = button.set_attribute("title", &names.join(", "));
    }
    say(refused, &all_dtypes(grid));
}

/// What the button for all dtypes says.
fn all_dtypes(grid: &Grid) -> String {
    let why = if grid.has_rules {
        " refused everywhere"
    } else {
        " without rules"
    };
    ["+ ", &grid.refused.len().to_string(), why].concat()
}

fn selector(toggle: Toggle) -> String {
    format!("[data-toggle=\"{}\"]", toggle.index())
}

/// Something was chosen in a select, perhaps in one of these.
pub fn on_change(state: State, select: &HtmlSelectElement) {
    let value = select.value();
    match select.id().as_str() {
        SORT_ID => state.change(|input| input.view.sort = value.parse().unwrap_or_default()),
        MEMORY_ID => state.change(|input| input.view.memory = value.parse().unwrap_or_default()),
        _ => {}
    }
}
