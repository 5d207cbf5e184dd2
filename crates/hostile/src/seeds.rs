//! Good input: models, vectors, and the golden texts that people paste.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use kv_resolver::{Flag, Value};

fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}

/// The files of a folder, by name, that end so.
fn files(folder: &str, end: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder that is committed");
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|known| known == end))
        .collect();
    paths.sort();
    let read = |path| fs::read_to_string(path).expect("a file that is committed");
    paths.into_iter().map(read).collect()
}

/// The config.json of every model that is committed.
pub fn models() -> Vec<String> {
    files("tests/models", "json")
}

/// Lists of names that no rule reads are most of some files.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => {
            if matches!(items.first(), Some(Value::String(name)) if name.contains('.')) {
                items.truncate(3);
            }
            items.iter_mut().for_each(shorten);
        }
        Value::Object(entries) => entries.iter_mut().for_each(|(_, value)| shorten(value)),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {}
    }
}

pub fn configs() -> Vec<Vec<u8>> {
    let models = models();
    let configs = models.iter().zip(0_u8..).map(|(text, at)| {
        let mut config = kv_cases::parse_config(text).expect("a config.json");
        shorten(&mut config);
        // the newest release, eight ranks, 40 GiB; every third of another dtype
        let dtype = if at % 3 == 0 { at } else { 0 };
        let head = [at, dtype, u8::MAX, 0b0001_1011];
        [&head, kv_cases::value_json(&config).as_bytes()].concat()
    });
    configs.collect()
}

/// The cases of the vectors, and their errors, as they are written.
fn vectors() -> impl Iterator<Item = Value> {
    let files = files("tests/vectors", "jsonl").into_iter();
    files.flat_map(|text| {
        let rows = text.lines().map(kv_cases::parse_config);
        rows.collect::<Result<Vec<_>, _>>().expect("vectors")
    })
}

pub fn cases() -> Vec<Vec<u8>> {
    let named = vectors().step_by(31).filter_map(|row| {
        let case = kv_cases::value_json(row.get("case")?);
        Some(case.into_bytes())
    });
    let with_config = configs().into_iter().step_by(3).map(|config| {
        let start: &[u8] = b"{\"id\":1,\"gpu\":\"b200\",\"args\":{\"tensor_parallel_size\":8},\"available_memory\":42949672960,\"hf_config\":";
        [start, &config[4..], b"}"].concat()
    });
    named.chain(with_config).collect()
}

#[cfg(feature = "page")]
pub fn addresses() -> Vec<Vec<u8>> {
    let of_cases = vectors().step_by(53).filter_map(|row| {
        let case = row.get("case")?;
        let mut pairs = vec![
            format!("model={}", case.get("model")?.as_str()?),
            format!("release={}", case.get("release")?.as_str()?),
        ];
        if let Some(Value::Object(args)) = case.get("args") {
            let pair = |(key, value): &(String, Value)| match value {
                Value::String(text) => format!("{key}={text}"),
                other => format!("{key}={}", kv_cases::value_json(other)),
            };
            pairs.extend(args.iter().map(pair));
        }
        Some(pairs.join("&").into_bytes())
    });
    let ours = [
        "gpu=b200&kv_cache_dtype=fp8&compare=0.29.0&pool_gib=40.5&free_gib=70&usage=llm",
        "model=pasted&dtypes=all&rows=each&sort=gpu#config=%7B%22a%22:1%7D",
        "spec_method=eagle3&spec_tokens=3&spec_model=a/b&spec_kv_cache_dtype=fp8#draft=%7B%7D",
        "VLLM_KV_CACHE_LAYOUT=BLHNC&VLLM_ALLOW_LONG_MAX_MODEL_LEN=1&unmodelled=a,b&embed=cell&theme=dark",
        "tp=4&--max-model-len=8192&kv-cache-dtype=fp8&vllm=0.32.0&pool=40&arch=SM100,SM120&mem=80-",
        "pool_gib=GPU%20KV%20cache%20size:%201,457,780%20tokens&utm_source=x&sparkle=1%202",
    ];
    of_cases
        .chain(ours.map(|text| text.as_bytes().to_vec()))
        .collect()
}

/// The texts of a golden file, without what is read of them.
fn golden(name: &str) -> Vec<Vec<u8>> {
    let path = root().join("crates/paste/tests/golden").join(name);
    let text = fs::read_to_string(path).expect("a file that is committed");
    let cases = text.split("=== ").skip(1).filter_map(|case| {
        let (_, rest) = case.split_once('\n')?;
        let (text, _) = rest.rsplit_once("---\n")?;
        Some(text.as_bytes().to_vec())
    });
    cases.collect()
}

pub fn commands() -> Vec<Vec<u8>> {
    golden("commands.txt")
}

pub fn logs() -> Vec<Vec<u8>> {
    golden("logs.txt")
}

pub fn errors() -> Vec<Vec<u8>> {
    let texts: BTreeSet<String> = vectors()
        .filter_map(|row| {
            let error = row.get("result")?.get("error")?.as_str()?;
            // one of each kind
            Some(error.chars().take(400).collect())
        })
        .collect();
    texts
        .into_iter()
        .step_by(5)
        .map(String::into_bytes)
        .collect()
}

/// A byte that chooses the flag, and a value.
pub fn fields() -> Vec<Vec<u8>> {
    let values = [
        "8",
        "-1",
        "auto",
        "32k",
        "1.5m",
        "1G",
        "0.92",
        "true",
        "False",
        "fp8",
        "1_000",
        "1e-3",
        "0,1,sliding_window",
        "FLASHMLA",
        "bfloat16",
        "40 GiB",
        "Available KV cache memory: 47.43 GiB",
        "9223372036854775807",
        "NaN",
        "",
    ];
    let flags = (0..).zip(Flag::ALL);
    let read = flags.flat_map(|(at, flag): (u8, Flag)| {
        let read = values
            .into_iter()
            .filter(move |value| flag.parse_text(value).is_ok());
        read.map(move |value| [&[at], value.as_bytes()].concat())
    });
    read.collect()
}
