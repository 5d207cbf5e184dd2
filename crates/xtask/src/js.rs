//! Builds and tests the npm package.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::browser::Browser;
use crate::workspace::{Fallible, Workspace, empty_folder, run};
use crate::{vectors, wasm};

/// The name of the package, and of what wasm-bindgen writes.
const NAME: &str = "kv-explorer";

/// Where the module is loaded: wasm-bindgen's target, what its glue is called in the package, and what its types are.
/// All of them load the same program.
const GLUES: [(&str, &str, &str); 3] = [
    ("bundler", "bundler.js", "index.d.ts"),
    ("web", "web.js", "web.d.ts"),
    ("experimental-nodejs-module", "node.js", "index.d.ts"),
];

/// The package's own module for pages without a bundler: it waits for the program, so that what is imported works.
const PAGE: &str = "import init from './web.js';\nawait init();\nexport * from './web.js';\n";

/// How many vectors the package and kvx are asked, of all files.
const SAMPLED: usize = 300;

/// Where the package is built.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("js").join(NAME)
}

/// Builds the package.
pub fn build(workspace: &Workspace) -> Fallible {
    let build = workspace.target.join("js/build");
    let package = folder(workspace);
    for folder in [&build, &package] {
        empty_folder(folder)?;
    }
    let bare = wasm::library(workspace, "kv-js", &build)?;
    let program = format!("{NAME}_bg.wasm");
    let mut bound = None;
    for (target, glue, types) in GLUES {
        let folder = build.join(target);
        run(wasm::bind(workspace, target, NAME, &folder).arg(&bare))?;
        let bytes = fs::read(folder.join(&program))?;
        if bound.get_or_insert_with(|| bytes.clone()) != &bytes {
            return Err(format!("the program for {target} is another one").into());
        }
        let text = fs::read_to_string(folder.join(format!("{NAME}.js")))?;
        let text = text.replace(&format!("./{NAME}.d.ts"), &format!("./{types}"));
        fs::write(package.join(glue), text)?;
        fs::copy(folder.join(format!("{NAME}.d.ts")), package.join(types))?;
    }
    // what bundler.js shares with the program
    let shared = format!("{NAME}_bg.js");
    fs::copy(build.join("bundler").join(&shared), package.join(&shared))?;
    wasm::optimise(
        workspace,
        &build.join("web").join(&program),
        &package.join(&program),
        &["--strip-debug", "--strip-producers"],
    )?;
    fs::write(package.join("page.js"), PAGE)?;
    let manifest = fs::read_to_string(workspace.root.join("crates/js/package.json"))?;
    let manifest = manifest.replace("{version}", env!("CARGO_PKG_VERSION"));
    fs::write(package.join("package.json"), manifest)?;
    for file in ["crates/js/README.md", "LICENSE", "NOTICE"] {
        let name = file.rsplit('/').next().unwrap_or(file);
        fs::copy(workspace.root.join(file), package.join(name))?;
    }
    run(workspace
        .command("node")
        .arg("tests/e2e/package/sizes.mjs")
        .arg(&package))
}

/// Tests the built package.
pub fn test(workspace: &Workspace) -> Fallible {
    let sample = workspace.target.join("js/sample.jsonl");
    write_sample(workspace, &sample)?;
    let browser = Browser::find(workspace).ok_or("Chromium or ChromeDriver is missing")?;
    run(workspace
        .command("node")
        .args(["--test", "--test-reporter=spec", "--test-concurrency=2"])
        .args(
            ["readme", "answers", "types"].map(|name| format!("tests/e2e/package/{name}.test.mjs")),
        )
        .env("CHROME", &browser.chromium)
        .env("KV_PACKAGE", folder(workspace))
        .env("KV_SAMPLE", &sample))
}

/// Cases as they are written in the vectors, each beside what kvx answers to it.
fn write_sample(workspace: &Workspace, path: &Path) -> Fallible {
    run(&mut workspace.cargo(["build", "--release", "--package", "kvx-cli"]))?;
    let mut cases = Vec::new();
    for file in vectors::vector_files(&workspace.root.join("tests/vectors"))? {
        cases.extend(
            vectors::read_vectors(&file)?
                .into_iter()
                .map(|(case, _)| case),
        );
    }
    let step = cases.len().div_ceil(SAMPLED).max(1);
    let cases: Vec<&str> = cases.iter().step_by(step).map(String::as_str).collect();
    let answers = vectors::resolve(workspace, &(cases.join("\n") + "\n"))?;
    let pairs = cases.iter().zip(answers.lines());
    let lines = pairs.map(|(case, answer)| json!([case, answer]).to_string() + "\n");
    fs::write(path, lines.collect::<String>())?;
    Ok(())
}
