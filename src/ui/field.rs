//! Labelled controls with their errors beside them. Each takes boxed closures: one compiled copy serves all.

use leptos::html;
use leptos::prelude::*;

use crate::input::Field;
use crate::markup::Markup;
use crate::state::state;

/// Takes what the user enters.
pub type OnText = Box<dyn Fn(String)>;

/// The id of a field's error.
pub fn error_id(field: Field) -> String {
    format!("{}-error", field.id())
}

/// What is wrong with a field, announced when it appears.
#[component]
pub fn FieldError(field: Field) -> impl IntoView {
    let error = state().error_of(field);
    view! {
        <div id=error_id(field) role="alert" class="field-error">
            {error}
        </div>
    }
}

/// `true` while a field's text cannot be read.
pub fn is_invalid(field: Field) -> Signal<String> {
    state().shown(move |page| page.error_of(field).is_some().to_string())
}

/// A text field. What is typed goes to `on_text`, right or wrong.
#[component]
pub fn TextField(
    /// Which.
    field: Field,
    /// Its name.
    label: &'static str,
    /// What it means, in a few words.
    hint: &'static str,
    /// Its text.
    value: Signal<String>,
    /// Takes what is typed.
    on_text: OnText,
    /// What holds while it is empty.
    placeholder: Signal<String>,
    /// The id of a list of suggestions; empty for none.
    #[prop(optional)]
    list: &'static str,
    /// What follows the number, such as `GiB`.
    #[prop(optional)]
    unit: &'static str,
    /// Whether it is words rather than a number.
    #[prop(optional)]
    is_text: bool,
) -> impl IntoView {
    let id = field.id();
    let hint_id = format!("{id}-hint");
    let described_by = format!("{hint_id} {}", error_id(field));
    view! {
        <div class="field">
            <label for=id.clone()>{label}</label>
            <div class="box">
                <input
                    id=id
                    type="text"
                    autocomplete="off"
                    spellcheck="false"
                    inputmode=if is_text { "text" } else { "decimal" }
                    list=list
                    placeholder=placeholder
                    prop:value=value
                    aria-describedby=described_by
                    aria-invalid=is_invalid(field)
                    on:input=move |event| on_text(event_target_value(&event))
                />
                <span class="unit" aria-hidden="true">
                    {unit}
                </span>
            </div>
            <p id=hint_id class="hint">
                {hint}
            </p>
            <FieldError field />
        </div>
    }
}

/// A pasted config.json.
#[component]
pub fn PasteField(
    /// Which.
    field: Field,
    /// Its name.
    label: &'static str,
    /// What one looks like.
    placeholder: &'static str,
    /// Its text.
    value: Signal<String>,
    /// Takes what is typed.
    on_text: OnText,
    /// What else there is to say.
    notice: Signal<String>,
    /// Whether it is not needed now.
    is_hidden: Signal<bool>,
) -> impl IntoView {
    let id = field.id();
    view! {
        <div class="paste" hidden=is_hidden>
            <label for=id.clone()>{label}</label>
            <textarea
                id=id
                rows="7"
                spellcheck="false"
                autocomplete="off"
                placeholder=placeholder
                prop:value=value
                aria-describedby=error_id(field)
                aria-invalid=is_invalid(field)
                on:input=move |event| on_text(event_target_value(&event))
            ></textarea>
            <FieldError field />
            <div role="status" class="hint">
                {notice}
            </div>
        </div>
    }
}

/// What a select offers, as markup.
pub struct Choices(String);

impl Choices {
    /// Values and labels.
    pub fn new(choices: &[(&str, &str)]) -> Self {
        Self(String::new()).and(choices)
    }

    /// Further choices.
    pub fn and(mut self, choices: &[(&str, &str)]) -> Self {
        let mut html = Markup::new();
        for (value, label) in choices {
            html.add("<option value=\"{}\">{}</option>", &[value, label]);
        }
        self.0.push_str(&html.into_string());
        self
    }

    /// Further choices under a heading.
    pub fn and_group(mut self, heading: &str, choices: &Self) -> Self {
        let mut html = Markup::new();
        html.add("<optgroup label=\"{}\">", &[heading]);
        self.0.push_str(&html.into_string());
        self.0.push_str(&choices.0);
        self.0.push_str("</optgroup>");
        self
    }
}

/// A select.
#[component]
pub fn SelectField(
    /// Its id.
    id: String,
    /// Its name.
    label: &'static str,
    /// What it means, in a few words.
    hint: &'static str,
    /// What there is to choose from.
    choices: Choices,
    /// The value that is chosen.
    value: Signal<String>,
    /// Takes the value that is chosen.
    on_choose: OnText,
) -> impl IntoView {
    let select = NodeRef::<html::Select>::new();
    // after the options are there: a select takes no value that it has no option for
    Effect::new(move |_| {
        let value = value.get();
        if let Some(select) = select.get() {
            select.set_value(&value);
        }
    });
    let hint_id = format!("{id}-hint");
    view! {
        <div class="field">
            <label for=id.clone()>{label}</label>
            <select
                id=id
                node_ref=select
                aria-describedby=hint_id.clone()
                on:change=move |event| on_choose(event_target_value(&event))
                inner_html=choices.0
            ></select>
            <p id=hint_id class="hint">
                {hint}
            </p>
        </div>
    }
}

/// A check box.
#[component]
pub fn CheckField(
    /// Its name.
    label: &'static str,
    /// Whether it is checked.
    is_checked: Signal<bool>,
    /// Takes whether it is checked.
    on_check: Box<dyn Fn(bool)>,
) -> impl IntoView {
    view! {
        <label class="check">
            <input
                type="checkbox"
                prop:checked=is_checked
                on:change=move |event| on_check(event_target_checked(&event))
            />
            {label}
        </label>
    }
}
