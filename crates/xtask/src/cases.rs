//! `cargo xtask cases`: as many cases as are asked for, by which `kvx resolve` is measured (docs/speed.md).

use std::io::{BufWriter, Write, stdout};

use serde_json::{Map, Value};

use crate::vectors::{read_vectors, vector_files};
use crate::workspace::{Fallible, Workspace};

/// Prints the vectors' cases, over and over: numbered, and with every round another pool.
pub fn print(workspace: &Workspace, count: usize) -> Fallible {
    let mut cases = Vec::new();
    for file in vector_files(&workspace.root.join("tests/vectors"))? {
        for (case, _) in read_vectors(&file)? {
            cases.push(serde_json::from_str(&case)?);
        }
    }
    if cases.is_empty() {
        return Err("there is no vector in tests/vectors".into());
    }
    let mut out = BufWriter::new(stdout().lock());
    for number in 0..count {
        serde_json::to_writer(&mut out, &varied(&cases, number))?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// The case of this number, from 0.
fn varied(cases: &[Map<String, Value>], number: usize) -> Map<String, Value> {
    let mut case = cases[number % cases.len()].clone();
    case.insert("id".into(), number.into());
    let round = number / cases.len();
    if let Some(pool) = case.get("available_memory").and_then(Value::as_u64) {
        let pool = pool + ((round as u64) << 20);
        case.insert("available_memory".into(), pool.into());
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_the_same_cases_with_other_numbers_and_pools() {
        let cases: Vec<Map<String, Value>> = [
            r#"{"id":"a","model":"x","available_memory":7}"#,
            r#"{"id":"b","model":"y"}"#,
        ]
        .map(|case| serde_json::from_str(case).unwrap())
        .into();
        let shown = |number| Value::Object(varied(&cases, number)).to_string();
        assert_eq!(shown(0), r#"{"available_memory":7,"id":0,"model":"x"}"#);
        assert_eq!(
            shown(2),
            r#"{"available_memory":1048583,"id":2,"model":"x"}"#
        );
        assert_eq!(shown(3), r#"{"id":3,"model":"y"}"#);
    }
}
