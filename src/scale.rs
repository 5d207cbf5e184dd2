//! The context length's slider: its steps are equal ratios, and every eighth is a power of two.

/// Steps to a doubling.
pub const STEPS_PER_OCTAVE: u32 = 8;
/// log₂ of the shortest length.
pub const FIRST_OCTAVE: u32 = 10;
/// Doublings from the shortest length (1,024) to the longest (1,048,576).
const OCTAVES: u32 = 10;
/// Lengths in between are multiples of this.
const GRAIN: u64 = 64;

/// The slider's last position; the first is 0.
pub const LAST: u32 = STEPS_PER_OCTAVE * OCTAVES;

/// 2^(n/8), in 65,536ths: floating-point powers would weigh more than the page's whole scale.
const EIGHTHS: [u64; 8] = [
    65_536, 71_468, 77_936, 84_990, 92_682, 101_070, 110_218, 120_194,
];

/// The length `eighths` of a doubling above 1 token, not rounded to the grain.
pub const fn power(eighths: u32) -> u64 {
    // at most 2^64 / 2^17 before the shift
    (EIGHTHS[(eighths % STEPS_PER_OCTAVE) as usize] << (eighths / STEPS_PER_OCTAVE)) >> 16
}

/// log₂ of a length, in 256ths. Bit by bit: a square doubles its logarithm.
pub const fn log2_256ths(length: u64) -> u64 {
    let length = if length == 0 { 1 } else { length };
    let whole = length.ilog2();
    // the mantissa in [1, 2), with 31 bits behind the point
    let mut mantissa = if whole > 31 {
        length >> (whole - 31)
    } else {
        length << (31 - whole)
    };
    let mut log = whole as u64;
    let mut bit = 0;
    while bit < 8 {
        mantissa = (mantissa * mantissa) >> 31;
        log <<= 1;
        if mantissa >> 32 != 0 {
            log |= 1;
            mantissa >>= 1;
        }
        bit += 1;
    }
    log
}

/// The length at a position, in tokens.
pub const fn tokens(position: u32) -> u64 {
    let position = if position > LAST { LAST } else { position };
    let exact = power(position + FIRST_OCTAVE * STEPS_PER_OCTAVE);
    (exact + GRAIN / 2) / GRAIN * GRAIN
}

/// The position nearest to a length.
pub fn position(tokens: u64) -> u32 {
    (0..=LAST)
        .min_by_key(|position| self::tokens(*position).abs_diff(tokens))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_on_it() {
        assert_eq!(tokens(0), 1024);
        assert_eq!(tokens(64), 262_144);
        assert_eq!(tokens(LAST), 1_048_576);
        assert_eq!(tokens(u32::MAX), 1_048_576);
    }

    #[test]
    fn logarithms() {
        assert_eq!(log2_256ths(0), 0);
        assert_eq!(log2_256ths(1024), 10 * 256);
        assert_eq!(log2_256ths(1 << 40), 40 * 256);
        // log2(3) = 1.58496…
        assert_eq!(log2_256ths(3), 405);
        assert_eq!(log2_256ths(3 << 50), 50 * 256 + 405);
        assert_eq!(log2_256ths(u64::MAX), 64 * 256 - 1);
    }

    #[test]
    fn positions_come_back_and_rise() {
        for position in 0..=LAST {
            assert_eq!(self::position(tokens(position)), position);
            assert!(position == 0 || tokens(position - 1) < tokens(position));
        }
        assert_eq!(position(0), 0);
        assert_eq!(position(u64::MAX), LAST);
    }
}
