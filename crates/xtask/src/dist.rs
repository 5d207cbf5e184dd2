//! What is published: the page, the npm package and `kvx`, each in an archive, with checksums. The same source gives the
//! same bytes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::js;
use crate::workspace::{Fallible, Workspace, empty_folder, output, run};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// When everything in an archive was last changed, as far as the archive tells. `npm pack` says so, too.
const CHANGED: &str = "1985-10-26T08:15:00Z";

const SUMS: &str = "SHA256SUMS";

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("published")
}

/// Packs what is built: the page in dist/, the package in target/js. `kvx` is built for it.
pub fn pack(workspace: &Workspace) -> Fallible {
    let built = [
        workspace.dist().join("index.html"),
        js::folder(workspace).join("package.json"),
    ];
    if let Some(missing) = built.iter().find(|path| !path.is_file()) {
        return Err(format!("{} is not built: `cargo xtask dist`", missing.display()).into());
    }
    if output(workspace.command("tar").arg("--version")).is_none_or(|v| !v.contains("GNU tar")) {
        return Err("GNU tar is missing (others cannot sort): install it".into());
    }
    let folder = folder(workspace);
    let staged = workspace.target.join("staged");
    empty_folder(&folder)?;
    empty_folder(&staged)?;
    let archives = [
        page(workspace, &staged)?,
        package(workspace)?,
        program(workspace, &staged)?,
    ];
    let mut sums = workspace.command("sha256sum");
    let sums = output(sums.current_dir(&folder).args(&archives)).ok_or("sha256sum failed")?;
    fs::write(folder.join(SUMS), sums.clone() + "\n")?;
    println!("{}:\n{sums}", folder.display());
    Ok(())
}

fn page(workspace: &Workspace, staged: &Path) -> Fallible<String> {
    let name = format!("kv-explorer-{VERSION}-page");
    let stage = staged.join(&name);
    fs::create_dir_all(&stage)?;
    for entry in fs::read_dir(workspace.dist())? {
        let entry = entry?;
        fs::copy(entry.path(), stage.join(entry.file_name()))?;
    }
    archive(workspace, &stage, &name, &["LICENSE", "NOTICE"])
}

fn package(workspace: &Workspace) -> Fallible<String> {
    let packed = output(
        workspace
            .command("npm")
            .args(["pack", "--silent", "--pack-destination"])
            .arg(folder(workspace))
            .arg(js::folder(workspace)),
    )
    .ok_or("`npm pack` failed")?;
    let name = format!("kv-explorer-{VERSION}-npm.tgz");
    let folder = folder(workspace);
    fs::rename(folder.join(packed), folder.join(&name))?;
    Ok(name)
}

fn program(workspace: &Workspace, staged: &Path) -> Fallible<String> {
    let about = output(workspace.command("rustc").arg("-vV")).ok_or("rustc does not run")?;
    let target = about.lines().find_map(|line| line.strip_prefix("host: "));
    let name = format!("kvx-{VERSION}-{}", target.ok_or("rustc names no host")?);
    let mut build = workspace.cargo(["build", "--profile", "dist", "--package", "kvx-cli"]);
    let remapped: Vec<String> = places(workspace)?
        .iter()
        .map(|(place, name)| format!("--remap-path-prefix={}={name}", place.display()))
        .collect();
    run(build.env("CARGO_ENCODED_RUSTFLAGS", remapped.join("\x1f")))?;
    let stage = staged.join(&name);
    fs::create_dir_all(&stage)?;
    let file = format!("kvx{}", env::consts::EXE_SUFFIX);
    let kvx = stage.join(&file);
    fs::copy(workspace.target.join("dist").join(&file), &kvx)?;
    let completions = stage.join("completions");
    fs::create_dir(&completions)?;
    for shell in ["bash", "zsh", "fish"] {
        let script = output(workspace.command(&kvx).args(["completions", shell]));
        let script = script.ok_or("`kvx completions` failed")? + "\n";
        fs::write(completions.join(format!("kvx.{shell}")), script)?;
    }
    let files = ["LICENSE", "NOTICE", "README.md"];
    archive(workspace, &stage, &name, &files)
}

