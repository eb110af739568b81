//! Fields of a header.

use super::{BLOCK, Malformed};

/// A number, octal or base-256 as GNU writes large and negative ones. `Ok(None)` for an empty
/// field; an error for what is no number or does not fit. (`tar::Header` takes the last eight bytes
/// of a base-256 field, whatever its sign and the bytes before.)
pub fn number(field: &[u8]) -> Result<Option<i64>, Malformed> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => binary(*first, &field[1..]).map(Some),
        _ => octal(field),
    }
}

fn binary(first: u8, rest: &[u8]) -> Result<i64, Malformed> {
    // The topmost bit is the mark; the one below it is the sign.
    let negative = first & 0x40 != 0;
    let high = i128::from(if negative {
        first as i8
    } else {
        (first & 0x7f) as i8
    });
    let mut value = high;
    for byte in rest {
        value = value.checked_mul(256).ok_or(Malformed)? + i128::from(*byte);
    }
    i64::try_from(value).map_err(|_| Malformed)
}

fn octal(field: &[u8]) -> Result<Option<i64>, Malformed> {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    let digits = field[..end].trim_ascii();
    if digits.is_empty() {
        return Ok(None);
    }
    digits
        .iter()
        .try_fold(0i64, |value, digit| match digit {
            b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(digit - b'0')),
            _ => None,
        })
        .map(Some)
        .ok_or(Malformed)
}

/// The bytes before the first NUL.
pub fn text(field: &[u8]) -> &[u8] {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    &field[..end]
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
        assert_eq!(number(b"0000644\0"), Ok(Some(0o644)));
        assert_eq!(number(b" 644 \0\0\0"), Ok(Some(0o644)));
        assert_eq!(number(b"77777777777 "), Ok(Some(0o77777777777)));
        assert_eq!(number(b"\0\0\0\0"), Ok(None));
        assert_eq!(number(b"-1\0"), Err(Malformed));
        assert_eq!(number(b"12 3"), Err(Malformed));
        assert_eq!(number(b"89"), Err(Malformed));
        let mut wide = [0u8; 12];
        wide[0] = 0x80;
        wide[11] = 5;
        assert_eq!(number(&wide), Ok(Some(5)));
        wide[1] = 1;
        assert_eq!(number(&wide), Err(Malformed));
        assert_eq!(number(&[0xff; 12]), Ok(Some(-1)));
        assert_eq!(
            number(&[0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]),
            Err(Malformed)
        );
        assert_eq!(
            number(&[0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0]),
            Err(Malformed)
        );
        assert_eq!(number(b"7777777777777777777777777"), Err(Malformed));
    }
}
