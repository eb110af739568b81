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

use super::identity;
use super::root::kind_at;
use crate::file::failure::{CANCELLED, Failure, NOT_DIRECTORY, OVER_LIMIT, shown, shown_bytes};

/// Directories that stay open on the way down. Those above are reopened on the way up.
const OPEN: usize = 64;

/// How much is read of a directory at a time, in bytes.
const LISTING: usize = 32 << 10;

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A member that was found.
pub struct Found {
    /// What is known of it: of `file`, if that is there.
    pub stat: Stat,
    /// A regular file, a directory or a symlink.
    pub kind: FileType,
    /// The file, opened for packing.
    pub file: Option<File>,
}

/// A name with a slash at its end if it is a directory, so that names sort as those of members do;
/// and the kind, if the directory says it.
type Listed = (Vec<u8>, FileType);

/// Invariant: `names` are those still to be visited, the next one last. `fd` is open for the
/// deepest [`OPEN`] frames. `length` is that of the path that leads here, its slash included.
struct Frame {
    fd: Option<OwnedFd>,
    identity: (u64, u64),
    names: Vec<Listed>,
    length: usize,
}

/// A walk. What vanishes meanwhile is passed over, as are sockets, fifos and devices.
///
/// Invariant: `room` is how many more names may be come upon of the `limit` that are allowed.
pub struct TreeWalk {
    root: String,
    frames: Vec<Frame>,
    path: Vec<u8>,
    may_read_all: bool,
    opening: bool,
    limit: u64,
    room: u64,
    cancelled: Arc<AtomicBool>,
}

