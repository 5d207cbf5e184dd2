//! `resolver/src/backend/registry.rs` and `resolver/src/release/tables.rs`: names by release. A name is written once,
//! with the releases that have it, since all of them go into the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{HEADER, Tables, variant};
use crate::workspace::Fallible;

/// Bit `n` stands for the `n`th dump, oldest first.
type Releases = u16;

/// Every name of a list with its releases, in an order of which each release's own list is a part.
fn merged<'a>(releases: &'a [Tables], pointer: &str) -> Fallible<Vec<(&'a str, Releases)>> {
    let lists: Vec<Vec<&str>> = releases
        .iter()
        .map(|tables| tables.names(pointer))
        .collect::<Fallible<_>>()?;
    let mut all: Vec<&str> = Vec::new();
    // the newest's order, and what only older ones have behind its neighbour there
    for list in lists.iter().rev() {
        let mut place = 0;
        for name in list {
            if let Some(index) = all.iter().position(|known| known == name) {
                place = index + 1;
            } else {
                all.insert(place, name);
                place += 1;
            }
        }
    }
    let with_releases: Vec<(&str, Releases)> = all
        .into_iter()
        .map(|name| {
            let holds =
                |(bit, list): (usize, &Vec<&str>)| Releases::from(list.contains(&name)) << bit;
            (name, lists.iter().enumerate().map(holds).sum())
        })
        .collect();
    for ((bit, list), tables) in lists.iter().enumerate().zip(releases) {
        let ours = with_releases
            .iter()
            .filter(|(_, holders)| holders & (1 << bit) != 0)
            .map(|(name, _)| *name);
        if !ours.eq(list.iter().copied()) {
            return Err(format!("{}: {pointer} is in an order of its own", tables.release).into());
        }
    }
    Ok(with_releases)
}

/// How many names of the list the `bit`th release has.
fn count(list: &[(&str, Releases)], bit: usize) -> usize {
    list.iter()
        .filter(|(_, holders)| holders & (1 << bit) != 0)
        .count()
}

