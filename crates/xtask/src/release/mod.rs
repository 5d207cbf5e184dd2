//! `cargo xtask release VERSION`: from where to start with a new release. What its dump and vLLM's answers have that the
//! newest profile does not say. See docs/new-release.md.

mod cells;
mod dumps;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::workspace::{Fallible, Workspace, run};

/// What was asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    version: String,
    against: Option<String>,
    vectors: Vec<PathBuf>,
}

impl Options {
    /// Reads `VERSION [--against RELEASE] [VECTORS…]`.
    pub fn parse(arguments: &[&str]) -> Fallible<Self> {
        let mut options = Self {
            version: String::new(),
            against: None,
            vectors: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if *argument == "--against" {
                let release = rest.next().ok_or("--against: which release?")?;
                options.against = Some((*release).to_owned());
            } else if argument.starts_with('-') {
                return Err(format!("unknown: {argument}").into());
            } else if options.version.is_empty() {
                argument
                    .trim_start_matches('v')
                    .clone_into(&mut options.version);
            } else {
                options.vectors.push(PathBuf::from(argument));
            }
        }
        if options.version.is_empty() {
            return Err("which release? `cargo xtask release 0.34.0`".into());
        }
        Ok(options)
    }
}

/// Prints what differs.
pub fn report(workspace: &Workspace, options: &Options) -> Fallible {
    let folder = workspace.root.join("resolver/tables");
    let dump = |version: &str| -> Fallible<Value> {
        let path = folder.join(format!("{version}.json"));
        let text = fs::read_to_string(&path).map_err(|error| {
            format!(
                "{}: {error}; dump the release first, see docs/new-release.md",
                path.display()
            )
        })?;
        Ok(serde_json::from_str(&text)?)
    };
    let against = match &options.against {
        Some(release) => release.clone(),
        None => before(&folder, &options.version)?,
    };
    let (old, new) = (dump(&against)?, dump(&options.version)?);
    println!(
        "# vLLM {} against the profile of {against}\n",
        options.version
    );
    let tables = dumps::differences(&old, &new);
    println!("## Tables ({} differ)\n", tables.len());
    for difference in &tables {
        println!("{difference}");
    }
    let mut files = options.vectors.clone();
    if files.is_empty() {
        let own = format!("v{}-", options.version);
        files = fs::read_dir(workspace.root.join("tests/vectors"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with(&own))
            })
            .collect();
        files.sort();
    }
    if files.is_empty() {
        println!(
            "\n## Cells\n\nNo answers of vLLM {} to compare with: name their files.",
            options.version
        );
        return Ok(());
    }
    run(&mut workspace.cargo(["build", "--release", "--package", "kvx-cli"]))?;
    cells::print(workspace, &files, &against)
}

/// The newest release with a dump before this one.
fn before(folder: &std::path::Path, version: &str) -> Fallible<String> {
    let key = |version: &str| -> Vec<u32> {
        version
            .split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect()
    };
    let mut known: Vec<String> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .filter(|other| key(other) < key(version))
        .collect();
    known.sort_by_key(|other| key(other));
    known
        .pop()
        .ok_or_else(|| format!("no release before {version} has a dump").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read() {
        let options = Options::parse(&["v0.34.0", "--against", "0.33.0", "a.jsonl"]).unwrap();
        assert_eq!(
            options,
            Options {
                version: "0.34.0".into(),
                against: Some("0.33.0".into()),
                vectors: vec!["a.jsonl".into()],
            }
        );
        assert!(Options::parse(&[]).is_err());
        assert!(Options::parse(&["0.34.0", "--against"]).is_err());
        assert!(Options::parse(&["0.34.0", "--all"]).is_err());
    }
}
