//! Everything that follows from the input, as one pure step: what did not change is shared with the step before.

use std::sync::Arc;

use kv_resolver::diff::Diff;
use kv_resolver::speculation::Method;

use crate::address::{self, Written};
use crate::answer::Answer;
use crate::answers::{Matrix, changes};
use crate::asked::{Asked, ModelConfig, named_config, pasted_config};
use crate::catalog::Shelf;
use crate::grid::Grid;
use crate::input::{Drafting, Field, Input, ModelChoice};
use crate::view::View;

/// What the page shows.
#[derive(Debug, Clone)]
pub struct Page {
    config: Arc<ReadConfig>,
    draft: Option<Arc<ReadConfig>>,
    /// How the matrix is looked at.
    pub view: View,
    /// The fields that cannot be read now.
    pub wrong: Vec<(Field, String)>,
    /// The answers to the last question that could be read; `None` before the catalog is here.
    pub answers: Option<Answers>,
    /// Whether they are to an earlier input than the one on the page.
    pub is_stale: bool,
    /// The address.
    pub address: Written,
}

/// What there is to say, from whole to part.
#[derive(Debug, Clone)]
pub struct Answers {
    /// The question.
    pub asked: Arc<Asked>,
    /// Every cell's answer.
    pub matrix: Arc<Matrix>,
    /// The same, as it is seen.
    pub grid: Arc<Grid>,
    /// The chosen cell's whole answer.
    pub answer: Arc<Answer>,
    /// What changed from the release that is compared with, if one is chosen.
    pub changes: Option<Arc<Diff>>,
}

/// A config, and what it was read from.
#[derive(Debug)]
struct ReadConfig {
    source: (ModelChoice, Arc<str>, Shelf),
    /// `None` for a model of the catalog while that is not here.
    result: Option<Result<Arc<ModelConfig>, String>>,
}

impl ReadConfig {
    /// What `read` makes of a pasted one; what was read last, if it is the same.
    fn new(
        source: (ModelChoice, Arc<str>, Shelf),
        last: Option<&Arc<Self>>,
        read: impl FnOnce(&str) -> Result<ModelConfig, String>,
    ) -> Arc<Self> {
        // what has waited is looked at anew
        let known = last.filter(|last| last.source == source && last.result.is_some());
        if let Some(last) = known {
            return Arc::clone(last);
        }
        let result = match &source {
            (ModelChoice::Pasted, pasted, _) => Some(read(pasted).map(Arc::new)),
            (ModelChoice::Catalog(id), _, Shelf::Here(catalog)) => {
                catalog.config(id).map(|config| Ok(Arc::new(config)))
            }
            (ModelChoice::Catalog(_), _, Shelf::Loading | Shelf::Missing(_)) => None,
        };
        Arc::new(Self { source, result })
    }
}

/// The drafter's own config, if it is to have one and there is one: of the catalog, by its name, or pasted.
fn draft_config(
    drafting: &Drafting,
    shelf: &Shelf,
    last: Option<&Arc<ReadConfig>>,
) -> Option<Arc<ReadConfig>> {
    if !drafting.method.is_some_and(Method::takes_model) {
        return None;
    }
    let name = drafting.name();
    let is_pasted = !drafting.pasted.trim().is_empty();
    let known = match shelf {
        Shelf::Here(catalog) => catalog.spelling(&name).cloned(),
        // it may come
        Shelf::Loading | Shelf::Missing(_) if !name.is_empty() && !is_pasted => {
            Some(Arc::from(name.as_str()))
        }
        Shelf::Loading | Shelf::Missing(_) => None,
    };
    let choice = match known {
        Some(id) => ModelChoice::Catalog(id),
        None if is_pasted => ModelChoice::Pasted,
        None => return None,
    };
    let serve_as = if name.is_empty() {
        "./the-drafter"
    } else {
        &name
    };
    let source = (choice, Arc::clone(&drafting.pasted), shelf.clone());
    let last = last.filter(|last| match &last.result {
        Some(Ok(config)) => config.serve_as == serve_as,
        Some(Err(_)) | None => true,
    });
    Some(ReadConfig::new(source, last, |text| {
        named_config(text, serve_as)
    }))
}

/// Equal if nothing was computed anew: shared parts are compared by identity, as deep comparison would cost more
/// than it saves.
impl PartialEq for Answers {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.asked, &other.asked)
            && Arc::ptr_eq(&self.grid, &other.grid)
            && Arc::ptr_eq(&self.answer, &other.answer)
            && self.changes.as_ref().map(Arc::as_ptr) == other.changes.as_ref().map(Arc::as_ptr)
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
            && self.draft.as_ref().map(Arc::as_ptr) == other.draft.as_ref().map(Arc::as_ptr)
            && self.answers == other.answers
            && self.is_stale == other.is_stale
            && self.wrong == other.wrong
            && self.address == other.address
    }
}

