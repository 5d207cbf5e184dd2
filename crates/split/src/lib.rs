//! Splits a WebAssembly module in two: what a first view runs, and the rest, which is loaded behind it.
//!
//! Both halves share memory, globals and the function table. A call from the first half into the second goes through
//! the table, where a stub stands until the second half is there: it asks the page for it (`rest.load`), which returns
//! once the second half's functions have taken the stubs' places, and calls again. So every call is right at any time;
//! a call that comes early waits.
//!
//! Which functions go second is said by the rooms (module paths) that they come from, and what only they call goes with
//! them, as do constants of which only they speak.

mod choose;
mod data;
mod module;
mod write;

use std::collections::BTreeMap;

pub use choose::room;
pub use data::without_relocations;
use module::Module;

/// The module and the name of the import with which the first half asks for the second.
pub const LOAD: (&str, &str) = ("rest", "load");

/// The module whose names the second half imports: the first half's exports.
pub const FIRST: &str = "first";

/// Why a module cannot be split.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("not a module that can be read: {0}")]
    Read(#[from] wasmparser::BinaryReaderError),
    /// It cannot be written.
    #[error("not a module that can be written: {0}")]
    Write(#[from] wasm_encoder::reencode::Error),
    /// It has something that splitting does not know.
    #[error("a module with {0} cannot be split")]
    Unknown(&'static str),
    /// Functions have no names.
    #[error("its functions have no names: they tell which half a function belongs to")]
    NoNames,
    /// A room has no function.
    #[error("no function is of the room `{0}`")]
    NoRoom(String),
}

/// What goes where, by rooms: module paths, or functions by their whole names. Of those that name a function, the one that
/// names most of it decides.
#[derive(Debug, Clone, Copy)]
pub struct Rooms<'a> {
    /// These go second, and what only they call.
    pub second: &'a [&'a str],
    /// But for these.
    pub first: &'a [&'a str],
}

/// A module in two.
#[derive(Debug)]
pub struct Halves {
    /// What the first view runs.
    pub first: Vec<u8>,
    /// The rest.
    pub second: Vec<u8>,
    /// What the first half imports by its place in here, as the module calls it.
    pub imports: Vec<String>,
    /// Bytes of code by room, of each half.
    pub sizes: BTreeMap<String, [usize; 2]>,
}

/// Splits a module that has names: functions by their rooms, what only the second ones call with them, and the
/// constants of which only the second half speaks. `linked` is the module as the linker left it, with relocations.
///
/// # Errors
/// Where the module has something that cannot be split, or a room is empty.
pub fn split(bytes: &[u8], linked: &[u8], rooms: &Rooms) -> Result<Halves, Error> {
    let module = Module::read(bytes)?;
    let choice = choose::choose(&module, rooms)?;
    let moved = data::choose(linked, &module, &choice)?;
    let mut sizes: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for (index, function) in module.functions.iter().enumerate() {
        let room = room(&function.name).to_owned();
        sizes.entry(room).or_default()[usize::from(choice.is_second[index])] += function.bytes();
    }
    Ok(Halves {
        first: write::first(&module, &choice, &moved)?,
        second: write::second(&module, &choice, &moved)?,
        imports: module
            .imports
            .iter()
            .map(|import| import.name.to_owned())
            .collect(),
        sizes,
    })
}

#[cfg(test)]
mod tests;
