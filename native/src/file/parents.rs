//! Directories made on the way to a target.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fchmod, fstat, mkdir, openat, rmdir};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::failure::Failure;

/// How often a directory that is gone again is made anew.
const TRIES: usize = 8;

/// Directories that were made and may have to go again.
///
/// Invariant: `made` names those that this made, each after its parent. Dropped, it removes them
/// where they are empty.
#[derive(Default)]
pub struct Parents {
    made: Vec<PathBuf>,
}

impl Parents {
    /// Makes `dir` and whatever is missing above it, 0755 whatever the umask.
    pub fn make(&mut self, dir: &Path) -> Result<(), Failure> {
        // Without a dot at its end, which nothing can be made as.
        let dir: PathBuf = dir.components().collect();
        // Once for each that is missing, and some more for those that uploads beside this one remove.
        // Not for ever: below a symlink to nothing, and in /proc, what is above is there and yet
        // nothing can be made.
        let mut tries = dir.components().count() + TRIES;
        let mut missing = vec![dir.as_path()];
        while let Some(&at) = missing.last() {
            match self.make_one(at) {
                Ok(()) => {
                    missing.pop();
                }
                Err(Errno::NOENT) if tries > 0 => match at.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => {
                        tries -= 1;
                        missing.push(parent);
                    }
                    _ => return Err(Failure::of("create directory", at, Errno::NOENT)),
                },
                Err(errno) => return Err(Failure::of("create directory", at, errno)),
            }
        }
        Ok(())
    }

    fn make_one(&mut self, dir: &Path) -> Result<(), Errno> {
        match mkdir(dir, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                self.made.push(dir.to_owned());
                publish(CWD, dir).map(drop)
            }
            // Whether it is a directory shows when something is put into it.
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// They stay.
    pub fn keep(&mut self) {
        self.made.clear();
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        for dir in self.made.iter().rev() {
            let _ = rmdir(dir);
        }
    }
}

/// Opens a directory that was just made and gives it 0755, whatever the umask: that directory, and
/// nothing that somebody who may rename it has put there since.
pub fn publish(parent: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(parent, name, flags, Mode::empty())?;
    let stat = fstat(&made)?;
    if stat.st_mode & 0o777 != 0o755 && stat.st_uid == geteuid().as_raw() {
        fchmod(&made, Mode::from_raw_mode(stat.st_mode & 0o7000 | 0o755))?;
    }
    Ok(made)
}

/// The nearest directory at or above `path` that exists.
pub fn nearest_dir(path: &Path) -> PathBuf {
    let mut at = path;
    loop {
        if std::fs::metadata(at).is_ok_and(|found| found.is_dir()) {
            return at.to_owned();
        }
        match at.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => at = parent,
            _ => return PathBuf::from(if path.is_absolute() { "/" } else { "." }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn made_directories_go_again_unless_they_are_kept_or_used() {
        let dir = TempDir::make();
        let (a, deep) = (dir.path().join("a"), dir.path().join("a/b/c"));
        let mut parents = Parents::default();
        parents.make(&deep).unwrap();
        assert_eq!(
            std::fs::metadata(&deep).unwrap().permissions().mode() & 0o7777,
            0o755
        );
        drop(parents);
        assert!(!a.exists());
        let mut parents = Parents::default();
        parents.make(&deep).unwrap();
        std::fs::write(dir.path().join("a/b/file"), b"").unwrap();
        drop(parents);
        assert!(dir.path().join("a/b/file").exists() && !deep.exists());
        let mut parents = Parents::default();
        parents.make(&deep).unwrap();
        parents.keep();
        drop(parents);
        assert!(deep.exists());
        assert_eq!(nearest_dir(&deep.join("x/y")), deep);
        assert_eq!(nearest_dir(Path::new("no/such")), Path::new("."));
    }

    #[test]
    fn what_cannot_be_made_below_what_is_there_is_given_up() {
        let dir = TempDir::make();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        for path in [dir.path().join("dangling/a/b"), "/proc/absent/a".into()] {
            let failure = Parents::default().make(&path).unwrap_err();
            assert_eq!(failure.status, libc::ENOENT, "{failure:?}");
        }
        let mut parents = Parents::default();
        parents.make(&dir.path().join("a/./b/.")).unwrap();
        parents.keep();
        assert!(dir.path().join("a/b").is_dir());
    }

    #[test]
    fn what_was_made_goes_again_when_the_rest_cannot_be() {
        let dir = TempDir::make();
        let long = "x".repeat(256);
        let mut parents = Parents::default();
        let failure = parents.make(&dir.path().join("a").join(&long)).unwrap_err();
        assert_eq!(failure.status, libc::ENAMETOOLONG);
        drop(parents);
        assert!(!dir.path().join("a").exists());
    }
}
