//! How glibc's allocator, which Deno uses too, gives memory back.
#![allow(unsafe_code)]

/// From this size on an allocation is a mapping of its own, which goes back when it is freed.
const MMAP_BYTES: libc::c_int = 128 << 10;
/// So much may lie free at the end of a heap.
const TRIM_BYTES: libc::c_int = 512 << 10;
/// Heaps: a thread takes one that is there rather than make its own.
const ARENAS: libc::c_int = 2;

/// Bounds what the heap keeps. glibc would raise the first two by itself with the largest block
/// that was ever freed, and from then on keep pieces of captured output; and it would give each
/// of some twenty threads a heap of its own.
pub fn bound() {
    // SAFETY: mallopt takes numbers and may be called at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}
