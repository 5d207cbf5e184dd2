//! `cargo xtask`: one place that sets up, serves, builds and tests KV Explorer.
//!
//! It has few dependencies on purpose: it is the first thing compiled on a new machine.

mod browser;
mod cases;
mod compare;
mod dist;
mod halves;
mod instructions;
mod js;
mod native;
mod page;
mod record;
mod release;
mod setup;
mod steps;
mod supply;
mod tables;
mod toolchain;
mod vectors;
mod wasm;
mod workspace;

use std::process::ExitCode;

use workspace::{Fallible, Workspace};

const HELP: &str = "\
cargo xtask COMMAND

  setup                      install what the other commands need
  serve [--port N] [--dev] [--no-open]
                             build the explorer and serve it on localhost, rebuilding on change
                             (port 8080 or the next free one; optimized unless --dev)
  build                      build the page into dist/
  js                         build the npm package into target/js/kv-explorer, and print what it weighs
  dist                       build what is published into target/published: page, npm package, kvx, checksums
  test [STEP...]             run every test that CI runs, or only the steps named
  tables                     write what is generated: from vLLM's own tables (resolver/tables/), and public/models.json
  record                     compare every vector, and write what they cover: public/record.json,
                             public/accuracy.html and, with it, the page's first answer, public/first.html
  cases COUNT                print so many cases for `kvx resolve`, by which it is measured (docs/speed.md)
  instructions               count what answers cost, and write it: crates/cases/benches/instructions.txt
  release VERSION [--against RELEASE] [VECTORS...]
                             what a new release's dump and answers have that the newest profile does not say
                             (docs/new-release.md)
  advisories [REPOSITORY]    take the copy of RustSec's advisories anew: supply/advisories (docs/supply.md)
  steps                      list the steps of `test`
  help                       print this
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Fallible {
    let Some((command, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(());
    };
    match (*command, rest) {
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        ("steps", []) => {
            steps::list();
            Ok(())
        }
        ("setup", []) => setup::for_tests(&Workspace::discover()?),
        ("tables", []) => tables::write(&Workspace::discover()?),
        ("cases", [count]) => cases::print(&Workspace::discover()?, count.parse()?),
        ("instructions", []) => {
            let workspace = Workspace::discover()?;
            setup::for_counting(&workspace)?;
            instructions::write(&workspace)
        }
        ("record", []) => vectors::record(&Workspace::discover()?),
        ("release", options) => {
            let options = release::Options::parse(options)?;
            release::report(&Workspace::discover()?, &options)
        }
        ("advisories", []) => supply::refresh(&Workspace::discover()?, supply::DATABASE),
        ("advisories", [from]) => supply::refresh(&Workspace::discover()?, from),
        ("build", []) => {
            let workspace = Workspace::discover()?;
            setup::for_page(&workspace)?;
            page::build(&workspace)
        }
        ("dist", []) => {
            let workspace = Workspace::discover()?;
            setup::for_page(&workspace)?;
            page::build(&workspace)?;
            js::build(&workspace)?;
            dist::pack(&workspace)
        }
        ("js", []) => {
            let workspace = Workspace::discover()?;
            setup::for_page(&workspace)?;
            js::build(&workspace)
        }
        ("serve", options) => {
            let options = page::ServeOptions::parse(options)?;
            let workspace = Workspace::discover()?;
            setup::for_page(&workspace)?;
            page::serve(&workspace, &options)
        }
        ("test", names) => {
            let chosen = steps::choose(names)?;
            let workspace = Workspace::discover()?;
            steps::run_all(&workspace, &chosen)
        }
        _ => Err(format!("unknown: `cargo xtask {}`\n\n{HELP}", arguments.join(" ")).into()),
    }
}
