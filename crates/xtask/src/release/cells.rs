//! vLLM's answers of a new release against what the newest profile says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::compare::differences;
use crate::vectors::{read_vectors, resolve};
use crate::workspace::{Fallible, Workspace};

/// Examples of one kind of difference.
const EXAMPLES: usize = 3;

/// Asks each case of `against` and prints what vLLM answers otherwise, by what differs.
pub fn print(workspace: &Workspace, files: &[PathBuf], against: &str) -> Fallible {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut asked, mut differing) = (0, 0);
    for file in files {
        let vectors = read_vectors(file)?;
        let mut cases = String::new();
        for (case, _) in &vectors {
            let mut case: Value = serde_json::from_str(case)?;
            case["release"] = against.into();
            cases.push_str(&case.to_string());
            cases.push('\n');
        }
        let answers = resolve(workspace, &cases)?;
        for ((case, want), answer) in vectors.iter().zip(answers.lines()) {
            asked += 1;
            let got: Value = serde_json::from_str(answer)?;
            let found = differences(want, &got);
            if found.is_empty() {
                continue;
            }
            differing += 1;
            let case: Value = serde_json::from_str(case)?;
            kinds.entry(kind(&found)).or_default().push(format!(
                "{}\n      {}",
                short(&case),
                found[0]
            ));
        }
    }
    println!("\n## Cells ({differing} of {asked} cases differ)\n");
    for (kind, cells) in kinds {
        println!("- {kind}: {} cases", cells.len());
        for cell in cells.iter().take(EXAMPLES) {
            println!("    {cell}");
        }
    }
    Ok(())
}

/// The names of what differs, without the figures.
fn kind(found: &[String]) -> String {
    let mut names: Vec<&str> = found
        .iter()
        .map(|difference| difference.split(':').next().unwrap_or(difference))
        .map(|name| name.split('[').next().unwrap_or(name))
        .collect();
    names.dedup();
    names.join(", ")
}

/// The case in a line: its model, GPU and flags.
fn short(case: &Value) -> String {
    let model = case["model"].as_str().unwrap_or("a config.json of its own");
    let gpu = case["gpu"]["name"].as_str().unwrap_or_default();
    format!("{model}, {gpu}, {}", case["args"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_names_each_part_once() {
        let found = [
            "num_blocks: want 1 got 2",
            "layers[0] alignment: want 1 got 2",
            "layers[1] kind: x",
        ];
        assert_eq!(kind(&found.map(str::to_owned)), "num_blocks, layers");
    }
}
