//! Installs what is missing, or names it in one line.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::browser::Browser;
use crate::instructions::HAS_COUNTS;
use crate::native;
use crate::workspace::{Fallible, Workspace, output, run};

/// 0.22 does not build with `--locked`, and an unlocked build is not the same tool tomorrow.
const TRUNK_VERSION: &str = "0.21.14";

const CARGO_DENY_VERSION: &str = "0.20.2";

type Requirement = (&'static str, fn(&Workspace) -> Fallible<String>);

/// What building and serving the page needs.
const PAGE: &[Requirement] = &[
    ("wasm32 target", wasm_target),
    ("rust-src", standard_library),
    ("trunk", trunk),
    ("wasm-bindgen", wasm_bindgen),
    ("npm packages", npm_packages),
];

/// What the tests need besides.
const TESTS: &[Requirement] = &[
    ("rustfmt, clippy", components),
    ("cargo-deny", cargo_deny),
    ("NVRTC", native::nvrtc),
    VALGRIND,
    ("Chromium", chromium),
];

const VALGRIND: Requirement = ("valgrind", valgrind);

/// Sets up for building and serving the page.
pub fn for_page(workspace: &Workspace) -> Fallible {
    PAGE.iter()
        .try_for_each(|requirement| meet(workspace, requirement))
}

/// Sets up for everything.
pub fn for_tests(workspace: &Workspace) -> Fallible {
    for_page(workspace)?;
    TESTS
        .iter()
        .try_for_each(|requirement| meet(workspace, requirement))
}

/// Sets up for counting instructions.
pub fn for_counting(workspace: &Workspace) -> Fallible {
    meet(workspace, &VALGRIND)
}

fn meet(workspace: &Workspace, (name, check): &Requirement) -> Fallible {
    let start = Instant::now();
    let found = check(workspace).map_err(|error| format!("set-up, {name}: {error}"))?;
    println!(
        "set-up: {name}: {found} ({:.1} s)",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn wasm_target(workspace: &Workspace) -> Fallible<String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let installed = || {
        output(
            workspace
                .command("rustc")
                .args(["--print", "target-libdir", "--target", TARGET]),
        )
        .is_some_and(|dir| Path::new(&dir).is_dir())
    };
    if !installed() {
        install(
            workspace.command("rustup").args(["target", "add", TARGET]),
            "Rust's wasm32-unknown-unknown target is missing: `rustup target add wasm32-unknown-unknown`",
        )?;
    }
    Ok(TARGET.into())
}

/// The source of the standard library, which is compiled with the page.
fn standard_library(workspace: &Workspace) -> Fallible<String> {
    let installed = || {
        output(workspace.command("rustc").args(["--print", "sysroot"])).is_some_and(|sysroot| {
            Path::new(&sysroot)
                .join("lib/rustlib/src/rust/library/Cargo.lock")
                .is_file()
        })
    };
    if !installed() {
        install(
            workspace
                .command("rustup")
                .args(["component", "add", "rust-src"]),
            "the standard library's source is missing: `rustup component add rust-src`",
        )?;
    }
    Ok("present".into())
}

fn components(workspace: &Workspace) -> Fallible<String> {
    for component in ["fmt", "clippy"] {
        if output(&mut workspace.cargo([component, "--version"])).is_none() {
            let name = if component == "fmt" {
                "rustfmt"
            } else {
                component
            };
            install(
                workspace.command("rustup").args(["component", "add", name]),
                &format!("{name} is missing: `rustup component add {name}`"),
            )?;
        }
    }
    Ok("present".into())
}

fn trunk(workspace: &Workspace) -> Fallible<String> {
    cargo_tool(workspace, "trunk", "trunk", TRUNK_VERSION, true)
}

fn cargo_deny(workspace: &Workspace) -> Fallible<String> {
    let version = CARGO_DENY_VERSION;
    cargo_tool(workspace, "cargo-deny", "cargo-deny", version, true)
}

fn wasm_bindgen(workspace: &Workspace) -> Fallible<String> {
    let lock = fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    let version =
        locked_version(&lock, "wasm-bindgen").ok_or("wasm-bindgen is not in Cargo.lock")?;
    // Its lock file is ahead of what mirrors of the registry have, for the sake of the TLS that we leave out.
    cargo_tool(
        workspace,
        "wasm-bindgen-cli",
        "wasm-bindgen",
        version,
        false,
    )
}

/// A program of this exact version in our tools folder, built from its source if need be, by its own lock file or not.
fn cargo_tool(
    workspace: &Workspace,
    package: &str,
    program: &str,
    version: &str,
    locked: bool,
) -> Fallible<String> {
    let path = workspace.tools.join("bin").join(program);
    let installed = output(workspace.command(&path).arg("--version"));
    let is_wanted = |text: &String| text.split_whitespace().nth(1) == Some(version);
    if !installed.as_ref().is_some_and(is_wanted) {
        let mut command = workspace.command("cargo");
        command.args(["install", package, "--version", version, "--force"]);
        command.arg("--root").arg(&workspace.tools);
        // No TLS and no update check: these tools must not download anything, and it halves their dependencies.
        command.arg("--no-default-features");
        if locked {
            command.arg("--locked");
        }
        // Their own release profiles (fat LTO, one unit) cost minutes that a run or two does not win back.
        command
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        run(&mut command)?;
    }
    Ok(version.to_owned())
}

/// The version that Cargo.lock has for a package.
fn locked_version<'lock>(lock: &'lock str, package: &str) -> Option<&'lock str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    lines
        .next()?
        .strip_prefix("version = \"")?
        .strip_suffix('"')
}

