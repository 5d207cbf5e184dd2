//! One kind of layer, taken apart: its page and its slot, drawn to scale, and every field.

use kv_resolver::Resolution;
use kv_resolver::anatomy::{FieldKind, LayerAnatomy, Page, Region};
use kv_resolver::resolution::LayerRow;
use kv_resolver::units::fixed;

use super::block::lined;
use super::groups::percent;
use super::kinds::{ANATOMY, nothing_said};
use crate::markup::Markup;
use crate::text;

/// A part narrower than this, in percent, has no room for a name.
const NAME_ROOM: f64 = 9.0;
/// A part narrower than this has no room for its bytes.
const BYTES_ROOM: f64 = 24.0;

/// A kind of layer, by its number.
pub fn taken_apart(html: &mut Markup, resolution: &Resolution, index: usize) {
    let kind = resolution.anatomy_of(index);
    let (Some(kind), Some(row)) = (kind, resolution.layers.get(index)) else {
        return;
    };
    let page = &kind.page;
    intro(html, &kind, row);
    page_bar(html, page, row);
    if page.slots() > 1 && page.unknown.is_none() {
        slot_bar(html, page);
    }
    fields(html, page);
    html.add(
        "<p class=\"copies\"><button type=\"button\" {}=\"json\">Copy as JSON</button> <button type=\"button\" {}=\"c\">Copy as a \
         C comment</button></p>",
        &[ANATOMY, ANATOMY],
    );
}

/// What it is.
fn intro(html: &mut Markup, kind: &LayerAnatomy, row: &LayerRow) {
    html.add(
        "<p class=\"intro\">{}, the first <code>{}</code>",
        &[&text::counted(row.count as u64, "layer"), &row.first],
    );
    if let Some(backend) = kind.backend {
        html.add(", on <code>{}</code>", &[backend]);
    }
    html.add(": {}.</p>", &[row.role.describe()]);
    if let Some(unknown) = kind.page.unknown {
        html.add(
            "<p class=\"ours\"><b>Not modelled:</b> the bytes are known, their order is not: {}.</p>",
            &[unknown],
        );
    }
}

/// How a part is filled: by its meaning, and by its turn among those that mean alike.
fn fill(kind: FieldKind, turn: usize) -> &'static str {
    match (kind, turn % 3) {
        (FieldKind::Values, 0) => "g1",
        (FieldKind::Values, 1) => "g2",
        (FieldKind::Values, _) => "g4",
        (FieldKind::Scales, _) => "scales g3",
        (FieldKind::Padding, _) => "unused",
        (FieldKind::Unknown, _) => "unknown",
    }
}

/// A part of a bar: so many bytes, in so many cells.
struct Part<'a> {
    class: &'static str,
    name: &'a str,
    bytes: u64,
    cells: u64,
    says: String,
}

/// Parts of a whole, to scale, what is said of each, and all their names beneath: thin
/// ones have no room for theirs, nor for a finger.
fn bar(html: &mut Markup, title: &'static str, (parts, whole): (&[Part], u64)) {
    html.add(
        "<div class=\"bar tall\" role=\"img\" aria-label=\"{}\">",
        &[title],
    );
    for part in parts {
        let share = percent(part.bytes, whole);
        html.add(
            "<span class=\"part {} {}\" style=\"flex-grow:{};--pieces:{}\" data-says=\"{}\">",
            &[
                part.class,
                lined(share, part.cells),
                &fixed(share, 3),
                &part.cells.to_string(),
                &part.says,
            ],
        );
        if share >= NAME_ROOM {
            html.text(part.name);
        }
        if share >= BYTES_ROOM {
            html.text(" ").text(&text::exact_bytes(part.bytes));
        }
        html.add("</span>", &[]);
    }
    html.add("</div><ul class=\"part-names\">", &[]);
    for part in parts {
        html.add(
            "<li tabindex=\"0\" data-says=\"{}\"><i class=\"swatch {}\"></i>{} <span class=\"n\">{}</span></li>",
            &[
                &part.says,
                part.class,
                part.name,
                &text::exact_bytes(part.bytes),
            ],
        );
    }
    html.add("</ul>", &[]);
    nothing_said(
        html,
        "Point at a part, or move to its name by Tab, for its offset and stride.",
    );
    html.add("</div>", &[]);
}

