//! `cargo xtask`: one place that sets up, serves, builds and tests the project.

fn main() {
    println!("commands: setup, build, serve, test");
}
