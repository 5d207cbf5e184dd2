//! The lock file as it is, and one Rust: the oldest that the manifests allow is the one that builds and tests them.

use std::fs;

use serde_json::Value;

use crate::workspace::{Fallible, Workspace, output};

/// Fails when Cargo.lock does not fit the manifests, or when one of them allows a Rust that nothing here is tested with.
pub fn check(workspace: &Workspace) -> Fallible {
    let metadata = output(&mut workspace.cargo(["metadata", "--format-version", "1"]))
        .ok_or("`cargo metadata --locked` failed: commit an up-to-date Cargo.lock")?;
    let toolchain = fs::read_to_string(workspace.root.join("rust-toolchain.toml"))?;
    let pinned = channel(&toolchain).ok_or("rust-toolchain.toml names no channel")?;
    let apart = apart(&serde_json::from_str(&metadata)?, pinned);
    if !apart.is_empty() {
        return Err(format!(
            "rust-toolchain.toml pins {pinned}, but rust-version differs: {}",
            apart.join(", ")
        )
        .into());
    }
    let rustc = output(workspace.command("rustc").arg("--version")).ok_or("rustc does not run")?;
    if rustc.split_whitespace().nth(1) != Some(pinned) {
        return Err(format!("rust-toolchain.toml pins {pinned}, but this is {rustc}").into());
    }
    println!("{rustc}, which is the oldest that the manifests allow");
    Ok(())
}

fn channel(toolchain: &str) -> Option<&str> {
    toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'))
}

/// The members whose `rust-version` is not the pinned release, each with what it says.
fn apart(metadata: &Value, pinned: &str) -> Vec<String> {
    let none = Vec::new();
    let list = |name: &str| metadata[name].as_array().unwrap_or(&none);
    let members = list("workspace_members");
    let packages = list("packages").iter();
    packages
        .filter(|package| members.contains(&package["id"]))
        .filter(|package| {
            let version = package["rust_version"].as_str();
            version.is_none_or(|version| release(version) != release(pinned))
        })
        .map(|package| {
            let version = package["rust_version"].as_str().unwrap_or("none");
            format!("{} has {version}", package["name"].as_str().unwrap_or("?"))
        })
        .collect()
}

/// `1.95` and `1.95.0` are one release.
fn release(version: &str) -> &str {
    version.strip_suffix(".0").unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_that_allows_another_rust_is_named() {
        let metadata = json!({
            "workspace_members": ["a", "b", "c"],
            "packages": [
                {"id": "a", "name": "a", "rust_version": "1.95"},
                {"id": "b", "name": "b", "rust_version": "1.94"},
                {"id": "c", "name": "c", "rust_version": null},
                {"id": "d", "name": "d", "rust_version": "1.56"},
            ],
        });
        assert_eq!(apart(&metadata, "1.95.0"), ["b has 1.94", "c has none"]);
        assert_eq!(apart(&metadata, "1.95.1").len(), 3);
    }

    #[test]
    fn the_channel_is_the_pinned_release() {
        let toolchain = "[toolchain]\nchannel = \"1.95.0\"\nprofile = \"minimal\"\n";
        assert_eq!(channel(toolchain), Some("1.95.0"));
        assert_eq!(channel("[toolchain]\n"), None);
    }
}
