//! `kvx`: the resolver on the command line.
use std::io::BufRead as _;
fn main() {
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        println!("{}", kv_cases::resolve_line(&line.unwrap(), number + 1));
    }
}
