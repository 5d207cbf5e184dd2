//! Where things are, and how programs are started: always from the root, with our tools first on PATH.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Errors end the program with one line, so their text is all that matters.
pub type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The repository, its build folder and the folders where tools are installed.
pub struct Workspace {
    /// The repository's root.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Per-user and outside `target/`, so that `cargo clean` and fresh clones do not cost minutes of building tools.
    pub tools: PathBuf,
    path: OsString,
}

impl Workspace {
    /// Finds the folders; fails when there is no home to keep tools in.
    pub fn discover() -> Fallible<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .ok_or("xtask is not two folders below the root")?
            .to_path_buf();
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |dir| root.join(dir));
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
            .or_else(|| env::home_dir().map(|home| home.join(".cache")))
            .ok_or("no home folder to keep tools in: set XDG_CACHE_HOME")?;
        let tools = cache.join("kv-explorer").join("tools");
        let inherited = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(
            [tools.join("bin"), root.join("tests/e2e/node_modules/.bin")]
                .into_iter()
                .chain(env::split_paths(&inherited)),
        )?;
        Ok(Self {
            root,
            target,
            tools,
            path,
        })
    }

    /// The folder that holds the built page.
    pub fn dist(&self) -> PathBuf {
        self.root.join("dist")
    }

    /// A program, to be started in the root with our tools first on PATH.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.root)
            .env("PATH", &self.path)
            .stdin(Stdio::null());
        command
    }

    /// `cargo` with these arguments, by the lock file as it is: nothing is built from what was published since.
    pub fn cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.command("cargo");
        command.arg("--locked").args(arguments);
        command
    }
}

/// Prints the command, runs it with its output let through, and fails when it does.
pub fn run(command: &mut Command) -> Fallible {
    let line = display(command);
    println!("$ {line}");
    let status = command
        .status()
        .map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{line}` failed ({status})").into())
    }
}

/// What the command prints on standard output, trimmed; nothing when it fails or is not there.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

fn display(command: &Command) -> String {
    let mut line = String::new();
    // PATH is the same for every command; what differs is worth reading.
    for (name, value) in command.get_envs().filter(|(name, _)| *name != "PATH") {
        if let Some(value) = value {
            let _ = write!(line, "{}={} ", name.display(), value.display());
        }
    }
    let _ = write!(line, "{}", command.get_program().display());
    for argument in command.get_args() {
        let _ = write!(line, " {}", argument.display());
    }
    line
}

/// Removes a folder with what an earlier run left in it.
pub fn remove_folder(folder: &Path) -> Fallible {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Makes a folder with nothing in it.
pub fn empty_folder(folder: &Path) -> Fallible {
    remove_folder(folder)?;
    fs::create_dir_all(folder)?;
    Ok(())
}
