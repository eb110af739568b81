//! What a download is read from, and a regular file as that.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;

use super::failure::{Failure, IS_DIRECTORY, NOT_REGULAR, shown};

/// Something that is read from front to end.
pub trait Source: Send {
    /// Writes as many bytes as fit and are there; fewer than fit only at the end.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure>;
}

/// A regular file's bytes, as far as they go when they are read.
pub struct RegularFile {
    file: File,
    name: String,
}

impl RegularFile {
    /// Opens `path`. Also gives the size that the file claims to have. Anything else is refused without
    /// being opened: opening a fifo may block, and opening a device may do something.
    pub fn open(path: &Path) -> Result<(Self, u64), Failure> {
        let failed = |errno| Failure::of("open", path, errno);
        demand_regular("read", path, stat(path).map_err(failed)?.st_mode)?;
        // It may be another file by now, so neither opening nor reading may wait for anybody.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&file).map_err(failed)?;
        demand_regular("read", path, stat.st_mode)?;
        let (file, name) = (File::from(file), shown(path));
        Ok((Self { file, name }, stat.st_size.max(0) as u64))
    }
}

impl Source for RegularFile {
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let failed =
            |errno: Errno| Failure::new(errno.raw_os_error(), format!("Cannot read {}", self.name));
        read_full(&self.file, out).map_err(failed)
    }
}

/// Refuses what is no regular file: "Cannot `what` `path`".
pub fn demand_regular(what: &str, path: &Path, mode: u32) -> Result<(), Failure> {
    let (status, state) = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => (IS_DIRECTORY, "a directory"),
        _ => (NOT_REGULAR, "no regular file"),
    };
    let text = format!("Cannot {what} {}: it is {state}", shown(path));
    Err(Failure::new(status, text))
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
