//! A kind of layer's anatomy as text: a struct with offsets, as a comment for C.

use std::fmt::Write as _;

use super::{Field, LayerAnatomy, Page, Place, Source};
use crate::Resolution;
use crate::resolution::LayerRow;
use crate::units::thousands;

impl LayerAnatomy {
    /// As a comment for C, under a heading such as the model and the GPU.
    pub fn c_comment(&self, resolution: &Resolution, heading: &str) -> String {
        let mut text = String::from("/*\n");
        let lines = self.lines(resolution);
        let lines = lines.iter().map(String::as_str);
        for line in [heading].into_iter().chain(lines) {
            text.push_str(if line.is_empty() { " *" } else { " * " });
            for character in line.chars() {
                // the comment must not end before its end
                if character == '/' && text.ends_with('*') {
                    text.push(' ');
                }
                text.push(character);
            }
            text.push('\n');
        }
        text.push_str(" */\n");
        text
    }

    /// What it is, its struct, and who says so.
    pub fn lines(&self, resolution: &Resolution) -> Vec<String> {
        let Some(row) = resolution.layers.get(self.layer) else {
            return Vec::new();
        };
        let mut lines = self.preamble(resolution, row);
        lines.push(String::new());
        lines.extend(self.members());
        lines.push(String::new());
        lines.extend(sources(&self.page));
        lines
    }

    fn preamble(&self, resolution: &Resolution, row: &LayerRow) -> Vec<String> {
        let page = &self.page;
        let mut lines = vec![format!(
            "vLLM {}, {}{}{}",
            resolution.makings.release.version(),
            resolution.cache_dtype,
            resolution
                .kv_cache_layout
                .map_or(String::new(), |layout| format!(", {layout}")),
            self.backend
                .map_or(String::new(), |backend| format!(", {backend}")),
        )];
        lines.push(format!(
            "{}: {}, the first {}",
            row.role.label(),
            counted(row.count as u64, "layer"),
            row.first
        ));
        lines.push(if row.tokens_per_state < 0 {
            format!(
                "page: {} B, the states of one request",
                thousands(page.bytes)
            )
        } else {
            format!(
                "page: {} B for {}: {} x {} of {} B",
                thousands(page.bytes),
                counted(self.block_size, "token"),
                counted(page.heads, "head"),
                counted(page.states, "state"),
                thousands(page.slot_bytes()),
            )
        });
        let blocks = resolution.capacity.as_ref().map(|capacity| {
            let blocks = counted(capacity.num_blocks, "block");
            format!(", {blocks} in the pool")
        });
        lines.push(format!(
            "block: {} B{}",
            thousands(resolution.bytes_per_block),
            blocks.unwrap_or_default()
        ));
        for place in &self.places {
            lines.push(place.formula());
        }
        if page.kernel_blocks > 1 {
            lines.push(format!(
                "a page is {} kernel blocks of {} each",
                thousands(page.kernel_blocks),
                counted(page.kernel_states(), "state")
            ));
        }
        if let Some(unknown) = page.unknown {
            lines.push(format!("NOT MODELLED: {unknown}"));
        }
        lines
    }

    /// The struct: each member, and its offset, bytes and meaning.
    fn members(&self) -> Vec<String> {
        let page = &self.page;
        let mut rows: Vec<(String, String)> = Vec::new();
        for region in &page.regions {
            let index = region.order.formula();
            if let [field] = &region.fields[..] {
                let (many, every) = if region.count == 1 {
                    (String::new(), String::new())
                } else {
                    (
                        format!("[{}]", region.count),
                        format!(", {}[{index}]", field.name),
                    )
                };
                rows.push((
                    format!("  {}", member(field, &many)),
                    format!(
                        "+{} {} B{every}: {}",
                        region.offset, field.bytes, field.what
                    ),
                ));
                continue;
            }
            rows.push(("  struct {".to_owned(), String::new()));
            for field in &region.fields {
                let offset = region.offset + field.offset;
                rows.push((
                    format!("    {}", member(field, "")),
                    format!("+{offset} {} B: {}", field.bytes, field.what),
                ));
            }
            let name = region.name();
            rows.push((
                format!("  }} {name}[{}];", region.count),
                format!("every {} B, {name}[{index}]", region.stride),
            ));
        }
        let padding = page.padding_bytes;
        if padding > 0 {
            rows.push((
                format!("  uint8 padding[{padding}];"),
                format!(
                    "+{} {padding} B: up to the page's size",
                    page.bytes - padding
                ),
            ));
        }
        let widest = rows.iter().map(|(member, _)| member.len()).max();
        let widest = widest.unwrap_or(0);
        let (name, bytes) = if page.kernel_blocks > 1 {
            ("kernel_block", page.kernel_block_bytes)
        } else {
            ("page", page.bytes)
        };
        let mut lines = vec![format!("struct {name} {{")];
        for (member, said) in &rows {
            lines.push(if said.is_empty() {
                member.clone()
            } else {
                format!("{member:widest$}  // {said}")
            });
        }
        lines.push(format!("}}; // {bytes} B"));
        lines
    }
}

/// A member as C declares it, as many times over as `many` says.
fn member(field: &Field, many: &str) -> String {
    let size = if field.elements == 1 {
        String::new()
    } else {
        format!("[{}]", field.elements)
    };
    format!("{} {}{many}{size};", field.dtype, field.name)
}

impl Place {
    /// Where block `b` of layer `l` begins, as a formula.
    pub fn formula(&self) -> String {
        let whose = match &self.first {
            Some(first) => format!("{} from {first}", counted(self.layers, "layer")),
            None => counted(self.layers, "layer"),
        };
        let mut text = format!("group {}, {whose}: ", self.group);
        if self.is_apart {
            text.push_str("an allocation for each layer, base");
        } else {
            let offset = self
                .offset
                .map_or("(by the pool)".to_owned(), |offset| offset.to_string());
            let _ = write!(text, "base + {offset}");
            if self.layers > 1 {
                let stride = self
                    .layer_stride
                    .map_or("(by the pool)".to_owned(), |stride| stride.to_string());
                let _ = write!(text, " + l * {stride}");
            }
        }
        if let Some(stride) = self.block_stride {
            let _ = write!(text, " + b * {stride}");
        }
        text
    }
}

fn sources(page: &Page) -> Vec<String> {
    let mut known: Vec<Source> = Vec::new();
    for region in &page.regions {
        if !known.contains(&region.source) {
            known.push(region.source);
        }
    }
    let lines = known.iter();
    lines
        .map(|source| format!("source: {}, {}", source.file, source.function))
        .collect()
}

fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}
