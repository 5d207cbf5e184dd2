//! An answer as a person reads it.

use std::fmt::Write as _;

use kv_resolver::error::Outcome;
use kv_resolver::log::LogLine;
use kv_resolver::resolution::{LayerRow, human_bytes};
use kv_resolver::speculation::{Drafter, drafter};
use kv_resolver::trace::TraceStep;
use kv_resolver::units::thousands;
use kv_resolver::weights::WeightBytes;
use kv_resolver::{Note, Request, Resolution, StartupError};

/// Columns that prose is wrapped to.
const WIDTH: usize = 96;

/// The whole answer.
pub fn answer(model: &str, request: &Request, result: &Result<Resolution, StartupError>) -> String {
    let mut out = String::new();
    title(&mut out, model, request);
    match result {
        Ok(resolution) => resolved(&mut out, request, resolution),
        Err(error) => refused(&mut out, error),
    }
    printable(&out)
}

/// What was asked, as the first line of an answer.
pub fn title(out: &mut String, model: &str, request: &Request) {
    // writing to a String cannot fail, here and below
    let _ = writeln!(
        out,
        "{model} on {} (SM{}{}), vLLM {}\n",
        request.gpu.name,
        request.gpu.capability.major,
        request.gpu.capability.minor,
        request.release
    );
}

/// The cache dtype, with what was asked for where vLLM changed it.
pub fn dtype(r: &Resolution) -> String {
    if r.cache_dtype == r.requested_cache_dtype {
        r.cache_dtype.to_string()
    } else {
        format!("{} → {}", r.requested_cache_dtype, r.cache_dtype)
    }
}

/// Without what moves a terminal's cursor, which may be in what was passed.
pub fn printable(text: &str) -> String {
    text.replace(
        |c: char| c.is_control() && c != '\n',
        &char::REPLACEMENT_CHARACTER.to_string(),
    )
}

/// That the GPU has less memory than is given of it.
pub fn beyond(request: &Request) -> Vec<String> {
    let total = request.gpu.total_memory_bytes;
    let given = [
        ("The pool that is given", request.available_memory),
        ("What is said to be free", request.free_memory),
    ];
    let beyond = given.into_iter().filter_map(|(what, bytes)| {
        let bytes = bytes.filter(|bytes| *bytes > total)?;
        Some(format!(
            "{what} is more than this GPU has: {} of {}.",
            human_bytes(bytes),
            human_bytes(total)
        ))
    });
    beyond.collect()
}

/// The same, as lines.
pub fn more_than_there_is(out: &mut String, request: &Request) {
    for text in beyond(request) {
        wrap(out, &text, "  ");
    }
}

/// "1 token", "2 tokens"
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

fn resolved(out: &mut String, request: &Request, r: &Resolution) {
    headline(out, r.outcome, &dtype(r));
    more_than_there_is(out, request);
    let _ = writeln!(out);
    if let Some(capacity) = &r.capacity {
        for line in capacity.lines() {
            let _ = writeln!(out, "  INFO {line}");
        }
        out.push('\n');
    } else {
        let hint = "Memory is not checked: --pool SIZE, what is left for the KV cache on each GPU, \
                    tells whether it fits.";
        wrap(out, hint, "  ");
        out.push('\n');
    }
    let row = |out: &mut String, name: &str, value: String| {
        let _ = writeln!(out, "  {name:<26}{value}");
    };
    row(out, "backends", r.backends.join(", "));
    row(
        out,
        "block size",
        format!(
            "{} tokens (metrics will show {})",
            r.block_size, r.reported_block_size
        ),
    );
    if let Some(layout) = r.kv_cache_layout {
        row(out, "layout", layout.to_string());
    }
    row(out, "max_model_len", thousands(r.max_model_len));
    row(
        out,
        "in flight",
        format!(
            "{} tokens ({} × max_num_batched_tokens {}), max_num_seqs {}",
            thousands(r.reserved_in_flight_tokens),
            r.reserved_in_flight_tokens / r.max_num_batched_tokens.max(1),
            thousands(r.max_num_batched_tokens),
            thousands(r.max_num_seqs)
        ),
    );
    row(
        out,
        "one more token",
        format!("{} B", r.marginal_bytes_per_token),
    );
    let shorter = if r.fixed_bytes_per_request > r.request_bytes {
        ", once it outgrows its windows"
    } else {
        ""
    };
    row(
        out,
        "every request, fixed",
        bytes(r.fixed_bytes_per_request) + shorter,
    );
    row(out, "one such request", bytes(r.request_bytes));
    if let Some(capacity) = &r.capacity {
        row(
            out,
            "fits",
            format!(
                "{} requests: {} blocks, {} allocated",
                capacity.requests,
                thousands(capacity.num_blocks),
                human_bytes(capacity.allocated_bytes)
            ),
        );
    }
    weights(out, &r.weights);
    if let Some(drafter) = drafter(request, r) {
        for (name, value) in drafting(&drafter, r) {
            row(out, name, value);
        }
    }
    stages(out, r);
    block(out, r);
    notes(out, &r.notes);
    log(out, "log", &r.log, false);
    why(out, &r.trace);
}

