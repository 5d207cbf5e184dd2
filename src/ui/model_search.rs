//! Choosing a model of the catalog by any part of its id: a text field with a list, as ARIA's combobox is.

use leptos::html;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{
    Element, Event, HtmlInputElement, KeyboardEvent, ScrollIntoViewOptions, ScrollLogicalPosition,
};

use super::clicks::focus;
use crate::catalog::Shelf;
use crate::input::{Field, Input, ModelChoice, short_model_name};
use crate::markup::Markup;
use crate::state::{State, state};

/// The text field's id.
pub const ID: &str = "field-model";
const LIST_ID: &str = "models";
/// On an option: its number.
pub const OPTION: &str = "data-option";
/// What PageUp and PageDown pass.
const PAGE: usize = 8;

/// What is being searched for.
#[derive(Clone, Default)]
pub struct Search {
    /// Whether the list is shown.
    pub is_open: bool,
    /// `None` before anything is typed: the field shows the chosen model, and the list shows all.
    pub typed: Option<String>,
    /// The option that Enter takes.
    pub active: usize,
}

impl Search {
    fn sought(&self) -> &str {
        self.typed.as_deref().unwrap_or_default()
    }
}

/// What the list offers: what was found, or else one's own file.
fn offers(shelf: &Shelf, sought: &str) -> Vec<ModelChoice> {
    let mut offers = Vec::new();
    if let Shelf::Here(catalog) = shelf {
        offers.extend(catalog.search(sought).into_iter().map(ModelChoice::Catalog));
    }
    if offers.is_empty() || sought.trim_ascii().is_empty() {
        offers.insert(0, ModelChoice::Pasted);
    }
    offers
}

/// What was found, in a line.
fn status(shelf: &Shelf, search: &Search, offers: &[ModelChoice]) -> String {
    match shelf {
        Shelf::Loading => "Loading the models …".to_owned(),
        Shelf::Missing(_) => "The models did not load.".to_owned(),
        Shelf::Here(_) if offers.len() > 1 || offers.first() != Some(&ModelChoice::Pasted) => {
            let count = offers.iter().filter(|offer| **offer != ModelChoice::Pasted);
            crate::text::counted(count.count() as u64, "model")
        }
        Shelf::Here(_) => format!("No model here is called “{}”.", search.sought()),
    }
}

/// By owner, which comes before the slash.
fn options(offers: &[ModelChoice], chosen: &ModelChoice) -> String {
    let mut html = Markup::new();
    let mut owner = "";
    for (index, offer) in offers.iter().enumerate() {
        let (its_owner, label) = match offer {
            ModelChoice::Catalog(id) => (
                id.split('/').next().unwrap_or_default(),
                short_model_name(id),
            ),
            ModelChoice::Pasted => ("", "Paste or drop a config.json …"),
        };
        let index = index.to_string();
        if its_owner != owner {
            if !owner.is_empty() {
                html.add("</div>", &[]);
            }
            owner = its_owner;
            html.add(
                "<div role=\"group\" aria-labelledby=\"owner-{}\"><div id=\"owner-{}\" class=\"owner\">{}</div>",
                &[&index, &index, owner],
            );
        }
        html.add(
            "<div role=\"option\" id=\"option-{}\" data-option=\"{}\" class=\"{}\" aria-selected=\"false\">{}</div>",
            &[
                &index,
                &index,
                if offer == chosen { "chosen" } else { "" },
                label,
            ],
        );
    }
    if !owner.is_empty() {
        html.add("</div>", &[]);
    }
    html.into_string()
}

