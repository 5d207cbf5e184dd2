//! The headline figures, and capacity in vLLM's own words.

use kv_resolver::Resolution;

use crate::answers::Answer;
use crate::markup::Markup;
use crate::text;

fn figure(html: &mut Markup, name: &str, value: &str, note: &str) {
    html.add(
        "<div><dt>{}</dt><dd><b>{}</b><small>{}</small></dd></div>",
        &[name, value, note],
    );
}

/// The figures that a capacity planner looks for.
pub fn figures(html: &mut Markup, resolution: &Resolution) {
    html.add("<dl class=\"figure-row\">", &[]);
    figure(
        html,
        "One more token",
        &text::per_token(resolution.marginal_bytes_per_token),
        "marginal, past every window",
    );
    figure(
        html,
        "Every request, fixed",
        &text::bytes(resolution.fixed_bytes_per_request),
        "windows, states, in flight",
    );
    figure(
        html,
        "This request",
        &text::bytes(resolution.request_bytes),
        &format!("at {}", text::tokens(resolution.max_model_len)),
    );
    if let (Some(capacity), Some(pool)) = (&resolution.capacity, resolution.available_memory) {
        figure(
            html,
            "Fits",
            &format!("{}×", capacity.requests),
            &format!(
                "in {}, {}",
                text::gib(pool),
                text::counted(capacity.num_blocks, "block")
            ),
        );
    }
    // what tokens are stored in, rather than a state that none has to itself
    let slots = &resolution.slot_bytes;
    let of_tokens = slots.iter().find(|slot| slot.tokens_per_state > 0);
    if let Some(slot) = of_tokens.or(slots.first()) {
        figure(
            html,
            "Slot",
            &text::exact_bytes(slot.bytes),
            &format!("of {}; each kind's below", slot.role.label()),
        );
    }
    html.add("</dl>", &[]);
}

/// vLLM's start-up line, or what is needed for one.
pub fn capacity(html: &mut Markup, answer: &Answer, resolution: &Resolution) {
    let Some(capacity) = &resolution.capacity else {
        html.add(
            "<p class=\"hint\">Without a pool there is no capacity: enter the GiB per GPU that are left for the KV \
             cache.</p>",
            &[],
        );
        return;
    };
    html.add(
        "<div class=\"log\"><h3>What vLLM will print</h3><div class=\"with-copy\"><pre tabindex=\"0\">{}</pre>\
         <button type=\"button\" data-copy=\"\">Copy</button></div></div>",
        &[&capacity.log_line],
    );
    if answer.asked.pool_exceeds(answer.gpu) {
        html.add(
            "<p class=\"ours\"><b>No such pool here:</b> {} has {} in all, less than the {} entered. The figures are \
             for a GPU that had them.</p>",
            &[
                answer.gpu.label,
                &text::gib(answer.gpu.gpu().total_memory_bytes),
                &text::gib(resolution.available_memory.unwrap_or_default()),
            ],
        );
    }
}