/// Bytes of the weights, as far as they are counted.
fn weights(out: &mut String, weights: &WeightBytes) {
    let row = |out: &mut String, name: &str, built: Option<u64>, uncounted: Option<&String>| {
        let text = match (built, uncounted) {
            (Some(size), _) => format!("{}, as built", bytes(size)),
            (None, Some(why)) => format!("not counted: {why}"),
            (None, None) => return,
        };
        let _ = writeln!(out, "  {name:<26}{text}");
    };
    let uncounted = weights.parameters_uncounted.as_ref();
    row(out, "weights per GPU", weights.parameter_bytes, uncounted);
    let uncounted = weights.draft_parameters_uncounted.as_ref();
    row(
        out,
        "the drafter's",
        weights.draft_parameter_bytes,
        uncounted,
    );
}

/// The stages of a pipeline, if it is one.
fn stages(out: &mut String, r: &Resolution) {
    if r.stages.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  stages");
    for (number, stage) in (1_usize..).zip(&r.stages) {
        let layers = match stage.end_layer.checked_sub(1) {
            Some(last) if last >= stage.start_layer => {
                format!("layers {} to {last}", stage.start_layer)
            }
            _ => "no layers".to_owned(),
        };
        let blocks = stage.num_blocks.map(|blocks| {
            let blocks = thousands(blocks);
            format!("  {blocks:>11} blocks fit")
        });
        let _ = writeln!(
            out,
            "    {number:>2}  {layers:<18}{:>5} with a cache  {:>11} B a block  {:>11} a request{}{}",
            stage.layers,
            thousands(stage.bytes_per_block),
            human_bytes(stage.request_bytes),
            blocks.unwrap_or_default(),
            if stage.binds { "  (binds)" } else { "" }
        );
    }
}

/// The drafter, and what it costs.
fn drafting(drafter: &Drafter, r: &Resolution) -> Vec<(&'static str, String)> {
    let layers: Vec<String> = r
        .draft_layers
        .iter()
        .map(|layer| format!("{} × {}", layer.count, layer.role.label()))
        .collect();
    let tokens = counted(drafter.num_speculative_tokens, "token");
    let mut rows = vec![("drafter", format!("{}, {tokens} a step", drafter.method))];
    if !layers.is_empty() {
        rows.push(("its layers", layers.join(", ")));
    }
    if let Some(cost) = &drafter.cost {
        if cost.is_nothing() {
            let nothing = "nothing: no byte more a token or a request";
            rows.push(("it costs", nothing.to_owned()));
        } else if let Some((marginal, fixed)) = &cost.bytes {
            let mut costs = Vec::new();
            if marginal.by.bytes > 0 {
                costs.push(format!(
                    "{}{} B one more token",
                    marginal.sign(),
                    marginal.by
                ));
            }
            if fixed.by > 0 {
                costs.push(format!("{}{} every request", fixed.sign(), bytes(fixed.by)));
            }
            rows.push(("it costs", costs.join(", ")));
        }
        if let Some([without, with]) = cost.requests.as_ref().filter(|[a, b]| a != b) {
            rows.push((
                "",
                format!("{without} requests fit without it, {with} with it"),
            ));
        }
    }
    rows
}

