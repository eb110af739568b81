//! The space that stays free.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::fstatvfs;
use rustix::io::Errno;

use super::failure::{Failure, UNDER_RESERVE};
use crate::disk;

/// How many bytes are written between two looks at the space that is left.
const EVERY_BYTES: u64 = 8 << 20;

/// What file systems give out at a time, in bytes.
const BLOCK_BYTES: u64 = 4096;

/// What a file of `bytes`, a directory or a symlink takes on disk, as far as that can be said.
pub fn taken(bytes: u64) -> u64 {
    let blocks = bytes.div_ceil(BLOCK_BYTES).max(1);
    blocks.saturating_mul(BLOCK_BYTES)
}

/// What `length` bytes of a sparse file take, from `offset` on.
pub fn taken_within(offset: u64, length: u64) -> u64 {
    let blocks = offset.saturating_add(length).div_ceil(BLOCK_BYTES) - offset / BLOCK_BYTES;
    blocks.saturating_mul(BLOCK_BYTES)
}

/// Bytes that must stay available on a file system. 0 guards nothing, and what cannot be measured
/// is not refused.
///
/// Invariant: fewer than [`EVERY_BYTES`] were written since the last look.
#[derive(Clone, Debug)]
pub struct Reserve {
    bytes: u64,
    unseen: u64,
}

impl Reserve {
    /// A reserve of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, unseen: 0 }
    }

    /// Looks at the file system of `path` before `wanted` bytes are written to it.
    pub fn check(&self, path: &Path, wanted: u64) -> Result<(), Failure> {
        self.judge(disk::available_bytes(path).ok(), wanted)
    }

    /// Looks at the file system of an open file.
    pub fn check_file(&self, file: impl AsFd) -> Result<(), Failure> {
        self.judge(available(file), 0)
    }

    /// Counts `bytes` that are about to be written to `file`, and looks every 8 MiB.
    pub fn count(&mut self, file: impl AsFd, bytes: u64) -> Result<(), Failure> {
        self.unseen += bytes;
        if self.bytes == 0 || self.unseen < EVERY_BYTES {
            return Ok(());
        }
        self.unseen = 0;
        self.check_file(file)
    }

    /// What a failure is after all: a full disk is one that is under the reserve.
    pub fn explain(&self, errno: Errno, file: impl AsFd, failure: Failure) -> Failure {
        self.filled(errno, file).unwrap_or(failure)
    }

    /// That the file system of an open file is under the reserve, if `errno` says that it is full.
    pub fn filled(&self, errno: Errno, file: impl AsFd) -> Option<Failure> {
        let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
        full.then(|| self.check_file(file).err()).flatten()
    }

    /// Looks at the file system of a file of `old` bytes on disk that is to take `new` in its place.
    /// What fails halfway cannot be undone there, so a disk without the room for it is full before
    /// the first byte, with or without a reserve.
    pub fn check_in_place(&self, file: impl AsFd, old: u64, new: u64) -> Result<(), Failure> {
        let more = taken(new).saturating_sub(old);
        let available = available(file);
        self.judge(available, more)?;
        let Some(available) = available.filter(|available| *available < more) else {
            return Ok(());
        };
        let text = format!("Cannot write in place: {available} bytes are available for {more}");
        Err(Failure::new(libc::ENOSPC, text))
    }

    fn judge(&self, available: Option<u64>, wanted: u64) -> Result<(), Failure> {
        // /proc, /sys and their like have no blocks at all, and so nothing that could run out.
        let Some(available) = available.filter(|_| self.bytes != 0) else {
            return Ok(());
        };
        if available.saturating_sub(wanted) >= self.bytes {
            return Ok(());
        }
        let text = format!(
            "Cannot write: {available} bytes are available and {} are kept in reserve",
            self.bytes
        );
        Err(Failure::new(UNDER_RESERVE, text))
    }
}

fn available(file: impl AsFd) -> Option<u64> {
    disk::available(&fstatvfs(file).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_refused_when_less_than_the_reserve_would_be_left() {
        let reserve = Reserve::new(100);
        assert_eq!(reserve.judge(Some(100), 0), Ok(()));
        assert_eq!(reserve.judge(Some(150), 50), Ok(()));
        assert_eq!((taken(0), taken(4096), taken(4097)), (4096, 4096, 8192));
        assert_eq!((taken_within(4096, 1), taken_within(4095, 2)), (4096, 8192));
        let refused = reserve.judge(Some(150), 51).unwrap_err();
        assert_eq!(refused.status, UNDER_RESERVE);
        assert!(refused.text.contains("150 bytes are available and 100"));
    }

    #[test]
    fn what_cannot_be_measured_is_allowed_and_no_reserve_allows_all() {
        let nowhere = Path::new("/proc/self/fd/-1\0");
        assert_eq!(Reserve::new(u64::MAX).check(nowhere, 0), Ok(()));
        let proc = Path::new("/proc/sys");
        assert_eq!(Reserve::new(u64::MAX).check(proc, 0), Ok(()));
        assert_eq!(Reserve::new(0).check(Path::new("/"), u64::MAX), Ok(()));
        assert!(Reserve::new(u64::MAX).check(Path::new("/"), 0).is_err());
    }
}
