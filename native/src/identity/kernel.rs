//! The kernel's random generator, whose state a snapshot copies.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use super::unless_absent;

/// `_IOW('R', 0x03, int [2])` and `_IO('R', 0x07)`, the same on every architecture that we build for.
const RNDADDENTROPY: u64 = 0x4008_5203;
const RNDRESEEDCRNG: u64 = 0x5207;

/// As many bits as the generator's key has are claimed for a secret.
const SECRET_BITS: libc::c_int = 256;

/// Feeds the generator, which hashes what it is fed, and has it start anew from that.
pub fn reseed(root: &Path, secret: &[u8]) -> io::Result<bool> {
    let device = OpenOptions::new()
        .write(true)
        .open(root.join("dev/urandom"));
    let Some(device) = unless_absent(device)? else {
        return Ok(false);
    };
    stir(secret, |asked, info| request(&device, asked, info))?;
    Ok(true)
}

fn stir(secret: &[u8], mut ask: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
    ask(RNDADDENTROPY, &pool_info(secret))?;
    match ask(RNDRESEEDCRNG, &[]) {
        // It never was ready, so that no copy of its state is worth anything.
        Err(error) if error.raw_os_error() == Some(libc::ENODATA) => Ok(()),
        result => result,
    }
}

/// `struct rand_pool_info` of `linux/random.h`: bits claimed, bytes that follow, and these.
/// Entropy is only claimed for a secret; clocks are merely different.
fn pool_info(secret: &[u8]) -> Vec<u8> {
    let clocks = [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime].map(clock_gettime);
    let bits = if secret.is_empty() { 0 } else { SECRET_BITS };
    let bytes = secret.len() + size_of_val(&clocks);
    let mut info = Vec::new();
    info.extend(bits.to_ne_bytes());
    info.extend((bytes as libc::c_int).to_ne_bytes());
    for now in clocks {
        info.extend(now.tv_sec.to_ne_bytes());
        info.extend(now.tv_nsec.to_ne_bytes());
    }
    info.extend(secret);
    info
}

fn request(device: &File, request: u64, info: &[u8]) -> io::Result<()> {
    // SAFETY: RNDADDENTROPY reads a `rand_pool_info` and as many bytes behind it as it says, which
    // `pool_info` makes; RNDRESEEDCRNG takes no argument. On a file of another kind both are refused.
    match unsafe { libc::ioctl(device.as_raw_fd(), request as _, info.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the device was asked for, when it answers the second request with `errno`.
    fn asked(secret: &[u8], errno: i32) -> (Vec<(u64, Vec<u8>)>, io::Result<()>) {
        let mut asked = Vec::new();
        let outcome = stir(secret, |request, info| {
            asked.push((request, info.to_vec()));
            match request {
                RNDRESEEDCRNG if errno != 0 => Err(io::Error::from_raw_os_error(errno)),
                _ => Ok(()),
            }
        });
        (asked, outcome)
    }

    #[test]
    fn the_generator_is_fed_with_clocks_and_the_secret_and_starts_anew_from_them() {
        for (secret, bits) in [(&b"token and seed"[..], 256), (b"", 0)] {
            let (asked, outcome) = asked(secret, 0);
            outcome.unwrap();
            let [(RNDADDENTROPY, info), (RNDRESEEDCRNG, nothing)] = &asked[..] else {
                panic!("{asked:?}");
            };
            assert!(nothing.is_empty());
            let word = |at: usize| i32::from_ne_bytes(*info[at..].first_chunk().unwrap());
            assert_eq!(word(0), bits, "clocks are no entropy");
            assert_eq!(word(4) as usize, info.len() - 8);
            assert_eq!(info[8 + 3 * 16..], *secret);
        }
        assert_ne!(asked(b"", 0).0, asked(b"", 0).0, "clocks go on");
    }

    #[test]
    fn a_generator_that_never_was_ready_is_repaired_and_one_that_refuses_is_not() {
        assert!(asked(b"x", libc::ENODATA).1.is_ok());
        let refused = asked(b"x", libc::EPERM).1.unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }
}
