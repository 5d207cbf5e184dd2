//! Good input, spoilt: JSON by its structure, texts by their lines and words.

use fastrand::Rng;
use kv_resolver::Value;

/// Numbers at which something ends, as JSON or as what some take for it.
const NUMBERS: [&str; 34] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "255",
    "256",
    "1023",
    "1024",
    "1025",
    "65536",
    "1048576",
    "1048577",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "170141183460469231731687303715884105728",
    "1e308",
    "1e309",
    "-1e309",
    "5e-324",
    "0.1",
    "4.0",
    "NaN",
    "-Infinity",
];

/// Stands in a string for what is no value: [`NUMBERS`] are written where it is.
const RAW: &str = "\u{1}raw";

fn word<'a>(rng: &mut Rng, words: &'a [String]) -> &'a str {
    &words[rng.usize(..words.len())]
}

/// Values of the other kinds.
fn odd(rng: &mut Rng, words: &[String]) -> Value {
    match rng.u8(..10) {
        0 => Value::Null,
        1 => Value::Bool(rng.bool()),
        2 => Value::String(String::new()),
        3 => Value::String("é\u{202e}\u{0}\n'\"\\".repeat(1 << rng.u8(..8))),
        4 => Value::Array(Vec::new()),
        5 => Value::Object(Vec::new()),
        6 => Value::String(word(rng, words).to_owned()),
        _ => raw(rng),
    }
}

fn raw(rng: &mut Rng) -> Value {
    Value::String(format!("{RAW}{}", rng.usize(..NUMBERS.len())))
}

/// JSON, with one to four values, keys or lists changed; text that is none is spoilt as text.
pub fn json(bytes: &[u8], rng: &mut Rng, words: &[String], most: usize) -> Vec<u8> {
    let parsed = std::str::from_utf8(bytes).ok();
    let Some(mut value) = parsed.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return text(bytes, rng, words, most);
    };
    if rng.u8(..) < 12 {
        return text(bytes, rng, words, most);
    }
    for _ in 0..=rng.u8(..4) {
        let mut at = rng.usize(..count(&value));
        let donor = pick(&value, rng.usize(..count(&value))).clone();
        if let Some(node) = find(&mut value, &mut at) {
            change(node, donor, rng, words, most);
        }
    }
    let mut written = kv_cases::value_json(&value);
    for (at, number) in NUMBERS.iter().enumerate().rev() {
        if !written.contains("\\u0001raw") {
            break;
        }
        written = written.replace(&format!("\"\\u0001raw{at}\""), number);
    }
    written.into_bytes()
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(entries) => Box::new(entries.iter().map(|(_, value)| value)),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {
            Box::new(std::iter::empty())
        }
    }
}

/// Values in a value, itself among them.
fn count(value: &Value) -> usize {
    1 + children(value).map(count).sum::<usize>()
}

/// One of them, by its number.
fn pick(value: &Value, mut at: usize) -> &Value {
    for child in children(value) {
        if at == 0 {
            return value;
        }
        let size = count(child);
        if at <= size {
            return pick(child, at - 1);
        }
        at -= size;
    }
    value
}

fn find<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| find(item, at)),
        Value::Object(entries) => entries.iter_mut().find_map(|(_, item)| find(item, at)),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {
            None
        }
    }
}

