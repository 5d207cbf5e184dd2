//! The page's state: one signal for what is entered, one memo for what follows from it.

use std::sync::Arc;
use std::time::Duration;

use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::JsValue;
use web_sys::FileList;

use crate::address;
use crate::catalog::{Catalog, Shelf};
use crate::file;
use crate::input::{Field, Input, ModelChoice};
use crate::page::Page;
use crate::reading::{self, Explained, Reading};
use crate::record::Record;
use crate::second;
use crate::ui::Search;

/// Browsers refuse an address that changes many times a second, as it would while a slider moves.
const ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// How long something that is dragged stands still before it rests.
const REST: Duration = Duration::from_millis(90);

/// What the components share.
#[derive(Clone, Copy)]
pub struct State {
    /// What the user has entered.
    pub input: RwSignal<Input>,
    /// The same, but for what is being dragged: it follows when that rests.
    pub rested: RwSignal<Input>,
    /// Until it does.
    waiting: StoredValue<Option<TimeoutHandle>>,
    /// The catalog of models, once it is here.
    pub shelf: RwSignal<Shelf>,
    /// Whether the second half of the program is here, which every answer takes.
    pub is_whole: RwSignal<bool>,
    /// What vLLM's own answers cover, once it is here.
    pub record: RwSignal<Option<Arc<Record>>>,
    /// What follows from what rests, and from the catalog.
    pub page: Memo<Page>,
    /// What the address held and the page did not understand.
    pub problems: RwSignal<Vec<String>>,
    /// What is wrong with the file that was last opened or dropped; empty if nothing is.
    pub file_problem: RwSignal<String>,
    /// What was pasted last.
    pub reading: RwSignal<Option<Arc<Reading>>>,
    /// That, held against the answer, unless that is to an earlier question.
    pub explained: Memo<Option<Explained>>,
    /// What is being searched for.
    pub search: RwSignal<Search>,
    /// Whether nothing is held over the page.
    pub hides_drop: RwSignal<bool>,
}

impl State {
    /// Creates the signals; call it once, at the root.
    pub fn new(address::Read { input, problems }: address::Read) -> Self {
        let rested = RwSignal::new(input.clone());
        let input = RwSignal::new(input);
        let shelf = RwSignal::new(Shelf::Loading);
        let is_whole = RwSignal::new(second::is_here());
        let page = Memo::new(move |last: Option<&Page>| {
            let is_whole = is_whole.get();
            shelf.with(|shelf| {
                rested.with(|input| {
                    if is_whole {
                        Page::new(input, shelf, last)
                    } else {
                        Page::awaited(input, shelf)
                    }
                })
            })
        });
        let reading = RwSignal::new(None);
        let explained = Memo::new(move |last: Option<&Option<Explained>>| {
            let last = last.and_then(Option::as_ref);
            reading.with(|reading: &Option<Arc<Reading>>| {
                page.with(|page| {
                    let answer = page.answer().filter(|_| !page.is_stale)?;
                    Some(Explained::new(reading.as_ref()?, answer, last))
                })
            })
        });
        Self {
            input,
            rested,
            waiting: StoredValue::new(None),
            shelf,
            is_whole,
            record: RwSignal::new(None),
            page,
            problems: RwSignal::new(problems),
            file_problem: RwSignal::new(String::new()),
            reading,
            explained,
            search: RwSignal::new(Search::default()),
            hides_drop: RwSignal::new(true),
        }
    }

    /// Loads the catalog of models; also after it did not come.
    pub fn load_catalog(self) {
        self.shelf.set(Shelf::Loading);
        spawn_local(async move {
            match Catalog::load().await {
                Ok(catalog) => self.receive(catalog),
                Err(why) => self.shelf.set(Shelf::Missing(why)),
            }
        });
    }

    /// Waits for the second half of the program, then loads what vLLM's own answers cover, which no answer waits for.
    pub fn follow_second_half(self) {
        spawn_local(async move {
            second::arrival().await;
            // else everything would be asked anew
            if !self.is_whole.get_untracked() {
                self.is_whole.set(true);
            }
            if let Some(record) = Record::load().await {
                self.record.set(Some(Arc::new(record)));
            }
        });
    }

    fn receive(self, catalog: Catalog) {
        let mut input = self.input.get_untracked();
        if let Err(problem) = address::settle(&mut input, &catalog) {
            self.problems.update(|problems| problems.push(problem));
        }
        self.input.set(input.clone());
        self.rested.set(input);
        self.shelf.set(Shelf::Here(Arc::new(catalog)));
    }

    /// Chooses a model.
    pub fn choose_model(self, model: ModelChoice) {
        self.file_problem.set(String::new());
        self.change(|input| input.choose_model(model));
    }

    /// Reads a command, a log or an error that was pasted, and fills in what it says.
    pub fn read_pasted(self, text: &str) {
        if text.trim().is_empty() {
            return self.reading.set(None);
        }
        let release = self.input.with_untracked(|input| input.release);
        let mut reading = Reading::new(text, release);
        if reading.is_something() {
            self.shelf.with_untracked(|shelf| {
                let models = match shelf {
                    Shelf::Here(catalog) => catalog.ids(),
                    Shelf::Loading | Shelf::Missing(_) => Vec::new(),
                };
                self.change(|input| reading.fill(input, &models));
            });
        }
        self.reading.set(Some(Arc::new(reading)));
    }

    /// Takes otherwise what would close the gap between a log and the answer, by its number.
    pub fn close_gap(self, number: usize) {
        let closing = self.explained.with_untracked(|explained| {
            let explanation = explained.as_ref()?.explanation.as_ref()?;
            explanation.closings.get(number).cloned()
        });
        if let Some(closing) = closing {
            self.change(|input| reading::take(input, &closing));
        }
    }

    /// Leaves out a flag or variable without a rule, or all of them where none is named.
    pub fn leave_out(self, name: &str) {
        self.change(|input| {
            input
                .unmodelled
                .retain(|known| !name.is_empty() && known != name);
        });
    }

    /// Reads an opened or dropped config.json, as if it had been pasted: the model's, or the drafter's.
    pub fn read_files(self, files: &FileList, is_drafter: bool) {
        let file = match file::config_of(files) {
            Ok(Some(file)) => file,
            Ok(None) => return,
            Err(problem) => return self.file_problem.set(problem),
        };
        spawn_local(async move {
            match file::read(&file).await {
                Ok(text) if is_drafter => {
                    self.file_problem.set(String::new());
                    self.change(|input| {
                        // by the catalog's name it would not be looked at
                        input.drafting.model.clear();
                        input.drafting.pasted = Arc::from(text);
                    });
                }
                Ok(text) => {
                    self.change(|input| input.pasted = Arc::from(text));
                    self.choose_model(ModelChoice::Pasted);
                }
                Err(problem) => self.file_problem.set(problem),
            }
        });
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
        self.stop_waiting();
        self.input.update(change);
        self.rested.set(self.input.get_untracked());
    }

    /// The same while something is dragged: the sentence follows at once, the rest when it rests.
    pub fn drag(self, change: impl FnOnce(&mut Input)) {
        self.stop_waiting();
        self.input.update(change);
        let rest = move || self.rested.set(self.input.get_untracked());
        self.waiting
            .set_value(set_timeout_with_handle(rest, REST).ok());
    }

    fn stop_waiting(self) {
        if let Some(handle) = self.waiting.get_value() {
            handle.clear();
            self.waiting.set_value(None);
        }
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
