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