fn offset(bytes: u64) -> String {
    format!("+{}", text::number(bytes))
}

/// What a region's cells are called: after their field, if there is one.
fn name(region: &Region) -> &'static str {
    match &region.fields[..] {
        [field] => field.name,
        _ => region.name(),
    }
}

/// The page, or one of its kernel blocks.
fn page_bar(html: &mut Markup, page: &Page, row: &LayerRow) {
    html.add(
        "<div class=\"drawn\"><h4>Page: <span class=\"n\">{}</span></h4><p class=\"hint\">",
        &[&text::exact_bytes(page.bytes)],
    );
    if row.tokens_per_state < 0 {
        html.text("The states of one request, whatever its length");
    } else {
        let per = u64::try_from(row.tokens_per_state).unwrap_or(1);
        html.add(
            "{} of {}{}",
            &[
                &text::counted(page.states, "state"),
                &text::tokens(per),
                if per == 1 { "" } else { " each" },
            ],
        );
        if page.heads > 1 {
            html.add(", of {}", &[&text::counted(page.heads, "head")]);
        }
    }
    if page.kernel_blocks > 1 {
        html.add(
            "; {} of {} each, one of which is drawn",
            &[
                &text::counted(page.kernel_blocks, "kernel block"),
                &text::exact_bytes(page.kernel_block_bytes),
            ],
        );
    }
    html.add("</p>", &[]);
    let whole = if page.kernel_blocks > 1 {
        page.kernel_block_bytes
    } else {
        page.bytes
    };
    let mut turn = 0;
    let mut parts = Vec::new();
    for region in &page.regions {
        let kind = region.fields.first().map(|field| field.kind);
        let kind = kind.unwrap_or(FieldKind::Unknown);
        parts.push(Part {
            class: fill(kind, turn),
            name: name(region),
            bytes: region.bytes(),
            cells: region.count,
            says: told(region),
        });
        turn += usize::from(kind == FieldKind::Values);
    }
    if page.padding_bytes > 0 {
        parts.push(Part {
            class: fill(FieldKind::Padding, 0),
            name: "padding",
            bytes: page.padding_bytes,
            cells: 1,
            says: format!(
                "padding: {} at {}, up to the page's size",
                text::exact_bytes(page.padding_bytes),
                offset(page.bytes.saturating_sub(page.padding_bytes))
            ),
        });
    }
    bar(html, "Page", (&parts, whole));
}

/// A region, in words.
fn told(region: &Region) -> String {
    let mut words = format!(
        "{}: {} at {}, {} of {} by {}",
        name(region),
        text::exact_bytes(region.bytes()),
        offset(region.offset),
        text::number(region.count),
        text::exact_bytes(region.stride),
        region.order.formula()
    );
    if region.fields.len() > 1 {
        for (turn, field) in region.fields.iter().enumerate() {
            words.push_str(if turn == 0 { ": " } else { ", " });
            words.push_str(field.name);
        }
    }
    words
}

/// One slot.
fn slot_bar(html: &mut Markup, page: &Page) {
    let whole = page.slot_bytes();
    html.add(
        "<div class=\"drawn\"><h4>Slot: <span class=\"n\">{}</span></h4><p class=\"hint\">{}</p>",
        &[
            &text::exact_bytes(whole),
            if page.heads > 1 {
                "One state of one head"
            } else {
                "One state"
            },
        ],
    );
    let mut turn = 0;
    let mut parts = Vec::new();
    for region in &page.regions {
        for field in &region.fields {
            parts.push(Part {
                class: fill(field.kind, turn),
                name: field.name,
                bytes: field.bytes,
                cells: 1,
                says: format!(
                    "{}: {} of {}, the first at {}, every {}",
                    field.name,
                    text::exact_bytes(field.bytes),
                    field.dtype,
                    offset(region.offset.saturating_add(field.offset)),
                    text::exact_bytes(region.stride)
                ),
            });
            turn += usize::from(field.kind == FieldKind::Values);
        }
    }
    bar(html, "Slot", (&parts, whole));
}

