//! What the model was recognised as, beside it.

use kv_resolver::model::{MODELLED, ModelError, Recognition};
use leptos::prelude::*;

use crate::markup::Markup;
use crate::state::state;

/// The architecture, and what its layers keep; or that there is no rule, and which are near.
#[component]
pub fn Recognised() -> impl IntoView {
    let html = state().shown(|page| {
        let found = page.config().map(|config| markup(&config.recognition));
        found.unwrap_or_default()
    });
    view! { <div id="recognised" class="recognised" inner_html=html></div> }
}

fn markup(found: &Recognition) -> String {
    let mut html = Markup::new();
    if !found.architecture.is_empty() {
        html.add(
            "<p><span class=\"hidden\">Recognised as </span><code>{}</code> <small>{}</small></p>",
            &[&found.architecture, &found.model_type],
        );
    }
    match &found.layers {
        Ok(layers) => {
            html.add("<p>{}</p>", &[layers]);
        }
        Err(error) => {
            html.add("<p class=\"no-rule\"><b>", &[]);
            match &**error {
                ModelError::Family { .. } => {
                    html.add("Not modelled.</b> ", &[]);
                    near(&mut html, &found.nearest);
                }
                ModelError::UnknownToTransformers(_) | ModelError::UnknownToVllm(_) => {
                    html.add(
                        "Unknown to vLLM 0.33.0.</b> The answer says how it stops.</p>",
                        &[],
                    );
                }
                ModelError::NotAnObject(_)
                | ModelError::NoArchitecture
                | ModelError::Missing(_)
                | ModelError::WrongType { .. }
                | ModelError::OutOfRange { .. }
                | ModelError::TooMany { .. }
                | ModelError::Unmodelled(_) => {
                    html.add("Not modelled.</b> The answer says why.</p>", &[]);
                }
            }
        }
    }
    html.into_string()
}

fn near(html: &mut Markup, nearest: &[&str]) {
    if nearest.is_empty() {
        html.add("No architecture with rules has a name like it.", &[]);
    } else {
        html.add("With rules, and nearest by name: ", &[]);
        names(html, nearest);
    }
    html.add(
        "</p><details><summary>The {} architectures with rules</summary><p>",
        &[&MODELLED.len().to_string()],
    );
    names(html, &MODELLED);
    html.add("</p></details>", &[]);
}

fn names(html: &mut Markup, names: &[&str]) {
    for (index, name) in names.iter().enumerate() {
        html.text(if index == 0 { "" } else { ", " });
        html.add("<code>{}</code>", &[name]);
    }
    html.text(".");
}
