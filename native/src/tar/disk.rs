//! The directory that an archive is extracted into. The kernel sees to it that no path leaves it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, mkdirat, open,
    openat, openat2, statat, statx,
};
use rustix::io::Errno;

use super::name::split;
use crate::file::parents::publish;

/// A longer path is walked in pieces: the kernel takes 4095 bytes at a time.
const PIECE: usize = 4000;

/// The root's descriptor.
pub struct Root(OwnedFd);

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What lies at a name.
pub fn kind_at(dir: impl AsFd, name: &[u8]) -> Result<Option<FileType>, Errno> {
    match statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether something is mounted over a name, so that nothing else can take its place.
pub fn is_mounted_over(dir: impl AsFd, name: &[u8]) -> bool {
    let name = OsStr::from_bytes(name);
    let mask = StatxFlags::TYPE;
    // Kernels before 5.8 do not say it; then the renaming fails.
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, mask)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
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
        // One step at a time, each from where the last one led: names may be very deep.
        let mut fd = self.dir(b"")?;
        let mut end = 0;
        for component in name.split(|byte| *byte == b'/') {
            end += component.len();
            let last = Path::new(OsStr::from_bytes(component));
            let next = match step_down(&fd, last) {
                Err(Errno::NOENT) => match mkdirat(&fd, last, Mode::from_raw_mode(0o755)) {
                    Ok(()) => publish(&fd, last),
                    Err(Errno::EXIST) => step_down(&fd, last),
                    Err(errno) => Err(errno),
                },
                other => other,
            };
            fd = match next {
                // A symlink is followed from the root, beneath which it has to stay.
                Err(Errno::LOOP | Errno::NOTDIR) => self.dir(&name[..end])?,
                other => other?,
            };
            end += 1;
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

/// The directory itself with this name in `from`.
pub fn step_down(from: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(from, name, flags, Mode::empty())
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
