//! `resolver/src/backend/table/rows.rs`: what every backend answers, and the order in which they are tried, of the
//! releases whose dumps hold that. What several releases, architectures or versions of FlashAttention share is one row.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::{HEADER, Tables, orders, variant};
use crate::workspace::Fallible;

/// The resolver's architectures with the capabilities that stand for them.
pub(super) const ARCHS: [(&str, &[&str]); 3] = [
    ("Sm90", &["9.0"]),
    ("Sm100", &["10.0", "10.3"]),
    ("Sm120", &["12.0", "12.1"]),
];

/// `attention_config.flash_attn_version`, with the section of the dump that holds what changes under it.
const FLASH_ATTENTION: [(&str, &str); 3] = [
    ("AUTOMATIC", "backends"),
    ("FORCED_2", "backends_with_flash_attention_2"),
    ("FORCED_4", "backends_with_flash_attention_4"),
];

/// Questions with a flag of their own in a row.
const FLAGS: [(&str, &str); 9] = [
    ("is_mla", "MLA"),
    ("is_sparse", "SPARSE"),
    ("supports_sink", "SINKS"),
    ("supports_mm_prefix", "MM_PREFIX"),
    ("supports_per_head_quant_scales", "PER_HEAD_SCALES"),
    ("supports_sliding_window", "SLIDING_WINDOW"),
    ("supports_dcp", "DCP"),
    ("indexes_kv_by_block_stride", "BY_BLOCK_STRIDE"),
    ("supports_non_causal", "NON_CAUSAL"),
];

/// One answer's place: which release, architecture and version of FlashAttention.
type Cell = (usize, usize, usize);

/// The file.
pub fn rows(releases: &[Tables]) -> Fallible<String> {
    let mut text = format!(
        "// {HEADER}\n{}",
        "//! What each attention backend answers to every question by itself, and the order in\n\
         //! which they are tried, as vLLM said on every compute capability.\n\n\
         use super::{\n    \
         AUTOMATIC, BY_BLOCK_STRIDE, DCP, Dtypes, FORCED_2, FORCED_4, MLA, MM_PREFIX, NON_CAUSAL, Order,\n    \
         PER_HEAD_SCALES, Range, Row, SINKS, SLIDING_WINDOW, SPARSE, archs, floats,\n\
         };\n\
         use crate::backend::AttentionBackend as B;\n\
         use crate::backend::kernel_block::KernelBlock::{Exact, MultipleOf};\n\
         use crate::config::ModelDtype::{Bfloat16, Float16, Float32};\n\
         use crate::dtype::CacheDtype as D;\n\
         use crate::gpu::Arch::{Sm90, Sm100, Sm120};\n\
         use crate::layout::KvCacheLayout::{Bhlnc, Blhnc, Blnhc, Lbhnc, Lbnhc, Lhbnc};\n\n\
         /// What releases, architectures and versions of FlashAttention share is one row.\n\
         #[rustfmt::skip]\n\
         pub(super) const ROWS: &[Row] = &[\n"
    );
    for backend in backends(releases)? {
        backend_rows(releases, backend, &mut text)?;
    }
    text += "];\n\n/// The first that fits is the order.\n#[rustfmt::skip]\npub(super) const ORDERS: &[Order] = &[\n";
    orders::write(releases, &mut text)?;
    text += "];\n";
    Ok(text)
}

