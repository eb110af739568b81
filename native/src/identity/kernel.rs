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

/// Asks the device for one of the requests above; of the first with what is to be fed.
type Ask<'a> = &'a mut dyn FnMut(u64, Option<&mut PoolInfo>) -> Result<(), Errno>;

/// Feeds the generator and has it start anew from what it was fed.
pub fn reseed(root: &Path, secret: &[u8]) -> Result<bool, Errno> {
    let path = root.join("dev/urandom");
    let device = match OpenOptions::new().write(true).open(&path) {
        Ok(device) => device,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(errno(error)),
    };
    stir(secret, &mut |asked, info| request(&device, asked, info))
}

fn stir(secret: &[u8], ask: Ask<'_>) -> Result<bool, Errno> {
    feed(secret, ask)?;
    match ask(RNDRESEEDCRNG, None) {
        // It never was ready, so that no copy of its state is worth anything.
        Ok(()) | Err(Errno::NODATA) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Entropy is only claimed for a secret; clocks are merely different.
fn feed(secret: &[u8], ask: Ask<'_>) -> Result<(), Errno> {
    let clocks = [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime].map(|clock| {
        let now = clock_gettime(clock);
        (now.tv_sec, now.tv_nsec)
    });
    let mut info = PoolInfo {
        entropy_bits: if secret.is_empty() {
            0
        } else {
            8 * FED_BYTES as libc::c_int
        },
        bytes: FED_BYTES as libc::c_int,
        data: hash(secret, clocks),
    };
    let result = ask(RNDADDENTROPY, Some(&mut info));
    info.data.zeroize();
    result
}

fn hash(secret: &[u8], clocks: [(i64, i64); 3]) -> [u8; FED_BYTES] {
    let mut hash = Blake2s256::new();
    hash.update((secret.len() as u64).to_le_bytes());
    hash.update(secret);
    for (seconds, nanoseconds) in clocks {
        hash.update(seconds.to_le_bytes());
        hash.update(nanoseconds.to_le_bytes());
    }
    hash.finalize().into()
}

fn request(device: &File, request: u64, info: Option<&mut PoolInfo>) -> Result<(), Errno> {
    let argument = info.map_or(std::ptr::null_mut(), std::ptr::from_mut);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the device was asked for: the request, and what it was fed with how many bits claimed.
    type Asked = Vec<(u64, Option<(i32, [u8; FED_BYTES])>)>;

    fn asked(secret: &[u8], answer: Result<(), Errno>) -> (Asked, Result<bool, Errno>) {
        let mut asked = Vec::new();
        let outcome = stir(secret, &mut |request, info| {
            asked.push((request, info.map(|info| (info.entropy_bits, info.data))));
            if request == RNDRESEEDCRNG {
                answer
            } else {
                Ok(())
            }
        });
        (asked, outcome)
    }

    #[test]
    fn the_generator_is_fed_with_a_hash_of_the_secret_and_starts_anew_from_it() {
        let (with, outcome) = asked(b"token and seed", Ok(()));
        assert_eq!(outcome, Ok(true));
        let [(first, Some((bits, data))), (second, None)] = with[..] else {
            panic!("{with:?}");
        };
        assert_eq!((first, second), (RNDADDENTROPY, RNDRESEEDCRNG));
        assert_eq!((bits, data == [0; FED_BYTES]), (256, false));
        let (without, _) = asked(b"", Ok(()));
        assert_eq!(
            without[0].1.map(|(bits, _)| bits),
            Some(0),
            "clocks are no entropy"
        );
        assert_ne!(without[0].1.map(|(_, data)| data), Some(data));
    }

    #[test]
    fn what_is_fed_is_of_the_secret_and_of_the_clocks() {
        let clocks = [1, 2, 3].map(|seconds| (seconds, 0));
        let one = hash(b"one", clocks);
        assert_ne!(hash(b"two", clocks), one);
        assert_ne!(hash(b"one", [1, 2, 4].map(|seconds| (seconds, 0))), one);
        assert_eq!(hash(b"one", clocks), one);
    }

    #[test]
    fn a_generator_that_never_was_ready_is_repaired_and_one_that_refuses_is_not() {
        assert_eq!(asked(b"x", Err(Errno::NODATA)).1, Ok(true));
        assert_eq!(asked(b"x", Err(Errno::PERM)).1, Err(Errno::PERM));
    }
}