impl Page {
    /// What follows from `input`; `last` is what followed from the input before it.
    pub fn new(input: &Input, shelf: &Shelf, last: Option<&Self>) -> Self {
        let source = (
            input.model.clone(),
            Arc::clone(&input.pasted),
            shelf.clone(),
        );
        let config = ReadConfig::new(source, last.map(|last| &last.config), pasted_config);
        let last_draft = last.and_then(|last| last.draft.as_ref());
        let draft = draft_config(&input.drafting, shelf, last_draft);
        let view = input.view;
        let (asked, wrong) = match Asked::read(
            input,
            config.result.as_ref(),
            draft.as_ref().map(|draft| draft.result.as_ref()),
        ) {
            Ok(asked) => (Some(asked), Vec::new()),
            Err(wrong) => (None, wrong),
        };
        let is_stale = asked.is_none();
        let before = last.and_then(|last| last.answers.as_ref());
        // while something cannot be read, the last answer stays
        let asked = match (asked, before) {
            (Some(asked), Some(before)) if asked == *before.asked => {
                Some(Arc::clone(&before.asked))
            }
            (Some(asked), _) => Some(Arc::new(asked)),
            (None, before) => before.map(|before| Arc::clone(&before.asked)),
        };
        let shares_view = last.is_some_and(|last| last.view == view);
        Self {
            answers: asked.map(|asked| Answers::new(asked, input, before, shares_view)),
            config,
            draft,
            view,
            wrong,
            is_stale,
            address: address::write(input),
        }
    }

    /// What there is before the second half of the program is here: nothing is asked.
    pub fn awaited(input: &Input, shelf: &Shelf) -> Self {
        let source = (
            input.model.clone(),
            Arc::clone(&input.pasted),
            shelf.clone(),
        );
        Self {
            config: Arc::new(ReadConfig {
                source,
                result: None,
            }),
            draft: None,
            view: input.view,
            wrong: Vec::new(),
            answers: None,
            is_stale: false,
            address: Written::default(),
        }
    }

    /// The chosen cell's whole answer.
    pub fn answer(&self) -> Option<&Arc<Answer>> {
        self.answers.as_ref().map(|answers| &answers.answer)
    }

    /// The answer to a later input in short, while the page is still of an earlier one of the same model; `None` if it
    /// cannot be read.
    pub fn quick(&self, input: &Input) -> Option<Answer> {
        let asked = Asked::read(
            input,
            self.config.result.as_ref(),
            self.draft.as_ref().map(|draft| draft.result.as_ref()),
        );
        let asked = Arc::new(asked.ok()?);
        Some(Answer::quick(asked, input.gpu, input.dtype))
    }

    /// The catalog, as far as it is here.
    pub fn shelf(&self) -> &Shelf {
        &self.config.source.2
    }

    /// The config that is entered, if it can be read.
    pub fn config(&self) -> Option<&ModelConfig> {
        self.config.result.as_ref()?.as_deref().ok()
    }

    /// Whether the drafter is one of the catalog.
    pub fn drafter_is_known(&self) -> bool {
        let draft = self.draft.as_ref();
        draft.is_some_and(|draft| draft.source.0 != ModelChoice::Pasted)
    }

    /// What is wrong with a field's text, if anything.
    pub fn error_of(&self, field: Field) -> Option<&str> {
        self.wrong
            .iter()
            .find(|(candidate, _)| *candidate == field)
            .map(|(_, error)| error.as_str())
    }
}

