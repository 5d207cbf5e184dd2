//! `kvx`: the resolver on the command line.

fn main() {}
