//! One block, drawn to scale: each group's pages side by side, what they leave unused hatched.

use kv_resolver::Resolution;
use kv_resolver::anatomy::Place;
use kv_resolver::resolution::GroupMember;
use kv_resolver::units::fixed;

use super::groups::{colour, percent};
use super::kinds::{PAGES, nothing_said};
use crate::markup::Markup;
use crate::text;

/// A segment narrower than this, in percent, has no room for a label.
const LABEL_ROOM: f64 = 14.0;
/// A segment narrower than this has no room for the bytes in it.
const BYTES_ROOM: f64 = 30.0;
/// Pages narrower than this, in percent, are not drawn apart.
const PAGE_ROOM: f64 = 0.7;

/// The block as bars.
pub fn block(html: &mut Markup, resolution: &Resolution) {
    let whole = resolution.bytes_per_block;
    html.add(
        "<div class=\"block drawn\"><h3>One block: <span class=\"n\">{}</span></h3><p class=\"hint\">A block belongs to one \
         group at a time; the widest group's pages, side by side, set its size. What the others leave is hatched. \
         Press pages to see what they are made of.</p><ul class=\"bars\">",
        &[&text::exact_bytes(whole)],
    );
    let names = resolution.group_names();
    for (index, (group, name)) in resolution.groups.iter().zip(names).enumerate() {
        let mut filled: u64 = 0;
        html.add(
            "<li><span class=\"name\">{}</span><span class=\"bar\" role=\"group\" aria-label=\"{}\">",
            &[&name, &name],
        );
        for member in &group.members {
            let bytes = member.page_size_bytes.saturating_mul(member.count as u64);
            segment(html, (index, member), percent(bytes, whole), resolution);
            filled = filled.saturating_add(bytes);
        }
        let mut unused = "fills the block".to_owned();
        let mut says = String::new();
        if group.padding_bytes > 0 {
            unused = format!("{} unused", text::exact_bytes(group.padding_bytes));
            says = format!(
                "{unused} of each block of this group, from offset {} on: its pages are narrower than the widest group's",
                text::exact_bytes(whole.saturating_sub(group.padding_bytes))
            );
            html.add("<span class=\"padding\" data-says=\"{}\"></span>", &[&says]);
        }
        html.add("</span><span class=\"n\"", &[]);
        if !says.is_empty() {
            html.add(" tabindex=\"0\" data-says=\"{}\"", &[&says]);
        }
        html.add(
            ">{}<small>{}</small></span></li>",
            &[&text::exact_bytes(filled), &unused],
        );
    }
    html.add("</ul>", &[]);
    nothing_said(
        html,
        "Point at pages, or move to them by Tab, to see where they lie.",
    );
    html.add("</div>", &[]);
}

/// The class of a part in which so many equal pieces can be told apart.
pub fn lined(share: f64, pieces: u64) -> &'static str {
    if pieces > 1 && percent(1, pieces) * share / 100.0 >= PAGE_ROOM {
        "lined"
    } else {
        ""
    }
}

/// The pages of one kind in a group.
fn segment(
    html: &mut Markup,
    (group, member): (usize, &GroupMember),
    share: f64,
    resolution: &Resolution,
) {
    let said = format!(
        "{} × {} {}",
        member.count,
        member.role.label(),
        text::exact_bytes(member.page_size_bytes)
    );
    let label = if share < LABEL_ROOM {
        String::new()
    } else if share < BYTES_ROOM {
        format!("{} × {}", member.count, member.role.label())
    } else {
        said.clone()
    };
    let places = resolution.places(member.layer);
    let place = places.iter().find(|place| place.group == group);
    let count = member.count as u64;
    html.add(
        "<button type=\"button\" class=\"part {} {}\" style=\"width:{}%;--pieces:{}\" aria-label=\"{}\" data-says=\"{}: {}\" {}=\"{}\">{}</button>",
        &[
            colour(group),
            lined(share, count),
            &fixed(share, 3),
            &count.to_string(),
            &said,
            &said,
            &place.map_or_else(|| "on another stage".to_owned(), lies),
            PAGES,
            &member.layer.to_string(),
            &label,
        ],
    );
}

/// Where pages lie, in words.
fn lies(place: &Place) -> String {
    let mut words = match &place.first {
        Some(first) => format!("the page of {first}"),
        None => "the first page".to_owned(),
    };
    if place.is_apart {
        words.push_str(" begins its own allocation, as every other layer's does");
    } else {
        match place.offset {
            Some(offset) => {
                words.push_str(" at offset ");
                words.push_str(&text::exact_bytes(offset));
            }
            None => words.push_str(" at an offset that follows from the pool"),
        }
        if place.layers > 1 {
            match place.layer_stride {
                Some(stride) => {
                    words.push_str(", stride between layers ");
                    words.push_str(&text::exact_bytes(stride));
                    if place.block_stride.is_some_and(|block| stride > block) {
                        words.push_str(" (with this pool)");
                    }
                }
                None => words.push_str(", stride between layers by the pool"),
            }
        }
    }
    if let Some(stride) = place.block_stride {
        words.push_str(", between blocks ");
        words.push_str(&text::exact_bytes(stride));
    }
    words
}
