//! Writes types as TypeScript.

use std::fmt::Write as _;

use kv_cases::KEYS;
use kv_resolver::catalog::GPUS;
use kv_resolver::{Flag, FlagKind, Usage};

use crate::model::{Declared, Field, Shape, Ty, Types};

const HEAD: &str = "\
// Generated from the Rust types; `KV_WRITE_TYPES=1 cargo test --package kv-js --test types` writes it.
// Sizes are bytes, lengths are tokens, and every whole number is exact.
";

/// The whole file.
pub fn file(types: &Types) -> String {
    let mut out = HEAD.to_owned();
    case(&mut out);
    declare(
        &mut out,
        "Result",
        &Declared {
            doc: "What vLLM would do; `ok` tells which of the two it is.".to_owned(),
            shape: Shape::Union(vec![
                Ty::Named("Resolved".to_owned()),
                Ty::Named("Refused".to_owned()),
            ]),
        },
    );
    for name in &types.order {
        declare(&mut out, name, &types.by_name[name]);
    }
    out
}

/// What is asked: its keys and flags are the ones that are read.
fn case(out: &mut String) {
    let keys = KEYS.iter().filter(|key| **key != "gpu").map(|key| {
        let (ty, doc) = match *key {
            "id" => ("unknown", "Comes back in the result."),
            "release" => (
                "Release | null",
                "vLLM's version; without it the latest that has rules.",
            ),
            "model" => (
                "string | null",
                "A model of the catalog, by its id; see `models`.",
            ),
            "hf_config" => ("object | null", "A model's own config.json, instead."),
            "draft_hf_config" => (
                "object | null",
                "The drafter's config.json, where it is not in the catalog.",
            ),
            "args" => (
                "Args | null",
                "What the user passes, by names of `EngineArgs`.",
            ),
            "env" => ("Record<string, string | null> | null", "`VLLM_` variables."),
            "available_memory" => (
                "number | null",
                "The pool in bytes: what is left for the KV cache on one GPU.",
            ),
            "free_memory" => (
                "number | null",
                "What is free on one GPU before vLLM starts, in bytes.",
            ),
            "usage" => (
                "Usage | null",
                "Who starts vLLM: `vllm serve` or Python's `LLM`.",
            ),
            other => panic!("what is the type of the case's {other}?"),
        };
        raw(key, ty, doc)
    });
    let keys: String = keys.collect();
    let gpu = |mark: &str, doc: &str| {
        format!(
            "  /** {doc} */\n  gpu{mark}: GpuKey | (string & {{}}) | OwnGpu{};\n",
            if mark.is_empty() { "" } else { " | null" }
        )
    };
    let _ = write!(
        out,
        "\n/** A question but for its GPU. */\nexport interface OpenCase {{\n{keys}{}}}\n\
         \n/** A question. */\nexport interface Case extends OpenCase {{\n{}}}\n",
        gpu(
            "?",
            "A GPU of the catalog by its key (see `gpus`), or any other; `matrix` does not look at it."
        ),
        gpu(
            "",
            "A GPU of the catalog by its key (see `gpus`), or any other."
        ),
    );
    let own = raw(
        "cc?",
        "[number, number]",
        "Compute capability: major and minor.",
    )
    .replace("cc??", "cc")
        + &raw(
            "name",
            "string | null",
            "The driver's name: some of vLLM's defaults look at it.",
        )
        + &raw("mem_gib", "number | null", "Its memory in GiB.");
    let _ = write!(
        out,
        "\n/** A GPU that the catalog has not. */\nexport interface OwnGpu {{\n{own}}}\n"
    );
    flags(out);
    words(
        out,
        "GpuKey",
        "Keys of the catalog's GPUs; there are shorter ones as well.",
        GPUS.iter().map(|gpu| gpu.key),
    );
    words(
        out,
        "Usage",
        "Who starts vLLM.",
        [Usage::Server, Usage::Llm]
            .iter()
            .map(|usage| usage.as_str()),
    );
}

fn flags(out: &mut String) {
    out.push_str(
        "\n/** Flags by names of `EngineArgs`. One without a rule is answered as unmodelled. */\nexport interface Args {\n",
    );
    for flag in Flag::ALL {
        let ty = match flag {
            Flag::KvCacheDtype => "CacheDtype | (string & {})",
            _ => match flag.kind() {
                FlagKind::Text => "string",
                FlagKind::Integer | FlagKind::HumanInteger | FlagKind::Float => "number",
                FlagKind::Bool => "boolean",
                FlagKind::List => "string[]",
            },
        };
        let _ = writeln!(out, "  {}?: {ty} | null;", flag.name());
    }
    out.push_str("  speculative_config?: object | null;\n  [name: string]: unknown;\n}\n");
}

fn words<'a>(out: &mut String, name: &str, doc: &str, words: impl Iterator<Item = &'a str>) {
    let shape = Shape::Words(words.map(str::to_owned).collect());
    declare(
        out,
        name,
        &Declared {
            doc: doc.to_owned(),
            shape,
        },
    );
}

fn raw(name: &str, ty: &str, doc: &str) -> String {
    format!("  /** {doc} */\n  {name}?: {ty};\n")
}

fn declare(out: &mut String, name: &str, declared: &Declared) {
    out.push('\n');
    comment(out, &declared.doc, "");
    let _ = match &declared.shape {
        Shape::Object(fields) => {
            let _ = writeln!(out, "export interface {name} {{");
            for each in fields {
                field(out, each);
            }
            writeln!(out, "}}")
        }
        Shape::Words(words) => {
            let words = words.iter().map(|word| format!("{word:?}"));
            let lines = words.collect::<Vec<_>>().join("\n  | ");
            writeln!(out, "export type {name} =\n  | {lines};")
        }
        Shape::Union(types) => {
            let types: Vec<String> = types.iter().map(written).collect();
            writeln!(out, "export type {name} = {};", types.join(" | "))
        }
    };
}

fn field(out: &mut String, field: &Field) {
    comment(out, &field.doc, "  ");
    let mark = if field.is_optional { "?" } else { "" };
    let _ = writeln!(out, "  {}{mark}: {};", field.name, written(&field.ty));
}

fn written(ty: &Ty) -> String {
    match ty {
        Ty::Number => "number".to_owned(),
        Ty::Text => "string".to_owned(),
        Ty::Bool => "boolean".to_owned(),
        Ty::Only(only) => only.to_string(),
        Ty::Unknown => "unknown".to_owned(),
        Ty::Object(name) => (*name).to_owned(),
        Ty::Usage => "Usage".to_owned(),
        Ty::List(inner) => match &**inner {
            Ty::OrNull(_) => format!("({})[]", written(inner)),
            _ => format!("{}[]", written(inner)),
        },
        Ty::Tuple(types) => {
            let types: Vec<String> = types.iter().map(written).collect();
            format!("[{}]", types.join(", "))
        }
        Ty::OrNull(inner) => format!("{} | null", written(inner)),
        Ty::Named(name) => name.clone(),
    }
}

fn comment(out: &mut String, doc: &str, indent: &str) {
    let doc = doc.replace("*/", "*\u{200b}/");
    let lines: Vec<&str> = doc.lines().collect();
    let _ = match lines[..] {
        [] => Ok(()),
        [line] => writeln!(out, "{indent}/** {line} */"),
        _ => {
            let _ = writeln!(out, "{indent}/**");
            for line in lines {
                let _ = writeln!(out, "{indent} * {line}");
            }
            writeln!(out, "{indent} */")
        }
    };
}
