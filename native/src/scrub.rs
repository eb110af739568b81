//! Secrets that functions leave behind on the stack.

use zeroize::Zeroize;

/// How far down is wiped, in bytes: more than any of the functions that work with keys goes, and a
/// quarter of the smallest stack of a thread of ours.
const DEPTH_BYTES: usize = 64 << 10;

/// Wipes the stack below the caller, where functions that have returned kept their variables:
/// libraries for cryptography copy keys there, by value and in assembly, and leave them. The caller
/// must not have been merged with what it wipes after: mark that `#[inline(never)]`.
#[inline(never)]
pub fn wipe_stack() {
    let mut waste = [0u64; DEPTH_BYTES / 8];
    // Volatile, so that it is not left out for being of no use.
    waste.zeroize();
}

/// Sizes of blocks that glibc keeps apart for the thread that freed them, and how many of each.
const KEPT: (usize, usize) = (1032, 7);
/// Up to this size larger ones are tried too, in bytes.
const LARGE_BYTES: usize = 32 << 10;

/// Wipes memory that this thread has given back to the allocator, as far as it hands it out again:
/// blocks below a page stay as they were left until somebody else needs one.
pub fn wipe_freed() {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut size = 24;
    while size <= KEPT.0 {
        blocks.extend((0..KEPT.1).map(|_| Vec::with_capacity(size)));
        size += 16;
    }
    while size <= LARGE_BYTES {
        blocks.extend((0..2).map(|_| Vec::with_capacity(size)));
        size += size / 8;
    }
    for block in &mut blocks {
        // Also what a vector has room for and does not use.
        block.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Leaves `MARK` on the stack, `depth` bytes and more down, and tells where.
    #[inline(never)]
    fn leave(depth: usize) -> usize {
        let mut room = [0u8; 1024];
        if depth > room.len() {
            return leave(depth - room.len()).max(black_box(&room).len());
        }
        room.fill(0xa5);
        black_box(&mut room).as_ptr() as usize
    }

    #[test]
    #[allow(unsafe_code)]
    fn what_a_function_left_is_gone() {
        for depth in [0, 8 << 10, 40 << 10] {
            let seen = |at: usize| {
                // SAFETY: the address lies in this thread's stack, which stays mapped while it
                // runs; what is read is volatile and not taken for anything.
                unsafe { std::ptr::read_volatile(at as *const u8) }
            };
            let at = leave(depth);
            assert_eq!(seen(at), 0xa5, "it is there before");
            wipe_stack();
            assert_eq!(seen(at), 0, "{depth}");
        }
    }
}
