//! What answers cost in instructions, which do not depend on how busy a machine is: callgrind counts those of our own
//! program for each question of crates/cases/benches/questions, and how often it asks for memory. The C library's are
//! left out, for they differ from one version and processor to the next.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::workspace::{Fallible, Workspace, output, run};

/// What was counted last, by name.
const COUNTED: &str = "crates/cases/benches/instructions.txt";
/// How much more fails, in hundredths.
const TOLERANCE: u64 = 2;
/// Another processor has other instructions.
pub const HAS_COUNTS: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// What one question costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    instructions: u64,
    allocations: u64,
}

/// Counts, and fails where a question costs more than what is written.
pub fn check(workspace: &Workspace) -> Fallible {
    if !HAS_COUNTS {
        println!("the counts are those of x86-64 Linux: nothing is compared here");
        return Ok(());
    }
    let written = parse(&fs::read_to_string(workspace.root.join(COUNTED))?)?;
    let counted = count(workspace)?;
    print!("{}", table(&counted, &written));
    let wrong = wrong(&counted, &written);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}; if it must be, `cargo xtask instructions` rewrites {COUNTED}",
        wrong.join("; ")
    )
    .into())
}

/// Counts, and writes what it has counted.
pub fn write(workspace: &Workspace) -> Fallible {
    if !HAS_COUNTS {
        return Err("the counts are those of x86-64 Linux".into());
    }
    let path = workspace.root.join(COUNTED);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let counted = count(workspace)?;
    print!("{}", table(&counted, &parse(&before)?));
    let mut text = String::new();
    for (name, cost) in &counted {
        writeln!(text, "{name}\t{}\t{}", cost.instructions, cost.allocations)?;
    }
    fs::write(path, text)?;
    Ok(())
}

type Costs = Vec<(String, Cost)>;

fn count(workspace: &Workspace) -> Fallible<Costs> {
    let program = build(workspace)?;
    let names = output(&mut workspace.command(&program))
        .ok_or_else(|| format!("{} failed", program.display()))?;
    let folder = workspace.target.join("instructions");
    fs::create_dir_all(&folder)?;
    names
        .lines()
        .map(|name| Ok((name.to_owned(), ask(workspace, &program, name, &folder)?)))
        .collect()
}

/// Builds the questions; where the program is.
fn build(workspace: &Workspace) -> Fallible<PathBuf> {
    const BENCH: [&str; 5] = ["bench", "--package", "kv-cases", "--bench", "instructions"];
    run(workspace.cargo(BENCH).arg("--no-run"))?;
    let messages = output(
        workspace
            .cargo(BENCH)
            .args(["--no-run", "--message-format=json"]),
    );
    messages
        .as_deref()
        .unwrap_or_default()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "instructions")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or("cargo names no program of the bench `instructions`".into())
}

/// Has callgrind count one question. What it wrote stays, for `callgrind_annotate`.
fn ask(workspace: &Workspace, program: &Path, name: &str, folder: &Path) -> Fallible<Cost> {
    let out = folder.join(format!("{}.callgrind", name.replace(' ', "-")));
    let mut command = workspace.command("valgrind");
    command
        .args(["--tool=callgrind", "--quiet", "--compress-strings=no"])
        .args(["--collect-atstart=no", "--toggle-collect=*kv_counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg(name);
    let allocations = output(&mut command)
        .and_then(|printed| printed.parse().ok())
        .ok_or_else(|| format!("valgrind failed on the question {name:?}"))?;
    let program = program.file_name().ok_or("a program without a name")?;
    let instructions = own_instructions(&fs::read_to_string(&out)?, &program.display().to_string());
    if instructions == 0 {
        return Err(format!(
            "callgrind has counted nothing of {name:?}: see {}",
            out.display()
        )
        .into());
    }
    Ok(Cost {
        instructions,
        allocations,
    })
}

/// The instructions of the program itself in what callgrind wrote.
fn own_instructions(callgrind: &str, program: &str) -> u64 {
    let mut instructions = 0;
    let (mut is_own, mut is_call) = (false, false);
    for line in callgrind.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_own = object.rsplit('/').next() == Some(program);
        } else if line.starts_with("calls=") {
            // what the call cost in all is in the next line
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let count = line.split(' ').nth(1).and_then(|count| count.parse().ok());
            if is_own && !is_call {
                instructions += count.unwrap_or(0);
            }
            is_call = false;
        }
    }
    instructions
}

