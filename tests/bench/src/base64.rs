//! Base64 as the stream's events carry it, decoded fast enough not to be what is measured.
#![allow(unsafe_code)]

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each character, 0xff for all that are none.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// `bytes` in the standard alphabet, padded.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .chain([&0, &0])
            .take(3)
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for place in 0..4 {
            let value = word >> (18 - 6 * place) & 63;
            text.push(if place <= group.len() {
                ALPHABET[value as usize] as char
            } else {
                '='
            });
        }
    }
    text
}

/// Decodes padded base64 into `out`, whose old contents go; false for anything else.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    if text.len() % 4 != 0 {
        return false;
    }
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|c| **c == b'=')
        .count();
    let body = &text[..text.len() - padding];
    out.reserve(text.len() / 4 * 3 + 32);
    let done = wide(body, out);
    for group in body[done..].chunks(4) {
        let mut word = 0u32;
        for place in 0..4 {
            let value = group.get(place).map_or(0, |c| VALUES[*c as usize]);
            if value == 0xff {
                return false;
            }
            word = word << 6 | u32::from(value);
        }
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    true
}

#[cfg(target_arch = "x86_64")]
fn wide(text: &[u8], out: &mut Vec<u8>) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: decode_avx2 demands AVX2, which was detected, and room for 3/4 of the text and 32
    // bytes more, which the caller reserved.
    unsafe { decode_avx2(text, out) }
}

#[cfg(not(target_arch = "x86_64"))]
fn wide(_text: &[u8], _out: &mut Vec<u8>) -> usize {
    0
}

/// Decodes 32 characters at a time (Muła and Lemire, "Faster Base64 Encoding and Decoding using
/// AVX2 Instructions"); stops before a group with another character. Returns characters taken.
///
/// # Safety
/// The processor has AVX2, and `out` has room for 3/4 of `text` and 32 bytes more.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn decode_avx2(text: &[u8], out: &mut Vec<u8>) -> usize {
    use std::arch::x86_64::*;
    let lut_lo = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x13, 0x1a, 0x1b, 0x1b, 0x1b,
        0x1a,
    ));
    let lut_hi = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10,
        0x10,
    ));
    let lut_roll = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0,
    ));
    let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1,
    ));
    let lanes = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
    let slash = _mm256_set1_epi8(0x2f);
    let (mut taken, mut written) = (0, out.len());
    for group in text.chunks_exact(32) {
        // SAFETY: the load reads the 32 bytes of the group; the store writes 32 bytes into what
        // the caller reserved: each group adds 24, and 32 more were asked for.
        unsafe {
            let chars = _mm256_loadu_si256(group.as_ptr().cast());
            let hi = _mm256_and_si256(_mm256_srli_epi32(chars, 4), slash);
            let lo = _mm256_and_si256(chars, slash);
            let roll = _mm256_shuffle_epi8(
                lut_roll,
                _mm256_add_epi8(_mm256_cmpeq_epi8(chars, slash), hi),
            );
            let (hi, lo) = (
                _mm256_shuffle_epi8(lut_hi, hi),
                _mm256_shuffle_epi8(lut_lo, lo),
            );
            if _mm256_testz_si256(lo, hi) == 0 {
                break;
            }
            let values = _mm256_add_epi8(chars, roll);
            let pairs = _mm256_maddubs_epi16(values, _mm256_set1_epi32(0x0140_0140));
            let words = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0001_1000));
            let bytes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(words, order), lanes);
            _mm256_storeu_si256(out.as_mut_ptr().add(written).cast(), bytes);
        }
        taken += 32;
        written += 24;
    }
    // SAFETY: set_len demands initialised bytes within the capacity: 24 were written a group.
    unsafe { out.set_len(written) };
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_decodes_at_every_length() {
        let bytes: Vec<u8> = (0..700u32).map(|i| (i * i * 31 + i) as u8).collect();
        let mut out = Vec::new();
        for length in 0..bytes.len() {
            assert!(decode(encode(&bytes[..length]).as_bytes(), &mut out));
            assert_eq!(out, &bytes[..length], "of {length} bytes");
        }
        assert_eq!(encode(b"hello"), "aGVsbG8=");
    }

    #[test]
    fn a_foreign_character_anywhere_is_refused() {
        let text = encode(&[0x5a; 96]);
        let mut out = Vec::new();
        for at in 0..text.len() {
            for foreign in [b'"', b'-', b'_', b'\n', b'=', 0, 0x80, 0xff] {
                let mut bad = text.clone().into_bytes();
                bad[at] = foreign;
                let tail = foreign == b'=' && at == text.len() - 1;
                assert_eq!(decode(&bad, &mut out), tail, "{foreign} at {at}");
            }
        }
        assert!(!decode(b"abc", &mut out));
    }
}
