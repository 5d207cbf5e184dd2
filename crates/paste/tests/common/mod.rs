//! Golden files: texts as they are pasted, each with what is read of it.

use std::fmt::Write as _;
use std::fs;

/// Holds what is `shown` of each text of a file against what stands beneath it; `KV_PASTE_WRITE` writes it there.
pub fn hold(path: &str, least: usize, shown: impl Fn(&str) -> String) {
    let golden = fs::read_to_string(path).unwrap();
    let (mut now, mut wrong, mut count) = (String::new(), Vec::new(), 0);
    for case in golden.split("=== ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, expected) = rest.rsplit_once("---\n").unwrap_or((rest, ""));
        let found = shown(text);
        if found != expected {
            wrong.push(format!("{name}:\n{found}"));
        }
        let _ = write!(now, "=== {name}\n{text}---\n{found}");
        count += 1;
    }
    if std::env::var_os("KV_PASTE_WRITE").is_some() {
        fs::write(path, now).unwrap();
        return;
    }
    assert!(count >= least, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
