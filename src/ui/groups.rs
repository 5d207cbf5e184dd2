//! KV memory of one request, by group.

use kv_resolver::Resolution;
use kv_resolver::units::fixed;

use crate::markup::Markup;
use crate::text;

/// The colours of the groups, by the style sheet's classes; they repeat beyond these.
const COLOURS: [&str; 8] = ["g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8"];

/// A group's colour.
pub fn colour(group: usize) -> &'static str {
    COLOURS[group % COLOURS.len()]
}

/// A group's number in its colour, by which it is known in the charts.
pub fn key(html: &mut Markup, group: usize) {
    html.add(
        "<i class=\"key {}\" aria-hidden=\"true\">{}</i>",
        &[colour(group), &text::number(group as u64 + 1)],
    );
}

/// A part of a whole in percent.
#[allow(clippy::cast_precision_loss)] // only drawn
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

/// Bytes, or a dash for none.
fn some(bytes: u64) -> String {
    if bytes == 0 {
        "—".to_owned()
    } else {
        text::bytes(bytes)
    }
}

/// A table with a bar for each group.
pub fn groups(html: &mut Markup, resolution: &Resolution) {
    html.add(
        "<div class=\"groups\"><h3>Who holds a request of {}</h3><p class=\"hint\">Padding is what a block has beyond the group’s own \
         pages.</p>\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Bytes by group\"><table class=\"plain\"><thead><tr><th scope=\"col\">Group</th>\
         <th scope=\"col\" class=\"n\">Blocks</th><th scope=\"col\" class=\"n\">Kept</th>\
         <th scope=\"col\" class=\"n\">In flight</th><th scope=\"col\" class=\"n\">Padding</th>\
         <th scope=\"col\" class=\"n\">Bytes</th>\
         <th scope=\"col\" class=\"n\">Share</th></tr></thead><tbody>",
        &[&text::tokens(resolution.max_model_len)],
    );
    let names = resolution.group_names();
    // what is answered has been added up before
    let shares = resolution.shares(resolution.max_model_len);
    let shares = shares.unwrap_or_default();
    let rows = resolution.groups.iter().zip(names).zip(shares);
    for (index, ((group, name), parts)) in rows.enumerate() {
        let share = percent(group.request_bytes, resolution.request_bytes);
        html.add("<tr><th scope=\"row\">", &[]);
        key(html, index);
        html.add(
            "{}<small>{} · {} a block</small></th>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\" title=\"{}\">{}</td>\
             <td class=\"n bar-cell\"><span><i><i class=\"{}\" style=\"width:{}%\"></i></i>{}%</span></td></tr>",
            &[
                &name,
                &text::counted(group.layers as u64, "layer"),
                &text::tokens(group.block_size),
                &text::number(group.blocks_per_request),
                &some(parts.content_bytes),
                &some(parts.in_flight_bytes),
                &some(parts.padding_bytes),
                &text::exact_bytes(group.request_bytes),
                &text::bytes(group.request_bytes),
                colour(index),
                &fixed(share, 2),
                &fixed(share, 1),
            ],
        );
    }
    html.add(
        "</tbody><tfoot><tr><th scope=\"row\">One request</th><td class=\"n exact\" colspan=\"5\">{}</td>\
         <td class=\"n\">{}</td></tr></tfoot></table></div></div>",
        &[
            &text::exact_bytes(resolution.request_bytes),
            &text::bytes(resolution.request_bytes),
        ],
    );
}