/// Every backend that some release was asked about, the newest release's first.
fn backends(releases: &[Tables]) -> Fallible<Vec<&str>> {
    let mut all = Vec::new();
    for tables in releases.iter().rev() {
        for name in tables.names("/attention_backends")? {
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    Ok(all)
}

/// The answers of a backend on a capability.
struct Answers<'a>(Vec<&'a Value>);

impl<'a> Answers<'a> {
    fn of(tables: &'a Tables, section: &str, backend: &str, capability: &str) -> Option<Self> {
        let on = |row: &&Value| {
            items(&row["capabilities"])
                .iter()
                .any(|on| on == capability)
        };
        let rows = items(&tables.json[section][backend]);
        let answers: Vec<&Value> = rows.iter().filter(on).map(|row| &row["answers"]).collect();
        (!answers.is_empty()).then_some(Self(answers))
    }

    fn get(&self, question: &str) -> Option<&'a Value> {
        self.0.iter().find_map(|answers| answers.get(question))
    }

    fn expect(&self, question: &str) -> Fallible<&'a Value> {
        self.get(question)
            .ok_or_else(|| format!("no answer to {question}").into())
    }
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn words(value: &Value) -> Vec<&str> {
    items(value).iter().filter_map(Value::as_str).collect()
}

/// The rows of one backend.
fn backend_rows(releases: &[Tables], backend: &str, text: &mut String) -> Fallible {
    // each body of a row, in the order of its first cell
    let mut bodies: Vec<(String, BTreeSet<Cell>)> = Vec::new();
    let mut class = "";
    for (release, tables) in releases.iter().enumerate() {
        for (version, (_, section)) in FLASH_ATTENTION.iter().enumerate() {
            let changed = tables.json[section].get(backend).is_some();
            let section = if changed { section } else { "backends" };
            for (arch, (name, capabilities)) in ARCHS.iter().enumerate() {
                let mut body = None;
                for capability in *capabilities {
                    let Some(answers) = Answers::of(tables, section, backend, capability) else {
                        continue;
                    };
                    if answers.get("error").is_some() {
                        continue;
                    }
                    class = answers.expect("class")?.as_str().unwrap_or_default();
                    let runs_on = runs_on(tables, backend)?;
                    let this = row(&answers, &runs_on)
                        .map_err(|error| format!("{}: {backend}: {error}", tables.release))?;
                    if body
                        .replace(this.clone())
                        .is_some_and(|other| other != this)
                    {
                        return Err(format!(
                            "{}: {backend} answers differently within {name}",
                            tables.release
                        )
                        .into());
                    }
                }
                let Some(body) = body else { continue };
                let cell = (release, arch, version);
                match bodies.iter_mut().find(|(known, _)| *known == body) {
                    Some((_, cells)) => drop(cells.insert(cell)),
                    None => bodies.push((body, BTreeSet::from([cell]))),
                }
            }
        }
    }
    for (body, cells) in bodies.iter().rev() {
        for (releases, archs, versions) in boxes(cells) {
            let (module, class) = class.rsplit_once('.').unwrap_or_default();
            writeln!(
                text,
                "    // {}.py {class}\n    Row {{\n        backend: B::{}, releases: {releases:#06x}, archs: {}, \
                 flash_attn: {},\n{body}    }},",
                module.replace('.', "/"),
                variant(backend),
                list("archs", archs.iter().map(|arch| ARCHS[*arch].0)),
                flags(versions.iter().map(|version| FLASH_ATTENTION[*version].0)),
            )?;
        }
    }
    Ok(())
}

/// Cells as few boxes: masks of releases, architectures and versions, each combination of which is a cell.
fn boxes(cells: &BTreeSet<Cell>) -> Vec<(u16, Vec<usize>, Vec<usize>)> {
    let mut versions: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (release, arch, version) in cells {
        versions
            .entry((*release, *arch))
            .or_default()
            .push(*version);
    }
    let mut archs: BTreeMap<(usize, Vec<usize>), Vec<usize>> = BTreeMap::new();
    for ((release, arch), versions) in versions {
        archs.entry((release, versions)).or_default().push(arch);
    }
    let mut releases: BTreeMap<(Vec<usize>, Vec<usize>), u16> = BTreeMap::new();
    for ((release, versions), archs) in archs {
        *releases.entry((archs, versions)).or_default() |= 1 << release;
    }
    releases
        .into_iter()
        .map(|((archs, versions), releases)| (releases, archs, versions))
        .collect()
}

