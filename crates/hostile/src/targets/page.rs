//! What comes in by the page alone.

use kv_cases::CaseError;
use kv_explorer::address;
use kv_explorer::asked::{flag_value, pasted_config};
use kv_explorer::pool::{AskedPool, gib};
use kv_resolver::Value;

use crate::within;

/// A pasted config.json is what the command line opens.
pub fn reads_the_same(text: &str, opened: &Result<Value, CaseError>) {
    match (
        opened,
        within("pasting a config.json", || pasted_config(text)),
    ) {
        (Ok(opened), Ok(pasted)) => {
            assert_eq!(*opened, pasted.value, "the page reads another config.json");
        }
        (Ok(Value::Object(_)), Err(why)) => panic!("only the page does not read it: {why}"),
        (Err(why), Ok(_)) => panic!("only the page reads it: {}", why.text()),
        (Ok(_) | Err(_), Err(_)) => {}
    }
}

/// An address: the input can be answered, and the address that is written of it says the same.
pub fn address(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let read = within("reading an address", || address::read(&text));
    let input = read.input;
    for (flag, text) in &input.flags {
        assert!(flag_value(*flag, text).is_ok(), "{flag}={text:?}");
    }
    assert!(AskedPool::read(&input.pool_gib).is_ok() && gib(&input.free_gib).is_ok());
    for config in [&input.pasted, &input.drafting.pasted] {
        assert!(config.is_empty() || pasted_config(config).is_ok());
    }
    let written = within("writing an address", || address::write(&input));
    let back = address::read(&written.query);
    if !written.config_left_out && !written.draft_left_out {
        // what is not asked is not written, nor are blanks in a config.json
        assert_eq!(address::write(&back.input), written, "written of {input:?}");
    }
    let pinned = within("a link", || address::pinned(&input));
    if !written.config_left_out && !written.draft_left_out {
        assert_eq!(
            address::read(&pinned).input,
            back.input,
            "by the link {pinned}"
        );
    }
    let html = within("an element", || {
        address::embedded(&input, "https://kv.example/")
    });
    // between two attributes nothing stands but the name of the next
    for text in html.split('"').skip(4).step_by(2) {
        assert!(text.starts_with(' ') || text == "></kv-explorer>", "{html}");
    }
    read.problems.is_empty()
}
