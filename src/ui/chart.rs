//! The charts: shapes in SVG, stretched to their box; texts in HTML over them, so that they keep their size.

use std::fmt::Write as _;

use kv_resolver::Resolution;
use kv_resolver::capacity::Requests;
use kv_resolver::units::fixed;
use leptos::prelude::document;

use super::groups::{colour, key};
use super::kinds::nothing_said;
use crate::chart::{Charts, Level, Paint, Plot, Point, Sample, Tick, interval};
use crate::markup::Markup;
use crate::text;

/// A level nearer to the top than this, in percent, has its text below it.
const TEXT_ROOM: f64 = 10.0;

/// One request's memory and the requests that fit, by context length, and the figures as a table.
pub fn chart(html: &mut Markup, resolution: &Resolution, pools: Option<[u64; 3]>) {
    let charts = Charts::new(resolution, pools);
    let names = resolution.group_names();
    html.add(
        "<div class=\"charts\"><div class=\"columns\"><figure class=\"chart drawn\">\
         <figcaption><h3>One request's memory, by context length</h3></figcaption>",
        &[],
    );
    plot(html, &charts.memory);
    points(html, "memory", &charts.table, &|row| text::bytes(row.total));
    html.add("<ul class=\"keys\">", &[]);
    for (group, name) in names.iter().enumerate() {
        html.add("<li>", &[]);
        key(html, group);
        html.add("{}</li>", &[name]);
    }
    html.add("</ul></figure>", &[]);
    if let (Some(requests), Some(words)) = (&charts.requests, &charts.pool_words) {
        html.add(
            "<figure class=\"chart drawn\"><figcaption><h3>Requests that fit, by context length</h3></figcaption>",
            &[],
        );
        plot(html, requests);
        points(html, "requests", &charts.table, &|row| {
            requests_of(row).unwrap_or_default() + " requests"
        });
        html.add("<p class=\"hint\">{}</p></figure>", &[words]);
    }
    html.add("</div>", &[]);
    table(html, resolution.max_model_len, &names, &charts.table);
    html.add("</div>", &[]);
}

fn plot(html: &mut Markup, plot: &Plot) {
    html.add(
        "<div class=\"plot\"><div class=\"shapes\" role=\"img\" aria-label=\"{}\">\
         <svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        &[&plot.words],
    );
    for shape in &plot.shapes {
        let class = match shape.paint {
            Paint::Group(group) => colour(group),
            Paint::Under => "under",
            Paint::Band => "band",
        };
        let outline = corners(&shape.outline);
        html.add("<polygon class=\"{}\" points=\"{}\"/>", &[class, &outline]);
    }
    for tick in &plot.heights {
        html.add("<path d=\"M0 {}h100\"/>", &[&percent(tick.at)]);
    }
    for line in &plot.lines {
        html.add("<polyline points=\"{}\"/>", &[&corners(line)]);
    }
    html.add("</svg>", &[]);
    let x = percent(plot.here.x);
    html.add(
        "<div class=\"here\" style=\"left:{}%\"><span style=\"translate:-{}%\">{}</span><i style=\"top:{}%\"></i></div>",
        &[&x, &x, &plot.here_text, &percent(plot.here.y)],
    );
    if let Some(level) = &plot.level {
        draw_level(html, level);
    }
    for (group, at) in plot.keys.iter().enumerate() {
        html.add("<span class=\"at\" style=\"top:{}%\">", &[&percent(*at)]);
        key(html, group);
        html.add("</span>", &[]);
    }
    side(
        html,
        "<div class=\"heights\">",
        "<span style=\"top:{}%\">{}</span>",
        &plot.heights,
    );
    side(
        html,
        "<div class=\"lengths\">",
        "<span style=\"left:{}%\">{}</span>",
        &plot.lengths,
    );
    html.add("</div>", &[]);
}

