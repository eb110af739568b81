//! One member put at its place: never through a symlink, never half.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, fstat,
    ftruncate, futimens, linkat, mkdirat, openat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::members::{Members, WINDOW};
use super::parser::ArchiveMember;
use super::spool::write_all_at;
use crate::file::failure::Failure;
use crate::file::reserve::Reserve;
use crate::file::temp::{fresh_name, link};

/// A content above this size is counted against the reserve while it is copied, too.
const LARGE: u64 = 8 << 20;

/// How often a hard link is tried whose target is not there.
const LINK_TRIES: usize = 16;

/// Why a member was not put at its place.
pub enum Why {
    Errno(Errno),
    /// The reserve was reached, or nobody waits for the rest any more.
    Failure(Failure),
}

impl From<Errno> for Why {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Failure> for Why {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Where a member goes: a directory beneath the root, and a name in it.
#[derive(Clone, Copy)]
pub struct MemberPlace<'a> {
    pub dir: BorrowedFd<'a>,
    pub name: &'a [u8],
    /// Set once something was there under its name.
    pub taken: &'a Cell<bool>,
}

impl MemberPlace<'_> {
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name)
    }

    /// Makes something under this name, or, where the name is taken, under another one that then
    /// takes its place: what was there is there until the new one is whole.
    fn put(&self, mut make: impl FnMut(&OsStr) -> Result<(), Errno>) -> Result<(), Errno> {
        match make(self.name()) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
        self.taken.set(true);
        let ((), name) = under_fresh_name(make)?;
        let renamed = renameat(self.dir, &name, self.dir, self.name());
        // A link to the same file is left alone by the renaming.
        let _ = unlinkat(self.dir, &name, AtFlags::empty());
        renamed
    }

    /// Writes a file. It gets its name once it is whole: whoever looks, or kills this, finds no half of it.
    pub fn file(
        &self,
        member: &ArchiveMember,
        members: &mut Members,
        reserve: &mut Reserve,
    ) -> Result<(), Why> {
        if let Some(own) = members.spool().own(member)
            && self.own_file(member, own)?
        {
            return Ok(());
        }
        let (flags, mode) = (OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let (fd, name) = match openat(self.dir, ".", flags | OFlags::TMPFILE, mode) {
            Ok(fd) => (fd, None),
            Err(_) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let (fd, name) = under_fresh_name(|name| openat(self.dir, name, flags, mode))?;
                (fd, Some(name))
            }
        };
        let placed = write(&fd, member, members, reserve).and_then(|()| {
            match &name {
                Some(name) => renameat(self.dir, name, self.dir, self.name())?,
                None => self.put(|name| link(&fd, self.dir, Path::new(name)))?,
            }
            Ok(())
        });
        if let (Err(_), Some(name)) = (&placed, &name) {
            let _ = unlinkat(self.dir, name, AtFlags::empty());
        }
        placed
    }

    /// Gives the content that has a file of its own its name. False if it has to be copied.
    fn own_file(&self, member: &ArchiveMember, own: &File) -> Result<bool, Why> {
        // What is made in such a directory gets its group, and this was made elsewhere.
        if fstat(self.dir)?.st_mode & Mode::SGID.bits() != 0 {
            return Ok(false);
        }
        fchmod(own, Mode::from_raw_mode(member.mode))?;
        futimens(own, &times(member))?;
        match self.put(|name| link(own, self.dir, Path::new(name))) {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC) => Err(Errno::NOSPC.into()),
            // Another file system, or one that knows no files without a name.
            Err(_) => Ok(false),
        }
    }

    /// Makes a symlink.
    pub fn symlink(&self, member: &ArchiveMember) -> Result<(), Errno> {
        let target = OsStr::from_bytes(&member.link);
        self.put(|name| {
            symlinkat(target, self.dir, name)?;
            let timed = utimensat(self.dir, name, &times(member), AtFlags::SYMLINK_NOFOLLOW);
            if timed.is_err() {
                let _ = unlinkat(self.dir, name, AtFlags::empty());
            }
            timed
        })
    }

    /// Makes another name of the file at `target`.
    pub fn hard_link(&self, target: MemberPlace) -> Result<(), Errno> {
        self.put(|name| {
            let make = || linkat(target.dir, target.name(), self.dir, name, AtFlags::empty());
            // Of one that is replaced at this moment, by an extraction beside this one, the kernel
            // says that it is not there; the new one is.
            let mut made = (0..LINK_TRIES).map(|_| make());
            made.find(|made| *made != Err(Errno::NOENT))
                .unwrap_or(Err(Errno::NOENT))
        })
    }

    /// Makes a directory unless there is one; true if it made it, and what is known of it. A symlink
    /// under its name goes.
    pub fn directory(&self) -> Result<(bool, Stat), Errno> {
        loop {
            let made = mkdirat(self.dir, self.name(), Mode::RWXU);
            if !matches!(made, Ok(()) | Err(Errno::EXIST)) {
                made?;
            }
            let stat = statat(self.dir, self.name(), AtFlags::SYMLINK_NOFOLLOW);
            match stat.map(|stat| (FileType::from_raw_mode(stat.st_mode), stat)) {
                Ok((FileType::Directory, stat)) => return Ok((made.is_ok(), stat)),
                Ok((FileType::Symlink, _)) => {
                    unlinkat(self.dir, self.name(), AtFlags::empty())?;
                }
                Ok(_) => return Err(Errno::NOTDIR),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Makes something under a name that nothing has.
fn under_fresh_name<T>(
    mut make: impl FnMut(&OsStr) -> Result<T, Errno>,
) -> Result<(T, String), Errno> {
    loop {
        let name = fresh_name();
        match make(OsStr::new(&name)) {
            Err(Errno::EXIST) => {}
            other => return other.map(|made| (made, name)),
        }
    }
}

/// The member's time of modification; the time of access is left as it is.
pub fn times(member: &ArchiveMember) -> Timestamps {
    let (tv_sec, nanos) = member.mtime;
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec,
            tv_nsec: nanos.into(),
        },
    }
}

fn write(
    file: &OwnedFd,
    member: &ArchiveMember,
    members: &mut Members,
    reserve: &mut Reserve,
) -> Result<(), Why> {
    if let Err(why) = fill(file, member, members, reserve) {
        // Asked while it still has what it filled the disk with.
        return Err(match why {
            Why::Errno(errno) => reserve.filled(errno, file).map_or(why, Why::Failure),
            Why::Failure(_) => why,
        });
    }
    fchmod(file, Mode::from_raw_mode(member.mode))?;
    Ok(futimens(file, &times(member))?)
}

fn fill(
    file: &OwnedFd,
    member: &ArchiveMember,
    members: &mut Members,
    reserve: &mut Reserve,
) -> Result<(), Why> {
    let mut copy = |(mut from, mut to): (u64, u64), length: u64| -> Result<(), Why> {
        let end = from + length;
        while from < end {
            let count = (end - from).min(WINDOW as u64);
            // The member as a whole was counted before.
            if length > LARGE {
                reserve.count(file, count)?;
            }
            let bytes = members.content(from, count as usize)?;
            write_all_at(file, bytes, to)?;
            (from, to) = (from + count, to + count);
        }
        Ok(())
    };
    let Some(map) = &member.sparse else {
        return copy((member.data, 0), member.stored);
    };
    let mut from = member.data;
    for extent in &map.extents {
        copy((from, extent.offset), extent.length)?;
        from += extent.length;
    }
    Ok(ftruncate(file, map.size)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn a_file_that_is_being_replaced_is_linked_to_all_the_same() {
        let dir = TempDir::make();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("target"), b"").unwrap();
        let fd = File::open(dir.path()).unwrap();
        let taken = Cell::new(false);
        let place = |name| MemberPlace {
            dir: fd.as_fd(),
            name,
            taken: &taken,
        };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::fs::write(at("new"), b"").unwrap();
                    std::fs::rename(at("new"), at("target")).unwrap();
                }
            });
            let failed = (0..100_000).find_map(|_| {
                let made = place(b"link").hard_link(place(b"target"));
                std::fs::remove_file(at("link")).ok();
                made.err()
            });
            done.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
        let absent = place(b"link").hard_link(place(b"absent"));
        assert_eq!(absent, Err(Errno::NOENT));
    }
}
