//! The kernel's random generator, whose state a snapshot copies.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::Path;

use blake2::{Blake2s256, Digest};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use zeroize::Zeroize;

use super::errno;
use crate::scrub::wipe_stack;

/// Fed at a time, in bytes.
const FED_BYTES: usize = 32;

/// `struct rand_pool_info` of `linux/random.h` with [`FED_BYTES`] behind it.
#[repr(C)]
struct PoolInfo {
    entropy_bits: libc::c_int,
    bytes: libc::c_int,
    data: [u8; FED_BYTES],
}

/// `_IOW('R', 0x03, int [2])` and `_IO('R', 0x07)`, the same on every architecture that we build for.
const RNDADDENTROPY: u64 = 0x4008_5203;
const RNDRESEEDCRNG: u64 = 0x5207;

/// Feeds the generator and has it start anew from what it was fed.
pub fn reseed(root: &Path, secret: &[u8]) -> Result<bool, Errno> {
    let path = root.join("dev/urandom");
    let device = match OpenOptions::new().write(true).open(&path) {
        Ok(device) => device,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(errno(error)),
    };
    let fed = feed(&device, secret);
    // The hash had the secret in its block.
    wipe_stack();
    fed?;
    match request(&device, RNDRESEEDCRNG, std::ptr::null_mut()) {
        // It never was ready, so that no copy of its state is worth anything.
        Ok(()) | Err(Errno::NODATA) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Entropy is only claimed for a secret; clocks are merely different.
#[inline(never)]
fn feed(device: &File, secret: &[u8]) -> Result<(), Errno> {
    let mut hash = Blake2s256::new();
    hash.update((secret.len() as u64).to_le_bytes());
    hash.update(secret);
    for clock in [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime] {
        let now = clock_gettime(clock);
        hash.update(now.tv_sec.to_le_bytes());
        hash.update(now.tv_nsec.to_le_bytes());
    }
    let mut info = PoolInfo {
        entropy_bits: if secret.is_empty() {
            0
        } else {
            8 * FED_BYTES as libc::c_int
        },
        bytes: FED_BYTES as libc::c_int,
        data: hash.finalize().into(),
    };
    let result = request(device, RNDADDENTROPY, (&raw mut info).cast());
    info.data.zeroize();
    result
}

fn request(device: &File, request: u64, argument: *mut libc::c_void) -> Result<(), Errno> {
    // SAFETY: RNDADDENTROPY reads a `rand_pool_info` and the bytes that it says are behind it, which
    // `feed` gives it; RNDRESEEDCRNG takes no argument. On a file of another kind both are refused.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), request as _, argument) };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        ))
    }
}
