//! `ORDERS` of `resolver/src/backend/table/rows.rs`: in which order backends are tried.

use std::fmt::Write as _;

use serde_json::Value;

use super::capabilities::{ARCHS, items, list, words};
use super::{Tables, variant};
use crate::workspace::Fallible;

/// Spellings of a cache that is not quantised.
const FLOATS: [&str; 3] = ["auto", "float16", "bfloat16"];

/// Its lines.
pub fn write(releases: &[Tables], text: &mut String) -> Fallible {
    let mut lines: Vec<(String, u16)> = Vec::new();
    for (bit, tables) in releases.iter().enumerate() {
        for line in items(&tables.json["priorities"]) {
            let line = order(tables, &line[0], &line[1])
                .map_err(|error| format!("{}: {error}", tables.release))?;
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, releases)) => *releases |= 1 << bit,
                None => lines.push((line, 1 << bit)),
            }
        }
    }
    // the line of one size stands before the one of all sizes
    lines.sort_by_key(|(line, _)| !line.contains("Range::only"));
    for (line, releases) in lines {
        writeln!(
            text,
            "    Order {{\n        releases: {releases:#06x}, {line}    }},"
        )?;
    }
    Ok(())
}

/// One line of the dump's `priorities`.
fn order(tables: &Tables, case: &Value, backends: &Value) -> Fallible<String> {
    let capabilities = words(&case["capability"]);
    let mut archs = Vec::new();
    for (name, of_arch) in ARCHS {
        let held = of_arch
            .iter()
            .filter(|on| capabilities.contains(on))
            .count();
        if held == of_arch.len() {
            archs.push(name);
        } else if held > 0 {
            return Err(format!("an order of its own within {name}").into());
        }
    }
    let asked = tables.names("/kv_cache_dtypes")?;
    let dtypes = words(&case["kv_cache_dtype"]);
    let left: Vec<&str> = asked
        .iter()
        .copied()
        .filter(|name| !dtypes.contains(name))
        .collect();
    let dtypes = match (left.is_empty(), left == FLOATS) {
        (true, _) => "Dtypes::ALL".to_owned(),
        (_, true) => "Dtypes::QUANTISED".to_owned(),
        _ => list(
            "Dtypes::these",
            dtypes.iter().map(|name| format!("D::{}", variant(name))),
        ),
    };
    let number = |key: &str, asked: &str| between(&case[key], &tables.json["asked"][asked]);
    let mm_prefix: Vec<bool> = items(&case["use_mm_prefix"])
        .iter()
        .filter_map(Value::as_bool)
        .collect();
    let mm_prefix = match mm_prefix[..] {
        [only] if case["use_mla"][0] == false => format!("Some({only})"),
        _ => "None".to_owned(),
    };
    let [mla] = items(&case["use_mla"]) else {
        return Err("an order for MLA and others".into());
    };
    Ok(format!(
        "archs: {}, mla: {mla}, mm_prefix: {mm_prefix},\n        \
         cache_dtypes: {dtypes},\n        heads: {}, head_sizes: {},\n        backends: {},\n",
        list("archs", archs.into_iter()),
        number("num_heads", "num_heads")?,
        number("head_size", "priority_head_sizes")?,
        list(
            "&",
            words(backends)
                .into_iter()
                .map(|name| format!("B::{}", variant(name)))
        ),
    ))
}

/// Numbers of a case, neighbours among those asked, as a range. Where it ends, the next number must have been asked.
fn between(value: &Value, asked: &Value) -> Fallible<String> {
    let numbers =
        |value: &Value| -> Vec<u64> { items(value).iter().filter_map(Value::as_u64).collect() };
    let (held, asked) = (numbers(value), numbers(asked));
    if held.is_empty() || held == asked {
        return Ok("Range::ANY".to_owned()); // also of a release that does not look at it
    }
    let outside: Vec<u64> = asked
        .iter()
        .copied()
        .filter(|number| !held.contains(number))
        .collect();
    let (first, last) = (held[0], held[held.len() - 1]);
    let is_known = |number: u64| asked.contains(&number);
    let ends = if first == asked[0] { 0 } else { first };
    if held
        .windows(2)
        .any(|pair| outside.iter().any(|out| (pair[0]..pair[1]).contains(out)))
    {
        // all but one number in the middle: asked after the line that holds it
        return match outside[..] {
            [out] if is_known(out - 1) && is_known(out + 1) => Ok("Range::ANY".to_owned()),
            _ => Err(format!("{held:?} of {asked:?} is no range").into()),
        };
    }
    if (ends > 0 && !is_known(first - 1)) || (last != asked[asked.len() - 1] && !is_known(last + 1))
    {
        return Err(format!("ask around the ends of {held:?}").into());
    }
    let ends_open = last == asked[asked.len() - 1];
    Ok(match (ends, ends_open) {
        (first, true) => format!("Range::from({first})"),
        (first, false) if first == last => format!("Range::only({first})"),
        (first, false) => format!("Range::steps({first}, {last}, 1)"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_ranges_whose_ends_were_asked() {
        let asked = json!([1, 16, 17, 128]);
        let range = |held: Value| between(&held, &asked);
        assert_eq!(range(json!([1, 16])).unwrap(), "Range::steps(0, 16, 1)");
        assert_eq!(range(json!([17, 128])).unwrap(), "Range::from(17)");
        assert_eq!(range(json!([1, 16, 17, 128])).unwrap(), "Range::ANY");
        assert!(range(json!([1])).is_err(), "2 was not asked");
        let around = json!([64, 511, 512, 513]);
        assert_eq!(between(&json!([512]), &around).unwrap(), "Range::only(512)");
        assert_eq!(
            between(&json!([64, 511, 513]), &around).unwrap(),
            "Range::ANY"
        );
    }
}
