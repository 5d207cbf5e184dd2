//! A config.json from the user's disk. It is read here, in the browser, and goes nowhere.

use wasm_bindgen_futures::JsFuture;
use web_sys::js_sys::Uint8Array;
use web_sys::{File, FileList};

use crate::asked::{MOST_PASTED_BYTES, too_large};

/// The one to read of the files that were dropped together; none if there is none.
///
/// # Errors
/// That it cannot be told.
pub fn config_of(files: &FileList) -> Result<Option<File>, String> {
    let all = || (0..files.length()).filter_map(|index| files.get(index));
    match files.length() {
        0 | 1 => Ok(files.get(0)),
        count => match all().find(|file| file.name() == "config.json") {
            Some(file) => Ok(Some(file)),
            None => Err(format!(
                "These are {count} files, and none is called config.json. Drop that one alone."
            )),
        },
    }
}

/// The file's text.
///
/// # Errors
/// Why it is none.
pub async fn read(file: &File) -> Result<String, String> {
    let name = file.name();
    // before any of it is read; a browser's sizes are whole numbers
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let size = file.size() as u64;
    if size > MOST_PASTED_BYTES as u64 {
        return Err(format!("{name}: {}", too_large(size)));
    }
    let bytes = JsFuture::from(file.array_buffer()).await;
    // a folder has a name, but nothing to read
    let bytes = bytes.map_err(|_| format!("{name} cannot be read: it is a folder, or gone."))?;
    let text = String::from_utf8(Uint8Array::new(&bytes).to_vec());
    match text {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) | Err(_) => Err(format!(
            "{name} is not text. A config.json is; it lies beside the model's weights."
        )),
    }
}
