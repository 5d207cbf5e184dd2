//! How long answers take: `cargo bench --package kv-cases --bench plan`.

mod questions;

use criterion::{Criterion, criterion_group, criterion_main};

fn answers(criterion: &mut Criterion) {
    for question in questions::all() {
        criterion.bench_function(question.name, |bencher| bencher.iter(&question.ask));
    }
}

criterion_group!(benches, answers);
criterion_main!(benches);