/// The architectures whose GPUs a backend takes, in a release.
fn runs_on(tables: &Tables, backend: &str) -> Fallible<String> {
    let mut taken = Vec::new();
    for (name, capabilities) in ARCHS {
        for capability in capabilities {
            let answers = Answers::of(tables, "backends", backend, capability)
                .ok_or_else(|| format!("{backend} was not asked on {capability}"))?;
            if answers.expect("compute_capability")? == true && !taken.contains(&name) {
                taken.push(name);
            }
        }
    }
    Ok(list("archs", taken.into_iter()))
}

/// A row's fields beside its place.
fn row(answers: &Answers, runs_on: &str) -> Fallible<String> {
    let layouts = match answers.get("kv_cache_layouts") {
        None | Some(Value::Null) => "None".to_owned(),
        Some(layouts) => format!(
            "Some({})",
            list("&", words(layouts).into_iter().map(variant))
        ),
    };
    let mut named = Vec::new();
    for (question, flag) in FLAGS {
        if answers.get(question).is_some_and(|answer| answer == true) {
            named.push(flag);
        }
    }
    let decoder = words(answers.expect("attention_types")?).contains(&"decoder");
    if !decoder {
        return Err("it does not serve decoders, which every row does".into());
    }
    let blocks = blocks(answers)?;
    let dtypes = words(answers.expect("kv_cache_dtypes")?);
    Ok(format!(
        "        model_dtypes: {}, head_sizes: {},\n        cache_dtypes: {},\n        \
         runs_on: {runs_on}, does: {},\n{blocks}        layouts: {layouts},\n",
        list(
            "floats",
            words(answers.expect("model_dtypes")?)
                .into_iter()
                .map(variant)
        ),
        head_sizes(answers.expect("head_sizes")?)?,
        list(
            "Dtypes::these",
            dtypes
                .into_iter()
                .map(|name| format!("D::{}", variant(name)))
        ),
        flags(named.into_iter()),
    ))
}

