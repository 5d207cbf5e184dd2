//! `public/models.json`: the catalog's models as one file, which the page loads beside its program.

use std::fs;
use std::path::Path;

use crate::workspace::Fallible;

/// One object, a line for each model: its Hugging Face id and what the rules read of its config.json. In the order
/// of the catalog, by the alphabet whatever the case.
pub fn asset(folder: &Path) -> Fallible<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let name = name.ok_or_else(|| format!("{}: not a model's name", path.display()))?;
        let config = fs::read_to_string(&path)?;
        files.push((name.to_lowercase(), name.replacen("--", "/", 1), config));
    }
    files.sort();
    let lines: Vec<String> = files
        .iter()
        .map(|(_, id, config)| format!("{id:?}:{}", config.trim()))
        .collect();
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}
