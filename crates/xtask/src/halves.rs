//! Makes two halves of the built page's program, packed, and a page that starts with the first.

use std::fs;
use std::path::Path;

use kv_split::Rooms;
use kv_unpack::pack;

use crate::wasm;
use crate::workspace::{Fallible, Workspace, empty_folder, run};

/// What goes second: rooms (module paths) of which the page runs nothing until it answers. A call into one of them from
/// the first half still works before the second is here; it waits. `cargo xtask test weight` tells what the halves weigh.
const SECOND: &[&str] = &[
    "kv_paste",
    "kv_resolver",
    "kv_explorer::address::embedded",
    "kv_explorer::address::pinned",
    "kv_explorer::address::written",
    "kv_explorer::answer",
    "kv_explorer::answers",
    "kv_explorer::asked",
    "kv_explorer::chart",
    "kv_explorer::export",
    "kv_explorer::grid",
    "kv_explorer::page",
    "kv_explorer::pool",
    "kv_explorer::record",
    "kv_explorer::ui::changes::one",
    "kv_explorer::reading",
    "kv_explorer::ui::chart",
    "kv_explorer::ui::clicks::on_click",
    "kv_explorer::ui::detail::from_the_gpu",
    "kv_explorer::ui::detail::resolved",
    "kv_explorer::ui::log",
    "kv_explorer::ui::paste::told",
    "kv_explorer::ui::taken_apart",
];

/// But for these, of which the controls are made.
const FIRST: &[&str] = &[
    "<kv_explorer::page::Page>::error_of",
    "<kv_resolver::error::Outcome>::as_str",
    "<kv_resolver::error::Outcome>::meaning",
    "<kv_resolver::speculation::Method>::as_str",
    "kv_explorer::asked::flag_value",
    "kv_resolver::args",
    "kv_resolver::backend::registry",
    "kv_resolver::catalog",
    "kv_resolver::dtype",
    "kv_resolver::flag",
    "kv_resolver::gpu",
    "kv_resolver::python::lax_int",
    "kv_resolver::release",
    "kv_resolver::units",
    "kv_resolver::value",
];

/// The name of the program, in file names.
const NAME: &str = "kv-explorer";

/// What the page shows before its program is there, where the first answer is not built into it.
const AWAITED: &str = "<p class=sentence>Loading the rules …</p>";

/// What the page may do: run what lies beside it, and ask only there. Bars have their widths in `style` attributes.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    style-src-attr 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// Replaces the program that Trunk has put into dist/ by its halves.
pub fn split(workspace: &Workspace) -> Fallible {
    let folder = workspace.target.join("halves");
    empty_folder(&folder)?;
    let linked = wasm::linked(workspace, NAME)?;
    let bare = wasm::bare(&linked, &folder, NAME)?;
    run(wasm::bind(workspace, "web", NAME, &folder)
        .arg("--no-typescript")
        .arg(&bare))?;
    let bound = folder.join(format!("{NAME}_bg.wasm"));
    let whole = folder.join("whole.wasm");
    // by their names functions are told apart
    wasm::optimise(workspace, &bound, &whole, &["-g"])?;
    let halves = kv_split::split(
        &fs::read(&whole)?,
        &linked,
        &Rooms {
            second: SECOND,
            first: FIRST,
        },
    )?;
    let rooms = halves
        .sizes
        .iter()
        .map(|(room, [first, second])| format!("{first:>7} {second:>7} {room}\n"));
    fs::write(folder.join("rooms.txt"), rooms.collect::<String>())?;
    publish(workspace, &folder, &halves)
}

