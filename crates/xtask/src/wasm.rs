//! From what the linker leaves to a program as it is published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page::light;
use crate::workspace::{Fallible, Workspace, run};

/// As small as it gets, gzipped.
const OPTIMISE: &[&str] = &[
    "-Oz",
    "--low-memory-unused",
    "--one-caller-inline-max-function-size=0",
    "--skip-pass=local-cse",
    "--skip-pass=simplify-locals",
    "--skip-pass=memory-packing",
];

/// What the linker left of a library or program, by its name in Rust.
pub fn linked(workspace: &Workspace, name: &str) -> Fallible<Vec<u8>> {
    let folder = workspace.target.join("wasm32-unknown-unknown/web");
    Ok(fs::read(folder.join(format!("{name}.wasm")))?)
}

/// Builds a library as a program of its own, and leaves it in a folder as `bare` does.
pub fn library(workspace: &Workspace, package: &str, folder: &Path) -> Fallible<PathBuf> {
    // `cargo rustc`, for a library that is an rlib as well is not optimised as a whole
    let mut build = workspace.cargo(["rustc", "--package", package, "--lib"]);
    build.args(["--crate-type", "cdylib", "--profile", "web"]);
    run(light(build.args(["--target", "wasm32-unknown-unknown"])))?;
    let name = package.replace('-', "_");
    bare(&linked(workspace, &name)?, folder, &name)
}

/// The same in a file, without relocations, which the other tools do not expect.
pub fn bare(linked: &[u8], folder: &Path, name: &str) -> Fallible<PathBuf> {
    let bare = folder.join(format!("{name}.wasm"));
    fs::write(&bare, kv_split::without_relocations(linked)?)?;
    Ok(bare)
}

/// wasm-bindgen for a target, into a folder; the rest of its command is the caller's.
pub fn bind(workspace: &Workspace, target: &str, name: &str, folder: &Path) -> Command {
    let mut command = workspace.command(workspace.tools.join("bin/wasm-bindgen"));
    command
        .args(["--target", target, "--out-name", name, "--out-dir"])
        .arg(folder);
    command
}

/// Optimises a program.
pub fn optimise(workspace: &Workspace, from: &Path, to: &Path, options: &[&str]) -> Fallible {
    run(workspace
        .command("wasm-opt")
        .args(OPTIMISE)
        .args(options)
        .arg(from)
        .arg("-o")
        .arg(to))
}