/// The field and its list.
#[component]
pub fn ModelSearch() -> impl IntoView {
    let state = state();
    let list = NodeRef::<html::Div>::new();
    Effect::new(move |drawn: Option<String>| {
        let search = state.search.get();
        let (html, count) = if search.is_open {
            let chosen = state.input.with(|input| input.model.clone());
            let offers = state.shelf.with(|shelf| offers(shelf, search.sought()));
            (options(&offers, &chosen), offers.len())
        } else {
            (String::new(), 0)
        };
        if let Some(list) = list.get() {
            if drawn.as_ref() != Some(&html) {
                list.set_inner_html(&html);
            }
            mark(&list, search.active.min(count.saturating_sub(1)));
        }
        html
    });
    let said = searched(state, |search, shelf| {
        if search.is_open {
            status(shelf, search, &offers(shelf, search.sought()))
        } else {
            String::new()
        }
    });
    let is_open = searched(state, |search, _| search.is_open.to_string());
    let class = searched(state, |search, _| {
        let class = if search.is_open {
            "found open"
        } else {
            "found"
        };
        class.to_owned()
    });
    let value = Signal::derive(move || {
        let typed = state.search.with(|search| search.typed.clone());
        typed.unwrap_or_else(|| {
            state
                .input
                .with(|input| Input::model_name(input).to_owned())
        })
    });
    // what is done with them, `on_event` and `choose` say
    view! {
        <div class="field search">
            <label for=ID>"Model"</label>
            <div class="box">
                <input
                    id=ID
                    type="text"
                    role="combobox"
                    aria-autocomplete="list"
                    aria-controls=LIST_ID
                    aria-expanded=is_open
                    aria-describedby="recognised"
                    autocomplete="off"
                    autocapitalize="off"
                    spellcheck="false"
                    enterkeyhint="done"
                    placeholder="search, such as glm 5.1"
                    prop:value=value
                />
                <span class="unit" aria-hidden="true">
                    "▾"
                </span>
            </div>
            <div class=class>
                <div id=LIST_ID role="listbox" aria-label="Models" node_ref=list></div>
                <p role="status" class="hint">
                    {said}
                </p>
            </div>
        </div>
    }
}

fn searched(state: State, read: fn(&Search, &Shelf) -> String) -> Signal<String> {
    Signal::derive(move || {
        state
            .search
            .with(|search| state.shelf.with(|shelf| read(search, shelf)))
    })
}

fn current(state: State) -> Vec<ModelChoice> {
    let sought = state
        .search
        .with_untracked(|search| search.sought().to_owned());
    state.shelf.with_untracked(|shelf| offers(shelf, &sought))
}

/// Shows every model, at the chosen one.
pub fn open(state: State) {
    if state.search.with_untracked(|search| search.is_open) {
        return;
    }
    let chosen = state.input.with_untracked(|input| input.model.clone());
    let active = current(state).iter().position(|offer| *offer == chosen);
    state.search.set(Search {
        is_open: true,
        typed: None,
        active: active.unwrap_or_default(),
    });
}

fn close(state: State) {
    if state.search.with_untracked(|search| search.is_open) {
        state.search.set(Search::default());
        // what is typed next replaces what is chosen, once the field shows it
        request_animation_frame(|| {
            let active = document().active_element();
            if let Some(field) = active.filter(|active| active.id() == ID) {
                select(&field);
            }
        });
    }
}

fn select(field: &Element) {
    if let Some(field) = field.dyn_ref::<HtmlInputElement>() {
        field.select();
    }
}

/// Takes an option.
pub fn choose(state: State, index: usize) {
    if let Some(offer) = current(state).get(index) {
        close(state);
        if *offer == ModelChoice::Pasted {
            choose_own(state);
        } else {
            state.choose_model(offer.clone());
        }
    }
}

/// Shows one's own config.json, ready to be pasted.
pub fn choose_own(state: State) {
    state.choose_model(ModelChoice::Pasted);
    // once it is shown
    request_animation_frame(|| focus(&Field::Config.id()));
}

/// What happens in the field or its list, clicks apart.
pub fn on_event(state: State, event: &Event, target: &Element) {
    let is_field = target.id() == ID;
    match event.type_().as_str() {
        // the focus stays in the field
        "mousedown" if matches!(target.closest("#models"), Ok(Some(_))) => event.prevent_default(),
        "focusin" if is_field => select(target),
        "focusout" if is_field => close(state),
        "input" if is_field => state.search.set(Search {
            is_open: true,
            typed: Some(event_target_value(event)),
            active: 0,
        }),
        "keydown" if is_field => {
            if let Some(event) = event.dyn_ref::<KeyboardEvent>() {
                on_key(state, event);
            }
        }
        _ => {}
    }
}

