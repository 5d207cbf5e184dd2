//! Numbers as the cache holds them. All rounding is to the nearest, ties to even, as a GPU's `cvt.rn` does.

/// The largest number of `float8_e4m3fn`.
pub const E4M3_MAX: f32 = 448.0;

/// The code of a number in `float8_e4m3fn`; past the largest it stays at the largest, as with `cvt.rn.satfinite`.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // codes are below 128
pub fn e4m3(value: f32) -> u8 {
    const LEAST_NORMAL: f32 = 0.015_625;
    let sign = ((value.to_bits() >> 31) as u8) << 7;
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7f;
    }
    let code = if size >= E4M3_MAX {
        0x7e
    } else if size < LEAST_NORMAL {
        // in steps of 2^-9; the sum's last bit is worth one, so it rounds
        (size * 512.0 + 8_388_608.0).to_bits() - 8_388_608_f32.to_bits()
    } else {
        let bits = size.to_bits();
        let rounded = bits + 0x7_ffff + ((bits >> 20) & 1);
        ((rounded >> 20) - (120 << 3)).min(0x7e)
    };
    sign | code as u8
}

/// The number of a code in `float8_e4m3fn`.
#[must_use]
pub fn from_e4m3(code: u8) -> f32 {
    let sign = u32::from(code >> 7) << 31;
    let size = u32::from(code & 0x7f);
    let magnitude = match size {
        0x7f => f32::NAN,
        0..8 => f32::from(code & 7) / 512.0,
        _ => f32::from_bits((size << 20) + (120 << 23)),
    };
    f32::from_bits(magnitude.to_bits() | sign)
}

/// The bits of a number in `bfloat16`.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // the upper half
pub fn bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return ((bits >> 16) | 0x40) as u16;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The number of these bits in `bfloat16`.
#[must_use]
pub fn from_bfloat16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The least whole exponent whose power of two is no less than a positive normal number.
#[must_use]
pub fn ceil_log2(value: f32) -> i32 {
    let bits = value.to_bits();
    let exponent = (bits >> 23 & 0xff).cast_signed() - 127;
    exponent + i32::from(bits & 0x7f_ffff != 0)
}

/// Two to a whole exponent of a normal number.
#[must_use]
pub fn exp2(exponent: i32) -> f32 {
    f32::from_bits((exponent + 127).clamp(0, 254).cast_unsigned() << 23)
}

/// The byte of a power of two in UE8M0: its exponent, 127 added.
#[must_use]
pub fn ue8m0(exponent: i32) -> u8 {
    u8::try_from((exponent + 127).clamp(0, 255)).unwrap_or(u8::MAX)
}

/// The power of two of a byte in UE8M0.
#[must_use]
pub fn from_ue8m0(byte: u8) -> f32 {
    exp2(i32::from(byte) - 127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back() {
        for code in 0..=u8::MAX {
            let value = from_e4m3(code);
            if code & 0x7f == 0x7f {
                assert!(value.is_nan());
            } else {
                assert_eq!(e4m3(value), code, "{value}");
            }
        }
    }

    #[test]
    fn numbers_between_two_codes_go_to_the_nearer_and_ties_to_the_even() {
        for code in 0..0x7e_u8 {
            let (low, high) = (from_e4m3(code), from_e4m3(code + 1));
            let middle = f32::midpoint(low, high);
            assert_eq!(e4m3(middle), code + (code & 1), "{low} {high}");
            assert_eq!(e4m3(middle.next_down()), code);
            assert_eq!(e4m3(-middle.next_up()), 0x80 | (code + 1));
        }
    }

    #[test]
    fn past_the_largest_it_stays_there() {
        assert_eq!(e4m3(449.0), 0x7e);
        assert_eq!(e4m3(-1e30), 0xfe);
        assert_eq!(e4m3(f32::NAN) & 0x7f, 0x7f);
    }

    #[test]
    fn bfloat16_rounds_to_even() {
        assert_eq!(bfloat16(1.0), 0x3f80);
        assert_eq!(bfloat16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(bfloat16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(bfloat16(f32::from_bits(0x3f80_8001)), 0x3f81);
        assert!(from_bfloat16(bfloat16(f32::NAN)).is_nan());
    }

    #[test]
    fn exponents_round_up() {
        assert_eq!(ceil_log2(1.0), 0);
        assert_eq!(ceil_log2(1.0_f32.next_up()), 1);
        assert_eq!(ceil_log2(1.0_f32.next_down()), 0);
        assert_eq!(ceil_log2(1e-4 / 448.0), -22);
        assert_eq!(ceil_log2(1e-4), -13);
        for exponent in -126..=127 {
            assert_eq!(ceil_log2(exp2(exponent)), exponent);
            assert_eq!(
                from_ue8m0(ue8m0(exponent)).to_bits(),
                exp2(exponent).to_bits()
            );
        }
    }
}