impl Answers {
    fn new(asked: Arc<Asked>, input: &Input, before: Option<&Self>, shares_view: bool) -> Self {
        let before = before.filter(|before| Arc::ptr_eq(&before.asked, &asked));
        let matrix = before.map_or_else(
            || Arc::new(Matrix::new(&asked)),
            |before| Arc::clone(&before.matrix),
        );
        let view = &input.view;
        let shares_choice = |before: &Self| {
            let answer = &before.answer;
            !view.follows_choice() || answer.gpu == input.gpu && answer.dtype == input.dtype
        };
        let grid = match before {
            Some(before)
                if shares_view
                    && shares_choice(before)
                    && before.grid.columns.contains(&input.dtype) =>
            {
                Arc::clone(&before.grid)
            }
            _ => Arc::new(Grid::new(&matrix, view, input.gpu, input.dtype)),
        };
        let answer = match before {
            Some(Self { answer, .. }) if answer.gpu == input.gpu && answer.dtype == input.dtype => {
                Arc::clone(answer)
            }
            _ => Arc::new(Answer::new(Arc::clone(&asked), input.gpu, input.dtype)),
        };
        let known = before.and_then(|before| before.changes.as_ref());
        let changes = input
            .compare
            .map(|from| match known.filter(|known| known.from == from) {
                Some(known) => Arc::clone(known),
                None => Arc::new(changes(&asked, from)),
            });
        Self {
            asked,
            matrix,
            grid,
            answer,
            changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::shelf;
    use crate::view::{Memory, Toggle};
    use kv_resolver::catalog::find_gpu;
    use kv_resolver::{CacheDtype, Flag};

    fn answers(page: &Page) -> &Answers {
        page.answers.as_ref().unwrap()
    }

    #[test]
    fn choosing_a_cell_keeps_the_matrix() {
        let mut input = Input::default();
        let shelf = shelf();
        let first = Page::new(&input, &shelf, None);
        input.dtype = CacheDtype::Fp8;
        let second = Page::new(&input, &shelf, Some(&first));
        assert!(Arc::ptr_eq(
            &answers(&first).matrix,
            &answers(&second).matrix
        ));
        assert!(Arc::ptr_eq(&answers(&first).grid, &answers(&second).grid));
        assert_eq!(answers(&second).answer.dtype, CacheDtype::Fp8);
        assert!(first != second);
        assert!(second == Page::new(&input, &shelf, Some(&second)));
    }

    #[test]
    fn looking_at_it_otherwise_asks_nothing_anew() {
        let mut input = Input::default();
        let shelf = shelf();
        let mut last = Page::new(&input, &shelf, None);
        for toggle in Toggle::ALL {
            input.view.flip(toggle);
            let page = Page::new(&input, &shelf, Some(&last));
            assert!(Arc::ptr_eq(&answers(&last).matrix, &answers(&page).matrix));
            assert!(Arc::ptr_eq(&answers(&last).answer, &answers(&page).answer));
            assert!(!Arc::ptr_eq(&answers(&last).grid, &answers(&page).grid));
            last = page;
        }
        // a GPU that the filters leave out is seen while it is chosen
        input.view = View {
            memory: Memory::AtMost(16),
            ..View::default()
        };
        for key in ["h200", "b200"] {
            input.gpu = find_gpu(key).unwrap();
            last = Page::new(&input, &shelf, Some(&last));
            let mut rows = answers(&last).grid.rows.iter();
            assert!(rows.any(|row| row.is_outside && row.holds(input.gpu)));
        }
    }

    #[test]
    fn unreadable_text_keeps_the_last_answer() {
        let mut input = Input::default();
        let shelf = shelf();
        let first = Page::new(&input, &shelf, None);
        input.set_flag(Flag::MaxModelLen, "26x");
        let second = Page::new(&input, &shelf, Some(&first));
        assert!(second.is_stale);
        assert!(second.error_of(Field::Flag(Flag::MaxModelLen)).is_some());
        assert!(Arc::ptr_eq(
            &answers(&first).answer,
            &answers(&second).answer
        ));
        input.set_flag(Flag::MaxModelLen, "131072");
        let third = Page::new(&input, &shelf, Some(&second));
        assert!(!third.is_stale);
        assert!(!Arc::ptr_eq(
            &answers(&first).answer,
            &answers(&third).answer
        ));
    }

    #[test]
    fn a_config_is_read_once() {
        let mut input = Input {
            model: ModelChoice::Pasted,
            pasted: Arc::from("{}"),
            ..Input::default()
        };
        let shelf = shelf();
        let first = Page::new(&input, &shelf, None);
        input.pool_gib = "20".to_owned();
        let second = Page::new(&input, &shelf, Some(&first));
        assert!(Arc::ptr_eq(&first.config, &second.config));
    }

    #[test]
    fn without_the_catalog_its_models_wait_and_a_pasted_config_does_not() {
        let mut input = Input::default();
        for shelf in [Shelf::Loading, Shelf::Missing(String::new())] {
            let waiting = Page::new(&input, &shelf, None);
            assert!(waiting.answers.is_none());
            assert!(waiting.wrong.is_empty());
            let mut own = input.clone();
            own.pasted = Arc::from("{}");
            own.choose_model(ModelChoice::Pasted);
            assert!(Page::new(&own, &shelf, Some(&waiting)).answers.is_some());
        }
        input.set_flag(Flag::BlockSize, "x");
        let wrong = Page::new(&input, &Shelf::Loading, None);
        assert!(wrong.error_of(Field::Flag(Flag::BlockSize)).is_some());
        input.set_flag(Flag::BlockSize, "");
        let answered = Page::new(&input, &shelf(), Some(&wrong));
        assert!(!answered.is_stale && answered.answers.is_some());
    }
}
