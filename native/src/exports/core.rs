//! Opening, closing, waking.
#![allow(unsafe_code)]

use std::sync::{Arc, PoisonError};

use super::{CORE, send, with_core};
use crate::abi::{ABI_VERSION, BAD_LAYOUT, NOT_OPEN, bytes, bytes_mut, errno_of, guard, negated};
use crate::clock::span_ns;
use crate::core::{Core, Settings};
use crate::process::context::{Command, Spans};
use crate::process::log::Sizes;

/// A deadline that never comes, as a span: far enough that no sum of it overflows.
const NEVER_NS: u64 = u64::MAX / 4;

/// The version of this border.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_abi_version() -> u32 {
    ABI_VERSION
}

/// Opens the core: what is kept of an exec's output in bytes, and linger, kill grace and stdin
/// deadline in seconds; the spool is a directory. `-EBUSY` if one is open.
///
/// # Safety
/// `spool` is null or points to `spool_len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_open(
    capture_bytes: u32,
    window_bytes: u32,
    linger_secs: f64,
    grace_secs: f64,
    stdin_secs: f64,
    spool: *const u8,
    spool_len: u32,
) -> i32 {
    // SAFETY: bytes demands what this function does.
    let spool = unsafe { bytes(spool, spool_len) };
    let span = |secs| span_ns(secs).unwrap_or(NEVER_NS);
    guard(|| {
        let spool = std::str::from_utf8(spool).map_err(|_| BAD_LAYOUT)?;
        let mut slot = CORE.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return Err(-libc::EBUSY);
        }
        let settings = Settings {
            sizes: Sizes::new(capture_bytes.into(), window_bytes.into()),
            spans: Spans {
                linger_ns: span(linger_secs),
                grace_ns: span(grace_secs),
                stdin_ns: span(stdin_secs),
            },
            spool,
        };
        let opened = Core::open(settings).map_err(|error| negated(errno_of(error)))?;
        *slot = Some(Arc::new(opened));
        Ok(0)
    })
}

/// Closes the core: the parked call ends, nothing is watched any more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_close() -> i32 {
    guard(|| {
        let core = CORE.write().unwrap_or_else(PoisonError::into_inner).take();
        core.ok_or(NOT_OPEN)?.close();
        Ok(0)
    })
}

/// Parks until there are events; writes as many as fit and returns their number, -1 once closed.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_wait(out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| Ok(core.wake.wait(out).ok_or(-1)? as i32))
}

/// The guest is about to be frozen: from now on a forward jump of the wall clock counts against
/// every command's budget.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_suspended() -> i32 {
    send(Command::Suspended)
}

/// The guest goes on: a jump counts for another 60 seconds.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_resumed() -> i32 {
    send(Command::Resumed)
}

/// Never pause a pipe again: the daemon is ending.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_drain() -> i32 {
    send(Command::Drain)
}

/// Ends every group: SIGTERM, SIGKILL after `grace_ms`. Completes `token` once all are empty or
/// were sent SIGKILL, unless it is called again before that.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_end_all(grace_ms: u32, token: u32) -> i32 {
    send(Command::EndAll {
        grace_ns: u64::from(grace_ms) * 1_000_000,
        token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> i32 {
        let spool = "/tmp";
        // SAFETY: the bytes are static.
        unsafe { guestd_open(1, 1, 1.0, 1.0, 1.0, spool.as_ptr(), spool.len() as u32) }
    }

    #[test]
    fn a_process_has_one_core_at_a_time() {
        assert_eq!(open(), 0);
        assert_eq!(open(), -libc::EBUSY);
        assert_eq!(guestd_close(), 0);
        assert_eq!(guestd_close(), NOT_OPEN);
    }
}
