//! The axes: lengths by their logarithm, bytes as they are, requests by their logarithm.

use kv_resolver::capacity::Requests;

use super::{Point, Tick};
use crate::scale::{self, FIRST_OCTAVE, STEPS_PER_OCTAVE};
use crate::text;

/// log₂ of the longest, unless a longer one is asked about.
const LAST_OCTAVE: u32 = 20;
/// No model is longer than 2 to this, nor drawn so.
const MOST_OCTAVE: u32 = 40;
/// Steps of bytes, at most.
const MOST_STEPS: u64 = 6;
/// Lengths, at most.
const MOST_LENGTHS: u32 = 6;
/// Numbers of requests below the top, at most.
const MOST_RUNGS: u32 = 9;
/// Units of bytes, as powers of two.
const UNITS: [(u32, &str); 3] = [(30, " GiB"), (20, " MiB"), (10, " KiB")];
/// Texts nearer than this would touch, in percent of the height.
const TEXT_ROOM: f64 = 8.0;

/// The context length, left to right.
pub struct Lengths {
    here: u64,
    first_octave: u32,
    last_octave: u32,
}

impl Lengths {
    /// From 1k to 1M, and on to the chosen length where that is outside.
    pub fn new(here: u64) -> Self {
        let here = here.clamp(1, 1 << MOST_OCTAVE);
        Self {
            here,
            first_octave: FIRST_OCTAVE.min(here.ilog2()),
            last_octave: LAST_OCTAVE.max(here.next_power_of_two().ilog2()),
        }
    }

    /// Where a length lies; the ends hold.
    #[allow(clippy::cast_precision_loss)] // only drawn
    pub fn x(&self, length: u64) -> f64 {
        let octaves = scale::log2_256ths(length) as f64 / 256.0 - f64::from(self.first_octave);
        let of = f64::from(self.last_octave - self.first_octave);
        (octaves / of).clamp(0.0, 1.0) * 100.0
    }

    /// Eight to a doubling, which is enough to look smooth, and the chosen one among them.
    pub fn lengths(&self) -> Vec<u64> {
        let mut lengths = Vec::new();
        let mut last = 0;
        for eighths in self.first_octave * STEPS_PER_OCTAVE..=self.last_octave * STEPS_PER_OCTAVE {
            let length = scale::power(eighths);
            if last < self.here && self.here < length {
                lengths.push(self.here);
            }
            // below 8 tokens an eighth of a doubling is less than one
            if last < length {
                lengths.push(length);
            }
            last = length;
        }
        lengths
    }

    /// Powers of two.
    pub fn ticks(&self) -> Vec<Tick> {
        let octaves = self.last_octave - self.first_octave;
        let step = octaves.div_ceil(MOST_LENGTHS).max(1);
        let mut ticks = Vec::new();
        let mut octave = self.first_octave;
        while octave <= self.last_octave {
            ticks.push(Tick {
                at: self.x(1 << octave),
                text: text::short_tokens(1 << octave),
            });
            octave += step;
        }
        ticks
    }
}

/// Bytes, from 0 at the bottom to a whole number of steps.
pub struct Bytes {
    step: u64,
    steps: u64,
}

impl Bytes {
    /// Up to at least `highest`.
    pub fn new(highest: u64) -> Self {
        let step = step_bytes(highest);
        Self {
            step,
            steps: highest.div_ceil(step).max(1),
        }
    }

    /// Where so many bytes lie; above the plot, below 0.
    #[allow(clippy::cast_precision_loss)] // only drawn
    pub fn y(&self, bytes: u64) -> f64 {
        let top = self.step as f64 * self.steps as f64;
        100.0 - bytes as f64 / top * 100.0
    }

    /// Every step, in whole units.
    pub fn ticks(&self) -> Vec<Tick> {
        let mut ticks = Vec::new();
        for nth in 0..=self.steps {
            let bytes = nth.saturating_mul(self.step);
            ticks.push(Tick {
                at: self.y(bytes),
                text: whole_units(bytes),
            });
        }
        ticks
    }
}

/// 1, 2 or 5 times a power of ten of the unit that the highest value is read in.
fn step_bytes(highest: u64) -> u64 {
    let unit = UNITS.iter().find(|(shift, _)| highest >> shift > 0);
    let shift = unit.map_or(0, |(shift, _)| *shift);
    let mut nth = 0;
    loop {
        let step = rung(nth).saturating_mul(1 << shift);
        // at the latest with the largest number there is
        if highest.div_ceil(step) <= MOST_STEPS {
            return step;
        }
        nth += 1;
    }
}

/// 1, 2, 5, 10, 20, 50 and so on, as far as 64 bits go.
fn rung(nth: u32) -> u64 {
    let times = match nth % 3 {
        0 => 1,
        1 => 2,
        _ => 5,
    };
    10_u64.saturating_pow(nth / 3).saturating_mul(times)
}