/// Every field, in the order of the page.
fn fields(html: &mut Markup, page: &Page) {
    html.add(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Fields\"><table class=\"plain fields\"><thead><tr>\
         <th scope=\"col\">Field</th><th scope=\"col\" class=\"n\">First at</th><th scope=\"col\" class=\"n\">Bytes</th>\
         <th scope=\"col\" class=\"n\">Every</th><th scope=\"col\">Type</th></tr></thead><tbody>",
        &[],
    );
    let mut turn = 0;
    for region in &page.regions {
        for field in &region.fields {
            let many = if region.count == 1 {
                String::new()
            } else {
                text::exact_bytes(region.stride)
            };
            table_row(
                html,
                (fill(field.kind, turn), field.name, field.what),
                field.dtype,
                (
                    &text::number(field.bytes),
                    &format!("× {}", text::number(region.count)),
                ),
                (&offset(region.offset.saturating_add(field.offset)), &many),
            );
            turn += usize::from(field.kind == FieldKind::Values);
        }
    }
    if page.padding_bytes > 0 {
        table_row(
            html,
            (
                fill(FieldKind::Padding, 0),
                "padding",
                "up to the page's size",
            ),
            "",
            (&text::number(page.padding_bytes), ""),
            (&offset(page.bytes.saturating_sub(page.padding_bytes)), ""),
        );
    }
    html.add("</tbody></table></div><p class=\"hint\">In vLLM: ", &[]);
    let mut last = "";
    for region in &page.regions {
        if region.source.file != last {
            last = region.source.file;
            html.add("<code>{}</code> {} ", &[last, region.source.function]);
        }
    }
    html.add("</p>", &[]);
}

fn table_row(
    html: &mut Markup,
    (class, name, what): (&str, &str, &str),
    dtype: &str,
    (bytes, count): (&str, &str),
    (first, every): (&str, &str),
) {
    html.add(
        "<tr><th scope=\"row\"><i class=\"swatch {}\" aria-hidden=\"true\"></i>{}<small>{}</small></th><td class=\"n\">{}</td>\
         <td class=\"n strong\">{} <small>{}</small></td><td class=\"n\">{}</td><td class=\"mono\">{}</td></tr>",
        &[class, name, what, first, bytes, count, every, dtype],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DeepSeek V4 Flash's kind of layers of this number.
    fn taken(index: usize) -> String {
        let case = r#"{"release":"0.33.0","model":"deepseek-ai/DeepSeek-V4-Flash","gpu":"h200","args":{"tensor_parallel_size":8}}"#;
        let request = kv_cases::parse_case(case).1.unwrap();
        let resolution = kv_resolver::resolve(&request).unwrap();
        let mut html = Markup::new();
        taken_apart(&mut html, &resolution, index);
        html.into_string()
    }

    #[test]
    fn every_byte_of_a_bar_is_drawn_and_told() {
        let html = taken(0);
        let mut bars = html.split("class=\"bar tall\"").skip(1);
        for parts in [3, 4] {
            let bar = bars.next().unwrap().split("</div>").next().unwrap();
            let shares = bar.split("flex-grow:").skip(1);
            let shares: Vec<f64> = shares
                .map(|rest| rest.split(';').next().unwrap().parse().unwrap())
                .collect();
            assert_eq!(shares.len(), parts);
            assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.01);
            assert_eq!(bar.matches("data-says=\"").count(), parts);
        }
        assert!(html.contains("footer: 512 B at +36,864, 64 of 8 B by state: scales, pad"));
        assert!(html.contains("rope: 128 B of bfloat16, the first at +448, every 576 B"));
    }

    #[test]
    fn a_kind_that_is_not_there_draws_nothing() {
        assert_eq!(taken(99), "");
    }
}
