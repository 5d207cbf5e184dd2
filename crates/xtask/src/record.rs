//! What vLLM's recorded answers cover: `public/record.json`, by which the page says on what an answer stands, and
//! `public/accuracy.html`, for people. Every one of them is equal, or the test that counts them fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::workspace::{Fallible, Workspace};

type Counts = BTreeMap<String, usize>;

/// Answers by release, architecture and what sets them apart within.
#[derive(Default)]
pub struct Record {
    releases: BTreeMap<Release, BTreeMap<String, Counts>>,
}

/// In the order of versions.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Release(Vec<u32>, String);

impl Record {
    /// Adds lines of `kvx signatures`.
    pub fn count(&mut self, signatures: &str) {
        for line in signatures.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let [release, architecture, within] = parts[..] else {
                continue;
            };
            let numbers = release.split('.').filter_map(|part| part.parse().ok());
            let release = Release(numbers.collect(), release.to_owned());
            let of_release = self.releases.entry(release).or_default();
            let counts = of_release.entry(architecture.to_owned()).or_default();
            *counts.entry(within.to_owned()).or_default() += 1;
        }
    }

    fn files(&self, workspace: &Workspace) -> [(PathBuf, String); 2] {
        let public = workspace.root.join("public");
        [
            (public.join("record.json"), self.json()),
            (public.join("accuracy.html"), self.page()),
        ]
    }

    /// Files that say something else.
    pub fn stale(&self, workspace: &Workspace) -> Vec<String> {
        let files = self.files(workspace).into_iter();
        files
            .filter(|(path, text)| fs::read_to_string(path).ok().as_deref() != Some(text))
            .map(|(path, _)| path.display().to_string())
            .collect()
    }

    /// Writes both.
    pub fn write(&self, workspace: &Workspace) -> Fallible {
        for (path, text) in self.files(workspace) {
            fs::write(&path, text)?;
            println!("wrote {}", path.strip_prefix(&workspace.root)?.display());
        }
        Ok(())
    }

    /// An object of each release's architectures, and of the GPUs' within.
    fn json(&self) -> String {
        type Kinds<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;
        let mut releases: BTreeMap<&str, BTreeMap<&str, Kinds>> = BTreeMap::new();
        for (release, architectures) in &self.releases {
            for (architecture, counts) in architectures {
                for (within, count) in counts {
                    let (arch, kind) = within.split_once(' ').unwrap_or((within, ""));
                    let of_release = releases.entry(&release.1).or_default();
                    let of_arch = of_release.entry(architecture).or_default();
                    of_arch.entry(arch).or_default().insert(kind, *count);
                }
            }
        }
        // counts and short texts: there is nothing that JSON could not hold
        serde_json::to_string(&releases).unwrap_or_default() + "\n"
    }

    /// A page with the counts.
    fn page(&self) -> String {
        let all: usize = self
            .releases
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(Counts::values)
            .sum();
        let known = self.releases.values().flat_map(BTreeMap::keys);
        let architectures: BTreeSet<&str> = known.map(String::as_str).collect();
        let all = thousands(all);
        let mut out = String::from(HEAD);
        // writing to a String cannot fail, here and below
        let _ = write!(
            out,
            "<p><b>{all}</b> of vLLM’s own answers, of {} releases and {} architectures, are compared field by field: \
             layers, groups, strides and offsets, blocks, tokens, concurrency, and errors to the letter. <b>All {all} are \
             equal</b>, on the command line and in a browser: a build in which one differs is not published.</p>\n\
             <div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Counts\"><table><thead><tr><th scope=\"col\">Architecture</th>",
            self.releases.len(),
            architectures.len()
        );
        for release in self.releases.keys().rev() {
            let _ = write!(out, "<th scope=\"col\">{}</th>", release.1);
        }
        out.push_str("</tr></thead><tbody>\n");
        for name in &architectures {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(name));
            for architectures in self.releases.values().rev() {
                let count: usize = architectures
                    .get(*name)
                    .map_or(0, |counts| counts.values().sum());
                let shown = if count == 0 {
                    "–".to_owned()
                } else {
                    thousands(count)
                };
                let _ = write!(out, "<td>{shown}</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str(FOOT);
        out
    }
}

/// `6,475`
fn thousands(count: usize) -> String {
    match count / 1000 {
        0 => count.to_string(),
        more => format!("{},{:03}", thousands(more), count % 1000),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>What KV Explorer’s answers stand on</title>
<style>
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1180px; padding: 24px clamp(14px, 3vw, 32px); font: 15px/1.55 system-ui, sans-serif; }
p { max-width: 78ch; }
.scroll { overflow-x: auto; background: linear-gradient(Canvas 0 0) 100% / 24px 100% no-repeat local, linear-gradient(to left, #8888, #0000) 100% / 12px 100% no-repeat; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 9px; border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); text-align: right; white-space: nowrap; }
tbody th, thead th:first-child { text-align: left; font-weight: 500; }
:focus-visible { outline: 2px solid; outline-offset: 2px; }
</style>
</head>
<body>
<p><a href=\"./\">KV Explorer</a></p>
<h1>What the answers stand on</h1>
<p>vLLM’s own code is the specification. It runs here without a GPU and prints what it decides; its answers are kept, and
every test compares them with KV Explorer’s.</p>
";

const FOOT: &str = "</tbody></table></div>
<p>An answer on the page is called <b>verified</b> where such answers of vLLM are of its release, architecture, SM
generation, cache dtype and kind (pipeline stages, context, data or expert parallelism, a chosen backend, a drafter);
sizes such as lengths, pools and numbers of GPUs set no kind apart. It is <b>derived</b> where the rules are modelled and
this combination is in none of them; <b>unverified</b> where nothing up to the plan refuses it but vLLM declares or checks
otherwise later; <b>unmodelled</b> where there is no rule. Nothing of it is about speed, or about what a kernel does on a
GPU. Estimates of what a start-up leaves for the KV cache are intervals and are not counted here: no accuracy is claimed
of them.</p>
<p>Made by <code>cargo xtask record</code> from <code>tests/vectors</code>.</p>
</body>
</html>
";
