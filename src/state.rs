//! The page's state: one signal for what is entered, one memo for what follows from it.

use std::time::Duration;

use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use wasm_bindgen::JsValue;

use crate::address;
use crate::input::{Field, Input};
use crate::page::Page;

/// Browsers refuse an address that changes many times a second, as it would while a slider moves.
const ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// What the components share.
#[derive(Clone, Copy)]
pub struct State {
    /// What the user has entered.
    pub input: RwSignal<Input>,
    /// What follows from it.
    pub page: Memo<Page>,
    /// What the address held and the page did not understand.
    pub problems: RwSignal<Vec<String>>,
}

impl State {
    /// Creates the signals; call it once, at the root.
    pub fn new(address::Read { input, problems }: address::Read) -> Self {
        let input = RwSignal::new(input);
        Self {
            input,
            page: Memo::new(move |last: Option<&Page>| input.with(|input| Page::new(input, last))),
            problems: RwSignal::new(problems),
        }
    }

    /// A text of the input. All texts have one type, which keeps the page small.
    pub fn entered(
        self,
        read: impl Fn(&Input) -> String + Send + Sync + 'static,
    ) -> Signal<String> {
        Signal::derive(move || self.input.with(&read))
    }

    /// A text that follows from the input.
    pub fn shown(self, read: impl Fn(&Page) -> String + Send + Sync + 'static) -> Signal<String> {
        Signal::derive(move || self.page.with(&read))
    }

    /// What is wrong with a field's text; empty if nothing is.
    pub fn error_of(self, field: Field) -> Signal<String> {
        self.shown(move |page| page.error_of(field).unwrap_or_default().to_owned())
    }

    /// Changes what is entered.
    pub fn change(self, change: impl FnOnce(&mut Input)) {
        self.input.update(change);
    }

    /// Keeps the browser's address in step, a moment late.
    pub fn mirror_in_address(self) {
        let pending = StoredValue::new(None::<TimeoutHandle>);
        Effect::new(move |before: Option<String>| {
            let query = self.page.with(|page| page.address.query.clone());
            if before.is_some_and(|before| before != query) {
                if let Some(handle) = pending.get_value() {
                    handle.clear();
                }
                let query = query.clone();
                let handle = set_timeout_with_handle(move || replace(&query), ADDRESS_DELAY);
                pending.set_value(handle.ok());
            }
            query
        });
    }
}

/// The state of this page.
pub fn state() -> State {
    expect_context::<State>()
}

fn replace(query: &str) {
    let address = if query.is_empty() {
        // an empty reference would keep the old query
        window().location().pathname().unwrap_or_default()
    } else {
        format!("?{query}")
    };
    if let Ok(history) = window().history() {
        // refused only where the browser throttles it; the next change tries again
        let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&address));
    }
}