impl TreeWalk {
    /// Opens the directory that `path` leads to, and gives what is known of it. Above `limit` names the walk fails. With
    /// `opening` files are opened, so that what is known of them is of what is read.
    pub fn open(
        path: &Path,
        cancelled: &Arc<AtomicBool>,
        opening: bool,
        limit: u64,
    ) -> Result<(Self, Stat), Failure> {
        let failed = |errno| Failure::of("read the directory", path, errno);
        let found = stat(path).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            let text = format!("Cannot pack {}: it is no directory", shown(path));
            return Err(Failure::new(NOT_DIRECTORY, text));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&fd).map_err(failed)?;
        let mut walk = Self {
            root: shown(path),
            frames: Vec::new(),
            path: Vec::new(),
            may_read_all: rustix::process::geteuid().is_root(),
            opening,
            limit,
            // The root is a member, but no name.
            room: limit.saturating_sub(1),
            cancelled: Arc::clone(cancelled),
        };
        walk.enter(fd, &stat)?;
        Ok((walk, stat))
    }

    /// The next member. Its path is [`TreeWalk::path`] until the next call.
    pub fn next_member(&mut self) -> Result<Option<Found>, Failure> {
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Failure::new(CANCELLED, "Cannot pack on: nobody wants it"));
            }
            let Some(frame) = self.frames.last_mut() else {
                return Ok(None);
            };
            let Some((name, kind)) = frame.names.pop() else {
                self.leave()?;
                continue;
            };
            self.path.truncate(frame.length);
            self.path
                .extend_from_slice(name.strip_suffix(b"/").unwrap_or(&name));
            // It may be something else than when it was listed: then that is what it is.
            for kind in [kind, FileType::Unknown] {
                if let Some(found) = self.visit(kind)? {
                    return Ok(Some(found));
                }
            }
        }
    }

    /// Path of the member that was found last, relative to the root, with a slash at its end if it is a directory.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether the file that was found last could be opened; what root asks for, it gets.
    pub fn check_readable(&self) -> Result<(), Failure> {
        if self.may_read_all {
            return Ok(());
        }
        let place = self.place();
        let access =
            place.and_then(|(dir, name)| accessat(dir, name, Access::READ_OK, AtFlags::EACCESS));
        match access {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Target of the symlink that was found last; none if it has vanished or is no symlink by now.
    pub fn link_target(&self) -> Result<Option<Vec<u8>>, Failure> {
        let place = self.place();
        match place.and_then(|(dir, name)| readlinkat(dir, name, Vec::new())) {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// A failure with the member that was found last.
    pub fn failed(&self, errno: Errno) -> Failure {
        let member = shown_bytes(if self.path.is_empty() {
            b"./"
        } else {
            &self.path
        });
        let text = format!("Cannot pack {}: cannot read {member}", self.root);
        Failure::new(errno.raw_os_error(), text)
    }

    /// The directory that is being walked through, and a name in it: that of the member that was found last, unless that
    /// is a directory.
    fn place(&self) -> Result<(BorrowedFd<'_>, &OsStr), Errno> {
        let frame = self.frames.last().ok_or(Errno::BADF)?;
        let dir = frame.fd.as_ref().ok_or(Errno::BADF)?.as_fd();
        let name = self.path.get(frame.length..).unwrap_or_default();
        Ok((dir, OsStr::from_bytes(name)))
    }

    /// Looks at the name that `path` ends with as something of this kind; none if it is something else.
    fn visit(&mut self, kind: FileType) -> Result<Option<Found>, Failure> {
        let (stat, fd) = match self.look(kind) {
            Ok(found) => found,
            // It has vanished, or is something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(self.failed(errno)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let file = match (kind, fd) {
            (FileType::Directory, Some(fd)) => {
                self.path.push(b'/');
                self.enter(fd, &stat)?;
                None
            }
            (FileType::RegularFile, Some(fd)) => Some(File::from(fd)),
            (FileType::RegularFile, None) if !self.opening => None,
            (FileType::Symlink, None) => None,
            _ => return Ok(None),
        };
        Ok(Some(Found { stat, kind, file }))
    }

    fn look(&self, kind: FileType) -> Result<(Stat, Option<OwnedFd>), Errno> {
        let (dir, name) = self.place()?;
        let look = || statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = match kind {
            FileType::Unknown => FileType::from_raw_mode(look()?.st_mode),
            known => known,
        };
        let flags = match kind {
            FileType::Directory => DIR_FLAGS,
            FileType::RegularFile if self.opening => FILE_FLAGS,
            _ => return Ok((look()?, None)),
        };
        let fd = openat(dir, name, flags, Mode::empty())?;
        Ok((fstat(&fd)?, Some(fd)))
    }

    /// Lists a directory, to which `path` leads, and makes it the one that is walked through next.
    fn enter(&mut self, fd: OwnedFd, stat: &Stat) -> Result<(), Failure> {
        let names = self.list(&fd)?;
        if let Some(at) = self.frames.len().checked_sub(OPEN) {
            self.frames[at].fd = None;
        }
        self.frames.push(Frame {
            fd: Some(fd),
            identity: identity(stat),
            names,
            length: self.path.len(),
        });
        Ok(())
    }

    fn list(&mut self, fd: &OwnedFd) -> Result<Vec<Listed>, Failure> {
        let mut names = Vec::new();
        let mut listing = Vec::with_capacity(LISTING);
        let mut entries = RawDir::new(fd, listing.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| self.failed(errno))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say; what has vanished shows later.
                FileType::Unknown => kind_at(fd, name.to_bytes()).ok().flatten(),
                known => Some(known),
            };
            let kind = kind.unwrap_or(FileType::Unknown);
            let slash = match kind {
                FileType::Directory => &b"/"[..],
                FileType::RegularFile | FileType::Symlink | FileType::Unknown => b"",
                _ => continue,
            };
            // Before it is kept: a directory may have any number of names.
            self.room = self.room.checked_sub(1).ok_or_else(|| {
                let (root, limit) = (&self.root, self.limit);
                let text = format!("Cannot pack {root}: it has more than {limit} members");
                Failure::new(OVER_LIMIT, text)
            })?;
            names.push(([name.to_bytes(), slash].concat(), kind));
        }
        // Whoever only measures needs no order.
        if self.opening {
            names.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        }
        Ok(names)
    }

    /// Goes back to the directory above, which is reopened if it was too far up to stay open.
    fn leave(&mut self) -> Result<(), Failure> {
        let left = self.frames.pop();
        let wanted = match self.frames.last() {
            Some(frame) if frame.fd.is_none() => frame.identity,
            _ => return Ok(()),
        };
        let reopen = |below: OwnedFd| {
            let above = openat(below, "..", DIR_FLAGS, Mode::empty())?;
            // If it was moved meanwhile, what is above it now is none of this tree's.
            match identity(&fstat(&above)?) == wanted {
                true => Ok(above),
                false => Err(Errno::STALE),
            }
        };
        let below = left.and_then(|left| left.fd).ok_or(Errno::BADF);
        let above = below.and_then(reopen).map_err(|errno| self.failed(errno))?;
        if let Some(frame) = self.frames.last_mut() {
            frame.fd = Some(above);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::fs::{create_dir, remove_dir, remove_file, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_has_become_something_else_since_it_was_listed_is_that() {
        let dir = TempDir::make();
        let at = |name: &str| dir.path().join(name);
        write(at("file"), b"1").unwrap();
        write(at("gone"), b"1").unwrap();
        create_dir(at("dir")).unwrap();
        symlink("file", at("link")).unwrap();
        let (mut walk, _) = TreeWalk::open(dir.path(), &Arc::default(), true, 9).unwrap();
        remove_file(at("file")).unwrap();
        symlink("link", at("file")).unwrap();
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
            (b"link/".to_vec(), FileType::Directory),
            (b"link/within".to_vec(), FileType::RegularFile),
        ];
        assert_eq!(found, wanted);
    }
}
