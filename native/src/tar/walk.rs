//! A directory tree in the order of its members' names.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, RawDir, Stat, accessat, fstat, open, openat,
    readlinkat, stat, statat,
};
use rustix::io::Errno;

use super::names::Names;
use crate::file::failure::{CANCELLED, Failure, NOT_DIRECTORY, OVER_LIMIT, shown, shown_bytes};

/// Directories that stay open on the way down. Those above are reopened on the way up.
const OPEN: usize = 64;

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What a walk is for, and how many names at most it may come upon.
#[derive(Clone, Copy)]
pub enum Purpose {
    /// Members are looked at.
    Measuring {
        /// Most names.
        names: u64,
    },
    /// Files are opened: what is known of them is then of what is read.
    Packing {
        /// Most names.
        names: u64,
    },
}

const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// So many names are read between two looks at whether anybody still wants them.
const LOOK_EVERY: usize = 4096;

/// A member that was found.
pub struct Found {
    /// What is known of it: of `file`, if that is there.
    pub stat: Stat,
    /// Its kind: a regular file, a directory or a symlink.
    pub kind: FileType,
    /// The file, opened for packing.
    pub file: Option<File>,
}

/// How much is read of a directory at a time, in bytes.
const LISTING: usize = 32 << 10;

/// Invariant: `names` are those still to be visited, the next one last. `fd` is open for the
/// deepest [`OPEN`] frames. `above` is the length of the path that leads here.
struct Frame {
    fd: Option<OwnedFd>,
    identity: (u64, u64),
    names: Names,
    above: usize,
}

/// A walk. What vanishes meanwhile is passed over, as are sockets, fifos and devices.
///
/// Invariant: from a member's finding until the next one is looked for, its name begins at `own` in
/// `path`.
pub struct Walk {
    root: String,
    frames: Vec<Frame>,
    path: Vec<u8>,
    own: usize,
    listing: Vec<u8>,
    may_read_all: bool,
    opening: bool,
    /// Names that may still be come upon.
    room: u64,
    names: u64,
    over: bool,
    cancelled: Arc<AtomicBool>,
}

impl Walk {
    /// Opens the directory that `path` leads to, and gives what is known of it.
    pub fn open(
        path: &Path,
        cancelled: &Arc<AtomicBool>,
        purpose: Purpose,
    ) -> Result<(Self, Found), Failure> {
        let failed = |errno| Failure::of("read the directory", path, errno);
        let found = stat(path).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            let text = format!("Cannot pack {}: it is no directory", shown(path));
            return Err(Failure::new(NOT_DIRECTORY, text));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(failed)?;
        let found = Found {
            stat: fstat(&fd).map_err(failed)?,
            kind: FileType::Directory,
            file: None,
        };
        let (opening, names) = match purpose {
            Purpose::Measuring { names } => (false, names),
            Purpose::Packing { names } => (true, names),
        };
        let mut walk = Self {
            root: shown(path),
            frames: Vec::new(),
            path: Vec::new(),
            own: 0,
            listing: Vec::with_capacity(LISTING),
            may_read_all: rustix::process::geteuid().is_root(),
            opening,
            // The root is a member, but no name.
            room: names.saturating_sub(1),
            names,
            over: false,
            cancelled: Arc::clone(cancelled),
        };
        let entered = walk.enter(fd, &found.stat, 0);
        entered.map_err(|errno| walk.over().unwrap_or_else(|| failed(errno)))?;
        Ok((walk, found))
    }

