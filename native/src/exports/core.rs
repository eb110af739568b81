//! Opening, closing, waking.
#![allow(unsafe_code)]

use std::sync::{Arc, PoisonError};

use super::{CORE, with_core};
use crate::abi::{ABI_VERSION, BAD_LAYOUT, bytes, bytes_mut, guard};
use crate::core::{Core, Settings};
use crate::process::context::Command;
use crate::process::reap;

/// The version of this border.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_abi_version() -> u32 {
    ABI_VERSION
}

/// Opens the core. Bytes, seconds and the spool's directory as in [`Settings`]. `-EBUSY` if one is
/// open.
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
    // SAFETY: bytes demands what this function demands of its caller.
    let spool = unsafe { bytes(spool, spool_len) };
    guard(|| {
        let Ok(spool) = std::str::from_utf8(spool) else {
            return BAD_LAYOUT;
        };
        let mut slot = CORE.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return -libc::EBUSY;
        }
        let settings = Settings {
            capture_bytes,
            window_bytes,
            linger_secs,
            grace_secs,
            stdin_secs,
            spool,
        };
        match Core::open(settings) {
            Ok(core) => {
                *slot = Some(Arc::new(core));
                0
            }
            Err(errno) => -errno.raw_os_error(),
        }
    })
}

/// Closes the core: the parked call ends, nothing is watched any more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_close() -> i32 {
    guard(|| {
        let core = CORE.write().unwrap_or_else(PoisonError::into_inner).take();
        core.map_or(crate::abi::NOT_OPEN, |core| {
            core.close();
            0
        })
    })
}

/// Parks until there are events; writes as many as fit and returns their number, -1 once closed.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_wait(out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function demands of its caller.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| core.wake.wait(out).map_or(-1, |count| count as i32))
}

/// Reaps orphans; call it on the main thread. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_reap_orphans() -> i32 {
    guard(reap::reap_orphans)
}

/// The guest is about to be frozen: from now on a forward jump of the wall clock counts against
/// every command's budget.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_suspended() -> i32 {
    with_core(|core| {
        core.send(Command::Suspended);
        0
    })
}

/// The guest goes on: a jump counts for another 60 seconds.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_resumed() -> i32 {
    with_core(|core| {
        core.send(Command::Resumed);
        0
    })
}

/// Never hold back a pipe again: the daemon is ending.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_drain() -> i32 {
    with_core(|core| {
        core.send(Command::Drain);
        0
    })
}

/// Ends every group: SIGTERM, SIGKILL after `grace_ms`. Completes `token` once all are empty or
/// were sent SIGKILL.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_end_all(grace_ms: u32, token: u32) -> i32 {
    with_core(|core| {
        core.send(Command::EndAll {
            grace_ns: u64::from(grace_ms) * 1_000_000,
            token,
        });
        0
    })
}

/// SIGKILL to every group. Completes `token` once sent.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_kill_all(token: u32) -> i32 {
    with_core(|core| {
        core.send(Command::KillAll { token });
        0
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
        assert_eq!(guestd_close(), crate::abi::NOT_OPEN);
    }
}