fn npm_packages(workspace: &Workspace) -> Fallible<String> {
    const NODE_MAJOR: u32 = 20;
    let node = output(workspace.command("node").arg("--version"))
        .filter(|version| node_major(version).is_some_and(|major| major >= NODE_MAJOR))
        .filter(|_| output(workspace.command("npm").arg("--version")).is_some())
        .ok_or("Node.js 20 or newer with npm is missing (wasm-opt and the browser tests run on it): install it and run this again")?;
    let folder = workspace.root.join("tests/e2e");
    // Written after a complete install only, so equal contents mean that there is nothing to do.
    let lock = fs::read(folder.join("package-lock.json"))?;
    let stamp = folder.join("node_modules/.kv-explorer-lock.json");
    if fs::read(&stamp).ok().as_ref() != Some(&lock) {
        run(workspace
            .command("npm")
            .current_dir(&folder)
            .args(["ci", "--no-audit", "--no-fund"]))?;
        fs::write(&stamp, &lock)?;
    }
    let wasm_opt = output(workspace.command("wasm-opt").arg("--version"))
        .ok_or("wasm-opt does not run: delete tests/e2e/node_modules and run this again")?;
    Ok(format!("node {node}, {wasm_opt}"))
}

fn node_major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn chromium(workspace: &Workspace) -> Fallible<String> {
    const MISSING: &str = "Chromium and ChromeDriver of the same version are missing: install them (Debian: `apt-get install chromium chromium-driver`), or set CHROME and CHROMEDRIVER";
    if Browser::find(workspace).is_none() {
        // Without any font every glyph is an empty box, and so is a screenshot.
        let packages = ["chromium", "chromium-driver", "fonts-dejavu-core"];
        debian_packages(workspace, &packages, MISSING)?;
    }
    Browser::find(workspace).ok_or(MISSING)?.check_versions()
}

fn valgrind(workspace: &Workspace) -> Fallible<String> {
    const MISSING: &str =
        "valgrind is missing: install it (Debian: `apt-get install valgrind`) and run this again";
    if !HAS_COUNTS {
        return Ok("not needed: it counts on x86-64 Linux alone".into());
    }
    let version = || output(workspace.command("valgrind").arg("--version"));
    if version().is_none() {
        debian_packages(workspace, &["valgrind"], MISSING)?;
    }
    version().ok_or(MISSING.into())
}

/// Installs the system's own packages where that asks nobody: on Debian, as root.
fn debian_packages(workspace: &Workspace, packages: &[&str], missing: &str) -> Fallible {
    let is_root = output(workspace.command("id").arg("-u")).as_deref() == Some("0");
    if !is_root || output(workspace.command("apt-get").arg("--version")).is_none() {
        return Err(missing.into());
    }
    let apt = |arguments: &[&str]| {
        let mut command = workspace.command("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(arguments);
        command
    };
    install(&mut apt(&["update", "-qq"]), missing)?;
    let mut installer = apt(&["install", "-qq", "-y", "--no-install-recommends"]);
    install(installer.args(packages), missing)
}

/// Runs an installer; when it cannot do it, says in one line what a person has to.
fn install(command: &mut Command, missing: &str) -> Fallible {
    run(command).map_err(|error| format!("{missing} ({error})").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_package_named_exactly() {
        let lock = "[[package]]\nname = \"wasm-bindgen-macro\"\nversion = \"9.9.9\"\n\n[[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.130\"\n";
        assert_eq!(locked_version(lock, "wasm-bindgen"), Some("0.2.130"));
        assert_eq!(locked_version(lock, "wasm"), None);
    }

    #[test]
    fn node_versions() {
        assert_eq!(node_major("v20.20.2"), Some(20));
        assert_eq!(node_major("not node"), None);
    }
}
