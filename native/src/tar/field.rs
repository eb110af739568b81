//! Fields of a header.

use super::{BLOCK, Malformed};

/// A number, octal or base-256 as GNU writes large and negative ones. `Ok(None)` for an empty field; an error for what
/// is no number or does not fit. (`tar::Header` takes the last eight bytes of a base-256 field, whatever its sign and
/// the bytes before.)
pub fn number(field: &[u8]) -> Result<Option<i64>, Malformed> {
    let Some((first @ 0x80.., rest)) = field.split_first() else {
        return octal(field);
    };
    // The topmost bit is the mark, the one below it the sign. No field is longer than twelve bytes.
    let sign = i128::from(((first << 1) as i8) >> 1);
    let value = (rest.iter()).fold(sign, |value, byte| value * 256 + i128::from(*byte));
    i64::try_from(value).map(Some).map_err(|_| Malformed)
}

/// A number as [`number`] reads it; none if it is empty, negative or malformed.
pub fn unsigned(field: &[u8]) -> Option<u64> {
    number(field).ok().flatten()?.try_into().ok()
}

/// A number of decimal digits, and nothing else.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    // The parser of the standard library takes a sign, too.
    let plain = digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    digits.parse().ok()
}

fn octal(field: &[u8]) -> Result<Option<i64>, Malformed> {
    let digits = text(field).trim_ascii();
    if digits.is_empty() {
        return Ok(None);
    }
    let value = digits.iter().try_fold(0i64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
        _ => None,
    });
    value.map(Some).ok_or(Malformed)
}

/// The bytes before the first NUL.
pub fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Whether the checksum fits. Some old programs summed signed bytes.
pub fn checksum_fits(block: &[u8; BLOCK], field: &[u8]) -> bool {
    let Ok(Some(wanted)) = octal(field) else {
        return false;
    };
    // All bytes at once, as a processor adds them fastest; the field itself counts as spaces.
    let unsigned = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let signed = |bytes: &[u8]| bytes.iter().map(|byte| i32::from(*byte as i8)).sum::<i32>();
    let own = &block[148..156];
    let spaces = 8 * i64::from(b' ');
    wanted == spaces + i64::from(unsigned(block) - unsigned(own))
        || wanted == spaces + i64::from(signed(block) - signed(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_of_unsigned_or_of_signed_bytes_with_spaces_for_itself() {
        let mut block = [0u8; BLOCK];
        (block[0], block[150], block[511]) = (0xff, b'7', 0x80);
        let fits = |sum: i32| checksum_fits(&block, format!("{sum:06o}\0 ").as_bytes());
        let spaces = 256;
        assert!(fits(spaces + 0xff + 0x80));
        assert!(fits(spaces - 1 - 0x80));
        for sum in [0xff + 0x80, spaces + 0xff, spaces + 0xff + 0x81] {
            assert!(!fits(sum));
        }
        assert!(!checksum_fits(&block, b"        "));
    }

    #[test]
    fn numbers_are_octal_or_binary_and_never_wrap() {
        let cases: [(&[u8], _); 14] = [
            (b"0000644\0", Ok(Some(0o644))),
            (b" 644 \0\0\0", Ok(Some(0o644))),
            (b"77777777777 ", Ok(Some(0o77777777777))),
            (b"\0\0\0\0", Ok(None)),
            (b"-1\0", Err(Malformed)),
            (b"12 3", Err(Malformed)),
            (b"89", Err(Malformed)),
            (b"7777777777777777777777777", Err(Malformed)),
            (b"\x80\0\0\0\0\0\0\0\0\0\0\x05", Ok(Some(5))),
            (b"\x80\x01\0\0\0\0\0\0\0\0\0\x05", Err(Malformed)),
            (&[0xff; 12], Ok(Some(-1))),
            (
                b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                Ok(Some(i64::MAX)),
            ),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", Err(Malformed)),
            (b"\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0", Err(Malformed)),
        ];
        for (field, wanted) in cases {
            assert_eq!(number(field), wanted, "{field:?}");
        }
    }
}
