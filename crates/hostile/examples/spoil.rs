//! Spoils what `cargo fuzz` has gathered, without looking at what it leads to: many times as many inputs as a fuzzer that
//! does, with no nightly compiler. `cargo run --release --package kv-hostile --example spoil -- field 60` for a minute.

use std::panic;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use kv_hostile::Target;

/// As long as a fuzzer's.
const MOST_BYTES: usize = 1 << 12;

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let target = Target::ALL.iter().find(|target| target.name() == name);
    let seconds = args.next().and_then(|seconds| seconds.parse().ok());
    let (Some(target), Some(seconds)) = (target, seconds) else {
        return Err(io::Error::other(
            "expected the name of a target and a number of seconds",
        ));
    };
    let fuzz: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz"]
        .iter()
        .collect();
    let mut inputs = target.seeds();
    if let Ok(corpus) = fs::read_dir(fuzz.join("corpus").join(&name)) {
        let read = |entry: io::Result<fs::DirEntry>| fs::read(entry?.path());
        inputs.extend(corpus.map(read).collect::<io::Result<Vec<_>>>()?);
    }
    let mut rng = fastrand::Rng::new();
    let (start, most) = (Instant::now(), Duration::from_secs(seconds));
    let (mut count, mut good) = (0_u64, 0_u64);
    while count % 256 != 0 || start.elapsed() < most {
        let mut input = inputs[rng.usize(..inputs.len())].clone();
        for _ in 0..=rng.u8(..3) {
            input = target.spoil(&input, rng.u64(..), MOST_BYTES);
        }
        count += 1;
        let Ok(is_good) = panic::catch_unwind(|| target.check(&input)) else {
            let found = fuzz.join("artifacts").join(&name);
            fs::create_dir_all(&found)?;
            let path = found.join(format!("spoilt-{:016x}", rng.u64(..)));
            fs::write(&path, &input)?;
            return Err(io::Error::other(format!(
                "input {count}: {}",
                path.display()
            )));
        };
        good += u64::from(is_good);
    }
    println!("{name}: {count} inputs in {seconds} s, {good} of them came to something");
    Ok(())
}
