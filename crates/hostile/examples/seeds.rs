//! Writes what `cargo fuzz` starts from: `fuzz/corpus/<target>/` and `fuzz/dictionaries/<target>`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use kv_hostile::Target;

fn main() -> std::io::Result<()> {
    let fuzz: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz"]
        .iter()
        .collect();
    fs::create_dir_all(fuzz.join("dictionaries"))?;
    for &target in Target::ALL {
        let corpus = fuzz.join("corpus").join(target.name());
        fs::create_dir_all(&corpus)?;
        let seeds = target.seeds();
        for (at, seed) in seeds.iter().enumerate() {
            fs::write(corpus.join(format!("seed-{at}")), seed)?;
        }
        let mut dictionary = String::new();
        for word in target.words() {
            dictionary.push('"');
            for byte in word.bytes() {
                match byte {
                    b'"' | b'\\' => {
                        let _ = write!(dictionary, "\\{}", char::from(byte));
                    }
                    b' '..=b'~' => dictionary.push(char::from(byte)),
                    _ => {
                        let _ = write!(dictionary, "\\x{byte:02X}");
                    }
                }
            }
            dictionary.push_str("\"\n");
        }
        fs::write(fuzz.join("dictionaries").join(target.name()), dictionary)?;
        println!(
            "{}: {} seeds, {} words",
            target.name(),
            seeds.len(),
            target.words().len()
        );
    }
    Ok(())
}
