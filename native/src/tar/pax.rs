//! Extended headers: records of "LENGTH KEY=VALUE\n", where LENGTH counts itself.

use std::io::Write;

use super::field::decimal;
use super::sparse::{Extent, of_list, push};

/// Seconds since the epoch, rounded down, and nanoseconds.
pub type Time = (i64, u32);

/// What the extensions before a header say of the member. A later one wins.
#[derive(Default)]
pub struct Extensions {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) long_path: Option<Vec<u8>>,
    pub(super) long_link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<Time>,
    pub(super) sparse_name: Option<Vec<u8>>,
    pub(super) sparse_size: Option<u64>,
    pub(super) sparse_major: Option<u64>,
    pub(super) extents: Option<Vec<Extent>>,
    offset: Option<u64>,
}

impl Extensions {
    /// Takes an extended header's records. An error says what is wrong.
    pub fn apply(&mut self, data: &[u8]) -> Result<(), &'static str> {
        self.records(data)
            .ok_or("there is a malformed extended header")
    }

    fn records(&mut self, mut data: &[u8]) -> Option<()> {
        while !data.is_empty() {
            let [key, value, rest] = next(data)?;
            data = rest;
            let number = || decimal(value).map(Some);
            // An empty value takes back what was said before.
            let bytes = || (!value.is_empty()).then(|| value.to_vec());
            match key {
                b"path" => self.path = bytes(),
                b"linkpath" => self.link = bytes(),
                b"size" if value.is_empty() => self.size = None,
                b"size" => self.size = number()?,
                b"mtime" if value.is_empty() => self.mtime = None,
                b"mtime" => self.mtime = Some(time(value)?),
                b"GNU.sparse.name" => self.sparse_name = bytes(),
                b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.sparse_size = number()?,
                b"GNU.sparse.major" => self.sparse_major = number()?,
                b"GNU.sparse.map" => self.extents = Some(of_list(value)?),
                b"GNU.sparse.offset" => self.offset = number()?,
                b"GNU.sparse.numbytes" => {
                    let (offset, length) = (self.offset.take()?, decimal(value)?);
                    push(self.extents.get_or_insert_default(), offset, length)?;
                }
                _ => {}
            }
        }
        Some(())
    }
}

/// Appends a record.
pub fn append(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + digits(length) {
        length = rest + digits(length);
    }
    // Writing into memory cannot fail.
    let _ = write!(out, "{length} {key}=");
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// The next record's key and value, and what follows it; none if it is not as long as it says.
///
/// `tar::PaxExtensions` splits at line ends, and a value may hold one.
fn next(data: &[u8]) -> Option<[&[u8]; 3]> {
    let space = data.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&data[..space])?).ok()?;
    let (record, rest) = data.split_at_checked(length)?;
    let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    (equals > 0).then_some([&body[..equals], &body[equals + 1..], rest])
}

/// A point in time as a record gives it, possibly negative and with a fraction.
fn time(text: &[u8]) -> Option<Time> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (whole, fraction) = match digits.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&digits[..dot], &digits[dot + 1..]),
        None => (digits, &[][..]),
    };
    let secs = i64::try_from(decimal(whole)?).ok()?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| u32::from(fraction.get(at).map_or(0, |byte| byte - b'0'));
    let nanos = (0..9).fold(0, |sum, at| sum * 10 + digit(at));
    Some(match (negative, nanos) {
        (false, _) => (secs, nanos),
        (true, 0) => (-secs, 0),
        (true, _) => (-secs - 1, 1_000_000_000 - nanos),
    })
}

/// A point in time as a record gives it.
pub fn time_text((secs, nanos): Time) -> String {
    let (sign, secs, nanos) = match (secs, nanos) {
        (0.., _) | (_, 0) => ("", secs, nanos),
        // What is counted backwards has its fraction counted backwards, too.
        _ => ("-", -(secs + 1), 1_000_000_000 - nanos),
    };
    if nanos == 0 {
        return format!("{sign}{secs}");
    }
    let mut text = format!("{sign}{secs}.{nanos:09}");
    text.truncate(text.trim_end_matches('0').len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_that_lies_about_its_length_is_none() {
        assert_eq!(next(b"6 a=b\nrest"), Some([&b"a"[..], b"b", b"rest"]));
        let bad = "|6|6 |5 a=b\n|7 a=b\n|6 a b\n|06 =b\n|0 a=b\n|-6 a=b\n|2 |1 |6\0a=b\n| 6 a=b\n|99999999999999999999 a=b\n";
        for bad in bad.split('|') {
            assert_eq!(next(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn times_may_be_negative_and_have_fractions() {
        for (text, wanted) in [
            ("12.5", (12, 500_000_000)),
            ("-0.25", (-1, 750_000_000)),
            ("-3", (-3, 0)),
            ("0.000000001", (0, 1)),
            ("7", (7, 0)),
            ("-9223372036854775807", (-i64::MAX, 0)),
            ("-9223372036854775806.999999999", (-i64::MAX, 1)),
        ] {
            assert_eq!(time(text.as_bytes()), Some(wanted), "{text}");
            assert_eq!(time_text(wanted), text);
        }
        assert_eq!(time(b"1.1234567899"), Some((1, 123_456_789)));
        for bad in ["", "-", ".5", "1.x", "1e3", "9223372036854775808"] {
            assert_eq!(time(bad.as_bytes()), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_appended_is_read(value in proptest::collection::vec(any::<u8>(), 0..1100)) {
            let mut data = Vec::new();
            append(&mut data, "key", &value);
            append(&mut data, "k", b"");
            let [key, read, rest] = next(&data).unwrap();
            prop_assert_eq!((key, read), (&b"key"[..], &value[..]));
            prop_assert_eq!(next(rest), Some([&b"k"[..], b"", b""]));
        }
    }
}
