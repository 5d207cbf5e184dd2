//! What the programs are made of: Cargo.lock against deny.toml and a dated copy of RustSec's advisories.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Fallible, Workspace, output, remove_folder, run};

/// RustSec's database, as deny.toml has it.
pub const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// What must be found when it is put among the advisories: a check that finds nothing may as well be blind.
const MADE_UP: (&str, &str) = ("RUSTSEC-2099-0001", "serde");

/// Cargo.lock by deny.toml, with the advisories in supply/advisories.
pub fn deny(workspace: &Workspace) -> Fallible {
    let copy = Copy::read(workspace)?;
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    let missing = copy.missing(&locked_names(&lock));
    if !missing.is_empty() {
        return Err(format!(
            "supply/advisories has none of those about {}: `cargo xtask advisories`",
            missing.join(", ")
        )
        .into());
    }
    println!("advisories: {}", copy.taken);
    let database = database(workspace)?;
    run(cargo_deny(workspace, &database).args(["check", "--deny=warnings"]))?;
    finds_what_is_there(workspace, &database)
}

/// One advisory more, about a crate that is in the lock: the same command must fail, and name it.
fn finds_what_is_there(workspace: &Workspace, database: &Path) -> Fallible {
    let (id, name) = MADE_UP;
    let advisory = format!(
        "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{name}\"\ndate = \"2099-01-01\"\n\n[versions]\npatched = []\n```\n\n\
         # Made up\n\nThat this is found shows that others would be.\n"
    );
    let folder = database.join("crates").join(name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{id}.md")), advisory)?;
    commit(workspace, database)?;
    let checked = cargo_deny(workspace, database)
        .args(["check", "advisories"])
        .output()?;
    let told = String::from_utf8_lossy(&checked.stderr);
    if checked.status.success() || !told.contains(id) {
        return Err(format!("an advisory about {name} was not found: {told}").into());
    }
    println!("an advisory made up about {name} is found");
    Ok(())
}

fn cargo_deny(workspace: &Workspace, database: &Path) -> Command {
    let mut command = workspace.command(workspace.tools.join("bin/cargo-deny"));
    command
        .args(["--locked", "--workspace"])
        // Fetched from our copy: what is published today is another question, and no network answers this one.
        .env("GIT_CONFIG_COUNT", "1")
        .env(
            "GIT_CONFIG_KEY_0",
            format!("url.file://{}.insteadOf", database.display()),
        )
        .env("GIT_CONFIG_VALUE_0", DATABASE);
    command
}

/// The copy as the repository that cargo-deny fetches from.
fn database(workspace: &Workspace) -> Fallible<PathBuf> {
    let folder = workspace.target.join("supply");
    remove_folder(&folder)?;
    let database = folder.join("database");
    let crates = Copy::folder(workspace).join("crates");
    for path in entries(&crates)? {
        let into = database.join("crates").join(name_of(&path));
        fs::create_dir_all(&into)?;
        for advisory in entries(&path)? {
            fs::copy(&advisory, into.join(name_of(&advisory)))?;
        }
    }
    run(git(workspace, &database).args(["init", "--quiet", "--initial-branch=main"]))?;
    commit(workspace, &database)?;
    Ok(database)
}

fn commit(workspace: &Workspace, database: &Path) -> Fallible {
    run(git(workspace, database).args(["add", "--all"]))?;
    let nobody = [
        "user.name=kv-explorer",
        "user.email=",
        "commit.gpgsign=false",
    ];
    let mut command = git(workspace, database);
    command.args(nobody.iter().flat_map(|setting| ["-c", setting]));
    run(command.args(["commit", "--quiet", "--message=advisories"]))
}

fn git(workspace: &Workspace, folder: &Path) -> Command {
    let mut command = workspace.command("git");
    command.arg("-C").arg(folder);
    command
}

/// The copy of the database: what concerns Cargo.lock, and the names of all crates that have an advisory.
struct Copy {
    /// When, and of which commit.
    taken: String,
    /// Every crate with an advisory, copied or not.
    known: BTreeSet<String>,
    copied: BTreeSet<String>,
}

impl Copy {
    fn folder(workspace: &Workspace) -> PathBuf {
        workspace.root.join("supply/advisories")
    }

    fn read(workspace: &Workspace) -> Fallible<Self> {
        let folder = Self::folder(workspace);
        let taken = fs::read_to_string(folder.join("taken.txt"))?;
        let known = fs::read_to_string(folder.join("known.txt"))?;
        let copied = entries(&folder.join("crates"))?;
        Ok(Self {
            taken: taken.trim_end().to_owned(),
            known: known.lines().map(str::to_owned).collect(),
            copied: copied.iter().map(|path| name_of(path)).collect(),
        })
    }

    /// The crates of the lock of which there are advisories that were not copied.
    fn missing(&self, locked: &BTreeSet<String>) -> Vec<String> {
        let concerned = self.known.intersection(locked);
        concerned
            .filter(|name| !self.copied.contains(*name))
            .cloned()
            .collect()
    }
}

/// Takes the copy anew, from this repository.
pub fn refresh(workspace: &Workspace, from: &str) -> Fallible {
    let clone = workspace.target.join("supply/upstream");
    remove_folder(&clone)?;
    run(workspace
        .command("git")
        .args(["clone", "--quiet", "--depth=1", from])
        .arg(&clone))?;
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    let locked = locked_names(&lock);
    let folder = Copy::folder(workspace);
    remove_folder(&folder)?;
    fs::create_dir_all(folder.join("crates"))?;
    let mut known = String::new();
    for path in entries(&clone.join("crates"))? {
        let name = name_of(&path);
        known.push_str(&name);
        known.push('\n');
        if locked.contains(&name) {
            let into = folder.join("crates").join(&name);
            fs::create_dir(&into)?;
            for advisory in entries(&path)? {
                let text = fs::read_to_string(&advisory)?;
                fs::write(into.join(name_of(&advisory)), decisive(&text))?;
            }
        }
    }
    fs::write(folder.join("known.txt"), known)?;
    fs::copy(clone.join("LICENSE.txt"), folder.join("LICENSE.txt"))?;
    let taken = output(git(workspace, &clone).args(["log", "-1", "--format=%cs, commit %H"]))
        .ok_or("the clone has no commit")?;
    fs::write(folder.join("taken.txt"), format!("{DATABASE} of {taken}\n"))?;
    println!("supply/advisories: {taken}");
    Ok(())
}

/// An advisory's fields and its title. What follows is prose, which RustSec keeps under the advisory's id.
fn decisive(advisory: &str) -> &str {
    // fields may have comments, which look like titles
    let fields = advisory.find("\n```\n").map(|at| at + 4);
    let title = fields.and_then(|at| Some(at + advisory[at..].find("\n# ")? + 1));
    let end = title.and_then(|at| Some(at + advisory[at..].find('\n')? + 1));
    end.map_or(advisory, |end| &advisory[..end])
}

/// What is in a folder, sorted.
fn entries(folder: &Path) -> Fallible<Vec<PathBuf>> {
    let read = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = read
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

/// The packages of Cargo.lock.
fn locked_names(lock: &str) -> BTreeSet<String> {
    lock.lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_crate_that_is_new_in_the_lock_is_missed_if_there_are_advisories_about_it() {
        let copy = Copy {
            taken: String::new(),
            known: names(&["bytes", "smallvec", "time"]),
            copied: names(&["bytes"]),
        };
        assert!(copy.missing(&names(&["bytes", "serde"])).is_empty());
        assert_eq!(copy.missing(&names(&["bytes", "serde", "time"])), ["time"]);
    }

    #[test]
    fn of_an_advisory_its_fields_and_title_are_kept() {
        let fields = "```toml\n[advisory]\n# CVSS\nid = \"x\"\n```\n\n# A title\n";
        assert_eq!(decisive(&format!("{fields}\nProse.\n\n# More\n")), fields);
        assert_eq!(decisive("no title\n"), "no title\n");
    }

    #[test]
    fn every_package_of_a_lock_is_named() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\ndependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\n";
        assert_eq!(locked_names(lock), names(&["a", "b"]));
    }
}
