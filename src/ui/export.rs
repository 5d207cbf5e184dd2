//! The matrix to take along: copied, or as a file that the browser keeps.

use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::js_sys::Array;
use web_sys::{Blob, Element, HtmlElement, Url};

use super::clicks::{AFTER_A_MOMENT, copy};
use crate::export::Format;
use crate::markup::Markup;
use crate::state::State;

/// On a button: the place of its format among all.
pub const EXPORT: &str = "data-export";
/// On one that saves a file.
const SAVE: &str = "data-save";

/// A button, and what it opens; the browser opens and closes it.
pub fn menu() -> String {
    let mut html = Markup::new();
    html.add(
        "<button type=\"button\" popovertarget=\"export\">Export</button>\
         <div id=\"export\" popover role=\"group\" aria-label=\"Export\"><p>The whole matrix, as filtered and sorted.</p>",
        &[],
    );
    for (index, format) in Format::ALL.into_iter().enumerate() {
        let (index, label) = (index.to_string(), format.label());
        html.add(
            "<button type=\"button\" data-export=\"{}\" aria-live=\"polite\">Copy {}</button>\
             <button type=\"button\" data-export=\"{}\" data-save>Save {}</button>",
            &[&index, label, &index, label],
        );
    }
    html.add("</div>", &[]);
    html.into_string()
}

/// The focus has gone to an element: the browser keeps open what it goes out of.
pub fn leave(to: &Element) {
    let is_out = matches!(to.closest("#export, [popovertarget]"), Ok(None));
    let menu = document().get_element_by_id("export").filter(|_| is_out);
    if let Some(menu) = menu {
        // closed already is well
        let _ = menu.unchecked_into::<HtmlElement>().hide_popover();
    }
}

/// Copies or saves what the button names.
pub fn export(state: State, button: &Element, index: &str) {
    let format = index
        .parse()
        .ok()
        .and_then(|index: usize| Format::ALL.get(index));
    let made = state.page.with_untracked(|page| {
        let (format, answers) = format.zip(page.answers.as_ref())?;
        let view = state.input.with_untracked(|input| input.view);
        let text = format.write(answers, &view);
        Some((text, format.file_name(&answers.asked)))
    });
    let Some((text, name)) = made else { return };
    if button.has_attribute(SAVE) {
        // the browser may refuse; it says so itself
        let _ = save(&name, &text);
    } else {
        copy(button, &text);
    }
}

/// Hands the browser a file that is made here.
fn save(name: &str, text: &str) -> Result<(), JsValue> {
    let blob = Blob::new_with_str_sequence(&Array::of1(&JsValue::from_str(text)))?;
    let url = Url::create_object_url_with_blob(&blob)?;
    let link = document().create_element("a")?;
    link.set_attribute("href", &url)?;
    link.set_attribute("download", name)?;
    link.unchecked_into::<HtmlElement>().click();
    // once the browser has taken it
    set_timeout(
        move || {
            let _ = Url::revoke_object_url(&url);
        },
        AFTER_A_MOMENT,
    );
    Ok(())
}
