//! Cases in, results out, one a line and in their order: answered on every core, with no more of them at once than is
//! bounded, however slowly the results are read.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use kv_cases::{Answer, MOST_LINE_BYTES, answer, malformed_line, write_result};

use crate::Exit;

/// What is read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Lines that are handed over together: some milliseconds of work.
const CHUNK_LINES: usize = 32;
/// And bytes of them, but for the last line.
const CHUNK_BYTES: usize = 256 << 10;
/// After a longer chunk nothing is read until it is answered: a line takes several times its length to be read as a case.
const LONG_CHUNK_BYTES: usize = 1 << 20;
/// Chunks that are read and not yet written, for each thread.
const CHUNKS_A_THREAD: usize = 4;

/// Whole lines that follow one another.
struct Chunk {
    /// Without the line that is too long.
    text: Vec<u8>,
    /// The number of the first line, from 1.
    first: usize,
    /// Whether there is one more, which was too long to be kept.
    ends_too_long: bool,
}

/// What a chunk comes to.
struct Results {
    lines: Vec<u8>,
    exit: Exit,
}

struct Job {
    chunk: Chunk,
    results: SyncSender<Results>,
    /// Dropped when the chunk is answered.
    _held: Option<Sender<()>>,
}

/// Results in the order of their cases; an error ends them.
type Pending = io::Result<Receiver<Results>>;

/// Answers every line.
pub fn stream(input: impl Read + Send + 'static, mut out: impl Write) -> io::Result<Exit> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let (jobs, waiting) = sync_channel(threads);
    let (pending, in_order) = sync_channel(threads * CHUNKS_A_THREAD);
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..threads {
        let waiting = Arc::clone(&waiting);
        thread::spawn(move || work(&waiting));
    }
    // not waited for: it may be reading still when nobody reads the results any more
    thread::spawn(move || read(input, &jobs, &pending));

    let mut exit = Exit::Resolved;
    for results in in_order {
        let Ok(results) = results?.recv() else {
            return Err(io::Error::other("a thread that answers cases has ended"));
        };
        exit = exit.and(results.exit);
        out.write_all(&results.lines)?;
    }
    out.flush()?;
    Ok(exit)
}

/// Reads until the end, an error, or until nobody asks for more.
fn read(input: impl Read, jobs: &SyncSender<Job>, pending: &SyncSender<Pending>) {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut next_line = 1;
    loop {
        let chunk = match read_chunk(&mut input, &mut next_line) {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return,
            Err(error) => {
                // whoever would be told may be gone
                let _ = pending.send(Err(error));
                return;
            }
        };
        let (results, to_come) = sync_channel(1);
        let (held, answered) = channel();
        let is_long = chunk.text.len() > LONG_CHUNK_BYTES;
        let job = Job {
            chunk,
            results,
            _held: is_long.then_some(held),
        };
        if pending.send(Ok(to_come)).is_err() || jobs.send(job).is_err() {
            return;
        }
        if is_long {
            // an error, for nothing is ever sent: the other end has been dropped
            let _ = answered.recv();
        }
    }
}

/// As many lines as there are at hand, up to a chunk; at least one, for which it waits.
fn read_chunk(
    input: &mut BufReader<impl Read>,
    next_line: &mut usize,
) -> io::Result<Option<Chunk>> {
    let first = *next_line;
    let mut text = Vec::new();
    let mut ends_too_long = false;
    for _ in 0..CHUNK_LINES {
        let before = text.len();
        let read = input
            .by_ref()
            .take(MOST_LINE_BYTES as u64)
            .read_until(b'\n', &mut text)?;
        if read == 0 {
            break;
        }
        *next_line += 1;
        if read == MOST_LINE_BYTES && text.last() != Some(&b'\n') {
            text.truncate(before);
            ends_too_long = true;
            skip_line(input)?;
            break;
        }
        // whoever asks one case at a time waits for each answer
        if text.len() >= CHUNK_BYTES || !input.buffer().contains(&b'\n') {
            break;
        }
    }
    Ok((*next_line > first).then_some(Chunk {
        text,
        first,
        ends_too_long,
    }))
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

/// Answers one chunk after the other.
fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        // nobody may be left to read it: the next job tells
        let _ = job.results.send(answer_chunk(&job.chunk));
    }
}

fn answer_chunk(chunk: &Chunk) -> Results {
    let mut results = Results {
        lines: Vec::new(),
        exit: Exit::Resolved,
    };
    let lines = chunk.text.split_inclusive(|byte| *byte == b'\n');
    let mut number = chunk.first;
    for line in lines {
        if !line.trim_ascii().is_empty() {
            results.push(&match str::from_utf8(line) {
                Ok(text) => answer(text, number),
                Err(_) => malformed_line(number, "not UTF-8"),
            });
        }
        number += 1;
    }
    if chunk.ends_too_long {
        let why = format!("longer than {MOST_LINE_BYTES} bytes");
        results.push(&malformed_line(number, &why));
    }
    results
}

impl Results {
    fn push(&mut self, answer: &Answer) {
        self.exit = self.exit.and(if answer.is_malformed() {
            Exit::Usage
        } else {
            Exit::of(answer.outcome())
        });
        write_result(&mut self.lines, &answer.id, &answer.result);
        self.lines.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(input: &[u8]) -> (Exit, Vec<serde_json::Value>) {
        let mut out = Vec::new();
        let exit = stream(io::Cursor::new(input.to_vec()), &mut out).unwrap();
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
    fn answers_of_many_chunks_keep_their_order_and_their_lines_numbers() {
        // of very different lengths, so that later ones are answered first
        let lines: Vec<String> = (0..5000)
            .map(|id| match id % 64 {
                0 => CASE.replace("\"a\"", &id.to_string()),
                1 => format!("{{\"id\":{id},\"padding\":\"{}\"}}", "x".repeat(30_000)),
                _ => format!("{{\"id\":{id},\"gpu\":7}}"),
            })
            .collect();
        let (_, results) = run(lines.join("\n").as_bytes());
        assert_eq!(results.len(), lines.len());
        for (id, result) in results.iter().enumerate() {
            assert_eq!(result["id"], id);
            if id % 64 != 0 {
                let error = result["error"].as_str().unwrap();
                assert!(error.starts_with(&format!("line {}: ", id + 1)), "{error}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error_of_their_line() {
        let (_, results) = run(b"\xff\xfe\n");
        assert_eq!(results[0]["error"], "line 1: not UTF-8");
        assert_eq!(results[0]["stage"], "args");
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_of_its_line() {
        let mut input = b"[]\n".to_vec();
        input.resize(input.len() + MOST_LINE_BYTES + 1, b' ');
        input.extend(b"\n[]\n");
        let (exit, results) = run(&input);
        assert_eq!(results.len(), 3);
        assert_eq!(results[1]["error"], "line 2: longer than 1310720 bytes");
        let error = results[2]["error"].as_str().unwrap();
        assert!(error.starts_with("line 3: expected an object"), "{error}");
        assert_eq!(exit, Exit::Usage);
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

    #[test]
    fn what_is_read_before_an_error_is_answered() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("no more"))
            }
        }
        let mut out = Vec::new();
        let input = io::Cursor::new(b"[]\n[]\n".to_vec()).chain(Broken);
        let error = stream(input, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "no more");
        assert_eq!(str::from_utf8(&out).unwrap().lines().count(), 2);
    }
}
