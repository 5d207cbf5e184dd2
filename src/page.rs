//! Everything that follows from the input, as one pure step: what did not change is shared with the step before.

use std::sync::Arc;

use crate::address::{self, Written};
use crate::answers::{Answer, Grid, Matrix};
use crate::asked::{Asked, ModelConfig, model_config};
use crate::input::{Field, Input, ModelChoice};

/// What the page shows.
#[derive(Debug, Clone)]
pub struct Page {
    config: Arc<ReadConfig>,
    view: (bool, bool),
    /// The last question that could be read.
    pub asked: Arc<Asked>,
    /// The fields that cannot be read now.
    pub wrong: Vec<(Field, String)>,
    /// Every cell's answer.
    pub matrix: Arc<Matrix>,
    /// The same, as it is seen.
    pub grid: Arc<Grid>,
    /// The chosen cell's whole answer.
    pub answer: Arc<Answer>,
    /// The address.
    pub address: Written,
}

/// A config, and what it was read from.
#[derive(Debug)]
struct ReadConfig {
    source: (ModelChoice, Arc<str>),
    result: Result<Arc<ModelConfig>, String>,
}

/// Equal if nothing was computed anew: shared parts are compared by identity, as deep comparison would cost more
/// than it saves.
impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.asked, &other.asked)
            && Arc::ptr_eq(&self.grid, &other.grid)
            && Arc::ptr_eq(&self.answer, &other.answer)
            && self.wrong == other.wrong
            && self.address == other.address
    }
}

impl Page {
    /// What follows from `input`; `last` is what followed from the input before it.
    pub fn new(input: &Input, last: Option<&Self>) -> Self {
        let source = (input.model, Arc::clone(&input.pasted));
        let config = match last {
            Some(last) if last.config.source == source => Arc::clone(&last.config),
            _ => Arc::new(ReadConfig {
                result: model_config(source.0, &source.1),
                source,
            }),
        };
        let (asked, wrong) = match Asked::read(input, &config.result) {
            Ok(asked) => (Some(asked), Vec::new()),
            Err(wrong) => (None, wrong),
        };
        // while something cannot be read, the last answer stays
        let asked = match (asked, last) {
            (Some(asked), Some(last)) if asked == *last.asked => Arc::clone(&last.asked),
            (Some(asked), _) => Arc::new(asked),
            (None, Some(last)) => Arc::clone(&last.asked),
            (None, None) => Arc::new(Asked::default_question()),
        };
        let last = last.filter(|last| Arc::ptr_eq(&last.asked, &asked));
        let matrix = last.map_or_else(
            || Arc::new(Matrix::new(&asked)),
            |last| Arc::clone(&last.matrix),
        );
        let view = (input.all_dtypes, input.row_per_gpu);
        let grid = match last {
            Some(last) if last.view == view && last.grid.columns.contains(&input.dtype) => {
                Arc::clone(&last.grid)
            }
            _ => Arc::new(matrix.grid(input.dtype, view.0, view.1)),
        };
        let answer = match last {
            Some(last) if last.answer.gpu == input.gpu && last.answer.dtype == input.dtype => {
                Arc::clone(&last.answer)
            }
            _ => Arc::new(Answer::new(Arc::clone(&asked), input.gpu, input.dtype)),
        };
        Self {
            config,
            view,
            asked,
            wrong,
            matrix,
            grid,
            answer,
            address: address::write(input),
        }
    }

    /// What is wrong with a field's text, if anything.
    pub fn error_of(&self, field: Field) -> Option<&str> {
        self.wrong
            .iter()
            .find(|(candidate, _)| *candidate == field)
            .map(|(_, error)| error.as_str())
    }

    /// Whether the answers are for an earlier input than the one on the page.
    pub fn is_stale(&self) -> bool {
        !self.wrong.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kv_resolver::{CacheDtype, Flag};

    #[test]
    fn choosing_a_cell_keeps_the_matrix() {
        let mut input = Input::default();
        let first = Page::new(&input, None);
        input.dtype = CacheDtype::Fp8;
        let second = Page::new(&input, Some(&first));
        assert!(Arc::ptr_eq(&first.matrix, &second.matrix));
        assert!(Arc::ptr_eq(&first.grid, &second.grid));
        assert_eq!(second.answer.dtype, CacheDtype::Fp8);
        assert!(first != second);
        assert!(second == Page::new(&input, Some(&second)));
    }

    #[test]
    fn unreadable_text_keeps_the_last_answer() {
        let mut input = Input::default();
        let first = Page::new(&input, None);
        input.set_flag(Flag::MaxModelLen, "26x");
        let second = Page::new(&input, Some(&first));
        assert!(second.is_stale());
        assert!(second.error_of(Field::Flag(Flag::MaxModelLen)).is_some());
        assert!(Arc::ptr_eq(&first.answer, &second.answer));
        input.set_flag(Flag::MaxModelLen, "131072");
        let third = Page::new(&input, Some(&second));
        assert!(!third.is_stale());
        assert!(!Arc::ptr_eq(&first.answer, &third.answer));
    }

    #[test]
    fn a_config_is_read_once() {
        let mut input = Input {
            model: ModelChoice::Pasted,
            pasted: Arc::from("{}"),
            ..Input::default()
        };
        let first = Page::new(&input, None);
        input.pool_gib = "20".to_owned();
        let second = Page::new(&input, Some(&first));
        assert!(Arc::ptr_eq(&first.config, &second.config));
    }
}
