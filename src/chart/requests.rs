//! Requests that fit by context length: both by their logarithm, in which twice as long is half as many.

use kv_resolver::Resolution;
use kv_resolver::capacity::Requests;

use super::axis::{Lengths, Times};
use super::{Level, Paint, Plot, Point, Pool, Sample, Shape, interval, words_of};
use crate::text;

pub fn plot(resolution: &Resolution, axis: &Lengths, samples: &[Sample], pool: &Pool) -> Plot {
    let here = resolution.max_model_len;
    let most = |sample: &Sample| sample.requests.map_or(0, |[.., high]| high.whole());
    let most = samples.iter().map(most).max().unwrap_or(0);
    let times = Times::new(most.saturating_add(1));
    let curves: [Vec<Point>; 3] = [0, 1, 2].map(|end| curve(axis, &times, samples, end));
    let at_here = samples.iter().find(|sample| sample.length == here);
    let fits = at_here.and_then(|sample| sample.requests);
    let x = axis.x(here);
    let y = fits.and_then(|[_, likely, _]| times.point(x, likely));
    let seqs = resolution.max_num_seqs;
    let is_limit = seqs > 1 && seqs <= most;
    let [low, likely, high] = &curves;
    let mut shapes = vec![under(likely)];
    if !pool.is_exact() {
        shapes.push(band(low, high));
    }
    Plot {
        words: words_of(samples, here, |sample| told(sample.requests)),
        lengths: axis.ticks(),
        heights: times.ticks(),
        shapes,
        level: is_limit.then(|| Level {
            at: Some(times.y(seqs)),
            band: None,
            text: format!("max_num_seqs {}", text::number(seqs)),
        }),
        here: Point {
            x,
            y: y.map_or(100.0, |point| point.y.clamp(0.0, 100.0)),
        },
        here_text: format!("{} · {}", text::number(here), told(fits)),
        keys: Vec::new(),
        lines: vec![curves.into_iter().nth(1).unwrap_or_default()],
    }
}

/// `5.56×`, with its ends where they differ.
fn told(requests: Option<[Requests; 3]>) -> String {
    let Some(requests) = requests else {
        return String::new();
    };
    let mut shown = requests.map(Requests::shown);
    shown[1].push('×');
    interval(shown)
}

/// One end's curve, down to where not even one fits.
fn curve(axis: &Lengths, times: &Times, samples: &[Sample], end: usize) -> Vec<Point> {
    let mut curve: Vec<Point> = Vec::new();
    for sample in samples {
        let requests = sample.requests.map(|ends| ends[end]);
        let point = requests.and_then(|it| times.point(axis.x(sample.length), it));
        let Some(point) = point else { break };
        if point.y <= 100.0 {
            curve.push(Point {
                x: point.x,
                y: point.y.max(0.0),
            });
            continue;
        }
        if let Some(last) = curve.last() {
            let part = (100.0 - last.y) / (point.y - last.y);
            curve.push(Point {
                x: last.x + (point.x - last.x) * part,
                y: 100.0,
            });
        }
        break;
    }
    curve
}

/// Down to the axis.
fn under(curve: &[Point]) -> Shape {
    let mut outline = curve.to_vec();
    if let (Some(first), Some(last)) = (curve.first(), curve.last()) {
        outline.extend([last.x, first.x].map(|x| Point { x, y: 100.0 }));
    }
    Shape {
        paint: Paint::Under,
        outline,
    }
}

/// Between the least and the most; down to the axis where the least is nothing.
fn band(low: &[Point], high: &[Point]) -> Shape {
    let mut outline = high.to_vec();
    // the corner between two ends, one on the axis and one at the right side
    if let (Some(low), Some(high)) = (low.last(), high.last())
        && high.y < 100.0
        && low.x < high.x
    {
        outline.push(Point {
            x: high.x,
            y: 100.0,
        });
    }
    if low.is_empty() {
        let ends = [high.last(), high.first()].into_iter().flatten();
        outline.extend(ends.map(|end| Point { x: end.x, y: 100.0 }));
    }
    outline.extend(low.iter().rev());
    Shape {
        paint: Paint::Band,
        outline,
    }
}
