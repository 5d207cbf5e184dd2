//! One request's bytes by context length, stacked by group, and the pool.

use kv_resolver::Resolution;

use super::axis::{Bytes, Lengths};
use super::{Level, Paint, Plot, Point, Pool, Sample, Shape, words_of};
use crate::text;

/// A pool up to so many times the largest request is drawn to scale; above a larger one the stack would be flat.
const MOST_ABOVE: u64 = 2;
/// Layers thinner than this, in percent of the height, are not parted: the line would cover them.
const THIN: f64 = 1.0;
/// Room for a group's number, in percent of the height.
const KEY_ROOM: f64 = 8.0;

pub fn plot(
    resolution: &Resolution,
    axis: &Lengths,
    samples: &[Sample],
    pool: Option<&Pool>,
) -> Plot {
    let here = resolution.max_model_len;
    let most = samples.iter().map(|sample| sample.total).max();
    let most = most.unwrap_or(0).max(resolution.request_bytes);
    let drawn = pool.and_then(|pool| {
        let [_, likely, high] = pool.bytes;
        let ends = [high, likely].into_iter();
        ends.filter(|end| *end <= most.saturating_mul(MOST_ABOVE))
            .max()
    });
    let bytes = Bytes::new(most.max(drawn.unwrap_or(0)));
    let tops = tops(axis, &bytes, samples, resolution.groups.len());
    let mut words = words_of(samples, here, |sample| text::bytes(sample.total));
    let level = pool.map(|pool| level(pool, &bytes));
    if let Some(level) = &level {
        words += "; ";
        words += &level.text;
    }
    Plot {
        words,
        lengths: axis.ticks(),
        heights: bytes.ticks(),
        shapes: tops.windows(2).enumerate().map(shape).collect(),
        lines: tops.windows(3).map(edge).collect(),
        level,
        here: Point {
            x: axis.x(here),
            y: bytes.y(resolution.request_bytes),
        },
        here_text: format!(
            "{} · {}",
            text::number(here),
            text::bytes(resolution.request_bytes)
        ),
        keys: keys(&tops),
    }
}

/// The upper edge of each layer, from the stack's top, which is the first group's, down to the axis.
fn tops(axis: &Lengths, bytes: &Bytes, samples: &[Sample], groups: usize) -> Vec<Vec<Point>> {
    (0..=groups)
        .map(|group| {
            let top = |sample: &Sample| Point {
                x: axis.x(sample.length),
                y: bytes.y(sample.by_group.iter().skip(group).sum()),
            };
            samples.iter().map(top).collect()
        })
        .collect()
}

/// One layer: between its upper edge and the next one's.
fn shape((group, edges): (usize, &[Vec<Point>])) -> Shape {
    let mut outline = edges[0].clone();
    outline.extend(edges[1].iter().rev());
    Shape {
        paint: Paint::Group(group),
        outline,
    }
}

/// What parts two layers, as far as both are thick.
fn edge(edges: &[Vec<Point>]) -> Vec<Point> {
    let places = edges[0].iter().zip(&edges[1]).zip(&edges[2]);
    places
        .filter(|((above, here), below)| here.y - above.y >= THIN && below.y - here.y >= THIN)
        .map(|((_, here), _)| *here)
        .collect()
}

/// The pool, as far as it is in the plot.
fn level(pool: &Pool, bytes: &Bytes) -> Level {
    let [low, likely, high] = pool.bytes.map(|end| bytes.y(end));
    let is_drawn = likely >= 0.0;
    let mut text = "pool ".to_owned();
    if !pool.is_exact() {
        text += "≈ ";
    }
    text += &text::gib(pool.bytes[1]);
    if !is_drawn {
        text += " ↑ above";
    }
    Level {
        at: is_drawn.then_some(likely),
        band: (!pool.is_exact() && low > 0.0).then_some([high.max(0.0), low]),
        text,
    }
}

/// A place for each group's number: the middle of its layer at the right edge, moved apart where they would touch.
#[allow(clippy::cast_precision_loss)] // only drawn
fn keys(tops: &[Vec<Point>]) -> Vec<f64> {
    let ends: Vec<f64> = tops
        .iter()
        .filter_map(|edge| edge.last().map(|point| point.y))
        .collect();
    let mut keys: Vec<f64> = ends
        .windows(2)
        .map(|ends| f64::midpoint(ends[0], ends[1]))
        .collect();
    let room = KEY_ROOM.min(100.0 / keys.len().max(1) as f64);
    let mut least = room / 2.0;
    for key in &mut keys {
        *key = key.max(least);
        least = *key + room;
    }
    let mut most = 100.0 - room / 2.0;
    for key in keys.iter_mut().rev() {
        *key = key.min(most);
        most = *key - room;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(ys: &[f64]) -> Vec<Vec<Point>> {
        ys.iter().map(|y| vec![Point { x: 100.0, y: *y }]).collect()
    }

    #[test]
    fn numbers_lie_in_their_layers_unless_those_are_thin() {
        assert_eq!(keys(&ends(&[10.0, 40.0, 100.0])), [25.0, 70.0]);
        // three at the bottom, as thin as nothing
        assert_eq!(
            keys(&ends(&[0.0, 99.0, 99.5, 99.9, 100.0])),
            [49.5, 80.0, 88.0, 96.0]
        );
        let many: Vec<f64> = (0..=40).map(|_| 100.0).collect();
        let keys = keys(&ends(&many));
        assert!(keys.is_sorted_by(|a, b| b - a > 2.4));
        assert!(keys[0] > 0.0 && keys[39] < 100.0);
    }
}
