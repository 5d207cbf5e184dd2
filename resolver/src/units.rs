//! Integer arithmetic that cannot wrap, and numbers printed as Python prints them.

use crate::error::Refusal;

/// Bytes in one GiB.
pub const GIB: u64 = 1 << 30;

/// `ceil(a / b)`; Python's error where `b` is zero.
///
/// # Errors
/// [`Refusal::ZeroDivision`] where vLLM's `cdiv` divides by zero.
pub const fn ceil_div(a: u64, b: u64) -> Result<u64, Refusal> {
    if b == 0 {
        return Err(Refusal::ZeroDivision);
    }
    Ok(a.div_ceil(b))
}

/// `a` rounded up to a multiple of `b`.
///
/// # Errors
/// [`Refusal::ZeroDivision`] for `b` = 0, [`Refusal::TooLarge`] past 64 bits.
pub fn round_up(a: u64, b: u64) -> Result<u64, Refusal> {
    mul(ceil_div(a, b)?, b)
}

/// A product that is refused, never wrapped.
///
/// # Errors
/// [`Refusal::TooLarge`] past 64 bits.
pub fn mul(a: u64, b: u64) -> Result<u64, Refusal> {
    a.checked_mul(b).ok_or(Refusal::TooLarge)
}

/// A sum that is refused, never wrapped.
///
/// # Errors
/// [`Refusal::TooLarge`] past 64 bits.
pub fn add(a: u64, b: u64) -> Result<u64, Refusal> {
    a.checked_add(b).ok_or(Refusal::TooLarge)
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
pub fn lcm(a: u64, b: u64) -> Result<u64, Refusal> {
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
    python_float(format!("{gib:.2}").parse().unwrap_or(gib))
}

/// `repr(float)` for the magnitudes that occur here (below 1e16).
#[must_use]
pub fn python_float(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
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
    fn thousands_are_separated() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_457_780), "1,457,780");
    }

    #[test]
    fn nothing_wraps() {
        assert_eq!(mul(u64::MAX, 2), Err(Refusal::TooLarge));
        assert_eq!(round_up(u64::MAX, 576), Err(Refusal::TooLarge));
        assert_eq!(ceil_div(7, 0), Err(Refusal::ZeroDivision));
        assert_eq!(lcm(64, 256), Ok(256));
    }
}