/// What lies in a block, and in a stored state.
fn block(out: &mut String, r: &Resolution) {
    let _ = writeln!(
        out,
        "\n  one block{}: {} B",
        if r.stages.is_empty() {
            ""
        } else {
            " of stage 1"
        },
        thousands(r.bytes_per_block)
    );
    for group in &r.groups {
        let members: Vec<String> = group
            .members
            .iter()
            .map(|member| {
                format!(
                    "{} × {}{} {}",
                    member.count,
                    draft(r.layers.get(member.layer)),
                    member.role.label(),
                    thousands(member.page_size_bytes)
                )
            })
            .collect();
        let _ = writeln!(
            out,
            "    {:<52}{:>6} tokens  {:>7} blocks a request  {:>11}",
            members.join(" + "),
            group.block_size,
            thousands(group.blocks_per_request),
            human_bytes(group.request_bytes)
        );
    }
    let _ = writeln!(out, "\n  one stored state");
    for (slot, layer) in r.slot_bytes.iter().zip(&r.layers) {
        let covers = match slot.tokens_per_state {
            1 => "1 token".to_owned(),
            ..=0 => "a whole request".to_owned(),
            tokens => format!("{tokens} tokens"),
        };
        let _ = writeln!(
            out,
            "    {:<21}{:>7} B for {covers}",
            draft(Some(layer)).to_owned() + slot.role.label(),
            thousands(slot.bytes)
        );
    }
}

/// What precedes the role of a drafter's layers.
fn draft(layer: Option<&LayerRow>) -> &'static str {
    match layer {
        Some(layer) if layer.is_draft => "draft ",
        Some(_) | None => "",
    }
}

fn refused(out: &mut String, error: &StartupError) {
    let refusal = &error.refusal;
    headline(out, refusal.outcome(), refusal.stage().describe());
    let _ = writeln!(out);
    let text = if refusal.outcome() == Outcome::Unmodelled {
        refusal.to_string()
    } else {
        format!("{}: {refusal}", refusal.error_type())
    };
    // whole lines, so that it can be searched for and compared
    for line in text.lines() {
        let _ = writeln!(out, "  {line}");
    }
    if !error.advice.is_empty() {
        let _ = writeln!(out, "\n  what works here");
        for advice in &error.advice {
            bullet(out, &advice.text);
        }
    }
    notes(out, &error.notes);
    log(out, "log", &error.log, true);
    why(out, &error.trace);
}

pub fn headline(out: &mut String, outcome: Outcome, detail: &str) {
    let _ = writeln!(out, "{}: {detail}", outcome.as_str().to_uppercase());
    wrap(out, outcome.meaning(), "  ");
}

fn notes(out: &mut String, notes: &[Note]) {
    if !notes.is_empty() {
        let _ = writeln!(out, "\n  notes");
        for note in notes {
            bullet(out, &note.text);
        }
    }
}

/// The lines of the start-up log, whole, so that they can be searched for and compared.
pub fn log(out: &mut String, name: &str, lines: &[LogLine], stops: bool) {
    if lines.is_empty() {
        return;
    }
    let until = if stops { ", until it stops" } else { "" };
    let _ = writeln!(out, "\n  {name}, as far as it is predicted{until}");
    for line in lines {
        let _ = writeln!(out, "    {line}");
    }
}

fn why(out: &mut String, trace: &[TraceStep]) {
    if trace.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  why");
    for (number, step) in (1..).zip(trace) {
        wrap_hanging(out, &step.decided, &format!("  {number:>4}. "), "        ");
        let _ = writeln!(out, "        {} · {}", step.rule.function, step.rule.file);
    }
}

fn bytes(bytes: u64) -> String {
    format!("{} ({} B)", human_bytes(bytes), thousands(bytes))
}

fn bullet(out: &mut String, text: &str) {
    wrap_hanging(out, text, "    · ", "      ");
}

pub fn wrap(out: &mut String, text: &str, indent: &str) {
    wrap_hanging(out, text, indent, indent);
}

/// Breaks lines at spaces; a word longer than a line stays whole.
pub fn wrap_hanging(out: &mut String, text: &str, first: &str, rest: &str) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_between_words() {
        let mut out = String::new();
        wrap(&mut out, &"word ".repeat(40), "  ");
        assert!(
            out.lines()
                .all(|line| line.chars().count() <= WIDTH && line.starts_with("  word"))
        );
        assert_eq!(out.split_whitespace().count(), 40);
    }
}
