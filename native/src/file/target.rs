//! Where an upload goes, and how it gets there.

use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Uid, fchmod, fchown, fstat, ftruncate, lstat,
    open, readlink, seek,
};
use rustix::io::Errno;

use super::failure::Failure;
use super::parents::Parents;
use super::read::{demand_regular, read_full};
use super::reserve::Reserve;
use crate::abi::errno_of;
use crate::temp::Temp;

/// As many symlinks as the kernel follows.
const MAX_LINKS: usize = 40;
const NEW_FILE: u32 = 0o644;
const TRIES: u32 = 8;
const COPY_BYTES: usize = 256 << 10;

/// The file that `path` leads to, through symlinks, also to one that is not there yet.
pub fn resolve(path: &Path) -> Result<(PathBuf, bool), Failure> {
    let mut at = path.to_owned();
    for _ in 0..=MAX_LINKS {
        let last = at
            .as_os_str()
            .as_bytes()
            .rsplit(|byte| *byte == b'/')
            .next();
        if matches!(last, None | Some(b"" | b"." | b"..")) {
            demand_regular("write", &at, libc::S_IFDIR)?;
        }
        match existing(&at)? {
            None => return Ok((at, false)),
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                let link = readlink(&at, Vec::new())
                    .map_err(|errno| Failure::of("read the symlink", &at, errno))?;
                let link = std::ffi::OsStr::from_bytes(link.as_bytes());
                at = at.parent().unwrap_or(Path::new("")).join(link);
            }
            Some(stat) => {
                demand_regular("write", &at, stat.st_mode)?;
                return Ok((at, true));
            }
        }
    }
    Err(Failure::of("follow the symlink", path, Errno::LOOP))
}

fn existing(path: &Path) -> Result<Option<Stat>, Failure> {
    match lstat(path) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Failure::of("look at", path, errno)),
    }
}

/// A directory refused a new file, or its renaming, in a way that leaves writing in place.
fn leaves_writing_in_place(status: i32) -> bool {
    use libc as c;
    [c::EACCES, c::EPERM, c::EBUSY, c::EROFS, c::EOPNOTSUPP].contains(&status)
}

/// Where the bytes lie until they are all there.
enum Draft {
    /// In the target's directory.
    Beside(Temp<'static>),
    /// In another, which the target cannot be renamed from.
    Spool(File),
}

/// A file on its way to its target.
///
/// Invariant: until it is committed the target is what it was.
pub struct Target {
    path: PathBuf,
    mode: Option<u32>,
    draft: Draft,
    // Dropped after the draft, which lies in the last of them.
    parents: Parents,
}

impl Target {
    /// Prepares to write `path`, which [`resolve`] gave. Makes parents where they are missing.
    pub fn prepare(
        path: PathBuf,
        exists: bool,
        mode: Option<u32>,
        spool_dirs: &[&Path],
    ) -> Result<Self, Failure> {
        let mut parents = Parents::default();
        // /proc says ENOENT to whoever makes a file in it.
        let in_place = |status| leaves_writing_in_place(status) || status == libc::ENOENT;
        let draft = match beside(&path, &mut parents) {
            Ok(temp) => Draft::Beside(temp),
            Err(failure) if exists && in_place(failure.status) => {
                let spooled = Temp::unlinked(spool_dirs);
                let failed = |errno| Failure::of("spool the body for", &path, errno);
                Draft::Spool(spooled.map_err(failed)?)
            }
            Err(failure) => return Err(failure),
        };
        Ok(Self {
            path,
            mode,
            draft,
            parents,
        })
    }

    /// Where the bytes go meanwhile.
    pub fn file(&self) -> &File {
        match &self.draft {
            Draft::Beside(temp) => &temp.file,
            Draft::Spool(file) => file,
        }
    }

