//! What callgrind counts for `cargo xtask test instructions`: each question by its name, asked once.

mod questions;

use std::process::ExitCode;

/// Between its beginning and its end callgrind counts: xtask names it.
#[inline(never)]
fn kv_counted(ask: &dyn Fn()) {
    ask();
}

fn main() -> ExitCode {
    let questions = questions::all();
    // `cargo bench` passes --bench
    let named = std::env::args().skip(1).find(|word| word != "--bench");
    let Some(name) = named else {
        for question in questions {
            (question.ask)();
            println!("{}", question.name);
        }
        return ExitCode::SUCCESS;
    };
    let Some(question) = questions.iter().find(|question| question.name == name) else {
        eprintln!("no question is called {name:?}");
        return ExitCode::FAILURE;
    };
    // what is made once in a process is not counted
    (question.ask)();
    kv_counted(&question.ask);
    ExitCode::SUCCESS
}
