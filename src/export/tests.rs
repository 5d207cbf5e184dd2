use std::sync::Arc;

use kv_resolver::Flag;
use kv_resolver::catalog::{GPUS, find_gpu};
use serde_json::Value as Json;

use super::*;
use crate::catalog::tests::shelf;
use crate::input::{Input, ModelChoice};
use crate::page::Page;
use crate::view::{Sort, Toggle};

fn written(format: Format, input: &Input) -> String {
    let page = Page::new(input, &shelf(), None);
    format.write(&page.answers.unwrap(), &input.view)
}

/// As RFC 4180 says, to the letter.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(character) = characters.next() {
        match (is_quoted, character) {
            (true, '"') if characters.next_if_eq(&'"').is_some() => field.push('"'),
            (true, '"') => is_quoted = false,
            (false, '"') => {
                assert_eq!(field, "", "a quote within a field");
                is_quoted = true;
            }
            (false, ',') => record.push(std::mem::take(&mut field)),
            (false, '\r') => {
                assert_eq!(characters.next(), Some('\n'));
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            (false, '\n') => panic!("a bare line feed"),
            _ => field.push(character),
        }
    }
    assert!(!is_quoted && record.is_empty() && field.is_empty());
    records
}

/// A question with all that could break out of a format.
fn hostile() -> Input {
    let mut input = Input {
        kv_cache_layout: "=1+1,\"|<img src=x>\n`".to_owned(),
        ..Input::default()
    };
    input.set_flag(Flag::AttentionBackend, "\"a\",\\|b'\t");
    input.drafting.method = Some(kv_resolver::speculation::Method::Eagle3);
    input.drafting.model = "=HYPERLINK(\"x\")|[a](b)".to_owned();
    input
}

#[test]
fn csv_comes_back_whatever_is_in_it() {
    for input in [Input::default(), hostile()] {
        let records = parse_csv(&written(Format::Csv, &input));
        assert!(records.iter().all(|record| record.len() == 11));
        let page = Page::new(&input, &shelf(), None);
        let answers = page.answers.unwrap();
        assert_eq!(
            records[0][0..4],
            [
                "model",
                "deepseek-ai/DeepSeek-V4-Flash",
                "release",
                "0.33.0"
            ]
        );
        assert_eq!(
            records[0][4..8],
            ["context_length", "262144", "pool", "estimated"]
        );
        assert_eq!(records[0][9], answers.asked.command(ANY_DTYPE));
        assert_eq!(records[1][0], "gpu");
        assert_eq!(records.len() - 2, GPUS.len() * answers.grid.columns.len());
    }
}

#[test]
fn formulas_stay_text_and_numbers_stay_numbers() {
    let as_field = |value: Value| {
        let mut out = String::new();
        field(&mut out, &value);
        out
    };
    for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
        let records = parse_csv(&(as_field(Value::text(formula)) + "\r\n"));
        assert_eq!(records, [[format!("'{formula}")]]);
    }
    assert_eq!(as_field(Value::Bare("-1".to_owned())), "-1");
    assert_eq!(as_field(Value::text("a=1")), "a=1");
    assert_eq!(as_field(Value::text("a\"b,c")), "\"a\"\"b,c\"");
}

#[test]
fn json_is_read_by_others() {
    for input in [Input::default(), hostile()] {
        let json: Json = serde_json::from_str(&written(Format::Json, &input)).unwrap();
        assert_eq!(json["release"], "0.33.0");
        assert_eq!(json["context_length"], 262_144);
        let asked = Page::new(&input, &shelf(), None).answers.unwrap().asked;
        assert_eq!(json["command"], asked.command(ANY_DTYPE));
        assert!(json["cells"].as_array().unwrap().len() >= GPUS.len());
    }
    let json: Json = serde_json::from_str(&written(Format::Json, &Input::default())).unwrap();
    let cells = json["cells"].as_array().unwrap();
    let of = |gpu: &str, dtype: &str| {
        let mut cells = cells.iter();
        cells
            .find(|cell| cell["gpu"] == gpu && cell["kv_cache_dtype"] == dtype)
            .unwrap()
    };
    let starts = of("h200-sxm-141gb", "auto");
    assert_eq!(starts["arch"], "SM90");
    assert_eq!(starts["memory_mib"], 143_771);
    assert_eq!(starts["outcome"], "becomes");
    assert_eq!(starts["resolved_dtype"], "fp8_ds_mla");
    assert_eq!(starts["marginal_bytes_per_token"], 3915);
    assert_eq!(starts["is_estimate"], true);
    assert!(starts["requests_that_fit"].as_f64().unwrap() > 1.0);
    assert_eq!(starts["stage"], Json::Null);
    let stops = of("b200", "bfloat16");
    assert_eq!(
        (&stops["outcome"], &stops["stage"]),
        (&"refused".into(), &"model".into())
    );
    assert_eq!(stops["requests_that_fit"], Json::Null);
}