/// `name(&[a, b])`, over several lines where one does not do.
pub(super) fn list(name: &str, items: impl Iterator<Item = impl AsRef<str>>) -> String {
    const WIDTH: usize = 92;
    let mut lines = vec![String::new()];
    for item in items {
        let mut line = lines.pop().unwrap_or_default();
        if line.len() + item.as_ref().len() > WIDTH {
            lines.push(line);
            line = String::new();
        }
        lines.push(line + item.as_ref() + ", ");
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let items = if let [only] = lines[..] {
        only.trim_end_matches(',').to_owned()
    } else {
        format!("\n            {}\n        ", lines.join("\n            "))
    };
    match name {
        "&" => format!("&[{items}]"),
        _ => format!("{name}(&[{items}])"),
    }
}

/// `A | B`
fn flags(items: impl Iterator<Item = &'static str>) -> String {
    let items: Vec<&str> = items.collect();
    if items.is_empty() {
        "0".to_owned()
    } else {
        items.join(" | ")
    }
}

/// The sizes that are taken of those asked, 1 to 1,024. What reaches the last one asked has no end.
fn head_sizes(value: &Value) -> Fallible<String> {
    const LAST_ASKED: u64 = 1024;
    let mut ranges = Vec::new();
    for item in items(value) {
        let numbers: Vec<u64> = match item.as_u64() {
            Some(size) => vec![size, size, 1],
            None => items(item).iter().filter_map(Value::as_u64).collect(),
        };
        let [first, last, step] = numbers[..] else {
            return Err(format!("not a range of head sizes: {item}").into());
        };
        ranges.push(match (last, step) {
            (LAST_ASKED, 1) => format!("Range::from({first})"),
            _ if first == last => format!("Range::only({first})"),
            _ => format!("Range::steps({first}, {last}, {step})"),
        });
    }
    Ok(list("&", ranges.iter()))
}

/// `kernel_blocks`, `splits` and `own_block`: the last two as they differ from the rule of
/// `AttentionBackend.supports_block_size` and `get_preferred_block_size`.
fn blocks(answers: &Answers) -> Fallible<String> {
    let Some(sizes) = answers.get("kernel_block_sizes") else {
        return Err("no kernel blocks".into());
    };
    let mut blocks = Vec::new();
    for size in items(sizes) {
        blocks.push(match (size.as_u64(), size.as_str()) {
            (Some(size), _) => (format!("Exact({size})"), size),
            (None, Some(multiple)) => {
                let base = multiple
                    .trim_start_matches("MultipleOf(")
                    .trim_end_matches(')');
                (multiple.to_owned(), base.parse()?)
            }
            (None, None) => return Err(format!("not a kernel block: {size}").into()),
        });
    }
    // `dump_tables.py` `BLOCK_SIZES`
    let asked: [u64; 18] = [
        1, 8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 320, 384, 512, 576, 1024, 2048,
    ];
    let taken: Vec<u64> = items(answers.expect("block_sizes")?)
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    let multiples = asked
        .into_iter()
        .filter(|size| blocks.iter().any(|(_, base)| size.is_multiple_of(*base)));
    let exact = asked
        .into_iter()
        .filter(|size| blocks.iter().any(|(_, base)| size == base));
    let splits = multiples.eq(taken.iter().copied());
    if !splits && !exact.eq(taken.iter().copied()) {
        return Err(format!("blocks of {taken:?} tokens follow neither rule").into());
    }
    let smallest = blocks.iter().map(|(_, base)| *base).min().unwrap_or(1);
    let usual = if taken.contains(&16) { 16 } else { smallest };
    let own = answers
        .expect("preferred_block_size")?
        .as_u64()
        .unwrap_or_default();
    let own = if own == usual {
        "None".to_owned()
    } else {
        format!("Some({own})")
    };
    Ok(format!(
        "        kernel_blocks: {}, splits_blocks: {splits}, own_block: {own},\n",
        list("&", blocks.iter().map(|(block, _)| block))
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_become_the_boxes_that_hold_them() {
        let cells = BTreeSet::from([
            (8, 0, 0),
            (8, 1, 0),
            (9, 0, 0),
            (9, 1, 0),
            (9, 2, 0),
            (9, 2, 1),
        ]);
        assert_eq!(
            boxes(&cells),
            [(0x0300, vec![0, 1], vec![0]), (0x0200, vec![2], vec![0, 1]),]
        );
    }

    #[test]
    fn head_sizes_that_reach_the_last_asked_have_no_end() {
        assert_eq!(
            head_sizes(&json!([[32, 1024, 1]])).unwrap(),
            "&[Range::from(32)]"
        );
        assert_eq!(
            head_sizes(&json!([64, [128, 512, 8]])).unwrap(),
            "&[Range::only(64), Range::steps(128, 512, 8)]"
        );
        assert!(head_sizes(&json!([[1, 2]])).is_err());
    }

    fn answered(kernel: &Value, taken: &Value, preferred: u64) -> Fallible<String> {
        let row = json!({
            "kernel_block_sizes": kernel, "block_sizes": taken, "preferred_block_size": preferred,
        });
        blocks(&Answers(vec![&row]))
    }

    #[test]
    fn blocks_follow_the_general_rule_or_say_so() {
        let halves = json!([64, 128, 192, 256, 320, 384, 512, 576, 1024, 2048]);
        assert_eq!(
            answered(&json!([64]), &halves, 64).unwrap(),
            "        kernel_blocks: &[Exact(64)], splits_blocks: true, own_block: None,\n"
        );
        assert_eq!(
            answered(&json!([64, 128]), &json!([64, 128]), 128).unwrap(),
            "        kernel_blocks: &[Exact(64), Exact(128)], splits_blocks: false, own_block: Some(128),\n"
        );
        assert!(answered(&json!(["MultipleOf(64)"]), &json!([64, 80]), 64).is_err());
    }
}
