//! One request's bytes by context length, stacked by group.

use std::fmt::Write as _;

use kv_resolver::Resolution;
use kv_resolver::resolution::RequestBytes;
use kv_resolver::units::fixed;

use super::groups::colour;
use crate::markup::Markup;
use crate::scale::{self, FIRST_OCTAVE, STEPS_PER_OCTAVE};
use crate::text;

/// log₂ of the longest, unless a longer one is asked about.
const LAST_OCTAVE: u32 = 20;
/// The drawing's own units; it is stretched to its box.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 500.0;
/// Lines across, at most.
const MOST_TICKS: u64 = 5;

/// The chart: shapes in SVG, stretched; texts in HTML over it, so that they keep their size.
pub fn chart(html: &mut Markup, resolution: &Resolution) {
    let last_octave = LAST_OCTAVE.max(ceil_log2(resolution.max_model_len));
    let axis = Axis { last_octave };
    let samples = axis.samples(resolution);
    let highest = samples.iter().map(|sample| sample.total).max();
    let highest = highest.unwrap_or(0).max(resolution.request_bytes);
    let tick = tick_bytes(highest);
    let ticks = highest.div_ceil(tick).max(1);
    let top = ticks.saturating_mul(tick);
    let here = fixed(axis.x(resolution.max_model_len) / WIDTH * 100.0, 2);
    html.add(
        "<figure class=\"chart\"><figcaption><h3>One request's memory, by context length</h3></figcaption>\
         <div class=\"plot\" role=\"img\" aria-label=\"{} at {}, {} at {}, {} at {}\"><div class=\"heights\">",
        &[
            &total(samples.first()),
            &text::tokens(1 << FIRST_OCTAVE),
            &text::bytes(resolution.request_bytes),
            &text::tokens(resolution.max_model_len),
            &total(samples.last()),
            &text::tokens(1 << last_octave),
        ],
    );
    for nth in 0..=ticks {
        let bytes = nth.saturating_mul(tick);
        html.add(
            "<span style=\"bottom:{}%\">{}</span>",
            &[&fixed(ratio(bytes, top) * 100.0, 2), &bytes_tick(bytes)],
        );
    }
    html.add(
        "</div><div class=\"shapes\"><svg viewBox=\"0 0 1000 500\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        &[],
    );
    for group in 0..resolution.groups.len() {
        html.add(
            "<path class=\"area {}\" d=\"{}\"/>",
            &[colour(group), &area(&axis, &samples, group, top)],
        );
    }
    for nth in 1..=ticks {
        let height = fixed(y(nth.saturating_mul(tick), top), 1);
        html.add(
            "<line class=\"grid\" x1=\"0\" x2=\"1000\" y1=\"{}\" y2=\"{}\"/>",
            &[&height, &height],
        );
    }
    html.add(
        "</svg><div class=\"here {}\" style=\"left:{}%\"><span>{} · {}</span></div></div><div class=\"lengths\">",
        &[
            if axis.x(resolution.max_model_len) > WIDTH / 2.0 {
                "left"
            } else {
                "right"
            },
            &here,
            &text::number(resolution.max_model_len),
            &text::bytes(resolution.request_bytes),
        ],
    );
    for octave in (FIRST_OCTAVE..=last_octave).step_by(2) {
        let tokens = 1_u64 << octave;
        html.add(
            "<span style=\"left:{}%\">{}</span>",
            &[
                &fixed(axis.x(tokens) / WIDTH * 100.0, 2),
                &text::short_tokens(tokens),
            ],
        );
    }
    html.add("</div></div></figure>", &[]);
}

fn total(sample: Option<&RequestBytes>) -> String {
    text::bytes(sample.map_or(0, |sample| sample.total))
}

/// log₂ of a length, rounded up, as far as a length is a length.
fn ceil_log2(length: u64) -> u32 {
    length.clamp(1, 1 << 40).next_power_of_two().ilog2()
}

struct Axis {
    last_octave: u32,
}

impl Axis {
    /// Eight to a doubling: enough to look smooth.
    fn samples(&self, resolution: &Resolution) -> Vec<RequestBytes> {
        (FIRST_OCTAVE * STEPS_PER_OCTAVE..=self.last_octave * STEPS_PER_OCTAVE)
            .filter_map(|eighths| resolution.request_bytes_at(scale::power(eighths)).ok())
            .collect()
    }

    /// Where a length lies; the ends hold.
    #[allow(clippy::cast_precision_loss)] // only drawn
    fn x(&self, length: u64) -> f64 {
        let octaves = scale::log2_256ths(length) as f64 / 256.0 - f64::from(FIRST_OCTAVE);
        (octaves / f64::from(self.last_octave - FIRST_OCTAVE)).clamp(0.0, 1.0) * WIDTH
    }
}

/// The outline of one group's layer in the stack.
fn area(axis: &Axis, samples: &[RequestBytes], group: usize, top: u64) -> String {
    let below = |sample: &RequestBytes| sample.by_group.iter().skip(group + 1).sum::<u64>();
    let mut path = String::new();
    for (index, sample) in samples.iter().enumerate() {
        let above = below(sample) + sample.by_group.get(group).copied().unwrap_or(0);
        let command = if index == 0 { 'M' } else { 'L' };
        // writing to a String cannot fail
        let _ = write!(
            path,
            "{command}{} {}",
            fixed(axis.x(sample.length), 1),
            fixed(y(above, top), 1)
        );
    }
    for sample in samples.iter().rev() {
        let _ = write!(
            path,
            "L{} {}",
            fixed(axis.x(sample.length), 1),
            fixed(y(below(sample), top), 1)
        );
    }
    path.push('Z');
    path
}

#[allow(clippy::cast_precision_loss)] // only drawn
fn ratio(bytes: u64, top: u64) -> f64 {
    bytes as f64 / top as f64
}

fn y(bytes: u64, top: u64) -> f64 {
    HEIGHT * (1.0 - ratio(bytes, top))
}

/// The step between lines: 1, 2 or 5 times a power of ten of the unit that the highest value is read in.
fn tick_bytes(highest: u64) -> u64 {
    let unit = [1_u64 << 30, 1 << 20, 1 << 10]
        .into_iter()
        .find(|unit| highest >= *unit)
        .unwrap_or(1);
    let mut scale = unit;
    loop {
        for times in [1, 2, 5] {
            let step = scale.saturating_mul(times);
            if highest.div_ceil(step) <= MOST_TICKS {
                return step;
            }
        }
        scale = scale.saturating_mul(10);
    }
}

/// A tick's text: whole units.
fn bytes_tick(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", text::number(bytes >> 30)),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", text::number(bytes >> 20)),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", text::number(bytes >> 10)),
        _ => text::exact_bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(tick_bytes(10 << 30), 2 << 30);
        assert_eq!(tick_bytes(5 << 20), 1 << 20);
        assert_eq!(bytes_tick(tick_bytes(9 << 30) * 3), "6 GiB");
        for highest in [0, 1, 7, 1000, 1 << 20, u64::MAX] {
            assert!(
                highest.div_ceil(tick_bytes(highest)) <= MOST_TICKS,
                "{highest}"
            );
        }
    }
}
