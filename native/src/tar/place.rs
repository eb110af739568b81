//! One member put at its place: never through a symlink, never half.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, copy_file_range, fchmod,
    fstat, ftruncate, futimens, linkat, mkdirat, openat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::blocks::Blocks;
use super::disk::kind_at;
use super::member::Member;
use super::spool::Spool;
use crate::file::failure::Failure;
use crate::file::reserve::Reserve;
use crate::file::temp::{fresh_name, link};
use crate::file::write_all;

/// Contents up to this size are taken from the window that the headers are read through.
const SMALL: u64 = 64 << 10;
/// How much is copied between two looks at the reserve, in bytes.
const STEP: u64 = 8 << 20;
/// How much is copied at a time where the kernel does not, in bytes.
const COPY_BYTES: usize = 256 << 10;
/// From this size on the kernel is asked to copy.
const KERNEL_COPIES_FROM: usize = 128 << 10;

/// How often a hard link is tried whose target is not there.
const LINK_TRIES: usize = 16;

/// Why a member was not put at its place.
pub enum Why {
    /// A system call failed.
    Errno(Errno),
    /// The reserve was reached.
    Reserve(Failure),
    /// Nobody waits for the rest any more.
    Stopped,
}

impl From<Errno> for Why {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Where a member goes: a directory beneath the root, and a name in it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The directory.
    pub dir: BorrowedFd<'a>,
    /// The name in it.
    pub name: &'a [u8],
    /// Set once something was there under its name.
    pub taken: &'a Cell<bool>,
}

/// Where contents come from, and the space that stays free.
pub struct Source<'a> {
    /// The spool.
    pub spool: &'a Spool,
    /// The space that stays free.
    pub reserve: Reserve,
    /// Whether the kernel can copy from the spool to where the members go.
    kernel_copies: bool,
    block: Vec<u8>,
}

impl<'a> Source<'a> {
    /// Contents from `spool`.
    pub fn new(spool: &'a Spool, reserve: Reserve) -> Self {
        Self {
            spool,
            reserve,
            kernel_copies: true,
            block: Vec::new(),
        }
    }
}

