//! The memory that a child runs on between its clone and its exec.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The child's stack. It is reused: while a child is on it, the spawner thread is suspended.
pub struct Stack {
    base: *mut c_void,
}

const STACK_BYTES: usize = 64 << 10;
const GUARD_BYTES: usize = 64 << 10;

// SAFETY: Send demands that the mapping may be used from another thread: it belongs to this value
// alone and memory is not tied to the thread that mapped it.
unsafe impl Send for Stack {}

impl Stack {
    /// Maps a stack with a guard below it.
    pub fn new() -> rustix::io::Result<Self> {
        let length = STACK_BYTES + GUARD_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: mmap_anonymous demands that no existing mapping is replaced: the address is
        // left to the kernel.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
        let stack = Self { base };
        // SAFETY: mprotect demands that nobody uses the range it closes: it was mapped just now.
        unsafe { mprotect(base, GUARD_BYTES, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// The end that it grows from.
    pub(super) fn top(&self) -> *mut c_void {
        self.base.wrapping_byte_add(STACK_BYTES + GUARD_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: munmap demands that nobody uses the range any more: children run on it only
        // inside `clone_child`, which borrows the stack.
        let _ = unsafe { munmap(self.base, STACK_BYTES + GUARD_BYTES) };
    }
}
