//! How long answers take: `cargo bench --package kv-cases`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use kv_cases::{parse_case, resolve_line};
use kv_resolver::catalog::GPUS;
use kv_resolver::matrix::matrix;
use kv_resolver::{CacheDtype, Gpu, Request, resolve, resolve_quietly};

const FLASH: &str = r#"{"model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"tensor_parallel_size":8,"max_model_len":262144},"available_memory":42949672960}"#;

fn request(line: &str) -> Request {
    parse_case(line).1.expect("a well-formed case")
}

fn plans(criterion: &mut Criterion) {
    let flash = request(FLASH);
    let pro = request(&FLASH.replace("Flash", "Pro"));
    let refused = request(&FLASH.replace("\"tensor", "\"kv_cache_dtype\":\"bfloat16\",\"tensor"));
    criterion.bench_function("one plan, DeepSeek V4 Flash", |bencher| {
        bencher.iter(|| resolve_quietly(black_box(&flash)));
    });
    criterion.bench_function("one plan, DeepSeek V4 Pro", |bencher| {
        bencher.iter(|| resolve_quietly(black_box(&pro)));
    });
    criterion.bench_function("one answer with its trace", |bencher| {
        bencher.iter(|| resolve(black_box(&flash)));
    });
    criterion.bench_function("one refusal with its advice", |bencher| {
        bencher.iter(|| resolve(black_box(&refused)));
    });
    criterion.bench_function("one line of JSON to another", |bencher| {
        bencher.iter(|| resolve_line(black_box(FLASH), 1));
    });
    let gpus: Vec<Gpu> = GPUS
        .iter()
        .map(kv_resolver::catalog::CatalogGpu::gpu)
        .collect();
    criterion.bench_function("the whole matrix", |bencher| {
        bencher.iter(|| matrix(black_box(&flash), &gpus, &CacheDtype::ALL));
    });
}

criterion_group!(benches, plans);
criterion_main!(benches);