    /// The next member. Its path is [`Walk::path`] until the next call.
    pub fn next_member(&mut self) -> Result<Option<Found>, Failure> {
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Failure::new(CANCELLED, "Cannot pack on: nobody wants it"));
            }
            let Some(frame) = self.frames.last_mut() else {
                return Ok(None);
            };
            let above = frame.above;
            let Some((name, kind)) = frame.names.pop() else {
                self.leave()?;
                continue;
            };
            self.path.truncate(above);
            if self.path.len() < above {
                self.path.push(b'/');
            }
            self.own = self.path.len();
            self.path.extend_from_slice(name);
            // It may be something else than when it was listed: then that is what it is.
            for kind in [kind, FileType::Unknown] {
                match self.visit(kind) {
                    Ok(Some(found)) => return Ok(Some(found)),
                    Ok(None) => {}
                    Err(Errno::NOENT) => break,
                    Err(errno) => return Err(self.failed(errno)),
                }
            }
        }
    }

    /// Path of the member that was found last, relative to the root, without a slash at its end.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether the file that was found last could be opened; what root asks for, it gets.
    pub fn check_readable(&self) -> Result<(), Failure> {
        if self.may_read_all {
            return Ok(());
        }
        let access = self
            .dir()
            .and_then(|dir| accessat(dir, self.name(), Access::READ_OK, AtFlags::EACCESS));
        match access {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Target of the symlink that was found last; none if it has vanished or is no symlink by now.
    pub fn link_target(&self) -> Result<Option<Vec<u8>>, Failure> {
        let target = self
            .dir()
            .and_then(|dir| readlinkat(dir, self.name(), Vec::new()));
        match target {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// A failure with the member that was found last.
    pub fn failed(&self, errno: Errno) -> Failure {
        let (root, member) = (&self.root, shown_bytes(&self.path));
        self.over().unwrap_or_else(|| {
            Failure::new(
                errno.raw_os_error(),
                format!("Cannot pack {root}: cannot read {member}"),
            )
        })
    }

    fn over(&self) -> Option<Failure> {
        let names = self.over.then_some(self.names)?;
        let text = format!(
            "Cannot pack {}: it has more than {names} members",
            self.root
        );
        Some(Failure::new(OVER_LIMIT, text))
    }

    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.path.get(self.own..).unwrap_or_default())
    }

    /// The directory of the member that was found last: above the frame that a directory opened.
    /// Only the deepest frames are asked for, and those are open.
    fn dir(&self) -> Result<BorrowedFd<'_>, Errno> {
        let frame = self
            .frames
            .iter()
            .rev()
            .find(|frame| frame.above <= self.own);
        let fd = frame.and_then(|frame| frame.fd.as_ref());
        fd.map(|fd| fd.as_fd()).ok_or(Errno::BADF)
    }

    fn visit(&mut self, kind: FileType) -> Result<Option<Found>, Errno> {
        let look = || statat(self.dir()?, self.name(), AtFlags::SYMLINK_NOFOLLOW);
        let kind = match kind {
            FileType::Unknown => FileType::from_raw_mode(look()?.st_mode),
            known => known,
        };
        let open = |flags| match openat(self.dir()?, self.name(), flags, Mode::empty()) {
            // It is something else by now.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(None),
            other => other.map(Some),
        };
        let (stat, file) = match kind {
            FileType::Directory => {
                let Some(fd) = open(DIR_FLAGS)? else {
                    return Ok(None);
                };
                let stat = fstat(&fd)?;
                let below = self.path.len() + 1;
                self.enter(fd, &stat, below)?;
                (stat, None)
            }
            FileType::RegularFile if self.opening => {
                let Some(fd) = open(FILE_FLAGS)? else {
                    return Ok(None);
                };
                (fstat(&fd)?, Some(File::from(fd)))
            }
            _ => (look()?, None),
        };
        let found = FileType::from_raw_mode(stat.st_mode);
        let wanted = matches!(
            found,
            FileType::RegularFile | FileType::Symlink | FileType::Directory
        );
        Ok((wanted && found == kind).then_some(Found { stat, kind, file }))
    }

    /// Lists a directory and makes it the one that is visited next.
    fn enter(&mut self, fd: OwnedFd, stat: &Stat, above: usize) -> Result<(), Errno> {
        let mut names = Names::default();
        let mut entries = RawDir::new(&fd, self.listing.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| {
                        FileType::from_raw_mode(stat.st_mode)
                    }),
                known => known,
            };
            let wanted = matches!(
                kind,
                FileType::Directory | FileType::RegularFile | FileType::Symlink | FileType::Unknown
            );
            if !wanted {
                continue;
            }
            // Before it is kept: a directory may have any number of names.
            let room = self.room.checked_sub(1);
            self.room = room.ok_or_else(|| {
                self.over = true;
                Errno::OVERFLOW
            })?;
            names.push(name.to_bytes(), kind);
            let count = names.count();
            if count % LOOK_EVERY == 0 && self.cancelled.load(Ordering::Relaxed) {
                return Err(Errno::CANCELED);
            }
        }
        names.sort();
        if let Some(at) = self.frames.len().checked_sub(OPEN) {
            self.frames[at].fd = None;
        }
        self.frames.push(Frame {
            fd: Some(fd),
            identity: (stat.st_dev, stat.st_ino),
            names,
            above,
        });
        Ok(())
    }

    /// Goes back to the directory above, which is reopened if it was too far up to stay open.
    fn leave(&mut self) -> Result<(), Failure> {
        let left = self.frames.pop();
        let (Some(left), Some(frame)) = (left, self.frames.last_mut()) else {
            return Ok(());
        };
        self.path.truncate(left.above.saturating_sub(1));
        if frame.fd.is_some() {
            return Ok(());
        }
        let below = left.fd.ok_or(Errno::BADF);
        let above = below.and_then(|fd| openat(fd, "..", DIR_FLAGS, Mode::empty()));
        let above = above.and_then(|fd| {
            let stat = fstat(&fd)?;
            // It was moved meanwhile: what is above it now is none of this tree's.
            ((stat.st_dev, stat.st_ino) == frame.identity)
                .then_some(fd)
                .ok_or(Errno::STALE)
        });
        match above {
            Ok(fd) => {
                frame.fd = Some(fd);
                Ok(())
            }
            Err(errno) => Err(self.failed(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::fs::{create_dir, remove_dir, remove_file, write};

    #[test]
    fn what_has_become_something_else_since_it_was_listed_is_that() {
        let dir = TempDir::make();
        let at = |name: &str| dir.path().join(name);
        write(at("file"), b"1").unwrap();
        write(at("gone"), b"1").unwrap();
        create_dir(at("dir")).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let cancelled = Arc::default();
        let purpose = Purpose::Packing { names: 9 };
        let (mut walk, _) = Walk::open(dir.path(), &cancelled, purpose).unwrap();
        remove_file(at("file")).unwrap();
        std::os::unix::fs::symlink("link", at("file")).unwrap();
        remove_file(at("gone")).unwrap();
        remove_dir(at("dir")).unwrap();
        write(at("dir"), b"2").unwrap();
        remove_file(at("link")).unwrap();
        create_dir(at("link")).unwrap();
        write(at("link/within"), b"3").unwrap();
        let mut found = Vec::new();
        while let Some(member) = walk.next_member().unwrap() {
            found.push((walk.path().to_vec(), member.kind));
        }
        let wanted = [
            (b"dir".to_vec(), FileType::RegularFile),
            (b"file".to_vec(), FileType::Symlink),
            (b"link".to_vec(), FileType::Directory),
            (b"link/within".to_vec(), FileType::RegularFile),
        ];
        assert_eq!(found, wanted);
    }
}
