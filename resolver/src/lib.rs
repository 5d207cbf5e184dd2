//! What vLLM will do with a KV cache: every rule, pure.
//!
//! [`resolve`] takes a [`Request`] (a release, a model's config.json, a GPU,
//! flags) and returns the [`Resolution`] that vLLM would reach before its first
//! kernel, or the [`StartupError`] that it would stop with. No I/O, no clock,
//! no global state, no panic on any input; sizes are checked integers in bytes.

pub mod advice;
pub mod anatomy;
pub mod args;
pub mod backend;
pub mod capacity;
pub mod catalog;
pub mod changes;
pub mod config;
mod context_parallel;
pub mod diff;
pub mod dtype;
pub mod environment;
pub mod error;
pub mod flag;
pub mod gpu;
pub mod layout;
pub mod log;
pub mod matrix;
pub mod memory;
pub mod model;
pub mod notes;
pub mod plan;
mod python;
pub mod release;
pub mod request;
pub mod resolution;
mod resolve;
pub mod spec;
pub mod speculation;
pub mod standing;
pub mod trace;
pub mod units;
pub mod value;
pub mod weights;

pub use args::EngineArgs;
pub use dtype::CacheDtype;
pub use environment::Environment;
pub use error::{Advice, Outcome, Refusal, Stage, StartupError};
pub use flag::{Flag, FlagError, FlagKind};
pub use gpu::{Arch, ComputeCapability, Gpu};
pub use log::LogLine;
pub use release::Release;
pub use request::{Request, Usage};
pub use resolution::{Note, Resolution};
pub use resolve::{resolve, resolve_quietly};
pub use value::Value;
