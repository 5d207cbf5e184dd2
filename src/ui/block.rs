//! One block, drawn to scale: each group's pages side by side, what they leave unused hatched.

use kv_resolver::Resolution;
use kv_resolver::units::fixed;

use super::groups::{colour, percent};
use crate::markup::Markup;
use crate::text;

/// A segment narrower than this, in percent, has no room for a label.
const LABEL_ROOM: f64 = 14.0;
/// A segment narrower than this has no room for the bytes in it.
const BYTES_ROOM: f64 = 30.0;

/// The block as bars.
pub fn block(html: &mut Markup, resolution: &Resolution) {
    let whole = resolution.bytes_per_block;
    html.add(
        "<div class=\"block\"><h3>One block: <span class=\"n\">{}</span></h3><p class=\"hint\">A block belongs to one \
         group at a time; the widest group's pages, side by side, set its size. What the others leave is hatched.</p>\
         <ul class=\"bars\">",
        &[&text::exact_bytes(whole)],
    );
    let names = resolution.group_names();
    for (index, (group, name)) in resolution.groups.iter().zip(names).enumerate() {
        let said: Vec<String> = group
            .members
            .iter()
            .map(|member| {
                format!(
                    "{} × {} {}",
                    member.count,
                    member.role.label(),
                    text::exact_bytes(member.page_size_bytes)
                )
            })
            .collect();
        let unused = if group.padding_bytes == 0 {
            "fills the block".to_owned()
        } else {
            format!("{} unused", text::exact_bytes(group.padding_bytes))
        };
        let filled: u64 = group
            .members
            .iter()
            .map(|member| member.page_size_bytes.saturating_mul(member.count as u64))
            .fold(0, u64::saturating_add);
        html.add(
            "<li><span class=\"name\">{}</span><span class=\"bar\" role=\"img\" aria-label=\"{}; {}\">",
            &[&name, &said.join(", "), &unused],
        );
        for (member, said) in group.members.iter().zip(&said) {
            let bytes = member.page_size_bytes.saturating_mul(member.count as u64);
            let share = percent(bytes, whole);
            let label = if share < LABEL_ROOM {
                String::new()
            } else if share < BYTES_ROOM {
                format!("{} × {}", member.count, member.role.label())
            } else {
                said.clone()
            };
            html.add(
                "<span class=\"part {}\" style=\"width:{}%\" title=\"{} = {}\">{}</span>",
                &[
                    colour(index),
                    &fixed(share, 3),
                    said,
                    &text::exact_bytes(bytes),
                    &label,
                ],
            );
        }
        html.add(
            "<span class=\"padding\" title=\"{}\"></span></span><span class=\"n\">{}<small>{}</small></span></li>",
            &[&unused, &text::exact_bytes(filled), &unused],
        );
    }
    html.add("</ul></div>", &[]);
}
