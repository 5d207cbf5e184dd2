//! What is measured, in seconds by `plan.rs` and in instructions by `instructions.rs`.

use std::hint::black_box;

use kv_cases::{parse_case, resolve_line};
use kv_resolver::catalog::{CatalogGpu, GPUS};
use kv_resolver::matrix::{budgets, classes};
use kv_resolver::memory::plan_with;
use kv_resolver::{CacheDtype, Gpu, Release, Request, resolve, resolve_quietly};

const FLASH: &str = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"tensor_parallel_size":8,"max_model_len":262144},"available_memory":42949672960}"#;

/// One of them.
pub struct Question {
    /// A line of `instructions.txt` begins with it.
    pub name: &'static str,
    /// Asks it once.
    pub ask: Box<dyn Fn()>,
}

fn question<T>(name: &'static str, ask: impl Fn() -> T + 'static) -> Question {
    Question {
        name,
        ask: Box::new(move || drop(black_box(ask()))),
    }
}

fn request(line: &str) -> Request {
    parse_case(line).1.expect("a well-formed case")
}

fn of_model(id: &str) -> Request {
    let case = FLASH.replace("deepseek-ai/DeepSeek-V4-Flash", id);
    request(&case.replace("262144", "131072"))
}

fn plan(name: &'static str, request: Request) -> Question {
    assert!(resolve_quietly(&request).is_ok(), "{name} starts");
    question(name, move || resolve_quietly(black_box(&request)))
}

/// The first text of a golden file of kv-paste whose name is this.
fn pasted(file: &str, name: &str) -> &'static str {
    let path = format!(
        "{}/../paste/tests/golden/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    let golden = std::fs::read_to_string(path).expect("golden texts");
    let (_, text) = golden
        .split_once(&format!("=== {name}\n"))
        .expect("a text of that name");
    let (text, _) = text.split_once("---\n").expect("an end of the text");
    text.to_owned().leak()
}

/// The page's matrix at one length: every GPU and cache dtype, each at the pool that is estimated for it.
fn estimated(base: &Request, gpus: &[Gpu]) -> Vec<bool> {
    let classes = classes(base, gpus, &CacheDtype::ALL);
    let budgets = budgets(base, gpus, &CacheDtype::ALL, &classes);
    let rows = gpus.iter().zip(&classes.row_of_gpu);
    let cells = rows.flat_map(|(gpu, row)| {
        let cells = classes.rows[*row].iter().zip(&budgets[*row]);
        cells.map(|(answer, budget)| match (answer, budget) {
            (Ok(resolution), Some(budget)) => {
                let budget = budget.clone().map(|budget| budget.on(gpu));
                plan_with(base, resolution, budget, None).is_ok()
            }
            (Ok(_) | Err(_), _) => false,
        })
    });
    cells.collect()
}

/// All of them.
pub fn all() -> Vec<Question> {
    let flash = request(FLASH);
    let refused = request(&FLASH.replace("\"tensor", "\"kv_cache_dtype\":\"bfloat16\",\"tensor"));
    let open = Request {
        available_memory: None,
        ..flash.clone()
    };
    let gpus: Vec<Gpu> = GPUS.iter().map(CatalogGpu::gpu).collect();
    let (traced, in_matrix, gpus_of_page) = (flash.clone(), flash.clone(), gpus.clone());
    let command = pasted("commands.txt", "a drafter as JSON over several lines");
    let log = pasted("logs.txt", "a whole start of 0.33, eight workers");
    let read = |text| move || kv_paste::read(black_box(text), Release::LATEST);
    vec![
        plan("plan, DeepSeek V4 Flash", flash),
        plan(
            "plan, DeepSeek V4 Pro",
            of_model("deepseek-ai/DeepSeek-V4-Pro"),
        ),
        plan(
            "plan, latent rows (DeepSeek V3.2)",
            of_model("deepseek-ai/DeepSeek-V3.2"),
        ),
        plan("plan, hybrid (Qwen3.5)", of_model("Qwen/Qwen3.5-397B-A17B")),
        plan(
            "plan, windows (Gemma 4)",
            of_model("google/gemma-4-26B-A4B"),
        ),
        question("answer with its trace", move || resolve(black_box(&traced))),
        question("refusal with its advice", move || {
            resolve(black_box(&refused))
        }),
        question("line of JSON to another", || {
            resolve_line(black_box(FLASH), 1)
        }),
        question("whole matrix", move || {
            classes(black_box(&in_matrix), &gpus, &CacheDtype::ALL)
        }),
        question("whole matrix with estimated pools", move || {
            estimated(black_box(&open), &gpus_of_page)
        }),
        question("pasted command", read(command)),
        question("pasted log", read(log)),
    ]
}