#[test]
fn control_characters_are_escaped() {
    let all: String = (0..0x80).filter_map(char::from_u32).collect();
    let mut out = String::new();
    string(&mut out, &all);
    assert_eq!(serde_json::from_str::<String>(&out).unwrap(), all);
}

#[test]
fn markdown_keeps_its_table() {
    for input in [Input::default(), hostile()] {
        let text = written(Format::Markdown, &input);
        let page = Page::new(&input, &shelf(), None);
        let columns = page.answers.unwrap().grid.columns.len() + 4;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4 + 2 + GPUS.len());
        assert!(lines[2].starts_with("    "));
        for line in &lines[4..] {
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(bars, columns + 1, "{line}");
        }
    }
    let mut out = String::new();
    escaped(&mut out, "a|b<i>`\n[x]");
    assert_eq!(out, "a\\|b\\<i>\\` \\[x]");
}

#[test]
fn what_is_filtered_and_sorted_is_exported_so_and_what_is_folded_is_not() {
    let mut input = Input::default();
    input.view.flip(Toggle::Only(kv_resolver::Arch::Sm100));
    input.view.flip(Toggle::Fold(kv_resolver::Arch::Sm100));
    input.view.sort = Sort::Fit;
    let records = parse_csv(&written(Format::Csv, &input));
    let cells = &records[2..];
    assert!(
        cells.iter().all(|record| record[2] == "SM100"),
        "the chosen H200 is left out"
    );
    let of_auto = cells.iter().filter(|record| record[4] == "auto");
    let requests: Vec<f64> = of_auto.map(|record| record[8].parse().unwrap()).collect();
    assert_eq!(requests.len(), 5);
    assert!(requests.is_sorted_by(|more, less| more >= less));
    // none passes: there is the question, and nothing else
    input.view.memory = crate::view::Memory::AtMost(16);
    assert_eq!(parse_csv(&written(Format::Csv, &input)).len(), 1);
    let json: Json = serde_json::from_str(&written(Format::Json, &input)).unwrap();
    assert_eq!(json["cells"], Json::Array(Vec::new()));
}

#[test]
fn a_pool_that_exceeds_the_gpu_holds_nothing() {
    let mut input = Input {
        pool_gib: "100".to_owned(),
        gpu: find_gpu("h200").unwrap(),
        ..Input::default()
    };
    input.choose_model(ModelChoice::Catalog(Arc::from(
        "deepseek-ai/DeepSeek-V4-Flash",
    )));
    let json: Json = serde_json::from_str(&written(Format::Json, &input)).unwrap();
    assert_eq!(json["pool"], "100 GiB");
    let mut cells = json["cells"].as_array().unwrap().iter();
    let cell = cells.find(|cell| cell["gpu"] == "h100-sxm-80gb").unwrap();
    assert_eq!(cell["requests_that_fit"], Json::Null);
    let table = written(Format::Markdown, &input);
    assert!(table.contains(text::POOL_EXCEEDS));
}

#[test]
fn a_file_is_called_by_letters_and_digits() {
    let mut input = Input::default();
    let name = |input: &Input| {
        let asked = Page::new(input, &shelf(), None).answers.unwrap().asked;
        Format::Csv.file_name(&asked)
    };
    assert_eq!(name(&input), "kv-cache-DeepSeek-V4-Flash-0.33.0.csv");
    input.pasted = Arc::from("{}");
    input.choose_model(ModelChoice::Pasted);
    assert_eq!(name(&input), "kv-cache-the-pasted-model-0.33.0.csv");
}