fn change(node: &mut Value, donor: Value, rng: &mut Rng, words: &[String], most: usize) {
    let many = 1 << rng.u32(..=most.ilog2().min(20));
    let roll = rng.u8(..20);
    match node {
        Value::Object(entries) if roll < 15 && !entries.is_empty() => {
            let at = rng.usize(..entries.len());
            match roll {
                0 | 1 => drop(entries.swap_remove(at)),
                2 => word(rng, words).clone_into(&mut entries[at].0),
                3 => entries.insert(at, (word(rng, words).to_owned(), donor)),
                // the last of equal keys counts
                4 => {
                    let key = entries[at].0.clone();
                    entries.push((key, odd(rng, words)));
                }
                5 => {
                    let other = rng.usize(..entries.len());
                    let value = entries[other].1.clone();
                    entries[at].1 = value;
                }
                6 => {
                    let entry = entries[at].clone();
                    entries.extend(std::iter::repeat_n(entry, many / 16));
                }
                7 => entries.insert(at, (word(rng, words).to_owned(), raw(rng))),
                _ => change(&mut entries[at].1, donor, rng, words, most),
            }
        }
        Value::Array(items) if roll < 12 && !items.is_empty() => {
            let at = rng.usize(..items.len());
            match roll {
                0 => drop(items.remove(at)),
                1 => items.truncate(at),
                2 => items.insert(at, donor),
                3 | 4 => {
                    let item = items[at].clone();
                    items.extend(std::iter::repeat_n(item, many / 2));
                }
                5 => items.reverse(),
                _ => change(&mut items[at], donor, rng, words, most),
            }
        }
        Value::Integer(number) if roll < 14 => {
            *number = match roll {
                0 | 1 => number.saturating_add(1),
                2 | 3 => number.saturating_sub(1),
                4 => number.saturating_mul(2),
                5 => *number / 2,
                6 => number.saturating_neg(),
                7 => number.saturating_mul(3),
                8 => 1 << rng.u8(..64),
                _ => {
                    let bits = rng.u8(1..24);
                    rng.i128(0..=1 << bits)
                }
            }
            // what cannot be written
            .clamp(i64::MIN.into(), u64::MAX.into());
        }
        Value::String(text) if roll < 6 => match roll {
            0 => text.push('\u{0}'),
            1 => *text = text.repeat((many / 8).clamp(1, 1 << 12)),
            2 => text.make_ascii_uppercase(),
            3 => drop(text.pop()),
            _ => word(rng, words).clone_into(text),
        },
        Value::Float(number) if roll < 6 => {
            *number = [-*number, 0.0, 1e300, *number * 2.0][rng.usize(..4)];
        }
        _ => match roll {
            15 => *node = donor,
            16 => *node = Value::Array(vec![std::mem::take(node)]),
            17 => {
                let mut deep = std::mem::take(node);
                for _ in 0..rng.u8(..140) {
                    deep = Value::Array(vec![deep]);
                }
                *node = deep;
            }
            18 => *node = Value::String(kv_cases::value_json(node)),
            _ => *node = odd(rng, words),
        },
    }
}

/// Characters that end, begin, hide or turn something.
const SIGNS: [&str; 24] = [
    "\n",
    "\r\n",
    "\t",
    " ",
    "\u{0}",
    "\u{1b}[31m",
    "\u{feff}",
    "\u{202e}",
    "\u{2028}",
    "é",
    "𝕏",
    "'",
    "\"",
    "\\",
    "`",
    "$(",
    "{",
    "}",
    "[",
    "]",
    "%",
    "&",
    "=",
    "--",
];

/// A text with one to four places changed.
pub fn text(bytes: &[u8], rng: &mut Rng, words: &[String], most: usize) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    for _ in 0..=rng.u8(..4) {
        let at = floor(&text, rng.usize(..=text.len()));
        let end = floor(&text, at + rng.usize(..=(text.len() - at).min(64)));
        match rng.u8(..12) {
            0 | 1 => text.insert_str(at, word(rng, words)),
            2 => text.replace_range(at..end, word(rng, words)),
            3 => text.insert_str(at, SIGNS[rng.usize(..SIGNS.len())]),
            4 => text.replace_range(at..end, ""),
            5 => text.insert_str(at, NUMBERS[rng.usize(..NUMBERS.len())]),
            6 | 7 => number(&mut text, at, rng),
            8 => {
                let piece = text[at..end].to_owned();
                let other = floor(&text, rng.usize(..=text.len()));
                text.insert_str(other, &piece);
            }
            9 => {
                let room = most.saturating_sub(text.len()) / (end - at).max(1);
                let many = room.min(1 << rng.u8(..16));
                let piece = text[at..end].repeat(rng.usize(..=many));
                text.insert_str(at, &piece);
            }
            10 => text.truncate(at),
            _ => {
                let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                let (one, two) = (
                    rng.usize(..lines.len().max(1)),
                    rng.usize(..lines.len().max(1)),
                );
                if !lines.is_empty() {
                    lines.swap(one, two);
                }
                text = lines.concat();
            }
        }
    }
    text.into_bytes()
}

fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// Another number in place of the next one.
fn number(text: &mut String, at: usize, rng: &mut Rng) {
    let is_digit = |c: char| c.is_ascii_digit();
    let Some(start) = text[at..].find(is_digit).map(|start| at + start) else {
        return;
    };
    let end = text[start..]
        .find(|c| !is_digit(c))
        .map_or(text.len(), |end| start + end);
    text.replace_range(start..end, NUMBERS[rng.usize(..NUMBERS.len())]);
}
