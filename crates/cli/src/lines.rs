//! `kvx resolve` and what else prints lines.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};

use kv_cases::parse_case;
use kv_resolver::standing::Signature;

use crate::Exit;
use crate::stream::stream;

/// Answers every line of a file, or of standard input.
pub fn resolve(file: Option<&String>) -> io::Result<Exit> {
    // many whole lines are written at once: no buffer but its own
    let out = io::stdout().lock();
    match file.map(String::as_str) {
        None | Some("-") => stream(io::stdin(), out),
        Some(path) => stream(open(path)?, out),
    }
}

/// A file to read; the error names it.
pub fn open(path: &str) -> io::Result<File> {
    let opened = File::open(path).and_then(|file| {
        // a folder opens, and is only refused when it is read
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(file)
    });
    opened.map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// The kind of every case on standard input, tab between its parts.
pub fn signatures() -> io::Result<Exit> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let request = parse_case(&line?).1.ok();
        match request.as_ref().and_then(Signature::of) {
            Some(kind) => writeln!(
                out,
                "{}\t{}\t{}",
                kind.release,
                kind.architecture,
                kind.within()
            )?,
            None => writeln!(out)?,
        }
    }
    out.flush()?;
    Ok(Exit::Resolved)
}

/// Prints a text.
pub fn print(text: &str) -> io::Result<Exit> {
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Resolved)
}
