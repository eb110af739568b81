//! As much JSON as the daemon's answers need: fields of one flat object, found by their names.

/// `text` as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c < ' ' => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// What follows `"name":` at the top level of `object`, which holds strings, numbers, literals.
pub fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = object.trim_start().strip_prefix('{')?;
    loop {
        let (key, after) = string(rest)?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        if key == name {
            return Some(value);
        }
        rest = skip(value)?.trim_start().strip_prefix(',')?.trim_start();
    }
}

/// A string field, unescaped.
pub fn text(object: &str, name: &str) -> Option<String> {
    string(field(object, name)?).map(|(text, _)| unescape(text))
}

/// A number field; `None` for null too.
pub fn number(object: &str, name: &str) -> Option<i64> {
    let value = field(object, name)?;
    let end = value.find(|c: char| c != '-' && !c.is_ascii_digit());
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// A boolean field.
pub fn flag(object: &str, name: &str) -> Option<bool> {
    let value = field(object, name)?;
    let (yes, no) = (value.starts_with("true"), value.starts_with("false"));
    (yes || no).then_some(yes)
}

/// The raw contents of the string that `text` begins with, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let bytes = inner.as_bytes();
    let mut at = 0;
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some((&inner[..at], &inner[at + 1..]))
}

/// What follows the value that `text` begins with.
fn skip(text: &str) -> Option<&str> {
    if text.starts_with('"') {
        return string(text).map(|(_, rest)| rest);
    }
    let (mut depth, mut rest) = (0usize, text);
    loop {
        let at = rest.find(['"', '{', '[', '}', ']', ','])?;
        match rest.as_bytes()[at] {
            b'"' => {
                rest = string(&rest[at..])?.1;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b',' if depth > 0 => {}
            _ if depth == 0 => return Some(&rest[at..]),
            _ => {
                depth -= 1;
                if depth == 0 {
                    return Some(&rest[at + 1..]);
                }
            }
        }
        rest = &rest[at + 1..];
    }
}

fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut units = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escaped = &rest[at + 1..];
        let taken = match escaped.as_bytes().first() {
            Some(b'u') => {
                let unit = escaped
                    .get(1..5)
                    .and_then(|hex| u16::from_str_radix(hex, 16).ok());
                units.push(unit.unwrap_or(0xfffd));
                let high = units.len() == 1 && (0xd800..0xdc00).contains(&units[0]);
                if !high {
                    text.push_str(&String::from_utf16_lossy(&units));
                    units.clear();
                }
                5
            }
            Some(other) => {
                text.push(match other {
                    b'n' => '\n',
                    b't' => '\t',
                    b'r' => '\r',
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    other => *other as char,
                });
                1
            }
            None => 0,
        };
        rest = escaped.get(taken..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_strings_that_look_like_fields() {
        let object = r#"{"a":"\"b\":1,","hooks":[{"b":2},"]"],"n":null,"b":-7,"ok":true}"#;
        assert_eq!(number(object, "b"), Some(-7));
        assert_eq!(number(object, "n"), None);
        assert_eq!(flag(object, "ok"), Some(true));
        assert_eq!(text(object, "a").as_deref(), Some("\"b\":1,"));
        assert_eq!(field(object, "missing"), None);
    }

    #[test]
    fn strings_survive_quoting() {
        let wild = "a\"b\\c\n\u{1}é\u{fffd}😀";
        let object = format!("{{\"x\":{}}}", quote(wild));
        assert_eq!(text(&object, "x").as_deref(), Some(wild));
        assert_eq!(
            text(r#"{"x":"\ud83d\ude00\u00e9\n"}"#, "x").as_deref(),
            Some("😀é\n")
        );
    }
}
