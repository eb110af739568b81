//! Free space of a file system.

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, statvfs};
use rustix::io::Errno;

/// Bytes available to an unprivileged writer on the file system of `path`, measured on the nearest
/// ancestor that exists. May hang as long as that file system does. OPNOTSUPP where there are no
/// blocks that could run out, as in /proc and on a ramfs.
pub fn available_bytes(path: &Path) -> Result<u64, Errno> {
    available(&nearest(path)?).ok_or(Errno::OPNOTSUPP)
}

/// The same of a file system that was asked; `None` where there are no blocks.
pub fn available(stat: &StatVfs) -> Option<u64> {
    (stat.f_blocks != 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What is known of the file system of `path`, asked of the nearest ancestor that exists.
pub fn nearest(path: &Path) -> Result<StatVfs, Errno> {
    let mut at = PathBuf::from(path);
    loop {
        match statvfs(&at) {
            Ok(stat) => return Ok(stat),
            Err(Errno::NOENT | Errno::NOTDIR) if at.pop() => {
                if at.as_os_str().is_empty() {
                    at.push(".");
                }
            }
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_measured_on_its_nearest_ancestor() {
        assert!(available_bytes(Path::new("no/such/relative")).unwrap() > 0);
        let (there, absent) = (Path::new("/proc"), Path::new("/proc/no/such/thing"));
        assert_eq!(
            nearest(absent).unwrap().f_fsid,
            nearest(there).unwrap().f_fsid
        );
    }
}
