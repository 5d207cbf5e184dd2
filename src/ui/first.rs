//! The answer to the page's first question, as it is built into the page: it is seen before the program is there.

use std::sync::Arc;
use std::{env, fs};

use kv_resolver::standing::Signature;

use super::grid::Drawing;
use super::tools::tools;
use super::verdict::sentence;
use crate::catalog::tests::shelf;
use crate::input::Input;
use crate::page::Page;
use crate::record::Record;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/public/first.html");

fn html() -> String {
    let page = Page::new(&Input::default(), &shelf(), None);
    let answers = page.answers.unwrap();
    let record = Record::parse(include_str!("../../public/record.json")).unwrap();
    let kind = Signature::of(&answers.answer.request()).unwrap();
    let table = Drawing::new(Arc::clone(&answers.grid), Some((&record, &kind))).html();
    let sentence = sentence(&answers.answer).into_string();
    [
        "<div class=\"verdict\">",
        &sentence,
        "</div><div class=\"layout\"><section class=\"controls\"></section><div class=\"results early\">\
         <section class=\"matrix\"><div>",
        &tools(Some(&answers.grid)),
        "</div><div class=\"scroll\"><table>",
        &table,
        "</table></div></section></div></div>\n",
    ]
    .concat()
    // so that a change shows as the rows that changed
    .replace("<tr", "\n<tr")
}

#[test]
fn the_first_answer_that_is_built_in_is_the_answer() {
    let html = html();
    // `cargo xtask record` writes it
    if env::var_os("KV_WRITE_FIRST_ANSWER").is_some() {
        fs::write(FILE, &html).unwrap();
    }
    let file = fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        file == html,
        "public/first.html is of other answers: `cargo xtask record` writes it"
    );
}
