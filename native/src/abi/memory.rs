//! How memory goes back: small pieces without the keys that they held, and what a burst or the start has left behind.
//! glibc's allocator is Deno's, too.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::fs;

/// From this size on an allocation is a mapping of its own, which goes back when it is freed.
const MMAP_BYTES: libc::c_int = 128 << 10;
/// So much may lie free at the end of a heap.
const TRIM_BYTES: libc::c_int = 512 << 10;
/// Heaps: a thread takes one that is there rather than make its own.
const ARENAS: libc::c_int = 2;

/// No block that may hold a key is larger: the largest has what the run hook brought, whose body is bounded so.
const WIPED_BYTES: usize = 64 << 10;

/// The system's allocator, but that the core's small blocks are wiped before they go back: cryptography leaves keys in
/// whatever it drops, and a block that grows leaves a copy behind.
struct WipingAllocator;

#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

// SAFETY: GlobalAlloc demands blocks that fit their layout and are nobody else's: they are the system's, unchanged.
unsafe impl GlobalAlloc for WipingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: alloc demands what this function does.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: alloc_zeroed demands what this function does.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() <= WIPED_BYTES {
            // SAFETY: explicit_bzero demands writable bytes: the block has as many, and its owner gives it up.
            unsafe { libc::explicit_bzero(block.cast(), layout.size()) };
        }
        // SAFETY: dealloc demands what this function does.
        unsafe { System.dealloc(block, layout) }
    }
}

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

/// Gives free heap back, and unmaps pages of the program's files that only the start or a burst
/// needed: what is still used is mapped again from the page cache at its next use, and from then on
/// it stays, where root may lock memory. Commands that want all there is would otherwise have the
/// kernel drop the daemon's code, and it would read itself from the disk for minutes, at every step,
/// when it is to end them. Returns the bytes of files that were looked at.
pub fn trim() -> usize {
    // SAFETY: malloc_trim takes a number and may be called at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
    let mut looked_at = 0;
    for (start, length) in clean_mappings() {
        let start = start as *mut c_void;
        // SAFETY: MADV_DONTNEED demands that nobody minds losing what was written to the range:
        // it is a file's mapping, not writable, and holds no page of its own. Whoever runs in it or
        // reads it gets the same bytes again. Locks change no byte; without the right to them
        // nothing happens.
        unsafe {
            libc::munlock(start, length);
            libc::madvise(start, length, libc::MADV_DONTNEED);
            libc::mlock2(start, length, libc::MLOCK_ONFAULT);
        }
        looked_at += length;
    }
    looked_at
}

/// KiB of memory that no file backs: the program's own, which only its giving up brings back. 0
/// where /proc does not tell.
pub fn own_kib() -> u64 {
    let pages = |text: &str| {
        let mut words = text.split_ascii_whitespace().skip(1);
        let resident: u64 = words.next()?.parse().ok()?;
        let of_files: u64 = words.next()?.parse().ok()?;
        resident.checked_sub(of_files)
    };
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages(&text).unwrap_or_default() * rustix::param::page_size() as u64 / 1024
}

/// Mappings of files that cannot be written and of which no page differs from the file: relocated
/// data looks alike but for its anonymous pages, and must stay.
fn clean_mappings() -> Vec<(usize, usize)> {
    let Ok(text) = fs::read_to_string("/proc/self/smaps") else {
        return Vec::new();
    };
    let mut clean = Vec::new();
    let mut file = None;
    for line in text.lines() {
        if let Some(mapping) = file_mapping(line) {
            file = mapping;
        } else if let (Some(range), Some(rest)) = (file, line.strip_prefix("Anonymous:")) {
            if rest.trim() == "0 kB" {
                clean.push(range);
            }
            file = None;
        }
    }
    clean
}

/// What a line says that begins a mapping: its range if it is a file's and read-only, else nothing.
/// `None` for a line that begins none.
fn file_mapping(line: &str) -> Option<Option<(usize, usize)>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    let readable = words.next()?;
    let file = words.nth(3).is_some_and(|path| path.starts_with('/'));
    let wanted = file && readable.starts_with('r') && readable[1..].starts_with('-');
    Some(wanted.then_some((start, end - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unwritable_mappings_of_files_are_chosen() {
        let text = "7f00-8f00 r-xp 00001000 fe:00 12 /usr/bin/deno";
        assert_eq!(file_mapping(text), Some(Some((0x7f00, 0x1000))));
        let data = "7f00-8f00 rw-p 00001000 fe:00 12 /usr/bin/deno";
        assert_eq!(file_mapping(data), Some(None));
        assert_eq!(file_mapping("7f00-8f00 r--p 00000000 00:00 0"), Some(None));
        assert_eq!(file_mapping("Rss:     12 kB"), None);
    }

    #[test]
    fn own_memory_counts_what_was_written_to() {
        let before = own_kib();
        // Nobody reads it: an optimizer would leave it out.
        let block = std::hint::black_box(vec![1u8; 16 << 20]);
        assert!(own_kib() >= before + (8 << 10), "from {before} KiB");
        drop(block);
    }

    /// A field of this process's status, in the radix given.
    fn status(name: &str, radix: u32) -> u64 {
        let text = fs::read_to_string("/proc/self/status").unwrap();
        let field = text.lines().find_map(|line| line.strip_prefix(name));
        let value = field.and_then(|rest| rest.split_whitespace().next());
        u64::from_str_radix(value.unwrap(), radix).unwrap()
    }

    #[test]
    fn whoever_may_lock_memory_keeps_the_program_in_it_also_the_second_time() {
        let may_lock = status("CapEff:", 16) & (1 << 14) != 0;
        for _ in 0..2 {
            // This very code runs from such a mapping, and so does what it calls.
            let looked_at = trim() as u64;
            assert!(looked_at > 0);
            if !may_lock {
                println!("skipped: locking the program into memory needs CAP_IPC_LOCK");
                return;
            }
            let locked = status("VmLck:", 10) * 1024;
            assert!(locked >= looked_at, "{locked} of {looked_at} bytes");
        }
    }
}
