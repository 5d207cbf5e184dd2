//! Which function goes into which half.

use wasmparser::ExternalKind;

use crate::module::Module;
use crate::{Error, Rooms};

/// Which half each of the module's own functions belongs to.
pub struct Choice {
    /// Whether it goes second.
    pub is_second: Vec<bool>,
    /// The second's functions that the first half calls or has in its table, by their place among all.
    pub entries: Vec<u32>,
}

impl Choice {
    /// Whether a function, by its place among all, goes second.
    pub fn is_second(&self, module: &Module, function: u32) -> bool {
        module.own(function).is_some_and(|own| self.is_second[own])
    }
}

/// The module path in which a function is defined: of `<kv_resolver::weights::Rank>::routed` that is
/// `kv_resolver::weights`. A generic function is of the crate that defines it.
pub fn room(name: &str) -> &str {
    let path = name.trim_start_matches(['<', '&', '(', '[']);
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    let end = path.find(|c| !is_path(c)).unwrap_or(path.len());
    path[..end].trim_end_matches(':')
}

/// How much of a function's path is named by `path`: a room, a room around it, or the function in full; 0 if none of it.
fn named_by(name: &str, path: &str) -> usize {
    let within = room(name).strip_prefix(path);
    let is_within = within.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    if name == path || is_within {
        path.len()
    } else {
        0
    }
}

/// Whether a function is of the second rooms: of all rooms that name it, the one that names most of it decides.
fn is_named(name: &str, rooms: &Rooms) -> bool {
    let most = |paths: &[&str]| paths.iter().map(|path| named_by(name, path)).max();
    most(rooms.second) > most(rooms.first).max(Some(0))
}

/// Chooses: functions of the second rooms, and those that are only reached through them.
pub fn choose(module: &Module, rooms: &Rooms) -> Result<Choice, Error> {
    let functions = || module.functions.iter();
    for path in rooms.second.iter().chain(rooms.first) {
        if !functions().any(|function| named_by(&function.name, path) > 0) {
            return Err(Error::NoRoom((*path).to_owned()));
        }
    }
    let named: Vec<bool> = functions()
        .map(|function| is_named(&function.name, rooms))
        .collect();
    let stays = |function: &u32| module.own(*function).is_none_or(|own| !named[own]);
    let tabled = || {
        module
            .elements
            .iter()
            .flat_map(|(_, functions)| functions)
            .copied()
    };
    let exports = module.exports.iter();
    let exported = exports.filter(|export| export.kind == ExternalKind::Func);
    let exported = exported.map(|export| export.index);
    // what is reached from outside, without a call into the second half
    let mut is_second = vec![true; module.functions.len()];
    let mut open: Vec<u32> = exported
        .chain(module.start)
        .chain(tabled().filter(stays))
        .collect();
    while let Some(function) = open.pop() {
        if let Some(own) = module.own(function)
            && is_second[own]
        {
            is_second[own] = false;
            open.extend(
                module.functions[own]
                    .calls
                    .iter()
                    .filter(|called| stays(called)),
            );
        }
    }
    let choice = Choice {
        is_second,
        entries: Vec::new(),
    };
    let firsts = functions().zip(&choice.is_second);
    let firsts = firsts.filter(|(_, is_second)| !**is_second);
    let called = firsts.flat_map(|(function, _)| &function.calls).copied();
    let met = called.chain(tabled());
    let mut entries: Vec<u32> = met
        .filter(|function| choice.is_second(module, *function))
        .collect();
    entries.sort_unstable();
    entries.dedup();
    Ok(Choice { entries, ..choice })
}
