//! Builds, serves and tests the page.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::browser::Browser;
use crate::halves;
use crate::workspace::{Fallible, Workspace, remove_folder, run};

const DEFAULT_PORT: u16 = 8080;

/// How to serve.
#[derive(Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The port asked for; otherwise the first free one from 8080 on.
    port: Option<u16>,
    is_dev: bool,
    opens_browser: bool,
}

impl ServeOptions {
    /// Reads the options of `cargo xtask serve`.
    pub fn parse(arguments: &[&str]) -> Fallible<Self> {
        let has_display = cfg!(any(target_os = "macos", windows))
            || ["DISPLAY", "WAYLAND_DISPLAY"]
                .iter()
                .any(|name| env::var_os(name).is_some());
        let mut options = Self {
            port: None,
            is_dev: false,
            opens_browser: has_display,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, inline_value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (*argument, None),
            };
            match (name, inline_value) {
                ("--port", value) => {
                    let value = value
                        .or_else(|| arguments.next().copied())
                        .unwrap_or_default();
                    let port = value.parse().ok().filter(|port| *port != 0);
                    options.port = Some(port.ok_or_else(|| {
                        format!("--port takes a number from 1 to 65535, not `{value}`")
                    })?);
                }
                ("--dev", None) => options.is_dev = true,
                ("--no-open", None) => options.opens_browser = false,
                _ => return Err(format!(
                    "unknown option `{argument}` of serve: it takes --port N, --dev and --no-open"
                )
                .into()),
            }
        }
        Ok(options)
    }
}

/// Builds the page as it is published, into dist/.
pub fn build(workspace: &Workspace) -> Fallible {
    // A build that fails must not leave an older page for the tests to pass on.
    remove_folder(&workspace.dist())?;
    run(light(
        trunk(workspace, "build").args(["--release", "--locked"]),
    ))?;
    halves::split(workspace)
}

/// Serves the page until it is stopped, rebuilding it when its source changes.
pub fn serve(workspace: &Workspace, options: &ServeOptions) -> Fallible {
    let port = match options.port {
        Some(port) if is_free(port) => port,
        Some(port) => {
            return Err(format!("port {port} is in use: choose another with --port").into());
        }
        None => (DEFAULT_PORT..DEFAULT_PORT + 100)
            .find(|port| is_free(*port))
            .ok_or("no free port from 8080 on: choose one with --port")?,
    };
    let mut command = trunk(workspace, "serve");
    command
        .args(["--address", "127.0.0.1", "--port", &port.to_string()])
        // Not dist/: what is served here has the reload script in it, and a build must not disturb it.
        .arg("--dist")
        .arg(workspace.target.join("serve"));
    if !options.is_dev {
        light(command.arg("--release"));
    }
    if options.opens_browser {
        command.arg("--open");
    }
    fs::create_dir_all(workspace.target.join("serve"))?;
    let url = format!("http://127.0.0.1:{port}/");
    println!("building the explorer; it will be at {url}");
    let mut server = command
        .spawn()
        .map_err(|error| format!("cannot start trunk: {error}"))?;
    // trunk listens only once the first build is there.
    loop {
        if let Some(status) = server.try_wait()? {
            return Err(format!("trunk serve ended ({status})").into());
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    println!("\n  KV Explorer is at {url}  (Ctrl-C stops it)\n");
    // Stopped by a person, it ends well.
    match server.wait()? {
        status if status.success() => Ok(()),
        status => Err(format!("trunk serve ended ({status})").into()),
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn trunk(workspace: &Workspace, subcommand: &str) -> Command {
    let mut command = workspace.command(workspace.tools.join("bin/trunk"));
    command
        .arg(subcommand)
        .env("TRUNK_SKIP_VERSION_CHECK", "true")
        // trunk reads it as its own --no-color and refuses the customary "1".
        .env_remove("NO_COLOR");
    command
}

/// Makes a build make what is published, as small as it gets: the standard library is compiled with the page, for size,
/// and a panic stops at once, without the text that nobody would see: an eighth of the page.
///
/// rustc calls these options unstable. They do not move here: rust-toolchain.toml names one exact release.
pub fn light(build: &mut Command) -> &mut Command {
    build
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort")
        .env("CARGO_UNSTABLE_BUILD_STD_FEATURES", "optimize_for_size")
        .env(
            "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
            // relocations tell which constants belong to which half, by addresses in the code: a stack of 1 MiB would put
            // the first of them at a number that is frequent
            "-Zunstable-options -Cpanic=immediate-abort -Zlocation-detail=none -Clink-arg=--emit-relocs -Clink-arg=-zstack-size=1105920",
        )
}

/// Runs the tests written for wasm-bindgen-test, in headless Chromium.
pub fn wasm_tests(workspace: &Workspace, package: &str, test: &str) -> Fallible {
    let browser = Browser::find(workspace).ok_or("Chromium or ChromeDriver is missing")?;
    run(workspace
        .cargo([
            "test",
            "--target",
            "wasm32-unknown-unknown",
            "--package",
            package,
            "--test",
            test,
        ])
        .env(
            "KV_NATIVE_ANSWERS",
            crate::vectors::answers_folder(workspace),
        )
        .env("CHROMEDRIVER", &browser.driver)
        .env(
            "WASM_BINDGEN_TEST_WEBDRIVER_JSON",
            browser.write_webdriver_json(workspace)?,
        )
        // The defaults (5 and 20 seconds) are short for every vector in a debug build on two busy cores.
        .env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "60")
        .env("WASM_BINDGEN_TEST_TIMEOUT", "300"))
}

/// Runs these test files of tests/e2e against the built page; all but the weight when none is named.
pub fn browser_tests(workspace: &Workspace, files: &[String]) -> Fallible {
    if !workspace.dist().join("index.html").is_file() {
        return Err("there is no built page in dist/: `cargo xtask build`".into());
    }
    let browser = Browser::find(workspace).ok_or("Chromium or ChromeDriver is missing")?;
    run(workspace
        .command("node")
        // Each file starts a Chromium; more than two at a time only slow each other down.
        .args(["--test", "--test-reporter=spec", "--test-concurrency=2"])
        .args(files)
        .env("CHROME", &browser.chromium)
        .env("KV_DIST", workspace.dist()))
}

/// The test files of tests/e2e, without the page's weight, which is a step of its own.
pub fn browser_test_files(workspace: &Workspace) -> Fallible<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(workspace.root.join("tests/e2e"))? {
        let name = entry?.file_name().display().to_string();
        if name.ends_with(".test.mjs") && name != WEIGHT_TEST {
            files.push(format!("tests/e2e/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

/// The test of the page's weight.
pub const WEIGHT_TEST: &str = "weight.test.mjs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serve_options() {
        let options = ServeOptions::parse(&["--port", "9000", "--dev", "--no-open"]).unwrap();
        assert_eq!(
            options,
            ServeOptions {
                port: Some(9000),
                is_dev: true,
                opens_browser: false
            }
        );
        assert_eq!(
            ServeOptions::parse(&["--port=9001"]).unwrap().port,
            Some(9001)
        );
        for wrong in [
            &["--port"][..],
            &["--port", "0"],
            &["--port", "x"],
            &["--fast"],
            &["--dev=1"],
        ] {
            assert!(ServeOptions::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
