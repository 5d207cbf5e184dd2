//! The native side: its kernels compiled for every GPU, the example in C, and this machine's receipt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Fallible, Workspace, output, run};

/// What pip installs, by version and hash.
const PYTHON: &str = "supply/python.txt";
/// Names the library's file to the tests; a person may set it, too.
const NVRTC_VARIABLE: &str = "KVX_NVRTC";

/// A plan that an allocator in C and `kvx` must agree about.
const MODEL: &str = "deepseek-ai/DeepSeek-V4-Flash";
const CASE: &str = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"kv_cache_dtype":"fp8","tensor_parallel_size":8,"max_model_len":4096,"max_num_batched_tokens":512,"max_num_seqs":4},"available_memory":1073741824}"#;
const FLAGS: [&str; 14] = [
    MODEL,
    "--gpu",
    "h200",
    "--kv-cache-dtype",
    "fp8",
    "--tensor-parallel-size",
    "8",
    "--max-model-len",
    "4096",
    "--max-num-batched-tokens",
    "512",
    "--max-num-seqs",
    "4",
    "--pool=1GiB",
];

/// NVIDIA's run-time compiler, from its Python package, which needs no CUDA.
pub fn nvrtc(workspace: &Workspace) -> Fallible<String> {
    const MISSING: &str = "Python 3 with pip is missing (NVRTC is a package of it): install it (Debian: `apt-get install python3-pip`), or set KVX_NVRTC to a libnvrtc.so";
    if let Some(named) = std::env::var_os(NVRTC_VARIABLE) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named.display().to_string())
        } else {
            Err(format!("{NVRTC_VARIABLE} names no file: {}", named.display()).into())
        };
    }
    let version = pinned_nvrtc(workspace)?;
    let folder = folder(workspace, &version);
    if library(workspace).is_none() {
        output(
            workspace
                .command("python3")
                .args(["-m", "pip", "--version"]),
        )
        .ok_or(MISSING)?;
        let _ = fs::remove_dir_all(&folder);
        run(workspace
            .command("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
            ])
            .args(["--disable-pip-version-check", "--root-user-action=ignore"])
            .args(["--requirement", PYTHON, "--target"])
            .arg(&folder))?;
    }
    library(workspace)
        .ok_or("nvidia-cuda-nvrtc has no libnvrtc.so.13 for this system: set KVX_NVRTC to one")?;
    Ok(version)
}

fn pinned_nvrtc(workspace: &Workspace) -> Fallible<String> {
    let pinned = fs::read_to_string(workspace.root.join(PYTHON))?;
    let mut lines = pinned.lines();
    let version = lines.find_map(|line| line.strip_prefix("nvidia-cuda-nvrtc=="));
    let version = version.and_then(|rest| rest.split_whitespace().next());
    Ok(version
        .ok_or("supply/python.txt pins no nvidia-cuda-nvrtc")?
        .to_owned())
}

fn folder(workspace: &Workspace, version: &str) -> PathBuf {
    workspace.tools.join(format!("nvrtc-{version}"))
}

fn library(workspace: &Workspace) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(NVRTC_VARIABLE) {
        return Some(PathBuf::from(named));
    }
    let version = pinned_nvrtc(workspace).ok()?;
    let file = folder(workspace, &version).join("nvidia/cu13/lib/libnvrtc.so.13");
    file.is_file().then_some(file)
}

fn kvx(workspace: &Workspace) -> Command {
    let mut kvx = workspace.cargo(["run", "--quiet", "--release", "--package", "kvx-cli"]);
    kvx.args(["--", "native"]);
    kvx
}

/// A case, and its plan as the pool in memory obeys it, for the browser test: that of the page must be the same.
pub fn write_plan(workspace: &Workspace, answers: &Path) -> Fallible {
    let plan = output(kvx(workspace).arg("--plan").args(FLAGS));
    let plan = plan.ok_or("`kvx native --plan` failed")?;
    fs::write(answers.join("plan.case.json"), CASE)?;
    Ok(fs::write(answers.join("plan.txt"), plan + "\n")?)
}

/// Kernels, their source on the host, the example in C, the receipt.
pub fn check(workspace: &Workspace) -> Fallible {
    let nvrtc = library(workspace).ok_or("NVRTC is missing: `cargo xtask setup`")?;
    run(workspace
        .cargo(["test", "--package", "kv-native", "--test", "kernels"])
        .args(["--", "--include-ignored", "--nocapture"])
        .env(NVRTC_VARIABLE, &nvrtc))?;
    emulate(workspace)?;
    let planned = output(kvx(workspace).arg("--plan").args(FLAGS));
    let planned = planned.ok_or("`kvx native --plan` failed")?;
    let allocated = allocate_in_c(workspace)?;
    if planned != allocated {
        return Err("the example in C has another plan than `kvx native --plan`".into());
    }
    println!(
        "allocated in C by the plan of `kvx native --plan`: {} layers",
        allocated.lines().count() - 1
    );
    let mut receipt = kvx(workspace);
    receipt.env(NVRTC_VARIABLE, &nvrtc);
    run(receipt.arg("--check").args(FLAGS))
}

/// Runs the suite on the kernels' own source, compiled for the host.
fn emulate(workspace: &Workspace) -> Fallible {
    output(workspace.command("c++").arg("--version")).ok_or(
        "a C++ compiler is missing: install one that is called c++ (Debian: `apt-get install g++`)",
    )?;
    let library = workspace.target.join("libkvx_emulated.so");
    run(workspace
        .command("c++")
        .args([
            "-std=c++17",
            "-O2",
            "-ffp-contract=off",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        .args([
            "-shared",
            "-fPIC",
            "crates/native/kernels/emulate.cpp",
            "-o",
        ])
        .arg(&library))?;
    run(workspace
        .cargo(["test", "--package", "kv-native", "--test", "emulated"])
        .args(["--", "--include-ignored"])
        .env("KVX_EMULATED", &library))
}

/// Builds the library and the example in C, and runs it; the plan that it prints.
fn allocate_in_c(workspace: &Workspace) -> Fallible<String> {
    output(workspace.command("cc").arg("--version"))
        .ok_or("a C compiler is missing: install one that is called cc (Debian: `apt-get install gcc libc6-dev`)")?;
    run(&mut workspace.cargo([
        "rustc",
        "--quiet",
        "--package",
        "kv-native",
        "--lib",
        "--crate-type",
        "staticlib",
    ]))?;
    let program = workspace.target.join("allocate");
    run(workspace
        .command("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args([
            "-I",
            "crates/native/include",
            "crates/native/examples/allocate.c",
        ])
        .arg(workspace.target.join("debug/libkv_native.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program))?;
    output(workspace.command(&program).arg(CASE)).ok_or("the example in C failed".into())
}
