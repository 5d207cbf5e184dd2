//! A kind of layer's anatomy as JSON.

use std::fmt::Write as _;

use super::{LayerAnatomy, Place, Region};
use crate::Resolution;
use crate::layout::KvCacheLayout;

impl Resolution {
    /// All kinds of layers, as a JSON array.
    pub fn anatomy_json(&self) -> String {
        let mut json = Json::default();
        json.open('[');
        for kind in self.anatomy() {
            json.layer(&kind, self);
        }
        json.close(']');
        json.text.push('\n');
        json.text
    }
}

impl LayerAnatomy {
    /// As JSON: sizes in bytes, every field with its offset from the start of a kernel
    /// block of the page.
    pub fn json(&self, resolution: &Resolution) -> String {
        let mut json = Json::default();
        json.layer(self, resolution);
        json.text.push('\n');
        json.text
    }
}

/// JSON under construction, two blanks a level.
#[derive(Default)]
struct Json {
    text: String,
    depth: usize,
}

impl Json {
    /// A new line for the next value, after a comma if it is not the first.
    fn next(&mut self) {
        if self.depth == 0 {
            return;
        }
        if !self.text.ends_with(['{', '[']) {
            self.text.push(',');
        }
        self.line();
    }

    fn line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
    }

    /// Opens an object or an array, as the value of the key before it, if there is one.
    fn open(&mut self, bracket: char) {
        if !self.text.ends_with(": ") {
            self.next();
        }
        self.text.push(bracket);
        self.depth += 1;
    }

    fn close(&mut self, bracket: char) {
        self.depth = self.depth.saturating_sub(1);
        if !self.text.ends_with(['{', '[']) {
            self.line();
        }
        self.text.push(bracket);
    }

    fn key(&mut self, key: &str) {
        self.next();
        self.string(key);
        self.text.push_str(": ");
    }

    fn raw(&mut self, value: &str) {
        self.text.push_str(value);
    }

    fn string(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' | '\\' => {
                    self.text.push('\\');
                    self.text.push(character);
                }
                c if u32::from(c) < 0x20 => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(c));
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn text_of(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    fn optional_text(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text_of(key, value),
            None => self.null(key),
        }
    }

    fn null(&mut self, key: &str) {
        self.key(key);
        self.raw("null");
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        self.raw(&value.to_string());
    }

    fn optional(&mut self, key: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(key, value),
            None => self.null(key),
        }
    }

    fn layer(&mut self, kind: &LayerAnatomy, resolution: &Resolution) {
        let Some(row) = resolution.layers.get(kind.layer) else {
            return self.nothing();
        };
        let page = &kind.page;
        self.open('{');
        self.text_of("vllm", resolution.makings.release.version());
        self.text_of("role", row.role.as_str());
        self.text_of("first_layer", &row.first);
        self.number("layers", row.count as u64);
        self.optional_text("backend", kind.backend);
        self.text_of("kv_cache_dtype", resolution.cache_dtype.as_str());
        self.optional_text(
            "kv_cache_layout",
            resolution.kv_cache_layout.map(KvCacheLayout::as_str),
        );
        self.number("block_bytes", resolution.bytes_per_block);
        let capacity = resolution.capacity.as_ref();
        self.optional("num_blocks", capacity.map(|capacity| capacity.num_blocks));
        self.number("block_size", kind.block_size);
        self.key("tokens_per_state");
        self.raw(&row.tokens_per_state.to_string());
        self.number("heads", page.heads);
        self.number("states", page.states);
        self.number("slot_bytes", page.slot_bytes());
        self.number("page_bytes", page.bytes);
        self.number("padding_bytes", page.padding_bytes);
        self.number("kernel_blocks", page.kernel_blocks);
        self.number("kernel_block_bytes", page.kernel_block_bytes);
        self.number("states_in_kernel_block", page.kernel_states());
        self.optional_text("unknown", page.unknown);
        self.key("places");
        self.open('[');
        for place in &kind.places {
            self.place(place);
        }
        self.close(']');
        self.key("fields");
        self.open('[');
        for region in &page.regions {
            self.region(region);
        }
        self.close(']');
        self.close('}');
    }

    fn nothing(&mut self) {
        self.next();
        self.raw("null");
    }

    fn place(&mut self, place: &Place) {
        self.open('{');
        self.number("group", place.group as u64);
        self.number("layers", place.layers);
        self.optional_text("first_layer", place.first.as_deref());
        self.key("own_allocation");
        self.raw(if place.is_apart { "true" } else { "false" });
        self.optional("offset", place.offset);
        self.optional("layer_stride", place.layer_stride);
        self.optional("block_stride", place.block_stride);
        self.close('}');
    }

    fn region(&mut self, region: &Region) {
        for field in &region.fields {
            self.open('{');
            self.text_of("name", field.name);
            self.text_of("kind", field.kind.as_str());
            self.number("offset", region.offset + field.offset);
            self.number("bytes", field.bytes);
            self.number("count", region.count);
            self.number("stride", region.stride);
            self.text_of("index", region.order.formula());
            self.text_of("dtype", field.dtype);
            self.number("elements", field.elements);
            self.text_of("what", field.what);
            self.text_of("file", region.source.file);
            self.text_of("function", region.source.function);
            self.close('}');
        }
    }
}
