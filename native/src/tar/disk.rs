//! The directory that an archive is extracted into. The kernel sees to it that no path leaves it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, chmodat, mkdirat, open, openat2, statat,
};
use rustix::io::Errno;

use super::name::split;

/// A longer path is walked in pieces: the kernel takes 4095 bytes at a time.
const PIECE: usize = 4000;

/// The root's descriptor.
pub struct Root(OwnedFd);

/// What lies at a name.
pub fn kind_at(dir: impl AsFd, name: &[u8]) -> Result<Option<FileType>, Errno> {
    match statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Root {
    /// Opens the root; it may be a symlink to a directory.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(path, flags, Mode::empty()).map(Self)
    }

    /// The directory with a resolved name, empty for the root. Symlinks on the way are followed as
    /// long as they stay beneath the root; one that does not is EXDEV.
    pub fn dir(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        self.reach(
            name,
            OFlags::PATH | OFlags::DIRECTORY,
            ResolveFlags::empty(),
        )
    }

    /// Whether `name`, which is not there, leads through a symlink whose target is not there.
    pub fn leads_nowhere(&self, mut name: &[u8]) -> Result<bool, Errno> {
        while !name.is_empty() {
            let (parent, last) = split(name);
            match self.dir(parent) {
                Ok(fd) => return kind_at(&fd, last).map(|kind| kind.is_some()),
                Err(Errno::NOENT) => name = parent,
                Err(errno) => return Err(errno),
            }
        }
        Ok(false)
    }

    /// The directory itself with a resolved name, for its mode and times: never through a symlink.
    pub fn dir_itself(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let parent = self.dir(split(name).0)?;
        let name = if name.is_empty() { b"." } else { split(name).1 };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        retried(|| {
            openat2(
                &parent,
                OsStr::from_bytes(name),
                flags,
                Mode::empty(),
                resolve,
            )
        })
    }

    /// As [`Root::dir`], making the directories that are missing, 0755 whatever the umask.
    pub fn make_dir(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        match self.dir(name) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        let mut missing = vec![name];
        let mut fd = loop {
            let parent = split(missing.last().copied().unwrap_or_default()).0;
            match self.dir(parent) {
                Ok(fd) => break fd,
                Err(Errno::NOENT) if !parent.is_empty() => missing.push(parent),
                Err(errno) => return Err(errno),
            }
        };
        while let Some(name) = missing.pop() {
            let last = OsStr::from_bytes(split(name).1);
            let mode = Mode::from_raw_mode(0o755);
            match mkdirat(&fd, last, mode) {
                Ok(()) => chmodat(&fd, last, mode, AtFlags::empty())?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            fd = self.dir(name)?;
        }
        Ok(fd)
    }

    fn reach(&self, name: &[u8], flags: OFlags, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        let step = |from: &OwnedFd, piece: &[u8]| {
            retried(|| {
                openat2(
                    from,
                    OsStr::from_bytes(piece),
                    flags,
                    Mode::empty(),
                    resolve,
                )
            })
        };
        if name.is_empty() {
            return step(&self.0, b".");
        }
        let mut rest = name;
        let mut reached: Option<OwnedFd> = None;
        loop {
            let (piece, after) = cut(rest);
            let next = step(reached.as_ref().unwrap_or(&self.0), piece)?;
            match after {
                None => return Ok(next),
                Some(after) => (reached, rest) = (Some(next), after),
            }
        }
    }
}

/// EAGAIN means that something was renamed while the kernel made sure that nothing is left.
fn retried(mut open: impl FnMut() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    for _ in 0..64 {
        match open() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    open()
}

/// The first components of a path, as many as the kernel takes, and the others.
fn cut(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    if path.len() <= PIECE {
        return (path, None);
    }
    match memchr::memrchr(b'/', &path[..PIECE]) {
        Some(slash) => (&path[..slash], Some(&path[slash + 1..])),
        None => (path, None),
    }
}
