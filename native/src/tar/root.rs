//! The directory that an archive is extracted into. The kernel sees to it that no path leaves it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
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

/// For looking at what lies in a directory, not for listing it.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The root's descriptor.
pub struct TreeRoot(pub OwnedFd);

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
    // Kernels before 5.8 do not say it; then the renaming fails.
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// The directory itself with this name in `from`.
pub fn step_down(from: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = PLACE | OFlags::NOFOLLOW;
    openat(from, OsStr::from_bytes(name), flags, Mode::empty())
}

impl TreeRoot {
    /// Opens the root; it may be a symlink to a directory.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        open(path, PLACE, Mode::empty()).map(Self)
    }

    /// The directory with a resolved name, empty for the root. Symlinks on the way are followed as
    /// long as they stay beneath the root; one that does not is EXDEV.
    pub fn dir(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let (mut fd, mut rest) = (beneath(&self.0, b".", PLACE)?, name);
        while !rest.is_empty() {
            let piece = match rest.get(..PIECE) {
                Some(longest) => split(longest).0,
                None => rest,
            };
            fd = beneath(&fd, piece, PLACE)?;
            rest = rest.get(piece.len() + 1..).unwrap_or_default();
        }
        Ok(fd)
    }

    /// The directory itself with a resolved name, for its mode and times: never through a symlink.
    pub fn dir_itself(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let (parent, last) = split(name);
        let last = if last.is_empty() { b"." } else { last };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        beneath(&self.dir(parent)?, last, flags)
    }

    /// As [`TreeRoot::dir`], making the directories that are missing, 0755 whatever the umask.
    pub fn make_dir(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        match self.dir(name) {
            Err(Errno::NOENT) => {}
            other => return other,
        }
        // One step at a time, each from where the last one led: names may be very deep.
        let (mut fd, mut end) = (self.dir(b"")?, 0);
        for component in name.split(|byte| *byte == b'/') {
            end += component.len();
            let path = Path::new(OsStr::from_bytes(component));
            let made = match step_down(&fd, component) {
                Err(Errno::NOENT) => mkdirat(&fd, path, Mode::from_raw_mode(0o755)),
                _ => Err(Errno::EXIST),
            };
            fd = match made {
                Ok(()) => publish(&fd, path)?,
                Err(Errno::EXIST) => match step_down(&fd, component) {
                    // A symlink is followed from the root, beneath which it has to stay.
                    Err(Errno::LOOP | Errno::NOTDIR) => self.dir(&name[..end])?,
                    other => other?,
                },
                Err(errno) => return Err(errno),
            };
            end += 1;
        }
        Ok(fd)
    }
}

/// What lies beneath a directory, whatever symlinks lead there.
fn beneath(from: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = || openat2(from, OsStr::from_bytes(path), flags, Mode::empty(), resolve);
    // EAGAIN means that something was renamed while the kernel made sure that nothing is left.
    let mut tries = (0..64).map(|_| open());
    tries
        .find(|tried| !matches!(tried, Err(Errno::AGAIN | Errno::INTR)))
        .unwrap_or_else(open)
}
