//! From the GPU to the pool, and what it holds.

use kv_resolver::capacity::{Fit, MOST_TOKENS};
use kv_resolver::memory::{Budget, Interval, Planned, Source};
use kv_resolver::units::format_gib;

use crate::answer::{Answer, Memory};
use crate::markup::Markup;
use crate::text;

/// The whole part; why there is none; nothing where vLLM does not come so far.
pub fn memory(html: &mut Markup, answer: &Answer) {
    match &answer.memory {
        None => {}
        Some(Err(why)) => {
            html.add(
                "<section class=\"memory\" aria-labelledby=\"memory-title\"><h3 id=\"memory-title\">The pool</h3>\
                 <p class=\"hint\">No estimate here: {}. Enter the GiB per GPU that are left for the KV cache, or \
                 paste the line of vLLM’s log that says so.</p></section>",
                &[why],
            );
        }
        Some(Ok(memory)) => {
            html.add(
                "<section class=\"memory\" aria-labelledby=\"memory-title\"><h3 id=\"memory-title\">{}</h3>",
                &[title(memory)],
            );
            pool(html, &memory.planned);
            check(html, memory);
            holds(html, memory);
            html.add("</section>", &[]);
        }
    }
}

const fn title(memory: &Memory) -> &'static str {
    match memory.planned.source {
        Source::Given => "The pool on each GPU, as you gave it",
        Source::Pinned => "The pool on each GPU, as kv_cache_memory_bytes pins it",
        Source::Printed if memory.printed.available.is_none() => {
            "The pool on each GPU that comes to your log’s tokens"
        }
        Source::Printed => "The pool on each GPU, as vLLM’s log says",
        Source::Estimated => "From the GPU to the pool: an estimate",
    }
}

fn gib(bytes: i64) -> String {
    format_gib(i128::from(bytes))
}

/// One row of three figures; of one where they are alike.
fn ends(html: &mut Markup, name: &str, sign: &str, [low, likely, high]: [&str; 3]) {
    html.add(
        "<tr><th scope=\"row\"><i aria-hidden=\"true\">{}</i>{}</th>",
        &[sign, name],
    );
    if low == high {
        html.add(
            "<td></td><td class=\"likely\">{}</td><td></td></tr>",
            &[likely],
        );
    } else {
        html.add(
            "<td>{}</td><td class=\"likely\">{}</td><td>{}</td></tr>",
            &[low, likely, high],
        );
    }
}

fn bytes(html: &mut Markup, name: &str, sign: &str, interval: Interval) {
    let [low, likely, high] = [interval.low, interval.likely, interval.high].map(gib);
    ends(html, name, sign, [&low, &likely, &high]);
}

const HEAD: &str = "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{}\"><table class=\"ends\"><thead><tr><td></td><th \
                    scope=\"col\">least pool</th><th scope=\"col\">likely</th><th scope=\"col\">most \
                    pool</th></tr></thead><tbody>";

fn pool(html: &mut Markup, planned: &Planned) {
    match (&planned.budget, planned.source) {
        (Ok(budget), Source::Estimated) => estimate(html, budget),
        (Ok(budget), Source::Given | Source::Pinned | Source::Printed) => {
            let likely = gib(budget.pool.likely);
            html.add(
                "<p class=\"hint\">{}. From the GPU alone it would be estimated at {} to {} GiB, likely {}.</p>",
                &[
                    &size(planned.pool),
                    &gib(budget.pool.low),
                    &gib(budget.pool.high),
                    &likely,
                ],
            );
        }
        (Err(why), _) => {
            html.add(
                "<p class=\"hint\">{}. There is no estimate beside it: {}.</p>",
                &[&size(planned.pool), why],
            );
        }
    }
}

/// A pool in words.
pub fn size(pool: Interval) -> String {
    let [low, likely, high] = [pool.low, pool.likely, pool.high].map(gib);
    if low == high {
        likely + " GiB"
    } else {
        [&low, " to ", &high, " GiB"].concat()
    }
}

fn estimate(html: &mut Markup, budget: &Budget) {
    bar(html, budget);
    html.add(HEAD, &["The pool, part by part"]);
    bytes(html, "torch’s total, GiB", "", budget.torch_total);
    let share = budget.gpu_memory_utilization.to_string();
    bytes(
        html,
        &["gpu_memory_utilization ", &share].concat(),
        "×",
        budget.requested,
    );
    for part in &budget.parts {
        // what takes most leaves least
        let Interval { low, likely, high } = part.bytes;
        let taken = [high, likely, low].map(gib);
        ends(
            html,
            part.kind.label(),
            "−",
            [&taken[0], &taken[1], &taken[2]],
        );
    }
    bytes(html, "for the KV cache", "=", budget.pool);
    html.add(
        "</tbody></table></div><details class=\"sources\"><summary>Where each figure comes from</summary><dl>",
        &[],
    );
    for part in &budget.parts {
        html.add("<dt>{}</dt><dd>{}</dd>", &[part.kind.label(), &part.source]);
    }
    html.add(
        "<dt>the totals</dt><dd>NVML reports {}, by which vLLM chooses its defaults; torch a little less, of which it \
         takes its share{}.</dd></dl><p>Only a start-up measures these. Weights are exact; nothing is claimed of how \
         often the others are right. Paste your own log’s line as the pool instead.</p></details>",
        &[
            &text::bytes(budget.nvml_total_bytes),
            if budget.is_unified {
                "; here both share one memory with the host, and what is free of it varies by gigabytes between boots"
            } else {
                ""
            },
        ],
    );
}