fn on_key(state: State, event: &KeyboardEvent) {
    let Search {
        is_open, active, ..
    } = state.search.get_untracked();
    let last = current(state).len().saturating_sub(1);
    let to = match (event.key().as_str(), is_open) {
        ("ArrowDown" | "ArrowUp", false) => {
            event.prevent_default();
            return open(state);
        }
        ("Enter", true) => {
            event.prevent_default();
            // a typo is no wish for one's own file
            if current(state) != [ModelChoice::Pasted] {
                choose(state, active);
            }
            return;
        }
        ("Escape", true) => {
            event.prevent_default();
            return close(state);
        }
        ("ArrowDown", true) if active < last => active + 1,
        ("ArrowUp", true) if active > 0 => active - 1,
        ("ArrowDown" | "Home", true) => 0,
        ("ArrowUp" | "End", true) => last,
        ("PageDown", true) => (active + PAGE).min(last),
        ("PageUp", true) => active.saturating_sub(PAGE),
        _ => return,
    };
    event.prevent_default();
    state.search.update(|search| search.active = to);
}

/// Marks the active option, for the eye and for screen readers, and brings it into view.
fn mark(list: &Element, active: usize) {
    let Some(field) = document().get_element_by_id(ID) else {
        return;
    };
    let set = |element: &Element, name, value: &str| {
        // fails only for a name that is none
        let _ = element.set_attribute(name, value);
    };
    if let Ok(Some(marked)) = list.query_selector("[aria-selected=true]") {
        set(&marked, "aria-selected", "false");
    }
    let option = list.query_selector(&format!("[{OPTION}='{active}']"));
    let Ok(Some(option)) = option else {
        let _ = field.remove_attribute("aria-activedescendant");
        return;
    };
    set(&option, "aria-selected", "true");
    set(&field, "aria-activedescendant", &option.id());
    let options = ScrollIntoViewOptions::new();
    options.set_block(ScrollLogicalPosition::Nearest);
    option.scroll_into_view_with_scroll_into_view_options(&options);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::shelf;

    #[test]
    fn ones_own_file_is_offered_first_and_where_nothing_is_found() {
        let all = offers(&shelf(), " ");
        assert_eq!(all[0], ModelChoice::Pasted);
        assert!(all.len() > 70);
        assert_eq!(offers(&shelf(), "no such"), [ModelChoice::Pasted]);
        assert_eq!(offers(&Shelf::Loading, "v4"), [ModelChoice::Pasted]);
        let found = offers(&shelf(), "v4 flash");
        assert!(found.len() > 1 && !found.contains(&ModelChoice::Pasted));
    }

    #[test]
    fn options_are_grouped_by_owner_and_escaped() {
        let id = |id: &str| ModelChoice::Catalog(id.into());
        let offers = [id("a/one"), id("a/two"), id("b/<i>")];
        let html = options(&offers, &offers[1]);
        assert_eq!(html.matches("role=\"group\"").count(), 2);
        assert_eq!(html.matches("</div></div>").count(), 2);
        assert_eq!(html.matches("class=\"chosen\"").count(), 1);
        assert!(html.contains("&lt;i&gt;"));
    }

    #[test]
    fn what_was_found_is_said() {
        let said = |typed: &str| {
            let search = Search {
                is_open: true,
                typed: Some(typed.to_owned()),
                active: 0,
            };
            status(&shelf(), &search, &offers(&shelf(), typed))
        };
        assert_eq!(said("maverick"), "1 model");
        assert_eq!(said("nonesuch"), "No model here is called “nonesuch”.");
        assert!(said("").ends_with(" models"));
    }
}