/// What the doublings of the length come to, told beneath as they are pointed at: strips side by side, the first and the
/// last half outside. Radio buttons, which the arrow keys walk by themselves.
fn points(html: &mut Markup, name: &str, rows: &[Sample], told: &dyn Fn(&Sample) -> String) {
    let doublings = rows.iter().filter(|row| row.length.is_power_of_two());
    #[allow(clippy::cast_precision_loss)] // only drawn
    let gaps = (doublings.clone().count() as f64 - 1.0).max(1.0);
    html.add(
        "<div class=\"points\" role=\"radiogroup\" aria-label=\"Read at a length: {}\" style=\"margin:0 -{}%\">",
        &[name, &percent(50.0 / gaps)],
    );
    for row in doublings {
        let words = [&text::tokens(row.length), ": ", &told(row)].concat();
        html.add(
            "<input type=\"radio\" name=\"{}\" aria-label=\"{}\" data-says=\"{}\">",
            &[name, &words, &words],
        );
    }
    html.add("</div></div>", &[]);
    nothing_said(html, "Point at the chart, or use Tab and arrow keys.");
}

/// How many fit, if there is a pool.
fn requests_of(row: &Sample) -> Option<String> {
    row.requests.map(|ends| interval(ends.map(Requests::shown)))
}

fn side(html: &mut Markup, start: &'static str, template: &'static str, ticks: &[Tick]) {
    html.add(start, &[]);
    for tick in ticks {
        html.add(template, &[&percent(tick.at), &tick.text]);
    }
    html.add("</div>", &[]);
}

fn draw_level(html: &mut Markup, level: &Level) {
    if let Some([top, bottom]) = level.band {
        html.add(
            "<div class=\"band\" style=\"top:{}%;height:{}%\"></div>",
            &[&percent(top), &percent(bottom - top)],
        );
    }
    let class = match level.at {
        None => "level beyond",
        Some(at) if at < TEXT_ROOM => "level low",
        Some(_) => "level",
    };
    html.add(
        "<div class=\"{}\" style=\"top:{}%\"><span>{}</span></div>",
        &[class, &percent(level.at.unwrap_or(0.0)), &level.text],
    );
}

fn percent(value: f64) -> String {
    fixed(value, 2)
}

fn corners(points: &[Point]) -> String {
    let mut text = String::new();
    for point in points {
        // writing to a String cannot fail
        let _ = write!(text, "{} {} ", percent(point.x), percent(point.y));
    }
    text
}

fn table(html: &mut Markup, here: u64, names: &[String], rows: &[Sample]) {
    // an answer is drawn anew with every change of the question: what was opened stays open
    let was_open = document().query_selector(".charts details[open]");
    html.add(
        if was_open.is_ok_and(|element| element.is_some()) {
            "<details open=\"\">"
        } else {
            "<details>"
        },
        &[],
    );
    html.add(
        "<summary>The figures as a table</summary>\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figures by context length\">\
         <table class=\"plain\"><caption class=\"hint\">One request, by context length</caption><thead><tr>\
         <th scope=\"col\" class=\"n\">Tokens</th><th scope=\"col\" class=\"n\">Bytes in all</th>",
        &[],
    );
    let has_pool = rows.iter().any(|row| row.requests.is_some());
    if has_pool {
        html.add("<th scope=\"col\" class=\"n\">Requests that fit</th>", &[]);
    }
    for (group, name) in names.iter().enumerate() {
        html.add("<th scope=\"col\" class=\"n\">", &[]);
        key(html, group);
        html.add("{}</th>", &[name]);
    }
    html.add("</tr></thead><tbody>", &[]);
    for row in rows {
        html.add(
            if row.length == here {
                "<tr class=\"chosen\"><th scope=\"row\" class=\"n\"><small>chosen</small> {}</th>"
            } else {
                "<tr><th scope=\"row\" class=\"n\">{}</th>"
            },
            &[&text::number(row.length)],
        );
        let bytes = row.by_group.iter().map(|bytes| text::bytes(*bytes));
        for cell in [text::bytes(row.total)]
            .into_iter()
            .chain(requests_of(row))
            .chain(bytes)
        {
            html.add("<td class=\"n\">{}</td>", &[&cell]);
        }
        html.add("</tr>", &[]);
    }
    html.add("</tbody></table></div></details>", &[]);
}
