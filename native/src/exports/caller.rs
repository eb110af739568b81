//! Callers' connections, which Deno's server does not hand out.
#![allow(unsafe_code)]

use super::{ends, with_core};
use crate::abi::{BAD_LAYOUT, UNKNOWN, bytes};

/// Finds the caller's connection that has these ends: the caller's address as text and port, and this end's port. It
/// may be a later one than whoever asks thinks; with `wary` not 0 that is excluded while the earlier one is not closed.
/// Returns a handle, to be used up by what takes the connection over, or else dropped. `-ENOENT`, `-EEXIST`: no or more
/// than one such connection.
///
/// # Safety
/// `host` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_caller_hold(
    host: *const u8,
    len: u32,
    host_port: u32,
    local_port: u32,
    wary: u32,
) -> i32 {
    // SAFETY: bytes demands what this function demands of its caller.
    let host = unsafe { bytes(host, len) };
    with_core(|core| {
        let Some(ends) = ends(host, host_port, local_port) else {
            return BAD_LAYOUT;
        };
        match core.callers.hold(ends, wary != 0) {
            Ok(handle) => handle as i32,
            Err(errno) => -errno.raw_os_error(),
        }
    })
}

/// Lets go of a connection that was not used up.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_caller_drop(handle: u32) -> i32 {
    with_core(|core| match core.callers.take(handle) {
        Some(_) => 0,
        None => UNKNOWN,
    })
}
