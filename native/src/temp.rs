//! Files that have no name until they are whole.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// A file that nobody else sees as what it will become. Dropped, it leaves nothing.
///
/// Invariant: `name` is the name that it has at the moment, if any; from `dir`, as every path here. It
/// has none where the file system knows O_TMPFILE: then not even a daemon that is killed leaves anything.
pub struct Temp<'a> {
    /// The file, open for reading and writing.
    pub file: File,
    dir: BorrowedFd<'a>,
    name: Option<PathBuf>,
}

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl<'a> Temp<'a> {
    /// A file in the directory `path` that only its owner can read.
    pub fn within(dir: BorrowedFd<'a>, path: &Path) -> Result<Self, Errno> {
        match openat(dir, path, FLAGS | OFlags::TMPFILE, MODE) {
            Ok(fd) => {
                let (file, name) = (File::from(fd), None);
                Ok(Self { file, dir, name })
            }
            Err(Errno::NOENT) => Err(Errno::NOENT),
            // Whatever it does not like about that, a name may do.
            Err(_) => Self::named(dir, path),
        }
    }

    fn named(dir: BorrowedFd<'a>, path: &Path) -> Result<Self, Errno> {
        let flags = FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (fd, name) = under_fresh_name(path, |name| openat(dir, name, flags, MODE))?;
        let (file, name) = (File::from(fd), Some(name));
        Ok(Self { file, dir, name })
    }

    /// A file without a name in the first of `dirs` that takes one.
    pub fn unlinked(dirs: &[&Path]) -> Result<File, Errno> {
        let mut refused = Errno::NOENT;
        for dir in dirs {
            // Dropped, it loses the name that it may have had.
            match Temp::within(CWD, dir) {
                Ok(temp) => return temp.file.try_clone().map_err(|_| Errno::MFILE),
                Err(errno) => refused = errno,
            }
        }
        Err(refused)
    }

    /// Gives it the name `path`, on the file system that it was made on, as [`put`].
    pub fn place(&mut self, path: &Path) -> Result<(), Errno> {
        if let Some(name) = &self.name {
            renameat(self.dir, name, self.dir, path)?;
            self.name = None;
            return Ok(());
        }
        put_file(&self.file, self.dir, path)
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(self.dir, name, AtFlags::empty());
        }
    }
}

/// Gives a file that has no name the name `path`, as [`put`].
pub fn put_file(file: &File, dir: BorrowedFd, path: &Path) -> Result<(), Errno> {
    put(dir, path, |name| {
        // Older kernels let only who may read every file name one by its descriptor alone.
        match linkat(file, "", dir, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT) => {
                let this = format!("/proc/self/fd/{}", file.as_raw_fd());
                linkat(CWD, this, dir, name, AtFlags::SYMLINK_FOLLOW)
            }
            linked => linked,
        }
    })
}

/// Makes something at `path`, or, where that is taken, beside it, and has it take that place: what was there is there until
/// the new one is whole.
pub fn put(
    dir: BorrowedFd,
    path: &Path,
    mut make: impl FnMut(&Path) -> Result<(), Errno>,
) -> Result<(), Errno> {
    match make(path) {
        Err(Errno::EXIST) => {}
        made => return made,
    }
    let ((), name) = under_fresh_name(path.parent().unwrap_or(Path::new("")), make)?;
    let renamed = renameat(dir, &name, dir, path);
    // A link to the same file is left alone by the renaming.
    let _ = unlinkat(dir, &name, AtFlags::empty());
    renamed
}

/// Makes something under a name in the directory `path` that nothing has.
fn under_fresh_name<T>(
    path: &Path,
    mut make: impl FnMut(&Path) -> Result<T, Errno>,
) -> Result<(T, PathBuf), Errno> {
    loop {
        let name = path.join(fresh_name());
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (made, name)),
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name for what is about to be renamed. Only one of a daemon that was killed is ever taken, and
/// then the next one is not, so it need not be unguessable.
fn fresh_name() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".guestd-{}-{number}.part", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::ffi::OsString;
    use std::io::Write;

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn it_is_placed_over_what_was_there_and_leaves_nothing_when_dropped() {
        let dir = TempDir::make();
        let target = dir.path().join("target");
        for named in [false, true] {
            let make = || match named {
                true => Temp::named(CWD, dir.path()).unwrap(),
                false => Temp::within(CWD, dir.path()).unwrap(),
            };
            drop(make());
            assert!(names(dir.path()).is_empty());
            for content in [b"one", b"two"] {
                let mut temp = make();
                temp.file.write_all(content).unwrap();
                assert_eq!(temp.place(&target), Ok(()));
                assert_eq!(std::fs::read(&target).unwrap(), content);
                assert_eq!(names(dir.path()), ["target"]);
            }
            std::fs::remove_file(&target).unwrap();
        }
    }

    #[test]
    fn whoever_may_not_name_it_by_its_descriptor_alone_names_it_by_proc() {
        let dir = TempDir::make();
        let at = |name: &str| dir.path().join(name);
        let nameless = || {
            let mut temp = Temp::within(CWD, dir.path()).unwrap();
            // Without the right to read all files, and with other credentials than opened it.
            let mut sets = capabilities(None).unwrap();
            sets.effective = CapabilitySet::empty();
            set_capabilities(None, sets).unwrap();
            let alone = linkat(&temp.file, "", CWD, at("alone"), AtFlags::EMPTY_PATH);
            assert_eq!(alone, Err(Errno::NOENT));
            assert_eq!(temp.place(&at("target")), Ok(()));
        };
        std::thread::scope(|scope| scope.spawn(nameless).join().unwrap());
        assert_eq!(names(dir.path()), ["target"]);
    }

    #[test]
    fn what_cannot_be_replaced_is_said_and_leaves_nothing() {
        let dir = TempDir::make();
        let target = dir.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let mut temp = Temp::within(CWD, dir.path()).unwrap();
        assert_eq!(temp.place(&target), Err(Errno::ISDIR));
        drop(temp);
        assert_eq!(names(dir.path()), ["target"]);
        let absent = dir.path().join("absent");
        assert_eq!(Temp::within(CWD, &absent).err(), Some(Errno::NOENT));
        assert!(Temp::unlinked(&[&absent, dir.path()]).is_ok());
    }
}
