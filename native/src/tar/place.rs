//! One member put at its place: never through a symlink, never half.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, fstat, ftruncate,
    futimens, linkat, mkdirat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::members::{Members, WINDOW};
use super::parser::ArchiveMember;
use crate::abi::errno_of;
use crate::file::failure::Failure;
use crate::file::reserve::Reserve;
use crate::temp::{Temp, put, put_file};

/// A content above this size is counted against the reserve while it is copied, too.
const LARGE: u64 = 8 << 20;

/// How often a hard link is tried whose target is not there.
const LINK_TRIES: usize = 256;

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
}

impl MemberPlace<'_> {
    fn name(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.name))
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
        let mut temp = Temp::within(self.dir, Path::new("."))?;
        write(&temp.file, member, members, reserve)?;
        Ok(temp.place(self.name())?)
    }

    /// Gives the content that has a file of its own its name. False if it has to be copied.
    fn own_file(&self, member: &ArchiveMember, own: &File) -> Result<bool, Why> {
        // What is made in such a directory gets its group, and this was made elsewhere.
        if fstat(self.dir)?.st_mode & Mode::SGID.bits() != 0 {
            return Ok(false);
        }
        fchmod(own, Mode::from_raw_mode(member.mode))?;
        futimens(own, &times(member))?;
        match put_file(own, self.dir, self.name()) {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC) => Err(Errno::NOSPC.into()),
            // Another file system, or one that knows no files without a name.
            Err(_) => Ok(false),
        }
    }

    /// Makes a symlink.
    pub fn symlink(&self, member: &ArchiveMember) -> Result<(), Errno> {
        let target = OsStr::from_bytes(&member.link);
        put(self.dir, self.name(), |name| {
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
        put(self.dir, self.name(), |name| {
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
    file: &File,
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
    file: &File,
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
            file.write_all_at(bytes, to).map_err(errno_of)?;
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
        let place = |name| MemberPlace {
            dir: fd.as_fd(),
            name,
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