fn whole_units(bytes: u64) -> String {
    if bytes == 0 {
        return "0".to_owned();
    }
    let unit = UNITS
        .iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift);
    match unit {
        Some((shift, name)) => text::number(bytes >> shift) + name,
        None => text::exact_bytes(bytes),
    }
}

/// How often something fits, by its logarithm, from once at the bottom to a round number.
pub struct Times {
    /// The number's place among the round ones.
    last: u32,
    top: u64,
}

impl Times {
    /// Up to at least `most`.
    pub fn new(most: u64) -> Self {
        let mut last = 1;
        while rung(last) < most {
            last += 1;
        }
        Self {
            last,
            top: rung(last),
        }
    }

    /// Where a ratio lies: below the plot if less than one fits, and `None` if nothing does.
    pub fn point(&self, x: f64, requests: Requests) -> Option<Point> {
        (requests.num_blocks > 0).then(|| Point {
            x,
            y: self.y(requests.num_blocks) + 100.0 - self.y(requests.blocks_per_request),
        })
    }

    /// Where a number lies.
    #[allow(clippy::cast_precision_loss)] // only drawn
    pub fn y(&self, times: u64) -> f64 {
        let log = |times| scale::log2_256ths(times) as f64;
        100.0 - log(times) / log(self.top) * 100.0
    }

    /// Ones, twos and fives where there is room, else powers of ten; and the top.
    pub fn ticks(&self) -> Vec<Tick> {
        let step = if self.last <= MOST_RUNGS {
            1
        } else {
            3 * self.last.div_ceil(3 * MOST_RUNGS)
        };
        let mut ticks = Vec::new();
        let mut nth = 0;
        while nth < self.last {
            let at = self.y(rung(nth));
            if at >= TEXT_ROOM {
                ticks.push(times_tick(at, rung(nth)));
            }
            nth += step;
        }
        ticks.push(times_tick(0.0, self.top));
        ticks
    }
}

fn times_tick(at: f64, times: u64) -> Tick {
    Tick {
        at,
        text: text::number(times) + "×",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: [u64; 8] = [0, 1, 7, 1000, 1 << 20, 1 << 40, u64::MAX / 3, u64::MAX];

    fn texts(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| &*tick.text).collect()
    }

    #[test]
    fn steps_of_bytes_are_round_and_few() {
        assert_eq!(step_bytes(10 << 30), 2 << 30);
        assert_eq!(step_bytes(5 << 20), 1 << 20);
        assert_eq!(
            texts(&Bytes::new(11 << 30).ticks()),
            ["0", "2 GiB", "4 GiB", "6 GiB", "8 GiB", "10 GiB", "12 GiB"]
        );
        for highest in HUGE {
            let axis = Bytes::new(highest);
            assert!((1..=MOST_STEPS).contains(&axis.steps), "{highest}");
            let y = axis.y(highest);
            assert!((0.0..=100.0).contains(&y), "{highest}: {y}");
        }
    }

    #[test]
    fn requests_are_read_at_ones_twos_and_fives() {
        assert_eq!(
            texts(&Times::new(40).ticks()),
            ["1×", "2×", "5×", "10×", "20×", "50×"]
        );
        assert_eq!(
            texts(&Times::new(1400).ticks()),
            ["1×", "10×", "100×", "1,000×", "2,000×"]
        );
        assert_eq!(texts(&Times::new(0).ticks()), ["1×", "2×"]);
        assert_eq!(Times::new(1000).ticks().len(), 10);
        for most in HUGE {
            let axis = Times::new(most);
            let ticks = axis.ticks();
            assert!(ticks.len() <= 1 + MOST_RUNGS as usize, "{most}");
            for pair in ticks.windows(2) {
                assert!(pair[0].at - pair[1].at >= 5.0, "{most}: {pair:?}");
            }
            let y = axis.y(most);
            assert!((0.0..=100.0).contains(&y), "{most}: {y}");
        }
    }

    #[test]
    fn lengths_reach_whatever_is_chosen() {
        for here in [0, 1, 100, 1000, 262_144, 3_000_000, 1 << 40, u64::MAX] {
            let axis = Lengths::new(here);
            let smooth = axis.lengths();
            assert!(smooth.is_sorted_by(|a, b| a < b), "{here}");
            assert!(smooth.contains(&here.clamp(1, 1 << 40)), "{here}");
            let xs: Vec<f64> = smooth.iter().map(|length| axis.x(*length)).collect();
            assert!(xs.is_sorted(), "{here}");
            assert!(xs[0] < 0.1 && xs[xs.len() - 1] > 99.9, "{here}: {xs:?}");
            assert!(axis.ticks().len() <= 1 + MOST_LENGTHS as usize, "{here}");
        }
        assert_eq!(
            texts(&Lengths::new(262_144).ticks()),
            ["1k", "4k", "16k", "64k", "256k", "1M"]
        );
        assert_eq!(Lengths::new(5000).lengths().len(), 82);
    }
}
