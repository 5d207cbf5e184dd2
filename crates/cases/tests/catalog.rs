//! The catalog says what the real files say.

use std::fs;
use std::path::Path;

use kv_cases::parse_config;
use kv_resolver::catalog::MODELS;
use kv_resolver::model::Model;

#[test]
fn every_entry_gives_the_facts_of_the_real_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models");
    let mut modelled = 0;
    for entry in &MODELS {
        let file = folder.join(format!("{}.json", entry.id.replacen('/', "--", 1)));
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", entry.id));
        let real = Model::from_config(&parse_config(&text).unwrap());
        let small = Model::from_config(&parse_config(entry.config_json).unwrap());
        assert_eq!(small, real, "{}", entry.id);
        modelled += usize::from(real.is_ok());
    }
    assert!(modelled >= 60, "only {modelled} models have rules");
}

#[test]
fn no_real_file_is_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models");
    let files = fs::read_dir(folder).unwrap().count();
    assert_eq!(files, MODELS.len());
}
