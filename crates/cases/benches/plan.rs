//! How long answers take: `cargo bench --package kv-cases --bench plan`.

mod questions;

use divan::Bencher;

fn main() {
    divan::main();
}

fn names() -> impl Iterator<Item = &'static str> {
    questions::all().into_iter().map(|question| question.name)
}

#[divan::bench(args = names())]
fn question(bencher: Bencher, name: &str) {
    let mut questions = questions::all().into_iter();
    let question = questions.find(|question| question.name == name);
    bencher.bench_local(question.expect("a question of that name").ask);
}