    /// The path that is written, with symlinks followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the bytes the target's content.
    pub fn commit(mut self, reserve: &Reserve) -> Result<(), Failure> {
        let path = &self.path;
        let found = existing(path)?;
        if let Some(stat) = &found {
            demand_regular("write", path, stat.st_mode)?;
        }
        let Draft::Beside(temp) = &mut self.draft else {
            return self.in_place(reserve);
        };
        match finish(temp, path, found.as_ref(), self.mode, &mut self.parents) {
            Ok(()) => self.parents.keep(),
            Err(errno) if found.is_some() && leaves_writing_in_place(errno.raw_os_error()) => {
                return self.in_place(reserve);
            }
            Err(errno) => {
                let failure = Failure::of("put a new file in place of", path, errno);
                return Err(reserve.explain(errno, self.file(), failure));
            }
        }
        Ok(())
    }

    /// Writes into the file that is there. Nothing can make this whole or nothing, so the bytes
    /// are all here, and the room for them, before it begins.
    fn in_place(&self, reserve: &Reserve) -> Result<(), Failure> {
        let failed = |errno| Failure::of("write in place", &self.path, errno);
        let source = self.file();
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let target = File::from(open(&self.path, flags, Mode::empty()).map_err(failed)?);
        let stat = fstat(&target).map_err(failed)?;
        demand_regular("write", &self.path, stat.st_mode)?;
        let old = (stat.st_blocks.max(0) as u64).saturating_mul(512);
        let new = fstat(source).map_err(failed)?.st_size.max(0) as u64;
        reserve.check_in_place(&target, old, new)?;
        let set_mode = || match self.mode {
            Some(mode) => fchmod(&target, Mode::from_raw_mode(mode))
                .map_err(|errno| Failure::of("change the mode of", &self.path, errno)),
            None => Ok(()),
        };
        set_mode()?;
        let mut block = vec![0; COPY_BYTES];
        seek(source, SeekFrom::Start(0)).map_err(failed)?;
        loop {
            let count = read_full(source, &mut block).map_err(failed)?;
            if count == 0 {
                break;
            }
            let written = (&target).write_all(&block[..count]).map_err(errno_of);
            written.map_err(|errno| reserve.explain(errno, &target, failed(errno)))?;
        }
        // Shortened at the end and only where there is something to cut: what is not a real file
        // system, such as /proc, claims to be empty and may not like it.
        if stat.st_size.max(0) as u64 > new {
            ftruncate(&target, new).map_err(failed)?;
        }
        // Once more, for writing takes set-id bits away.
        set_mode()
    }
}

/// A temporary file beside `path`.
fn beside(path: &Path, parents: &mut Parents) -> Result<Temp<'static>, Failure> {
    let dir = directory_of(path);
    let mut tries = 0;
    loop {
        match Temp::within(CWD, dir) {
            // More than once, because an upload beside this one may have made the directory, fail
            // and remove it.
            Err(Errno::NOENT) if tries < TRIES => {
                parents.make(dir)?;
                tries += 1;
            }
            made => return made.map_err(|errno| Failure::of("create a file in", dir, errno)),
        }
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn finish(
    temp: &mut Temp,
    path: &Path,
    found: Option<&Stat>,
    mode: Option<u32>,
    parents: &mut Parents,
) -> Result<(), Errno> {
    if let Some(found) = found {
        let ours = fstat(&temp.file)?;
        if (ours.st_uid, ours.st_gid) != (found.st_uid, found.st_gid) {
            let (uid, gid) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
            fchown(&temp.file, Some(uid), Some(gid))?;
        }
    }
    // After the owner, whose change takes set-user-id bits away.
    let mode = mode.unwrap_or(found.map_or(NEW_FILE, |stat| stat.st_mode & 0o7777));
    fchmod(&temp.file, Mode::from_raw_mode(mode))?;
    match temp.place(path) {
        // An upload beside this one, which had made the directory, has failed and removed it.
        Err(Errno::NOENT) => {
            let again = parents.make(directory_of(path));
            again.map_err(|failure| Errno::from_raw_os_error(failure.status))?;
            temp.place(path)
        }
        other => other,
    }
}
