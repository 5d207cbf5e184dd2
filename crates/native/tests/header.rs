//! The header for C is the one that cbindgen makes. `KVX_WRITE_HEADER=1 cargo test -p kv-native --test header` writes it.

use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config, DocumentationStyle, EnumConfig, Language, RenameRule, Style};

const TOP: &str = "\
/* The KV cache's plan, for C and C++: what vLLM would do with it, and where every layer's pages lie.
 * Made by cbindgen of crates/native/src/ffi/; do not edit. examples/allocate.c allocates by it. */";

#[test]
fn the_header_is_what_the_source_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = Config {
        language: Language::C,
        style: Style::Both,
        header: Some(TOP.to_owned()),
        include_guard: Some("KVX_H".to_owned()),
        cpp_compat: true,
        documentation_style: DocumentationStyle::C99,
        enumeration: EnumConfig {
            rename_variants: RenameRule::ScreamingSnakeCase,
            prefix_with_name: true,
            ..EnumConfig::default()
        },
        ..Config::default()
    };
    let made = Builder::new()
        .with_config(config)
        .with_src(folder.join("src/ffi/types.rs"))
        .with_src(folder.join("src/ffi/mod.rs"))
        .generate()
        .expect("a header");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let path = folder.join("include/kvx.h");
    if std::env::var_os("KVX_WRITE_HEADER").is_some() {
        fs::write(&path, &text).expect("written");
    }
    let checked_in = fs::read_to_string(&path).expect("a header that is checked in");
    assert!(
        checked_in == text,
        "include/kvx.h is stale: see the head of this test"
    );
    for function in [
        "kvx_resolve",
        "kvx_plan_pool",
        "kvx_plan_layer",
        "kvx_plan_free",
    ] {
        assert!(text.contains(&format!(" {function}(")), "{function}");
    }
}
