//! The mask over a caller's payload.

/// Bytes that are unmasked at a time: wide enough for the compiler's vectors.
const WIDE: usize = 32;

/// Takes the mask off `bytes`, the payload's bytes from position `at` on.
pub fn unmask(bytes: &mut [u8], key: [u8; 4], at: u64) {
    let mut wide = [0u8; WIDE];
    for (index, byte) in wide.iter_mut().enumerate() {
        *byte = key[(at as usize + index) % 4];
    }
    let mut chunks = bytes.chunks_exact_mut(WIDE);
    for chunk in &mut chunks {
        for (byte, mask) in chunk.iter_mut().zip(&wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(&wide) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_meets_its_own_byte_of_the_key(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            key: [u8; 4],
            at in 0u64..9,
        ) {
            let mut unmasked = bytes.clone();
            unmask(&mut unmasked, key, at);
            for (index, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(unmasked[index], byte ^ key[(at as usize + index) % 4]);
            }
        }
    }
}