/// Where this machine keeps the sources of `kvx`, each with the name that it has in the program. Its own would tell who
/// built it, and make the bytes that machine's own.
fn places(workspace: &Workspace) -> Fallible<[(PathBuf, &'static str); 3]> {
    let cargo_home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .ok_or("no home folder: set CARGO_HOME")?;
    let sysroot = output(workspace.command("rustc").args(["--print", "sysroot"]))
        .ok_or("rustc has no sysroot")?;
    Ok([
        (cargo_home, "/cargo"),
        (Path::new(&sysroot).join("lib/rustlib/src/rust"), "/rustc"),
        (workspace.root.clone(), "/kv-explorer"),
    ])
}

/// A staged folder, and some of the repository's files in it, as an archive.
fn archive(workspace: &Workspace, stage: &Path, name: &str, files: &[&str]) -> Fallible<String> {
    for file in files {
        fs::copy(workspace.root.join(file), stage.join(file))?;
    }
    let parent = stage.parent().ok_or("nothing is staged")?;
    let tar = folder(workspace).join(format!("{name}.tar"));
    run(workspace
        .command("tar")
        .args(["--create", "--format=ustar", "--sort=name"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mode=u=rwX,go=rX", &format!("--mtime={CHANGED}")])
        .arg("--directory")
        .arg(parent)
        .arg("--file")
        .arg(&tar)
        .arg(name))?;
    // without its own name and time
    run(workspace
        .command("gzip")
        .args(["--no-name", "--best"])
        .arg(&tar))?;
    Ok(format!("{name}.tar.gz"))
}

/// Packs, twice: the bytes are the same, the sums hold, and what is unpacked works.
pub fn check(workspace: &Workspace) -> Fallible {
    pack(workspace)?;
    let folder = folder(workspace);
    let first = fs::read_to_string(folder.join(SUMS))?;
    pack(workspace)?;
    if fs::read_to_string(folder.join(SUMS))? != first {
        return Err("packed twice, the archives are not the same".into());
    }
    let mut verify = workspace.command("sha256sum");
    run(verify
        .current_dir(&folder)
        .args(["--check", "--strict", SUMS]))?;
    let unpacked = workspace.target.join("unpacked");
    empty_folder(&unpacked)?;
    for line in first.lines() {
        let archive = line
            .split_whitespace()
            .nth(1)
            .ok_or("a sum without a file")?;
        run(workspace
            .command("tar")
            .arg("--extract")
            .arg("--file")
            .arg(folder.join(archive))
            .arg("--directory")
            .arg(&unpacked))?;
        let top = archive.trim_end_matches(".tar.gz");
        match archive {
            _ if archive.ends_with("-npm.tgz") => package_is_whole(&unpacked.join("package"))?,
            _ if archive.ends_with("-page.tar.gz") => page_is_whole(&unpacked.join(top))?,
            _ => program_runs(workspace, &unpacked.join(top).join("kvx"))?,
        }
    }
    Ok(())
}

/// Everything that the page's own files name beside them is there.
fn page_is_whole(page: &Path) -> Fallible {
    let mut named = Vec::new();
    for entry in fs::read_dir(page)? {
        let path = entry?.path();
        let starts = path.file_name().is_some_and(|name| {
            let name = name.display().to_string();
            name == "index.html" || name.starts_with("boot-")
        });
        if starts {
            named.extend(named_beside(&fs::read_to_string(&path)?));
        }
    }
    let missing: Vec<&String> = named
        .iter()
        .filter(|name| !page.join(name).is_file())
        .collect();
    // its styles, its start, its program, and both halves of the rules
    if named.len() < 5 {
        return Err(format!("the page names only {named:?}").into());
    }
    if missing.is_empty() {
        println!("the page: {} names, and all are there", named.len());
        Ok(())
    } else {
        Err(format!("the page lacks {missing:?}").into())
    }
}

/// What a text names as `./NAME`, once each.
fn named_beside(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .split("./")
        .skip(1)
        .map(|rest| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            rest.split(|c| !is_part(c)).next().unwrap_or_default()
        })
        .filter(|name| name.contains('.'))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Every file that the package exports is in it, and its licence.
fn package_is_whole(package: &Path) -> Fallible {
    let manifest: Value = serde_json::from_str(&fs::read_to_string(package.join("package.json"))?)?;
    let mut named = vec!["LICENSE".to_owned(), "README.md".to_owned()];
    paths(&manifest["exports"], &mut named);
    match named.iter().find(|name| !package.join(name).is_file()) {
        Some(missing) => Err(format!("the package lacks {missing}").into()),
        None if named.len() < 8 => Err(format!("the package exports only {named:?}").into()),
        None => Ok(()),
    }
}

fn paths(exports: &Value, into: &mut Vec<String>) {
    match exports {
        Value::String(path) => into.push(path.clone()),
        Value::Object(fields) => fields.values().for_each(|value| paths(value, into)),
        _ => {}
    }
}

fn program_runs(workspace: &Workspace, kvx: &Path) -> Fallible {
    let told = output(workspace.command(kvx).arg("--version"));
    let told = told.ok_or("the unpacked kvx does not run")?;
    if told != format!("kvx {VERSION}") {
        return Err(format!("the unpacked kvx is {told}").into());
    }
    let bytes = fs::read(kvx)?;
    for (place, _) in places(workspace)? {
        let place = place.display().to_string();
        if bytes
            .windows(place.len())
            .any(|part| part == place.as_bytes())
        {
            return Err(format!("kvx tells where it was built: {place}").into());
        }
    }
    println!("{told} runs");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_a_page_is_named() {
        let page =
            "<link href=./a-1.css><script src=\"./b.js\"></script>import('./a-1.css'); x='./'";
        assert_eq!(named_beside(page), ["a-1.css", "b.js"]);
    }

    #[test]
    fn every_export_of_a_package_is_found() {
        let exports =
            serde_json::json!({".": {"types": "./a.d.ts", "default": "./a.js"}, "./b": "./b"});
        let mut named = Vec::new();
        paths(&exports, &mut named);
        assert_eq!(named, ["./a.js", "./a.d.ts", "./b"]);
    }
}
