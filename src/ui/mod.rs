//! The page's components, one a file.

mod block;
mod changes;
mod chart;
mod clicks;
mod context_length;
mod controls;
mod detail;
mod drafting;
mod drop;
mod events;
mod export;
mod field;
mod figures;
#[cfg(test)]
mod first;
mod frame;
mod grid;
mod groups;
mod kinds;
mod legend;
mod log;
mod matrix;
mod memory;
mod model_field;
mod model_search;
mod more_flags;
mod recognised;
mod refusal;
mod releases;
mod suggestions;
mod taken_apart;
mod tools;
mod verdict;
mod why;
mod words;

pub use changes::Changes;
pub use clicks::on_click;
pub use controls::Controls;
pub use detail::Detail;
pub use drop::Drop;
pub use events::listen;
pub use frame::{Footer, Header, Problems};
pub use matrix::Matrix;
pub use model_search::Search;
pub use verdict::Verdict;
