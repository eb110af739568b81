//! Records of an extended header: "LENGTH KEY=VALUE\n", where LENGTH counts itself.

use std::io::Write;

/// Appends a record.
pub fn append(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + digits(length) {
        length = rest + digits(length);
    }
    // Writing into memory cannot fail.
    let _ = write!(out, "{length} ");
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// A record's key and value.
pub type Record<'a> = (&'a [u8], &'a [u8]);

/// The next record and what follows it; none if it is not as long as it says.
///
/// `tar::PaxExtensions` splits at line ends, and a value may hold one.
pub fn next(data: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let space = data.iter().take(20).position(|byte| *byte == b' ')?;
    let length = decimal(&data[..space])?;
    let length = usize::try_from(length).ok()?;
    if length <= space || length > data.len() {
        return None;
    }
    let (record, rest) = data.split_at(length);
    let (b'\n', body) = record.split_last().filter(|_| length > space + 1)? else {
        return None;
    };
    let body = body.get(space + 1..)?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    (equals > 0).then_some(((&body[..equals], &body[equals + 1..]), rest))
}

/// A number of decimal digits, and nothing else.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A point in time: seconds since the epoch, possibly negative and with a fraction. Gives seconds,
/// rounded down, and nanoseconds.
pub fn time(text: &[u8]) -> Option<(i64, u32)> {
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

/// A point in time as [`time`] reads it.
pub fn time_text(secs: i64, nanos: u32) -> String {
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
        assert_eq!(
            next(b"6 a=b\nrest"),
            Some(((&b"a"[..], &b"b"[..]), &b"rest"[..]))
        );
        for bad in [
            &b""[..],
            b"6",
            b"6 ",
            b"5 a=b\n",
            b"7 a=b\n",
            b"6 a b\n",
            b"06 =b\n",
            b"0 a=b\n",
            b"-6 a=b\n",
            b"2 ",
            b"1 ",
            b"99999999999999999999 a=b\n",
            b"6\0a=b\n",
            b" 6 a=b\n",
        ] {
            assert_eq!(next(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn times_may_be_negative_and_have_fractions() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"-0.25"), Some((-1, 750_000_000)));
        assert_eq!(time(b"-3"), Some((-3, 0)));
        assert_eq!(time(b"1.1234567899"), Some((1, 123_456_789)));
        for (secs, nanos) in [
            (12, 500_000_000),
            (-1, 750_000_000),
            (-3, 0),
            (0, 1),
            (7, 0),
            (i64::MIN + 1, 0),
            (-i64::MAX, 1),
        ] {
            let text = time_text(secs, nanos);
            assert_eq!(time(text.as_bytes()), Some((secs, nanos)), "{text}");
        }
        assert_eq!(time_text(-1, 750_000_000), "-0.25");
        for bad in [
            &b""[..],
            b"-",
            b".5",
            b"1.x",
            b"1e3",
            b"9223372036854775808",
        ] {
            assert_eq!(time(bad), None);
        }
    }

    proptest! {
        #[test]
        fn what_was_appended_is_read(value in proptest::collection::vec(any::<u8>(), 0..1100)) {
            let mut data = Vec::new();
            append(&mut data, "key", &value);
            append(&mut data, "k", b"");
            let (first, rest) = next(&data).unwrap();
            prop_assert_eq!(first, (&b"key"[..], &value[..]));
            prop_assert_eq!(next(rest), Some(((&b"k"[..], &b""[..]), &b""[..])));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(data in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = (next(&data), time(&data), decimal(&data));
        }
    }
}