/// `backend/registry.rs`: every backend's name, and the names of each release.
pub fn backends(releases: &[Tables]) -> Fallible<String> {
    let all = merged(releases, "/attention_backends")?;
    let mut text = format!(
        "// {HEADER}\n{}",
        r#"//! The names of vLLM's attention backends, per release.
//! Mirrors `vllm/v1/attention/backends/registry.py` `AttentionBackendEnum`.

use AttentionBackend as B;

use crate::release::masks::{ReleaseBit, pick};

macro_rules! backends {
    ($($variant:ident = $name:literal in $releases:literal,)*) => {
        /// An attention backend, by vLLM's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum AttentionBackend {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl AttentionBackend {
            /// vLLM's name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        /// Every name and the releases that have it, in vLLM's order.
        const BACKENDS: &[(B, u16)] = &[$((B::$variant, $releases),)*];
    };
}

backends! {
"#
    );
    for (name, holders) in &all {
        writeln!(text, "    {} = {name:?} in {holders:#06x},", variant(name))?;
    }
    text += "}\n";
    for (bit, tables) in releases.iter().enumerate().rev() {
        write!(
            text,
            "\n/// {}\npub(crate) const {}: &[B] = &pick::<B, {}>(BACKENDS, ReleaseBit({bit}));\n",
            tables.release,
            tables.constant(),
            count(&all, bit)
        )?;
    }
    Ok(text)
}

/// `release/tables.rs`: the flags and the cache dtypes of each release.
pub fn of_releases(releases: &[Tables]) -> Fallible<String> {
    let dtypes = merged(releases, "/kv_cache_dtypes")?;
    let mut text = format!(
        "// {HEADER}\n{}",
        "//! The lists of a release: `vllm/engine/arg_utils.py` `EngineArgs` and\n\
         //! `vllm/config/cache.py` `CacheDType`.\n\n\
         use super::engine_args::FlagNames;\n\
         use super::masks::{ReleaseBit, pick};\n\
         use crate::dtype::CacheDtype as D;\n\n\
         /// What a release's dump lists.\n\
         pub(super) struct Tables {\n    \
         /// Names that `EngineArgs` takes.\n    \
         pub engine_args: FlagNames,\n    \
         /// Spellings that `--kv-cache-dtype` takes, in vLLM's order.\n    \
         pub cache_dtypes: &'static [D],\n\
         }\n\n\
         /// Every spelling and the releases that have it, in vLLM's order.\n\
         const CACHE_DTYPES: &[(D, u16)] = &[\n"
    );
    for (name, holders) in &dtypes {
        writeln!(text, "    (D::{}, {holders:#06x}),", variant(name))?;
    }
    text += "];\n";
    for (bit, tables) in releases.iter().enumerate().rev() {
        write!(
            text,
            "\n/// {}\npub(super) const {}: Tables = Tables {{\n    \
             engine_args: FlagNames::of(ReleaseBit({bit})),\n    \
             cache_dtypes: &pick::<D, {}>(CACHE_DTYPES, ReleaseBit({bit})),\n}};\n",
            tables.release,
            tables.constant(),
            count(&dtypes, bit)
        )?;
    }
    text += "\n/// The names that `EngineArgs` takes, by the releases that take them, one a line;\n\
             /// without those that begin with `_`, which the server sets itself.\n\
             pub(super) const ENGINE_ARGS: &[(u16, &str)] = &[\n";
    for (holders, names) in engine_args(releases)? {
        writeln!(text, "    (\n        {holders:#06x},\n        \"\\")?;
        for name in names {
            writeln!(text, "{name}")?;
        }
        text += "\",\n    ),\n";
    }
    text += "];\n";
    Ok(text)
}

/// Flags by the releases that have them, the most widely known first. Their order means nothing.
fn engine_args(releases: &[Tables]) -> Fallible<Vec<(Releases, Vec<&str>)>> {
    let mut holders: BTreeMap<&str, Releases> = BTreeMap::new();
    for (bit, tables) in releases.iter().enumerate() {
        for name in tables.names("/engine_args")? {
            if !name.starts_with('_') {
                *holders.entry(name).or_default() |= 1 << bit;
            }
        }
    }
    let mut groups: BTreeMap<Releases, Vec<&str>> = BTreeMap::new();
    for (name, holders) in holders {
        groups.entry(holders).or_default().push(name);
    }
    Ok(groups.into_iter().rev().collect())
}

/// `config/architectures.txt`: the models that each release knows, in the order in which its refusal lists
/// them. A name that moved stands once for each place. Of releases whose backends are not dumped, DeepSeek V4 alone is
/// modelled, so their lists are not needed. A line without a blank is a mask of releases, in hexadecimal; it holds for the
/// names below it.
pub fn architectures(releases: &[Tables]) -> Fallible<String> {
    let lists: Vec<Vec<&str>> = releases
        .iter()
        .map(|tables| tables.names("/registry"))
        .collect::<Fallible<_>>()?;
    let mut all: Vec<(&str, Releases)> = Vec::new();
    let asked = |bit: usize| releases[bit].json.get("backends").is_some();
    for (bit, list) in lists
        .iter()
        .enumerate()
        .rev()
        .filter(|(bit, _)| asked(*bit))
    {
        all = woven(&all, list, 1 << bit);
    }
    for (bit, list) in lists.iter().enumerate().filter(|(bit, _)| asked(*bit)) {
        let of_release = all.iter().filter(|(_, holders)| holders & (1 << bit) != 0);
        if !of_release.map(|(name, _)| *name).eq(list.iter().copied()) {
            return Err(format!("the {bit}th registry is not what the names come to").into());
        }
    }
    let mut text = String::new();
    for run in all.chunk_by(|a, b| a.1 == b.1) {
        writeln!(text, "{:x}", run[0].1)?;
        for (name, _) in run {
            writeln!(text, " {name}")?;
        }
    }
    Ok(text)
}

/// Both lists in one, as much as can be of what they share in the same places.
fn woven<'a>(
    all: &[(&'a str, Releases)],
    list: &[&'a str],
    holder: Releases,
) -> Vec<(&'a str, Releases)> {
    // how many the tails have in common
    let mut common = vec![vec![0_usize; list.len() + 1]; all.len() + 1];
    for (i, (name, _)) in all.iter().enumerate().rev() {
        for (j, other) in list.iter().enumerate().rev() {
            common[i][j] = if name == other {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::with_capacity(all.len());
    while i < all.len() || j < list.len() {
        let both = i < all.len() && j < list.len();
        if both && all[i].0 == list[j] {
            out.push((all[i].0, all[i].1 | holder));
            (i, j) = (i + 1, j + 1);
        } else if j == list.len() || (both && common[i + 1][j] >= common[i][j + 1]) {
            out.push(all[i]);
            i += 1;
        } else {
            out.push((list[j], holder));
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(lists: &[&[&str]]) -> Vec<Tables> {
        let tables = |names: &&[&str]| Tables {
            release: String::from("0.1.0"),
            json: json!({ "names": names }),
        };
        lists.iter().map(tables).collect()
    }

    #[test]
    fn a_name_that_only_the_older_has_keeps_its_place() {
        let releases = of(&[&["a", "old", "c"], &["a", "b", "c"]]);
        assert_eq!(
            merged(&releases, "/names").unwrap(),
            [("a", 3), ("old", 1), ("b", 2), ("c", 3)]
        );
        assert_eq!(count(&merged(&releases, "/names").unwrap(), 1), 3);
    }

    #[test]
    fn lists_in_two_orders_are_refused() {
        assert!(merged(&of(&[&["b", "a"], &["a", "b"]]), "/names").is_err());
    }
}