fn parse(text: &str) -> Fallible<Costs> {
    text.lines()
        .map(|line| {
            let mut parts = line.split('\t');
            let mut part = || parts.next().ok_or(format!("{COUNTED}: {line:?}"));
            Ok((
                part()?.to_owned(),
                Cost {
                    instructions: part()?.parse()?,
                    allocations: part()?.parse()?,
                },
            ))
        })
        .collect()
}

fn find(costs: &Costs, name: &str) -> Option<Cost> {
    let mut costs = costs.iter();
    costs
        .find(|(other, _)| other == name)
        .map(|(_, cost)| *cost)
}

/// What is counted beside what is written.
fn table(counted: &Costs, written: &Costs) -> String {
    let mut text = format!(
        "{:36}{:>14}{:>9}{:>14}{:>9}\n",
        "", "instructions", "", "allocations", ""
    );
    for (name, now) in counted {
        let before = find(written, name).unwrap_or(*now);
        let _ = writeln!(
            text,
            "{name:36}{:>14}{:>9}{:>14}{:>9}",
            now.instructions,
            change(now.instructions, before.instructions),
            now.allocations,
            change(now.allocations, before.allocations),
        );
    }
    text
}

#[allow(clippy::cast_precision_loss)] // to be read
fn change(now: u64, before: u64) -> String {
    if now == before {
        return String::new();
    }
    format!("{:+.1} %", (now as f64 / before as f64 - 1.0) * 100.0)
}

/// Which questions cost more than is written and tolerated, or are not written or not asked.
fn wrong(counted: &Costs, written: &Costs) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, now) in counted {
        let Some(before) = find(written, name) else {
            wrong.push(format!("{name:?} is not written"));
            continue;
        };
        let exceeds = |now: u64, before: u64| now * 100 > before * (100 + TOLERANCE);
        for (what, now, before) in [
            ("instructions", now.instructions, before.instructions),
            ("allocations", now.allocations, before.allocations),
        ] {
            if exceeds(now, before) {
                wrong.push(format!("{name:?} takes {now} {what}, {before} are written"));
            }
        }
    }
    let gone = written
        .iter()
        .filter(|(name, _)| find(counted, name).is_none());
    wrong.extend(gone.map(|(name, _)| format!("{name:?} is written and not asked")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_instructions_are_counted_and_no_others() {
        let text = "\
events: Ir

ob=/target/release/deps/instructions-01
fl=???
fn=kv_counted
0 7
cob=/lib/libc.so.6
cfi=???
cfn=malloc
calls=3 0
0 900
cfn=answer
calls=1 0
0 1000
fn=answer
0 20
+4 30
* 1

ob=/lib/libc.so.6
fn=malloc
0 900
cfn=malloc
calls=5 0
0 2
totals: 1957
";
        assert_eq!(own_instructions(text, "instructions-01"), 58);
    }

    #[test]
    fn more_than_is_tolerated_fails_and_so_does_what_is_missing() {
        let written = parse("plan\t1000\t50\ngone\t1\t1\n").unwrap();
        let counted = |instructions, allocations| {
            let cost = Cost {
                instructions,
                allocations,
            };
            vec![
                ("plan".to_owned(), cost),
                (
                    "gone".to_owned(),
                    Cost {
                        instructions: 1,
                        allocations: 1,
                    },
                ),
            ]
        };
        assert_eq!(wrong(&counted(1020, 51), &written), [""; 0]);
        assert_eq!(wrong(&counted(900, 10), &written), [""; 0]);
        assert_eq!(wrong(&counted(1021, 50), &written).len(), 1);
        assert_eq!(wrong(&counted(1000, 52), &written).len(), 1);
        assert_eq!(wrong(&counted(1000, 50)[..1].to_vec(), &written).len(), 1);
        assert_eq!(wrong(&counted(1000, 50), &Vec::new()).len(), 2);
    }
}