impl Place<'_> {
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
        let name = loop {
            let name = fresh_name();
            match make(OsStr::new(&name)) {
                Ok(()) => break name,
                Err(Errno::EXIST) => {}
                Err(why) => return Err(why),
            }
        };
        let renamed = renameat(self.dir, &name, self.dir, self.name());
        // A link to the same file is left alone by the renaming.
        let _ = unlinkat(self.dir, &name, AtFlags::empty());
        renamed
    }

    /// Writes a file.
    pub fn file(
        &self,
        member: &Member,
        source: &mut Source,
        blocks: &mut Blocks,
    ) -> Result<(), Why> {
        if let Some(own) = source.spool.own(member.data, member.stored)
            && member.sparse.is_none()
            && self.own_file(member, own)?
        {
            return Ok(());
        }
        let mut write = |fd: &OwnedFd| -> Result<(), Why> {
            // Asked while it still has what it filled the disk with.
            fill(fd, member, source, blocks).map_err(|why| match why {
                Why::Errno(errno) => match source.reserve.filled(errno, fd) {
                    Some(failure) => Why::Reserve(failure),
                    None => why,
                },
                other => other,
            })?;
            fchmod(fd, Mode::from_raw_mode(member.mode))?;
            Ok(futimens(fd, &times(member))?)
        };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        // It gets a name once it is whole: whoever looks, or kills this, finds no half of it.
        if let Ok(fd) = openat(self.dir, ".", flags | OFlags::TMPFILE, mode) {
            write(&fd)?;
            return Ok(self.put(|name| link(&fd, self.dir, Path::new(name)))?);
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (fd, name) = loop {
            let name = fresh_name();
            match openat(self.dir, &name, flags, mode) {
                Ok(fd) => break (fd, name),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        let placed =
            write(&fd).and_then(|()| Ok(renameat(self.dir, &name, self.dir, self.name())?));
        if placed.is_err() {
            let _ = unlinkat(self.dir, &name, AtFlags::empty());
        }
        placed
    }

    /// Gives the content that has a file of its own its name. False if it has to be copied.
    fn own_file(&self, member: &Member, own: &File) -> Result<bool, Why> {
        // What is made in such a directory gets its group, and this was made elsewhere.
        if fstat(self.dir)?.st_mode & Mode::SGID.bits() != 0 {
            return Ok(false);
        }
        fchmod(own, Mode::from_raw_mode(member.mode))?;
        futimens(own, &times(member))?;
        let linked = self.put(|name| link(own, self.dir, Path::new(name)));
        match linked {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC) => Err(Errno::NOSPC.into()),
            // Another file system, or one that knows no files without a name.
            Err(_) => Ok(false),
        }
    }

    /// Makes a symlink.
    pub fn symlink(&self, member: &Member) -> Result<(), Errno> {
        let target = OsStr::from_bytes(&member.link);
        let make = |name: &OsStr| {
            symlinkat(target, self.dir, name)?;
            let timed = utimensat(self.dir, name, &times(member), AtFlags::SYMLINK_NOFOLLOW);
            if timed.is_err() {
                let _ = unlinkat(self.dir, name, AtFlags::empty());
            }
            timed
        };
        self.put(make)
    }

    /// Makes another name of the file at `target`.
    pub fn hard_link(&self, target: Place) -> Result<(), Errno> {
        self.put(|name| {
            let make = || linkat(target.dir, target.name(), self.dir, name, AtFlags::empty());
            // Of one that is replaced at this moment, by an extraction beside this one, the kernel
            // says that it is not there; the new one is.
            let mut made = (0..LINK_TRIES).map(|_| make());
            made.find(|made| *made != Err(Errno::NOENT))
                .unwrap_or(Err(Errno::NOENT))
        })
    }

    /// Makes a directory unless there is one; true if it made it. A symlink under its name goes.
    pub fn directory(&self) -> Result<bool, Errno> {
        loop {
            match mkdirat(self.dir, self.name(), Mode::RWXU) {
                Err(Errno::EXIST) => {}
                other => return other.map(|()| true),
            }
            match kind_at(self.dir, self.name)? {
                Some(FileType::Directory) => return Ok(false),
                Some(FileType::Symlink) => {
                    unlinkat(self.dir, self.name(), AtFlags::empty())?;
                }
                Some(_) => return Err(Errno::NOTDIR),
                None => {}
            }
        }
    }
}

/// The member's time of modification; the time of access is left as it is.
pub fn times(member: &Member) -> Timestamps {
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

fn fill(
    file: impl AsFd,
    member: &Member,
    source: &mut Source,
    blocks: &mut Blocks,
) -> Result<(), Why> {
    let Some(map) = &member.sparse else {
        if member.stored <= SMALL {
            let bytes = blocks.bytes(member.data, member.stored as usize)?;
            return Ok(write_all(&file, bytes.ok_or(Errno::IO)?)?);
        }
        return copy(&file, (member.data, 0), member.stored, source);
    };
    let mut from = member.data;
    for piece in &map.pieces {
        copy(&file, (from, piece.offset), piece.length, source)?;
        from += piece.length;
    }
    Ok(ftruncate(&file, map.size)?)
}

/// Copies `length` bytes from the spool to `file`, from and to the given offsets.
fn copy(
    file: impl AsFd,
    (mut from, mut to): (u64, u64),
    mut length: u64,
    source: &mut Source,
) -> Result<(), Why> {
    while length > 0 {
        // A look every so often: the member as a whole was counted before.
        let step = length.min(STEP);
        if length > STEP {
            source.reserve.count(&file, step).map_err(Why::Reserve)?;
        }
        let mut left = step;
        while left > 0 {
            let (copied, at) = (copy_some(&file, (from, to), left, source)?, from);
            (from, to, left) = (at + copied, to + copied, left - copied);
        }
        length -= step;
    }
    Ok(())
}

/// Copies some of `length` bytes; 0 if it is to be tried again.
fn copy_some(
    file: impl AsFd,
    (from, to): (u64, u64),
    length: u64,
    source: &mut Source,
) -> Result<u64, Why> {
    let (spooled, mut at, together) = source.spool.file_at(from);
    let length = length.min(together) as usize;
    // Small pieces are many, and the kernel's copying begins with flushing.
    if source.kernel_copies && length > KERNEL_COPIES_FROM {
        let mut into = to;
        match copy_file_range(spooled, Some(&mut at), &file, Some(&mut into), length) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(copied) => return Ok(copied as u64),
            Err(Errno::INTR) => return Ok(0),
            Err(Errno::NOSPC) => return Err(Errno::NOSPC.into()),
            // Other file systems and older kernels; what is wrong with the disk shows again.
            Err(_) => source.kernel_copies = false,
        }
    }
    let room = length.min(COPY_BYTES);
    if source.block.len() < room {
        source.block.resize(room, 0);
    }
    let count = source.spool.read_at(&mut source.block[..room], from)?;
    if count == 0 {
        return Err(Errno::IO.into());
    }
    Ok(rustix::io::pwrite(&file, &source.block[..count], to)? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::thread;

    #[test]
    fn a_file_that_is_being_replaced_is_linked_to_all_the_same() {
        let dir = TempDir::make();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("target"), b"").unwrap();
        let fd = File::open(dir.path()).unwrap();
        let taken = Cell::new(false);
        let place = |name| Place {
            dir: fd.as_fd(),
            name,
            taken: &taken,
        };
        let done = std::sync::atomic::AtomicBool::new(false);
        let ordering = std::sync::atomic::Ordering::Relaxed;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(ordering) {
                    std::fs::write(at("new"), b"").unwrap();
                    std::fs::rename(at("new"), at("target")).unwrap();
                }
            });
            let made = (0..100_000).find_map(|_| {
                let made = place(b"link").hard_link(place(b"target"));
                std::fs::remove_file(at("link")).ok();
                made.err()
            });
            done.store(true, ordering);
            assert_eq!(made, None);
        });
        assert_eq!(
            place(b"link").hard_link(place(b"absent")),
            Err(Errno::NOENT)
        );
    }
}
