//! Integer arithmetic that cannot wrap, and numbers printed as Python prints them.

use std::fmt::Write as _;

use crate::error::Refusal;

/// Bytes in one MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in one GiB.
pub const GIB: u64 = 1 << 30;
/// The first float past the integers of 64 bits.
pub(crate) const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// `ceil(a / b)`; Python's error where `b` is zero.
///
/// # Errors
/// [`Refusal::ZeroDivision`] where vLLM's `cdiv` divides by zero.
pub fn ceil_div(a: u64, b: u64) -> Result<u64, Box<Refusal>> {
    if b == 0 {
        return Err(Box::new(Refusal::ZeroDivision));
    }
    Ok(a.div_ceil(b))
}

/// Out of line, for it is asked for at every product and sum.
#[cold]
#[inline(never)]
fn too_large() -> Box<Refusal> {
    Box::new(Refusal::TooLarge)
}

/// `a` rounded up to a multiple of `b`.
///
/// # Errors
/// [`Refusal::ZeroDivision`] for `b` = 0, [`Refusal::TooLarge`] past 64 bits.
pub fn round_up(a: u64, b: u64) -> Result<u64, Box<Refusal>> {
    mul(ceil_div(a, b)?, b)
}

/// A product that is refused, never wrapped.
///
/// # Errors
/// [`Refusal::TooLarge`] past 64 bits.
pub fn mul(a: u64, b: u64) -> Result<u64, Box<Refusal>> {
    a.checked_mul(b).ok_or_else(too_large)
}

/// A sum that is refused, never wrapped.
///
/// # Errors
/// [`Refusal::TooLarge`] past 64 bits.
pub fn add(a: u64, b: u64) -> Result<u64, Box<Refusal>> {
    a.checked_add(b).ok_or_else(too_large)
}

/// Greatest common divisor.
#[must_use]
pub const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Least common multiple; 0 if either is 0.
///
/// # Errors
/// [`Refusal::TooLarge`] past 64 bits.
pub fn lcm(a: u64, b: u64) -> Result<u64, Box<Refusal>> {
    if a == 0 || b == 0 {
        return Ok(0);
    }
    mul(a / gcd(a, b), b)
}

/// Bytes as vLLM's messages print GiB: two decimals, then Python's shortest
/// form ("7.19", "2.0", "-0.0"). Mirrors `vllm/utils/mem_utils.py` `format_gib`.
#[must_use]
#[allow(clippy::cast_precision_loss)] // Python divides to a double, too
pub fn format_gib(bytes: i128) -> String {
    let gib = bytes as f64 / GIB as f64;
    // of two decimals, Python's shortest form drops a last zero, but never both
    let text = fixed(gib, 2);
    text.strip_suffix('0').unwrap_or(&text).to_owned()
}

/// A number as Python's `float()` reads it, to the nearest double; `None` for
/// what is no number and for more digits or a larger exponent than a flag needs.
///
/// Not `str::parse`: its tables would be a fifteenth of the page, gzipped.
#[must_use]
pub fn parse_float(text: &str) -> Option<f64> {
    /// 10^19 is the largest power of ten in 64 bits.
    const MOST_DIGITS: usize = 19;
    let text = text.trim();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    if text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || digits.len() > MOST_DIGITS {
        return None;
    }
    let mantissa: u64 = digits.parse().ok()?;
    let decimals = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let power = 10_u64.checked_pow(decimals.unsigned_abs())?;
    if mantissa == 0 {
        return Some(sign * 0.0);
    }
    #[allow(clippy::cast_precision_loss)] // rounds to the nearest, once
    if decimals <= 0 {
        return Some(sign * (u128::from(mantissa) * u128::from(power)) as f64);
    }
    // a quotient of at least 62 bits, its last bit set if anything remains
    // below it, rounds as the exact one does
    let shift = u128::from(mantissa).leading_zeros() - 1;
    let dividend = u128::from(mantissa) << shift;
    let remains = u128::from(!dividend.is_multiple_of(u128::from(power)));
    #[allow(clippy::cast_precision_loss)] // rounds to the nearest, once
    let quotient = ((dividend / u128::from(power)) | remains) as f64;
    // a power of two scales exactly; the shift is at most 126
    Some(sign * quotient * f64::from_bits(u64::from(1023 - shift) << 52))
}

/// `repr(float)` for the magnitudes that occur here (below 1e16).
#[must_use]
pub fn python_float(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value}.0")
    } else {
        value.to_string()
    }
}

