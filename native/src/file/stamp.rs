//! What tells a file from its former self without reading it.

use std::path::Path;

use rustix::io::Errno;

/// Size of a [`stamp`] in bytes.
pub const STAMP_BYTES: usize = 48;

/// Device, inode, size, and both times to the nanosecond of the file at `path`, links followed.
pub fn stamp(path: &Path) -> Result<[u8; STAMP_BYTES], Errno> {
    let stat = rustix::fs::stat(path)?;
    let nanos = |secs: i64, nanos: u64| (secs as u64).wrapping_mul(1_000_000_000) ^ nanos;
    let words = [
        stat.st_dev,
        stat.st_ino,
        stat.st_size as u64,
        nanos(stat.st_mtime, stat.st_mtime_nsec),
        nanos(stat.st_ctime, stat.st_ctime_nsec),
        // Nobody's stamp is all zero, which stands for none.
        1,
    ];
    let mut stamp = [0; STAMP_BYTES];
    for (slot, word) in stamp.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    Ok(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_was_written_or_replaced_has_another_stamp() {
        let directory = crate::file::testing::TempDir::make();
        let path = directory.path().join("file");
        assert_eq!(stamp(&path), Err(Errno::NOENT));
        fs::write(&path, "a").unwrap();
        let first = stamp(&path).unwrap();
        assert_eq!(stamp(&path), Ok(first));
        fs::write(&path, "ab").unwrap();
        let longer = stamp(&path).unwrap();
        assert_ne!(longer, first);
        fs::write(directory.path().join("other"), "ab").unwrap();
        fs::rename(directory.path().join("other"), &path).unwrap();
        assert_ne!(stamp(&path).unwrap(), longer);
    }
}
