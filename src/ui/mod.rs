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
mod field;
mod figures;
mod frame;
mod grid;
mod groups;
mod legend;
mod matrix;
mod model_field;
mod model_search;
mod more_flags;
mod recognised;
mod refusal;
mod releases;
mod slots;
mod verdict;
mod why;

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