/// Puts the halves into dist/, and the page that starts them.
fn publish(workspace: &Workspace, folder: &Path, halves: &kv_split::Halves) -> Fallible {
    let dist = workspace.dist();
    for entry in fs::read_dir(&dist)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with(NAME) {
            fs::remove_file(&path)?;
        }
    }
    let first = put(&dist, "first", "lzma", &pack(&halves.first, &[])?)?;
    let second = pack(&halves.second, &halves.first)?;
    let second = put(&dist, "second", "lzma", &second)?;
    let unpack = put(&dist, "unpack", "wasm", &unpacker(workspace, folder)?)?;
    let mut program = fs::read_to_string(folder.join(format!("{NAME}.js")))?;
    for (place, name) in halves.imports.iter().enumerate() {
        program = replace_once(&program, &format!(" {name}: "), &format!(" {place}: "))?;
    }
    let program = replace_once(
        &program,
        "\"./kv-explorer_bg.js\": import0,",
        &format!(
            "\"./kv-explorer_bg.js\": import0, {}: {{ {}: () => kvLoadSecondHalf(wasm) }},",
            kv_split::LOAD.0,
            kv_split::LOAD.1
        ),
    )?;
    let program = put(
        &dist,
        NAME,
        "js",
        &minified(workspace, folder, &program, &[])?,
    )?;
    let boot = fs::read_to_string(workspace.root.join("public/boot.js"))?;
    let boot = boot
        .replace("{program}", &program)
        .replace("{first}", &first)
        .replace("{second}", &second)
        .replace("{unpack}", &unpack);
    let unpacking = workspace.root.join("public/unpack.js");
    fs::copy(unpacking, folder.join("unpack.js"))?;
    let bundled = ["--bundle", &format!("--external:./{program}")];
    let boot = minified(workspace, folder, &boot, &bundled)?;
    let boot = put(&dist, "boot", "js", &boot)?;
    let index = dist.join("index.html");
    let page = without_trunks_start(&fs::read_to_string(&index)?)?;
    let start = format!(
        "<script type=module src=./{boot}></script><link rel=modulepreload href=./{program}>\
         <link rel=preload as=fetch crossorigin href=./{unpack}>\
         <link rel=preload as=fetch crossorigin href=./{first}></head>"
    );
    let page = replace_once(&page, "</head>", &start)?;
    let policy = format!(
        "<meta charset=utf-8><meta http-equiv=Content-Security-Policy content=\"{POLICY}\">"
    );
    let page = replace_once(&page, "<meta charset=utf-8>", &policy)?;
    let answer = fs::read_to_string(workspace.root.join("public/first.html"))?;
    let page = replace_once(&page, AWAITED, answer.trim_end())?;
    fs::write(&index, page)?;
    Ok(())
}

/// Builds the module that unpacks the halves in the browser.
fn unpacker(workspace: &Workspace, folder: &Path) -> Fallible<Vec<u8>> {
    let bare = wasm::library(workspace, "kv-unpack", folder)?;
    let small = folder.join("unpack.wasm");
    wasm::optimise(workspace, &bare, &small, &[])?;
    Ok(fs::read(small)?)
}

/// A module's text, as short as it gets.
fn minified(
    workspace: &Workspace,
    folder: &Path,
    text: &str,
    options: &[&str],
) -> Fallible<Vec<u8>> {
    let (from, to) = (folder.join("whole.js"), folder.join("short.js"));
    fs::write(&from, text)?;
    let outfile = format!("--outfile={}", to.display());
    run(workspace
        .command("esbuild")
        .args(["--minify", "--format=esm", "--log-level=warning", &outfile])
        .args(options)
        .arg(&from))?;
    Ok(fs::read(&to)?)
}

/// Writes a file that is named by what it holds, so that it can be kept by browsers for good.
fn put(dist: &Path, name: &str, extension: &str, bytes: &[u8]) -> Fallible<String> {
    // FNV-1a: it only has to differ
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let name = format!("{name}-{hash:016x}.{extension}");
    fs::write(dist.join(&name), bytes)?;
    Ok(name)
}

/// The page without the script and the links with which Trunk starts the whole program.
fn without_trunks_start(page: &str) -> Fallible<String> {
    let program = format!("href=./{NAME}-");
    let page = without(
        page,
        "<script type=module>",
        "<script type=module>",
        "</script>",
    )?;
    let page = without(&page, &program, "<link", ">")?;
    without(&page, &program, "<link", ">")
}

/// The page without the element that has `what` in it, from `start` to `end`.
fn without(page: &str, what: &str, start: &str, end: &str) -> Fallible<String> {
    let missing = || format!("Trunk's page has no {start} with {what}");
    let at = page.find(what).ok_or_else(missing)?;
    let from = page[..at + what.len()].rfind(start).ok_or_else(missing)?;
    let to = page[at..].find(end).ok_or_else(missing)? + at + end.len();
    Ok(page[..from].to_owned() + &page[to..])
}

/// Replaces what must be there exactly once.
fn replace_once(text: &str, from: &str, to: &str) -> Fallible<String> {
    match text.matches(from).count() {
        1 => Ok(text.replacen(from, to, 1)),
        count => Err(format!("`{from}` is there {count} times, not once").into()),
    }
}
