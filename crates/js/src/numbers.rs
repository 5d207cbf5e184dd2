//! Whole numbers that a double cannot hold exactly.

/// `Number.MAX_SAFE_INTEGER`: up to it every whole number is a double of its own.
pub const MOST_EXACT: u64 = (1 << 53) - 1;

/// The first whole number in this JSON that is past [`MOST_EXACT`].
pub fn inexact(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = past_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let length = json[at..]
                    .find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'))
                    .unwrap_or(json.len() - at);
                let number = &json[at..at + length];
                let digits = number.trim_start_matches('-');
                let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
                // what does not even fit 64 bits is past it as well
                if is_whole && !digits.parse().is_ok_and(|number: u64| number <= MOST_EXACT) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Behind the string that begins here.
fn past_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_past_a_doubles_are_found() {
        for json in [
            "",
            "{}",
            r#"{"a":9007199254740991,"b":-9007199254740991,"c":0.1,"d":1e300}"#,
            r#"["9007199254740993","\"9007199254740993","\\"]"#,
            r#"["é",12345678901234567.5]"#,
        ] {
            assert_eq!(inexact(json), None, "{json}");
        }
        for (json, number) in [
            ("9007199254740992", "9007199254740992"),
            (r#"{"a":["\\",-9007199254740993]}"#, "-9007199254740993"),
            (
                "[1,99999999999999999999999999]",
                "99999999999999999999999999",
            ),
        ] {
            assert_eq!(inexact(json), Some(number), "{json}");
        }
    }
}
