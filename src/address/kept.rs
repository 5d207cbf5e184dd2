//! Parameters that are not this version's: other spellings are read as ours, unknown ones stay in the address.

/// Read by `public/early.js`: a part alone, for another page to show, and in which colours.
const OF_EMBEDDING: [(&str, &str); 2] = [
    ("embed", "matrix, cell, chart or layout"),
    ("theme", "light or dark"),
];

/// As much of other versions' parameters as is kept.
const MOST_KEPT: usize = 8;
const MOST_KEPT_BYTES: usize = 200;

/// Spellings that people write, and what they are here.
const SPELLINGS: [(&str, &str); 9] = [
    ("tp", "tensor_parallel_size"),
    ("pp", "pipeline_parallel_size"),
    ("dp", "data_parallel_size"),
    ("dcp", "decode_context_parallel_size"),
    ("context", "max_model_len"),
    ("dtype_kv", "kv_cache_dtype"),
    ("pool", "pool_gib"),
    ("version", "release"),
    ("vllm", "release"),
];

/// A parameter by the name that it has here: flags may be written as on the command line.
pub fn spelling(key: &str) -> String {
    let bare = key.trim_start_matches('-');
    if let Some((_, name)) = SPELLINGS.iter().find(|(written, _)| *written == bare) {
        return (*name).to_owned();
    }
    let name = bare.replace('-', "_");
    // the attributes of HTML have no capitals
    if name.starts_with("vllm_") {
        name.to_ascii_uppercase()
    } else {
        name
    }
}

/// Whether the parameter is of those that others put into addresses, of which nobody needs to be told.
pub fn is_of_others(key: &str) -> bool {
    key.starts_with("utm_") || ["fbclid", "gclid", "ref"].contains(&key)
}

/// Whether the parameter is for embedding, which is no part of the question.
///
/// # Errors
/// What it may be, where it is nothing of that.
pub fn of_embedding(key: &str, value: &str) -> Result<bool, String> {
    let Some((_, words)) = OF_EMBEDDING.iter().find(|(name, _)| *name == key) else {
        return Ok(false);
    };
    let mut known = words.split([',', ' ']).filter(|word| *word != "or");
    if known.any(|word| word == value && !value.is_empty()) {
        Ok(true)
    } else {
        Err(["takes ", words].concat())
    }
}

/// Keeps a parameter, as it is written, unless it is too long or there are too many.
pub fn keep(kept: &mut Vec<String>, pair: &str) -> bool {
    let is_plain = pair
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"#<>\"'`".contains(&byte));
    let may = is_plain && pair.len() <= MOST_KEPT_BYTES && kept.len() < MOST_KEPT;
    if may && !kept.iter().any(|known| known == pair) {
        kept.push(pair.to_owned());
    }
    may
}
