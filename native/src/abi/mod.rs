//! The border to TypeScript: panics stop here, buffers are borrowed here, codes are named here.
#![allow(unsafe_code)]

pub(crate) mod memory;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rustix::io::Errno;

/// Raised whenever a symbol, a layout or a code changes; both sides compare it at load.
pub const ABI_VERSION: u32 = 10;

/// The export panicked; the call had no effect that can be relied on.
pub const PANICKED: i32 = -10_000;
/// No core is open.
pub const NOT_OPEN: i32 = -10_001;
/// The handle names nothing (any more).
pub const UNKNOWN: i32 = -10_002;
/// A request blob or a buffer that the layout does not allow.
pub const BAD_LAYOUT: i32 = -10_003;

/// What an export answers: 0, a count or a handle, or else a negated errno or one of the codes above.
pub type Reply = Result<i32, i32>;

/// Runs an export's body; a panic becomes [`PANICKED`] instead of crossing the border.
pub fn guard(body: impl FnOnce() -> Reply) -> i32 {
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(PANICKED));
    answer.unwrap_or_else(|code| code)
}

/// An errno as an export answers it.
pub fn negated(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

/// The errno of an error of the standard library's; EIO for one that has none.
pub fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// JavaScript's bytes for the length of one call. An empty array arrives as a null pointer.
///
/// # Safety
/// `ptr` is null or points to `len` bytes that stay readable and unchanged for `'a`.
pub unsafe fn bytes<'a>(ptr: *const u8, len: u32) -> &'a [u8] {
    if ptr.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: from_raw_parts demands a non-null pointer to `len` initialised bytes that nobody
    // writes meanwhile: not null as checked, the rest is this function's own demand.
    unsafe { std::slice::from_raw_parts(ptr, len as usize) }
}

/// JavaScript's bytes as a path of its own.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn path_of(ptr: *const u8, len: u32) -> PathBuf {
    // SAFETY: bytes demands what this function does.
    PathBuf::from(OsStr::from_bytes(unsafe { bytes(ptr, len) }))
}

/// JavaScript's buffer for the length of one call.
///
/// # Safety
/// `ptr` is null or points to `len` bytes that are writable and used by nobody else for `'a`.
pub unsafe fn bytes_mut<'a>(ptr: *mut u8, len: u32) -> &'a mut [u8] {
    if ptr.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: from_raw_parts_mut demands a non-null pointer to `len` initialised bytes that are
    // exclusively ours: not null as checked, the rest is this function's own demand.
    unsafe { std::slice::from_raw_parts_mut(ptr, len as usize) }
}

/// A buffer that JavaScript lends until an operation completes: it is filled or emptied by another
/// thread, so that its bytes cross the border only once.
///
/// Invariant: from its making until it is dropped nobody else touches the bytes.
pub struct Lent {
    ptr: *mut u8,
    len: u32,
}

// SAFETY: Send demands that another thread may own it. It owns the exclusive use of plain bytes,
// which no thread is tied to.
unsafe impl Send for Lent {}

impl Lent {
    /// Borrows `len` bytes for as long as the result lives.
    ///
    /// # Safety
    /// `ptr` is null or points to `len` initialised bytes that stay where they are, and that nobody
    /// else reads or writes, until the operation that this is handed to was completed.
    pub unsafe fn new(ptr: *mut u8, len: u32) -> Self {
        Self { ptr, len }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: bytes demands what `new` does, for as long as the result lives.
        unsafe { bytes(self.ptr, self.len) }
    }

    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: bytes_mut demands what `new` does, and `&mut self` makes it one borrow.
        unsafe { bytes_mut(self.ptr, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stops_at_the_border() {
        assert_eq!(guard(|| panic!("a test of panics")), PANICKED);
        assert_eq!(guard(|| Ok(7)), 7);
    }
}
