//! A regular file, whole.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;

use super::failure::{Failure, IS_DIRECTORY, NOT_REGULAR, shown};
use super::reader::Source;

/// Opens a regular file for reading. Anything else is refused without being opened: opening a fifo
/// may block, and opening a device may do something.
pub fn open_regular(path: &Path) -> Result<(File, u64), Failure> {
    let failed = |errno| Failure::of("open", path, errno);
    kind(path, stat(path).map_err(failed)?.st_mode)?;
    // It may be another file by now, so neither opening nor reading may wait for anybody.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&file).map_err(failed)?;
    kind(path, stat.st_mode)?;
    Ok((File::from(file), stat.st_size.max(0) as u64))
}

fn kind(path: &Path, mode: u32) -> Result<(), Failure> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => {
            let text = format!("Cannot read {}: it is a directory", shown(path));
            Err(Failure::new(IS_DIRECTORY, text))
        }
        _ => {
            let text = format!("Cannot read {}: it is no regular file", shown(path));
            Err(Failure::new(NOT_REGULAR, text))
        }
    }
}

/// Reads until `out` is full or the file ends. The bytes that were read.
pub fn read_full(file: &File, out: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < out.len() {
        match rustix::io::read(file, &mut out[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            // Nothing more for now, as /proc/kmsg says: what was read is gone from there.
            Err(Errno::AGAIN) if filled > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

/// A file's bytes, as far as they go when they are read.
pub struct WholeFile {
    file: File,
    name: String,
}

impl WholeFile {
    /// Opens `path`. Also gives the size that the file claims to have.
    pub fn open(path: &Path) -> Result<(Self, u64), Failure> {
        let (file, size) = open_regular(path)?;
        let name = shown(path);
        Ok((Self { file, name }, size))
    }
}

impl Source for WholeFile {
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        read_full(&self.file, out).map_err(|errno| {
            Failure::new(errno.raw_os_error(), format!("Cannot read {}", self.name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = TempDir::make();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let status = |path: &Path| open_regular(path).unwrap_err().status;
        assert_eq!(status(&fifo), NOT_REGULAR);
        assert_eq!(status(Path::new("/dev/null")), NOT_REGULAR);
        assert_eq!(status(dir.path()), IS_DIRECTORY);
        assert_eq!(status(&dir.path().join("absent")), libc::ENOENT);
        assert_eq!(status(Path::new("/dev/null/x")), libc::ENOTDIR);
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        assert_eq!(status(&dir.path().join("loop")), libc::ELOOP);
    }

    #[test]
    fn a_file_of_unknown_size_is_read_to_its_end() {
        let (mut source, size) = WholeFile::open(Path::new("/proc/self/status")).unwrap();
        let mut out = vec![0; 1 << 16];
        let count = source.fill(&mut out).unwrap();
        assert_eq!(size, 0);
        assert!(out[..count].starts_with(b"Name:") && out[..count].ends_with(b"\n"));
        assert_eq!(source.fill(&mut out), Ok(0));
    }
}
