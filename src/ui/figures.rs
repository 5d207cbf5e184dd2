//! The headline figures, and capacity in vLLM's own words.

use kv_resolver::Resolution;
use kv_resolver::memory::Source;

use crate::answer::Answer;
use crate::markup::Markup;
use crate::text;

fn figure(html: &mut Markup, name: &str, value: &str, note: &str) {
    html.add(
        "<div><dt>{}</dt><dd><b>{}</b><small>{}</small></dd></div>",
        &[name, value, note],
    );
}

/// Whether the pool is an estimate.
pub fn is_estimated(answer: &Answer) -> bool {
    let planned = answer.planned().map(|memory| &memory.planned);
    // weights that do not load are counted, not estimated
    planned.is_some_and(|planned| planned.source == Source::Estimated && planned.stops.is_none())
}

/// The figures that a capacity planner looks for.
pub fn figures(html: &mut Markup, answer: &Answer, resolution: &Resolution) {
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
        let about = if is_estimated(answer) { "≈ " } else { "" };
        figure(
            html,
            "Fits",
            &[about, &capacity.requests, "×"].concat(),
            &format!(
                "in {about}{}, {}",
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
        return;
    };
    html.add(
        "<div class=\"log\"><h3>{}</h3><div class=\"with-copy\"><pre tabindex=\"0\">{}</pre>\
         <button type=\"button\" data-copy=\"\">Copy</button></div></div>",
        &[
            if is_estimated(answer) {
                "What vLLM will print, at the likely pool"
            } else {
                "What vLLM will print"
            },
            &capacity.lines().collect::<Vec<_>>().join("\n"),
        ],
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
