//! What one layer of each kind stores.

use kv_resolver::Resolution;

use crate::markup::Markup;
use crate::text;

/// Slots and pages, by kind of layer.
pub fn slots(html: &mut Markup, resolution: &Resolution) {
    html.add(
        "<div class=\"slots\"><h3>What a layer stores</h3><p class=\"hint\">A slot is one stored state; a page is one \
         layer's slots for one block, padded to its alignment.</p><div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"What a layer stores\"><table class=\"plain\"><thead><tr>\
         <th scope=\"col\">Kind</th><th scope=\"col\" class=\"n\">Layers</th><th scope=\"col\" class=\"n\">Slot</th>\
         <th scope=\"col\" class=\"n\">Tokens a slot</th><th scope=\"col\" class=\"n\">Slots a page</th>\
         <th scope=\"col\" class=\"n\">Page</th><th scope=\"col\" class=\"n\">Padding in it</th></tr></thead><tbody>",
        &[],
    );
    for layer in &resolution.layers {
        let padding = layer
            .page_size_bytes
            .saturating_sub(layer.unpadded_page_size_bytes);
        html.add(
            "<tr><th scope=\"row\">{}{}<small>{}</small></th><td class=\"n\">{}</td><td class=\"n strong\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            &[
                layer.role.label(),
                if layer.is_draft { " · draft" } else { "" },
                layer.role.describe(),
                &layer.count.to_string(),
                &text::exact_bytes(layer.slot_bytes),
                &u64::try_from(layer.tokens_per_state).map_or("all".to_owned(), text::number),
                &text::number(layer.states_per_page),
                &text::exact_bytes(layer.page_size_bytes),
                &text::exact_bytes(padding),
            ],
        );
    }
    html.add("</tbody></table></div></div>", &[]);
}
