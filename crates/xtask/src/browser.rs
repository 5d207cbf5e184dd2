//! Finds Chromium and its driver.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::workspace::{Fallible, Workspace, output};

const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Chromium, and the WebDriver server for it.
pub struct Browser {
    /// The browser's program.
    pub chromium: PathBuf,
    /// The driver's program.
    pub driver: PathBuf,
    version: String,
    driver_version: String,
}

impl Browser {
    /// The browser and driver named by CHROME and CHROMEDRIVER, or those on PATH; none when either is missing.
    pub fn find(workspace: &Workspace) -> Option<Self> {
        let chromium = named_or_on_path("CHROME", &BROWSERS)?;
        let driver = named_or_on_path("CHROMEDRIVER", &["chromedriver"])?;
        let version = output(workspace.command(&chromium).arg("--version"))?;
        let driver_version = output(workspace.command(&driver).arg("--version"))?;
        Some(Self {
            chromium,
            driver,
            version: version_number(&version),
            driver_version: version_number(&driver_version),
        })
    }

    /// Fails unless browser and driver are of one build. A mismatch would show as a bare "404" from the driver.
    pub fn check_versions(&self) -> Fallible<String> {
        let build = |version: &str| {
            version
                .split('.')
                .take(3)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        if build(&self.version) == build(&self.driver_version) {
            Ok(format!("Chromium and ChromeDriver {}", self.version))
        } else {
            Err(format!(
                "Chromium is {} but ChromeDriver is {}: install the same version of both, or set CHROME and CHROMEDRIVER",
                self.version, self.driver_version
            )
            .into())
        }
    }

    /// Writes the browser's options for wasm-bindgen-test-runner (which adds headless and no-sandbox itself).
    pub fn write_webdriver_json(&self, workspace: &Workspace) -> Fallible<PathBuf> {
        let capabilities = serde_json::json!({
            "goog:chromeOptions": {
                "binary": self.chromium,
                // Without background networking: on a closed network Chromium's own requests only fail, slowly.
                "args": [
                    "disable-gpu",
                    "disable-background-networking",
                    "disable-component-update",
                    "disable-sync",
                    "no-first-run",
                ],
            },
        });
        let path = workspace.target.join("webdriver.json");
        fs::create_dir_all(&workspace.target)?;
        fs::write(&path, capabilities.to_string())?;
        Ok(path)
    }
}

fn named_or_on_path(variable: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(named) = env::var_os(variable).filter(|value| !value.is_empty()) {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    names
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|candidate| candidate.is_file())
}

/// The first word of `--version` that starts with a digit: "Chromium 1.2.3 built on …", "ChromeDriver 1.2.3 (…)".
fn version_number(text: &str) -> String {
    text.split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or("of unknown version")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browser(version: &str, driver_version: &str) -> Browser {
        Browser {
            chromium: PathBuf::new(),
            driver: PathBuf::new(),
            version: version_number(version),
            driver_version: version_number(driver_version),
        }
    }

    #[test]
    fn a_patch_apart_is_the_same_build() {
        let pair = browser(
            "Chromium 156.0.8078.108 built on Debian",
            "ChromeDriver 156.0.8078.73 (73)",
        );
        assert!(pair.check_versions().is_ok());
    }

    #[test]
    fn a_mismatch_names_both_versions() {
        let error = browser("Google Chrome 157.0.1.2", "ChromeDriver 156.0.8078.73 (73)")
            .check_versions()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("157.0.1.2") && error.contains("156.0.8078.73"),
            "{error}"
        );
    }
}