/// A number below 2^64 with so many decimals (three at most), the nearest and
/// of two the even one, as Python's `f"{x:.2f}"` and Rust's `{:.2}` have it.
///
/// Not the latter: its way to any number of decimals would be a hundredth of
/// the page, gzipped.
#[must_use]
pub fn fixed(value: f64, decimals: u32) -> String {
    debug_assert!(value.abs() < 2.0 * TWO_TO_63 && decimals <= 3);
    let bits = value.to_bits();
    let exponent = u32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
    let mantissa = bits & ((1 << 52) - 1) | u64::from(exponent > 0) << 52;
    let one = 10_u64.pow(decimals);
    // the value is scaled / one × 2^(exponent - 1075)
    let scaled = u128::from(mantissa * one);
    let exponent = exponent.max(1);
    let rounded = if exponent >= 1075 {
        scaled << (exponent - 1075)
    } else {
        let down = 1075 - exponent;
        // what is shifted out whole is less than a half
        let below = scaled.checked_shr(down).unwrap_or(0);
        let rest = scaled - below.checked_shl(down).unwrap_or(0);
        let half = 1_u128.checked_shl(down - 1).unwrap_or(u128::MAX);
        below + u128::from(rest > half || rest == half && below % 2 == 1)
    };
    let one = u128::from(one);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (whole, part) = (rounded / one, rounded % one);
    let width = decimals as usize;
    format!("{sign}{whole}.{part:0width$}")
}

/// Text in quotes, for our own messages; not by `{:?}`, whose tables of
/// characters nobody needs to see.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if c.is_control() => {
                // writing to a String cannot fail
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An integer with thousands separators, as Python's `f"{n:,}"`.
#[must_use]
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gib_prints_as_python_does() {
        assert_eq!(format_gib(536_870_912), "0.5");
        assert_eq!(format_gib(2_147_483_648), "2.0");
        assert_eq!(format_gib(7_723_261_440), "7.19");
        assert_eq!(format_gib(7_526_930_186), "7.01");
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn gib_drops_what_pythons_repr_drops() {
        for step in 0..5000_i128 {
            let bytes = (step - 2500) * 7_654_321_987;
            let gib = bytes as f64 / GIB as f64;
            let rounded: f64 = format!("{gib:.2}").parse().unwrap();
            assert_eq!(format_gib(bytes), python_float(rounded), "{bytes}");
        }
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn decimals_are_rusts_own() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut values = vec![
            0.0, -0.0, 0.125, 0.375, 2.5, 1e-320, 5e-324, 1.8e19, 0.999_5,
        ];
        for _ in 0..20_000 {
            // xorshift
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            values.push(state as f64 / (1_u64 << (state % 64)) as f64);
            values.push(-((state >> 40) as f64) / 1024.0);
        }
        for value in values {
            assert_eq!(fixed(value, 1), format!("{value:.1}"));
            assert_eq!(fixed(value, 2), format!("{value:.2}"));
            assert_eq!(fixed(value, 3), format!("{value:.3}"));
        }
    }

    #[test]
    fn quotes_are_rusts_own() {
        for text in ["", "a b", "\"\\\n\r\t'", "\u{1}\u{1b}", "é → 中"] {
            assert_eq!(quoted(text), format!("{text:?}"));
        }
    }

    #[test]
    fn floats_are_the_nearest_doubles() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..20_000 {
            // xorshift
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let digits = (state % 1_000_000_000_000_000_000).to_string();
            let digits = &digits[..=usize::try_from(state >> 32).unwrap() % digits.len()];
            let point = usize::try_from(state >> 16 & 31).unwrap() % (digits.len() + 1);
            let number = format!("{}.{}", &digits[..point], &digits[point..]);
            let with_exponent = format!("{number}e-1");
            for text in [digits, &number, &with_exponent] {
                let parsed = parse_float(text).map(f64::to_bits);
                assert_eq!(parsed, text.parse().ok().map(f64::to_bits), "{text}");
            }
        }
        for text in [
            "0.92",
            "1e3",
            "-2.5E2",
            "+7",
            ".5",
            "5.",
            "0",
            "-0",
            "inf",
            "-Infinity",
        ] {
            assert_eq!(parse_float(text), text.parse().ok(), "{text}");
        }
        assert!(parse_float("NaN").is_some_and(f64::is_nan));
        for text in [
            "",
            ".",
            "e5",
            "1e",
            "1.2.3",
            "0x1",
            "1e400",
            "--1",
            "1e-99999999999",
        ] {
            assert_eq!(parse_float(text), None, "{text}");
        }
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_457_780), "1,457,780");
    }

    #[test]
    fn nothing_wraps() {
        assert_eq!(mul(u64::MAX, 2), Err(Box::new(Refusal::TooLarge)));
        assert_eq!(round_up(u64::MAX, 576), Err(Box::new(Refusal::TooLarge)));
        assert_eq!(ceil_div(7, 0), Err(Box::new(Refusal::ZeroDivision)));
        assert_eq!(lcm(64, 256), Ok(256));
    }
}
