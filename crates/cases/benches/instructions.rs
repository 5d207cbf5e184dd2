//! What callgrind counts for `cargo xtask test instructions`: each question by its name, asked once. Prints how often
//! that asks for memory.

mod questions;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counted;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator, as it is asked of this one.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

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
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    kv_counted(&question.ask);
    println!("{}", ALLOCATIONS.load(Ordering::Relaxed) - before);
    ExitCode::SUCCESS
}
