//! Files that have no name until they are whole.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, linkat, open, openat, rename, unlink, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A file that nobody else sees as what it will become. Dropped, it leaves nothing.
///
/// Invariant: `name` is the name that it has in its directory at the moment, if any. It has none
/// where the file system knows O_TMPFILE: then not even a daemon that is killed leaves anything.
pub struct Temp {
    /// The file, open for reading and writing.
    pub file: File,
    name: Option<PathBuf>,
}

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

impl Temp {
    /// A file in `dir` that only its owner can read.
    pub fn within(dir: &Path) -> Result<Self, Errno> {
        match open(dir, FLAGS | OFlags::TMPFILE, MODE) {
            Ok(fd) => {
                let (file, name) = (File::from(fd), None);
                Ok(Self { file, name })
            }
            Err(Errno::NOENT) => Err(Errno::NOENT),
            // Whatever it does not like about that, a name may do.
            Err(_) => Self::named(dir),
        }
    }

    fn named(dir: &Path) -> Result<Self, Errno> {
        let flags = FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        loop {
            let name = dir.join(fresh_name());
            match open(&name, flags, MODE) {
                Ok(fd) => {
                    let (file, name) = (File::from(fd), Some(name));
                    return Ok(Self { file, name });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// A file without a name in the first of `dirs` that takes one.
    pub fn unlinked(dirs: &[&Path]) -> Result<File, Errno> {
        let mut refused = Errno::NOENT;
        for dir in dirs {
            match Self::within(dir).and_then(Self::into_unlinked) {
                Ok(file) => return Ok(file),
                Err(errno) => refused = errno,
            }
        }
        Err(refused)
    }

    fn into_unlinked(mut self) -> Result<File, Errno> {
        if let Some(name) = self.name.take() {
            unlink(&name)?;
        }
        self.file.try_clone().map_err(|_| Errno::MFILE)
    }

    /// Gives it the name `target`, which is in the directory that it was made in, in place of what
    /// has that name.
    pub fn place(&mut self, target: &Path) -> Result<(), Errno> {
        if self.name.is_none() {
            match link(&self.file, CWD, target) {
                Err(Errno::EXIST) => {}
                other => return other,
            }
            let dir = target.parent().unwrap_or(Path::new(""));
            self.name = Some(loop {
                let name = dir.join(fresh_name());
                match link(&self.file, CWD, &name) {
                    Ok(()) => break name,
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
            });
        }
        if let Some(name) = &self.name {
            rename(name, target)?;
            self.name = None;
        }
        Ok(())
    }
}

/// Gives a file that has no name one in `dir`.
pub fn link(file: impl AsFd, dir: impl AsFd, name: &Path) -> Result<(), Errno> {
    // By its own descriptor it needs a capability on older kernels.
    let this = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    linkat(CWD, this, dir, name, AtFlags::SYMLINK_FOLLOW)
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlink(name);
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name for what is about to be renamed. Only one of a daemon that was killed is ever taken, and
/// then the next one is not, so it need not be unguessable.
pub fn fresh_name() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".guestd-{}-{number}.part", std::process::id())
}

/// Removes from a directory what daemons that are gone were about to rename.
pub fn sweep(dir: impl AsFd) -> Result<(), Errno> {
    let listed = openat(
        &dir,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    for entry in Dir::read_from(&listed)? {
        let entry = entry?;
        if entry.file_name().to_str().is_ok_and(is_orphan) {
            let _ = unlinkat(&dir, entry.file_name(), AtFlags::empty());
        }
    }
    Ok(())
}

fn is_orphan(name: &str) -> bool {
    let parts = name
        .strip_prefix(".guestd-")
        .and_then(|rest| rest.strip_suffix(".part"));
    let parts = parts.and_then(|rest| rest.split_once('-'));
    let Some((Ok(pid), Ok(number))) =
        parts.map(|(pid, number)| (pid.parse::<i32>(), number.parse::<u64>()))
    else {
        return false;
    };
    // The guest's init has the same number in every life.
    if pid.unsigned_abs() == std::process::id() {
        return number >= NEXT.load(Ordering::Relaxed);
    }
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
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
                true => Temp::named(dir.path()).unwrap(),
                false => Temp::within(dir.path()).unwrap(),
            };
            drop(make());
            assert!(names(dir.path()).is_empty());
            for content in [b"one", b"two"] {
                let mut temp = make();
                temp.file.write_all(content).unwrap();
                temp.place(&target).unwrap();
                assert_eq!(std::fs::read(&target).unwrap(), content);
                assert_eq!(names(dir.path()), ["target"]);
            }
            std::fs::remove_file(&target).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_said_and_leaves_nothing() {
        let dir = TempDir::make();
        let target = dir.path().join("target");
        std::fs::create_dir(&target).unwrap();
        let mut temp = Temp::within(dir.path()).unwrap();
        assert_eq!(temp.place(&target), Err(Errno::ISDIR));
        drop(temp);
        assert_eq!(names(dir.path()), ["target"]);
        let absent = dir.path().join("absent");
        assert_eq!(Temp::within(&absent).err(), Some(Errno::NOENT));
        assert!(Temp::unlinked(&[&absent, dir.path()]).is_ok());
    }

    #[test]
    fn what_a_killed_daemon_left_is_swept_and_nothing_else() {
        let dir = TempDir::make();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (gone, own) = (ended.id(), std::process::id());
        let next = NEXT.load(Ordering::Relaxed);
        let kept = [
            format!(".guestd-{own}-0.part"),
            ".guestd-1-0.part".to_owned(),
            format!(".guestd-{gone}-0.part.x"),
            format!(".guestd-{gone}-.part"),
            format!("guestd-{gone}-0.part"),
        ];
        let swept = [
            format!(".guestd-{gone}-7.part"),
            format!(".guestd-{own}-{}.part", next + 1_000_000),
        ];
        NEXT.fetch_add(1, Ordering::Relaxed);
        for name in kept.iter().chain(&swept) {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        sweep(File::open(dir.path()).unwrap()).unwrap();
        let mut left = names(dir.path());
        let mut wanted: Vec<OsString> = kept.iter().map(OsString::from).collect();
        left.sort();
        wanted.sort();
        assert_eq!(left, wanted);
    }
}
