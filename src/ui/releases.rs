//! The same question in every release: a strip, and what differs.

use kv_resolver::Release;
use kv_resolver::diff::{FieldChange, Standing, Weight};

use crate::answer::Answer;
use crate::markup::Markup;
use crate::text;

/// The strip across the releases, and a table of what differs.
pub fn releases(html: &mut Markup, answer: &Answer) {
    let here = answer.asked.release;
    html.add(
        "<div class=\"releases\"><h3>In other releases</h3><p class=\"hint\">The same question, asked of each vLLM; a dot \
         marks other bytes than {}. Choose one to see its answer.</p><ol class=\"strip\">",
        &[here.version()],
    );
    for standing in &answer.standing {
        let outcome = standing.outcome;
        let differs = match standing.differs {
            None => String::new(),
            Some(weight) => format!(", {}", weight.describe()),
        };
        html.add(
            "<li><button type=\"button\" id=\"{}\" class=\"chip {}\" data-release=\"{}\"",
            &[
                &chip_id(standing.release),
                text::outcome_class(outcome),
                standing.release.version(),
            ],
        );
        if standing.release == here {
            html.add(" aria-current=\"true\"", &[]);
        }
        html.add(
            " aria-label=\"vLLM {}: {}{}\"><b>{}</b><i aria-hidden=\"true\">{}</i>",
            &[
                standing.release.version(),
                outcome.as_str(),
                &differs,
                standing.release.version(),
                text::glyph(outcome),
            ],
        );
        if standing.differs == Some(Weight::Bytes) {
            html.add("<span class=\"dot\" aria-hidden=\"true\"></span>", &[]);
        }
        html.add("</button></li>", &[]);
    }
    html.add("</ol>", &[]);
    differences(html, answer);
    html.add("</div>", &[]);
}

/// The id of a release's button.
pub fn chip_id(release: Release) -> String {
    format!("release-{}", release.version())
}

/// Each run of releases that answer alike, unless they answer as this one does.
fn differences(html: &mut Markup, answer: &Answer) {
    let runs = runs(&answer.standing);
    if runs.iter().all(|run| run[0].differs.is_none()) {
        html.add("<p class=\"hint\">All of them answer alike.</p>", &[]);
        return;
    }
    html.add(
        "<details><summary>What differs</summary><dl class=\"runs\">",
        &[],
    );
    for run in runs {
        let (first, last) = (
            run[0].release.version(),
            run[run.len() - 1].release.version(),
        );
        html.add("<div><dt>{}", &[first]);
        if run.len() > 1 {
            html.add(" – {}", &[last]);
        }
        html.add(
            "<span class=\"badge {}\">{}</span></dt><dd>",
            &[text::outcome_class(run[0].outcome), run[0].outcome.as_str()],
        );
        match run[0].differs {
            None => {
                html.add("as here", &[]);
            }
            Some(_) => fields(html, &run[0].fields),
        }
        html.add("</dd></div>", &[]);
    }
    html.add("</dl></details>", &[]);
}

/// What differs there; what this release says is above already.
fn fields(html: &mut Markup, fields: &[FieldChange]) {
    html.add("<ul>", &[]);
    for field in fields {
        let Some(there) = &field.to else {
            continue;
        };
        match field.field {
            // the text says which it is
            "error_type" => {}
            "error" => {
                html.add("<li><code>{}</code></li>", &[there]);
            }
            name => {
                html.add("<li>{} <b class=\"n\">{}</b>", &[label(name), there]);
                if let Some(here) = &field.from {
                    html.add(" <small>here {}</small>", &[here]);
                }
                html.add("</li>", &[]);
            }
        }
    }
    html.add("</ul>", &[]);
}

/// A figure's name for people.
pub fn label(field: &'static str) -> &'static str {
    match field {
        "cache_dtype" => "cache dtype",
        "backends" => "backends",
        "block_size" => "block size",
        "max_model_len" => "longest request",
        "max_num_batched_tokens" => "tokens in a step",
        "max_num_seqs" => "requests in a step",
        "reserved_in_flight_tokens" => "reserved in flight",
        "marginal_bytes_per_token" => "one more token",
        "fixed_bytes_per_request" => "every request, fixed",
        "request_bytes" => "one such request",
        "bytes_per_block" => "one block",
        "groups" => "groups",
        "kv_cache_layout" => "layout",
        "num_blocks" => "blocks in the pool",
        "printed_tokens" => "tokens, as printed",
        "printed_concurrency" => "requests that fit, as printed",
        "error_type" => "its class",
        other => other,
    }
}

fn runs(standing: &[Standing]) -> Vec<&[Standing]> {
    standing
        .chunk_by(|a, b| a.outcome == b.outcome && a.fields == b.fields)
        .collect()
}
