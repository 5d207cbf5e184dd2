//! Text as a query value, and back.

/// JSON without the spaces between its tokens.
pub fn minify(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for character in json.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            in_string = character == '"';
        }
        out.push(character);
    }
    out
}

/// Percent-encodes what a query value cannot hold.
pub fn encode(text: &str) -> String {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/:,".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        }
    }
    out
}

/// Undoes [`encode`]; what is not an escape stays as it is, and bytes that are no text become `�`.
pub fn decode(text: &str) -> String {
    let hex = |byte: u8| char::from(byte).to_digit(16);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index..] {
            [b'%', high, low, ..] => {
                if let (Some(high), Some(low)) = (hex(high), hex(low)) {
                    #[allow(clippy::cast_possible_truncation)] // two hex digits
                    out.push((high * 16 + low) as u8);
                    index += 3;
                    continue;
                }
                out.push(b'%');
            }
            [b'+', ..] => out.push(b' '),
            [byte, ..] => out.push(byte),
            [] => {}
        }
        index += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}
