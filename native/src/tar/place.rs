//! One member put at its place: never through a symlink, never half.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

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
use crate::file::temp::link;
use crate::file::write_all;

/// Contents up to this size are taken from the window that the headers are read through.
const SMALL: u64 = 64 << 10;
/// How much is copied between two looks at the reserve, in bytes.
const STEP: u64 = 8 << 20;

/// Why a member was not put at its place.
pub enum Why {
    /// A system call failed.
    Errno(Errno),
    /// The reserve was reached.
    Reserve(Failure),
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
}

/// Where contents come from, and the space that stays free.
pub struct Source<'a> {
    /// The spool.
    pub spool: &'a Spool,
    /// The space that stays free.
    pub reserve: Reserve,
    /// Whether the kernel can copy from the spool to where the members go.
    pub kernel_copies: bool,
}

impl Place<'_> {
    fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.name)
    }

    /// Makes something under this name, or, where the name is taken, under another one that then
    /// takes its place: what was there is there until the new one is whole.
    fn put<E: From<Errno>>(
        &self,
        mut make: impl FnMut(&OsStr) -> Result<(), E>,
        taken: fn(&E) -> bool,
    ) -> Result<(), E> {
        match make(self.name()) {
            Err(why) if taken(&why) => {}
            other => return other,
        }
        let name = loop {
            let name = fresh_name();
            match make(OsStr::new(&name)) {
                Ok(()) => break name,
                Err(why) if taken(&why) => {}
                Err(why) => return Err(why),
            }
        };
        let renamed = renameat(self.dir, &name, self.dir, self.name());
        // A link to the same file is left alone by the renaming.
        let _ = unlinkat(self.dir, &name, AtFlags::empty());
        renamed.map_err(E::from)
    }

    /// Writes a file.
    pub fn file(
        &self,
        member: &Member,
        source: &mut Source,
        blocks: &mut Blocks,
    ) -> Result<(), Why> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Some(own) = source.spool.own(member.data, member.stored)
            && member.sparse.is_none()
            && self.own_file(member, own)?
        {
            return Ok(());
        }
        let make = |name: &OsStr| {
            let fd = openat(self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
            let written = fill(&fd, member, source, blocks).and_then(|()| {
                fchmod(&fd, Mode::from_raw_mode(member.mode))?;
                futimens(&fd, &times(member))?;
                Ok(())
            });
            if written.is_err() {
                let _ = unlinkat(self.dir, name, AtFlags::empty());
            }
            written
        };
        self.put(make, |why| matches!(why, Why::Errno(Errno::EXIST)))
    }

    /// Gives the content that has a file of its own its name. False if it has to be copied.
    fn own_file(&self, member: &Member, own: &File) -> Result<bool, Why> {
        // What is made in such a directory gets its group, and this was made elsewhere.
        if fstat(self.dir)?.st_mode & Mode::SGID.bits() != 0 {
            return Ok(false);
        }
        fchmod(own, Mode::from_raw_mode(member.mode))?;
        futimens(own, &times(member))?;
        let linked = self.put(
            |name| link(own, self.dir, Path::new(name)),
            |errno| *errno == Errno::EXIST,
        );
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
            utimensat(self.dir, name, &times(member), AtFlags::SYMLINK_NOFOLLOW)
        };
        self.put(make, |errno| *errno == Errno::EXIST)
    }

    /// Makes another name of the file at `target`.
    pub fn hard_link(&self, target: Place) -> Result<(), Errno> {
        let make =
            |name: &OsStr| linkat(target.dir, target.name(), self.dir, name, AtFlags::empty());
        self.put(make, |errno| *errno == Errno::EXIST)
    }

    /// Makes a directory unless there is one. A symlink under its name goes.
    pub fn directory(&self) -> Result<(), Errno> {
        loop {
            match mkdirat(self.dir, self.name(), Mode::RWXU) {
                Err(Errno::EXIST) => {}
                other => return other,
            }
            match kind_at(self.dir, self.name)? {
                Some(FileType::Directory) => return Ok(()),
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
            source
                .reserve
                .count(&file, member.stored)
                .map_err(Why::Reserve)?;
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
    let mut block = Vec::new();
    let in_main = source.spool.in_main(from, length);
    while length > 0 {
        let step = length.min(STEP);
        source.reserve.count(&file, step).map_err(Why::Reserve)?;
        let mut left = step;
        while left > 0 {
            let copied = if source.kernel_copies && in_main {
                let (mut at, mut into) = (from, to);
                match copy_file_range(
                    source.spool.main(),
                    Some(&mut at),
                    &file,
                    Some(&mut into),
                    left as usize,
                ) {
                    Ok(0) => return Err(Errno::IO.into()),
                    Ok(copied) => copied as u64,
                    Err(Errno::INTR) => 0,
                    Err(Errno::NOSPC) => return Err(Errno::NOSPC.into()),
                    // Other file systems and older kernels; what is wrong with the disk shows again.
                    Err(_) => {
                        source.kernel_copies = false;
                        0
                    }
                }
            } else {
                block.resize(256 << 10, 0);
                let room = block.len().min(left as usize);
                let count = source.spool.read_at(&mut block[..room], from)?;
                if count == 0 {
                    return Err(Errno::IO.into());
                }
                rustix::io::pwrite(&file, &block[..count], to)? as u64
            };
            (from, to, left) = (from + copied, to + copied, left - copied);
        }
        length -= step;
    }
    Ok(())
}

fn fresh_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".guestd-{}-{number}.part", std::process::id())
}