/// Thousandths of the bar below which a part has no room for its name.
const LABELLED: i64 = 100;

/// Parts of a GPU at their likeliest, to scale. The table says the same.
fn bar(html: &mut Markup, budget: &Budget) {
    let total = budget.torch_total.likely.max(1);
    html.add("<div class=\"budget-bar\" aria-hidden=\"true\">", &[]);
    let mut piece = |class: &str, label: &str, bytes: i64| {
        let share = bytes.clamp(0, total) / (total / 1000).max(1);
        if share > 0 {
            html.add(
                "<span class=\"{}\" style=\"flex-grow:{}\"><b>{}</b></span>",
                &[
                    class,
                    &share.to_string(),
                    if share < LABELLED { "" } else { label },
                ],
            );
        }
    };
    let mut others = 0;
    for part in &budget.parts {
        if part.kind.as_str() == "weights" {
            piece("weights", "weights", part.bytes.likely);
        } else {
            others += part.bytes.likely;
        }
    }
    piece("others", "the rest", others);
    piece("pool", "KV cache", budget.pool.likely);
    piece(
        "unused",
        "not asked for",
        budget.torch_total.likely - budget.requested.likely,
    );
    html.add("</div>", &[]);
}

/// What a log says, against the answer.
fn check(html: &mut Markup, memory: &Memory) {
    let fitted = memory.length();
    if let Some(printed) = memory
        .printed
        .max_model_len
        .filter(|printed| *printed != fitted)
    {
        html.add(
            "<p class=\"ours\"><b>Another length:</b> the log is of max_model_len {}, this question of {}.</p>",
            &[&text::number(printed), &text::number(fitted)],
        );
    }
    let Some(check) = memory.check else { return };
    html.add(
        "<p class=\"{}\"><b>{}</b> The pool comes to {} to {} tokens in vLLM’s line; yours says {}. {}</p>",
        &[
            if check.agrees() { "agrees" } else { "ours" },
            if check.agrees() { "Agrees." } else { "Does not agree." },
            &text::number(check.least),
            &text::number(check.most),
            &text::number(check.printed),
            if check.agrees() {
                ""
            } else {
                "Another release, model, context length, max_num_batched_tokens or drafter would explain it."
            },
        ],
    );
}

/// What each end of the pool holds.
fn holds(html: &mut Markup, memory: &Memory) {
    let planned = &memory.planned;
    let row = |html: &mut Markup, name: &str, show: &dyn Fn(&Fit) -> String| {
        let shown = [0, 1, 2].map(|end| match &planned.ends[end].fit {
            Ok(fit) => show(fit),
            Err(_) => "does not start".to_owned(),
        });
        ends(html, name, "", [&shown[0], &shown[1], &shown[2]]);
    };
    let base = &memory.base;
    if planned.stops.is_some() || planned.pool.high <= 0 {
        return;
    }
    html.add(
        "<h4>What it holds{}</h4>",
        &[if memory.is_replicated {
            ", on each replica"
        } else {
            ""
        }],
    );
    html.add(HEAD, &["What it holds"]);
    let name = |length: u64| ["requests of ", &text::tokens(length)].concat();
    let starts = planned.ends[2].fit.is_ok();
    if !starts {
        // its length is what there is to tell
    } else if base.is_auto_fit() {
        row(html, "max_model_len, as it is fitted", &|fit| {
            text::number(fit.max_model_len)
        });
        row(html, "requests of that length", &|fit| {
            fit.requests.shown() + "×"
        });
    } else {
        row(html, &name(base.max_model_len), &|fit| {
            fit.requests.shown() + "×"
        });
    }
    for length in lengths(memory.length()).filter(|_| starts) {
        row(html, &name(length), &|fit| {
            let requests = base.requests_of(fit.requests.num_blocks, length);
            requests.map_or_else(|_| "—".to_owned(), |requests| requests.shown() + "×")
        });
    }
    let longest = [0, 1, 2].map(|end: usize| {
        let tokens = base.longest_request(planned.ends[end].pool_bytes);
        match tokens {
            Ok(MOST_TOKENS) => "any".to_owned(),
            Ok(tokens) => text::number(tokens),
            Err(_) => "—".to_owned(),
        }
    });
    ends(
        html,
        "longest request the pool could hold",
        "",
        [&longest[0], &longest[1], &longest[2]],
    );
    if starts {
        row(html, "blocks", &|fit| text::number(fit.requests.num_blocks));
    }
    html.add(
        "</tbody></table></div><p class=\"hint\">By what vLLM reserves for each request; more than max_num_seqs, {}, \
         never run at once. The tokens in vLLM’s line are requests × max_model_len, not what the cache can hold of \
         short ones.</p>",
        &[&text::number(base.max_num_seqs)],
    );
}

/// Lengths to tell of beside the longest: each eight times the one before.
fn lengths(most: u64) -> impl Iterator<Item = u64> {
    (0..)
        .map(|step: u32| 1024_u64 << (3 * step))
        .take(6)
        .take_while(move |length| *length < most)
}
