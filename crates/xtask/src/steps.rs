//! The steps of `cargo xtask test`: the table below is the list of what CI runs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::workspace::{Fallible, Workspace, run};
use crate::{dist, instructions, js, native, page, setup, supply, tables, toolchain, vectors};

/// One step: its name on the command line, what it shows, and how.
pub struct Step {
    name: &'static str,
    shows: &'static str,
    run: fn(&Workspace) -> Fallible,
}

/// In order; a later step may use what an earlier one left (kvx's answers, the built page). Quick ones come first.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        shows: "the source is formatted",
        run: |workspace| run(&mut workspace.cargo(["fmt", "--all", "--check"])),
    },
    Step {
        name: "lock",
        shows: "Cargo.lock fits the manifests, and the oldest Rust that they name is the one that tests them",
        run: toolchain::check,
    },
    Step {
        name: "deny",
        shows: "no advisory, licence, second version or source in Cargo.lock that deny.toml does not allow",
        run: supply::deny,
    },
    Step {
        name: "tables",
        shows: "what is generated is what vLLM's own tables say",
        run: tables::check,
    },
    Step {
        name: "clippy",
        shows: "no lint, natively",
        run: |workspace| {
            run(workspace
                .cargo(["clippy", "--workspace", "--all-targets"])
                .args(DENY_WARNINGS))
        },
    },
    Step {
        name: "tests",
        shows: "unit, integration and documentation tests, natively",
        run: |workspace| run(&mut workspace.cargo(["test", "--workspace"])),
    },
    Step {
        name: "docs",
        shows: "the documentation builds without a warning",
        run: |workspace| {
            run(workspace
                .cargo(["doc", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings"))
        },
    },
    Step {
        name: "vectors",
        shows: "kvx answers every vector as vLLM did",
        run: |workspace| vectors::check(workspace).map(|summary| println!("{summary}")),
    },
    Step {
        name: "instructions",
        shows: "answers take no more instructions than before, as callgrind counts them",
        run: instructions::check,
    },
    Step {
        name: "native",
        shows: "kernels compile for every GPU, an allocator in C has kvx's plan, this machine equals vLLM's pages",
        run: native::check,
    },
    Step {
        name: "clippy-wasm",
        shows: "no lint in the page",
        run: |workspace| {
            run(workspace
                .cargo(["clippy", "--package", "kv-explorer", "--all-targets"])
                .args(["--target", "wasm32-unknown-unknown"])
                .args(DENY_WARNINGS)
                .env("KV_NATIVE_ANSWERS", vectors::answers_folder(workspace)))
        },
    },
    Step {
        name: "wasm",
        shows: "in Chromium, the library's answers are the native ones, byte for byte",
        run: |workspace| page::wasm_tests(workspace, "kv-explorer", "web"),
    },
    Step {
        name: "page",
        shows: "the page builds as it is published",
        run: page::build,
    },
    Step {
        name: "weight",
        shows: "what the page weighs, gzipped, does not grow",
        run: |workspace| {
            page::browser_tests(workspace, &[format!("tests/e2e/{}", page::WEIGHT_TEST)])
        },
    },
    Step {
        name: "js",
        shows: "the npm package does what its README says, in Node and in Chromium, with kvx's own answers",
        run: |workspace| js::build(workspace).and_then(|()| js::test(workspace)),
    },
    Step {
        name: "dist",
        shows: "what is published, packed twice, is the same, and whole when it is unpacked",
        run: dist::check,
    },
    Step {
        name: "browser",
        shows: "the built page does what a person expects, in Chromium",
        run: |workspace| page::browser_tests(workspace, &page::browser_test_files(workspace)?),
    },
];

const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

/// Prints the steps.
pub fn list() {
    for step in STEPS {
        println!("{:12} {}", step.name, step.shows);
    }
}

/// The steps with these names, in the table's order; all when none is named.
pub fn choose(names: &[&str]) -> Fallible<Vec<&'static Step>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != **name))
    {
        return Err(format!("there is no step `{unknown}`: `cargo xtask steps` lists them").into());
    }
    Ok(STEPS
        .iter()
        .filter(|step| names.is_empty() || names.contains(&step.name))
        .collect())
}

/// Sets up and runs the steps, all of them whatever fails, so that one run shows everything that is wrong.
pub fn run_all(workspace: &Workspace, steps: &[&Step]) -> Fallible {
    let start = Instant::now();
    setup::for_tests(workspace)?;
    let mut summary = format!("\n  set-up       {}  ok\n", seconds(start.elapsed()));
    let mut failed = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!(
            "\n== {} ({} of {}): {}",
            step.name,
            index + 1,
            steps.len(),
            step.shows
        );
        let step_start = Instant::now();
        let outcome = (step.run)(workspace);
        let time = seconds(step_start.elapsed());
        let verdict = match outcome {
            Ok(()) => "ok",
            Err(error) => {
                failed.push(step.name);
                println!("error: {error}");
                "FAILED"
            }
        };
        writeln!(summary, "  {:12} {time}  {verdict}", step.name)?;
    }
    println!("{summary}  all          {}", seconds(start.elapsed()));
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("failed: {}", failed.join(", ")).into())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:7.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_the_order_of_the_table() {
        let chosen = choose(&["page", "format"]).unwrap();
        assert_eq!(
            chosen.iter().map(|step| step.name).collect::<Vec<_>>(),
            ["format", "page"]
        );
        assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
        assert!(choose(&["pages"]).is_err());
    }

    #[test]
    fn names_are_unique() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(
                STEPS[..index]
                    .iter()
                    .all(|earlier| earlier.name != step.name),
                "{}",
                step.name
            );
        }
    }
}
