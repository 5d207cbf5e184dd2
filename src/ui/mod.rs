//! The page's components, one a file.

mod block;
mod chart;
mod clicks;
mod context_length;
mod controls;
mod detail;
mod field;
mod figures;
mod frame;
mod grid;
mod groups;
mod legend;
mod matrix;
mod model_field;
mod more_flags;
mod refusal;
mod slots;
mod verdict;
mod why;

pub use clicks::on_click;
pub use controls::Controls;
pub use detail::Detail;
pub use frame::{Footer, Header, Problems};
pub use matrix::Matrix;
pub use verdict::Verdict;
