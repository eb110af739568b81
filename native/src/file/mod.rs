//! Files on their way in and out: whole, confined to their target, never half.
//!
//! - `read`, `window`, `reader`  a file's bytes, a window of its lines, and what they have in common
//! - `target`, `temp`, `parents`, `reserve`  where an upload goes and what it leaves alone
//! - `failure`  what went wrong, for the code and for people

pub mod failure;
pub mod parents;
pub mod read;
pub mod reader;
pub mod reserve;
pub mod target;
pub mod temp;
#[cfg(test)]
pub mod testing;
pub mod window;

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Writes all of `bytes`.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file.as_fd(), bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
