//! The process table, free space, power.
#![allow(unsafe_code)]

use std::sync::Arc;

use rustix::system::{RebootCommand, reboot};

use super::with_core;
use crate::abi::{Lent, bytes, bytes_mut, errno_of, guard, memory, negated, path_of};
use crate::{disk, self_protection, service};

/// Lists the live members of every exec's group into `out`: pairs of u32, exec and pid. Completes
/// `token` with the size of the whole list in bytes, of which `out` has the beginning.
///
/// # Safety
/// `out` is null or points to `len` initialised bytes that nobody else uses until `token` is
/// completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_members(out: *mut u8, len: u32, token: u32) -> i32 {
    // SAFETY: Lent::new demands what this function does.
    let out = unsafe { Lent::new(out, len) };
    with_core(|core| {
        core.list_members(out, token);
        Ok(0)
    })
}

/// Measures the space on the file system of `path` that is available to an unprivileged writer.
/// Completes `token` with the bytes, or an errno. `-EAGAIN` when too many such calls hang.
///
/// # Safety
/// `path` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_disk_available(path: *const u8, len: u32, token: u32) -> i32 {
    // SAFETY: path_of demands what this function does.
    let path = unsafe { path_of(path, len) };
    with_core(|core| {
        let wake = Arc::clone(&core.wake);
        let job = move || match disk::available_bytes(&path) {
            Ok(available) => wake.complete(token, 0, available.min(i64::MAX as u64) as i64),
            Err(errno) => wake.complete(token, errno.raw_os_error(), 0),
        };
        core.jobs.run(job).map_err(|_| -libc::EAGAIN)?;
        Ok(0)
    })
}

/// Whether this process was started with `signal` ignored, as nohup does: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_is_ignored(signal: i32) -> i32 {
    guard(|| Ok(i32::from(self_protection::is_ignored(signal))))
}

/// Writes the name of the first system call that the daemon needs and may not make into `out`, as far as there is room, and
/// gives its length: 0 where there is none.
///
/// # Safety
/// `out` is null or points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_missing_call(out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    guard(|| {
        let name = service::missing_call().unwrap_or_default().as_bytes();
        let room = name.len().min(out.len());
        out[..room].copy_from_slice(&name[..room]);
        Ok(room as i32)
    })
}

/// Tells the service manager at `address` that the daemon is ready.
///
/// # Safety
/// `address` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_ready(address: *const u8, len: u32) -> i32 {
    // SAFETY: bytes demands what this function does.
    let address = unsafe { bytes(address, len) };
    guard(|| {
        service::ready(address).map_err(|error| negated(errno_of(error)))?;
        Ok(0)
    })
}

/// Gives memory back that is not needed just now. Takes a few milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_trim() -> i32 {
    guard(|| {
        memory::trim();
        Ok(0)
    })
}

/// KiB of memory that no file backs; 0 where /proc does not tell.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_own_kib() -> i32 {
    guard(|| Ok(memory::own_kib().try_into().unwrap_or(i32::MAX)))
}

/// Writes everything to disk and powers the guest off. Returns only when that failed.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_power_off() -> i32 {
    guard(|| {
        rustix::fs::sync();
        reboot(RebootCommand::PowerOff).map_err(negated)?;
        Ok(0)
    })
}
