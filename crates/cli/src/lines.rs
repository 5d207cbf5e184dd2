//! `kvx resolve`: cases in, results out, one a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use kv_cases::{answer, malformed_line, parse_case, result_json};
use kv_resolver::standing::Signature;

use crate::Exit;

/// Longer lines are not read as cases. The largest config.json has 90 kB.
const MOST_LINE_BYTES: u64 = 64 << 20;

/// Answers every line of a file, or of standard input.
pub fn resolve(file: Option<&String>) -> io::Result<Exit> {
    let out = BufWriter::new(io::stdout().lock());
    match file.map(String::as_str) {
        None | Some("-") => stream(BufReader::new(io::stdin()), out),
        Some(path) => {
            let file = File::open(path)
                .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
            stream(BufReader::new(file), out)
        }
    }
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

fn stream(mut input: BufReader<impl Read>, mut out: impl Write) -> io::Result<Exit> {
    let mut exit = Exit::Resolved;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = input
            .by_ref()
            .take(MOST_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        let too_long = read as u64 == MOST_LINE_BYTES && line.last() != Some(&b'\n');
        if too_long {
            skip_line(&mut input)?;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match str::from_utf8(&line) {
            _ if too_long => {
                malformed_line(number, &format!("longer than {MOST_LINE_BYTES} bytes"))
            }
            Ok(text) => answer(text, number),
            Err(_) => malformed_line(number, "not UTF-8"),
        };
        exit = exit.and(if answer.is_malformed() {
            Exit::Usage
        } else {
            Exit::of(answer.outcome())
        });
        writeln!(out, "{}", result_json(&answer.id, &answer.result))?;
        // whoever asks one case at a time waits for each answer
        if input.buffer().is_empty() {
            out.flush()?;
        }
    }
    out.flush()?;
    Ok(exit)
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(input: &[u8]) -> (Exit, Vec<serde_json::Value>) {
        let mut out = Vec::new();
        let exit = stream(BufReader::new(input), &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        (
            exit,
            lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        )
    }

    const CASE: &str = r#"{"id":"a","model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"tensor_parallel_size":8}}"#;

    #[test]
    fn every_line_gets_its_answer_in_order() {
        let input = format!("{CASE}\n\nnot json\n[]\n{CASE}\n");
        let (exit, results) = run(input.as_bytes());
        assert_eq!(results.len(), 4);
        assert_eq!(results[0]["ok"], true);
        assert_eq!(results[1]["ok"], false);
        let error = results[1]["error"].as_str().unwrap();
        assert!(error.starts_with("line 3: not JSON"), "{error}");
        assert_eq!(results[3]["id"], "a");
        assert_eq!(exit, Exit::Usage);
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error_of_their_line() {
        let (_, results) = run(b"\xff\xfe\n");
        assert_eq!(results[0]["error"], "line 1: not UTF-8");
        assert_eq!(results[0]["stage"], "args");
    }

    #[test]
    fn the_exit_code_is_the_worst_case() {
        assert_eq!(run(CASE.as_bytes()).0, Exit::Resolved);
        let refused = CASE.replace("\"tensor", "\"kv_cache_dtype\":\"bfloat16\",\"tensor");
        assert_eq!(run(refused.as_bytes()).0, Exit::Refused);
        let unmodelled = CASE.replace("\"tensor", "\"kv_transfer_config\":{},\"tensor");
        assert_eq!(
            run(format!("{refused}\n{unmodelled}").as_bytes()).0,
            Exit::Unmodelled
        );
    }
}
