//! An archive while it arrives and until it is extracted, in files without a name.

use std::fs::File;
use std::path::PathBuf;

use rustix::io::Errno;
use tar::Header;

use super::{BLOCK, field, padded};
use crate::file::reserve::taken;
use crate::file::temp::Temp;

/// Contents from this size on get a file of their own: extracted, it is given its name instead of
/// being copied.
const OWN_BYTES: u64 = 1 << 20;
/// As many of these as one archive gets; each holds a descriptor.
const OWN_FILES: usize = 64;

/// A member's content in a file of its own.
struct Own {
    start: u64,
    length: u64,
    file: File,
}

/// Where in the archive the bytes that arrive are. It is only a guess at what is worth a file of
/// its own: what was guessed wrong is read through to all the same, and the check judges later.
enum Scan {
    /// In a header, of which so much has been seen.
    Header(Box<[u8; BLOCK]>, usize),
    /// In bytes that stay in the main file, so many of them left.
    Main(u64),
    /// In a content of its own, so many bytes of it left, and the padding after it.
    Own(u64, u64),
    /// Past the end or out of step: all that follows stays in the main file.
    Lost,
}

/// Invariant: the byte at an offset of the archive lies at the same offset of `main`, unless an
/// entry of `own` covers it, in whose file it then lies. Entries are in order and do not overlap.
pub struct Spool {
    main: File,
    length: u64,
    own: Vec<Own>,
    own_dir: Option<PathBuf>,
    scan: Scan,
}

impl Spool {
    /// An empty archive in `main`; large contents get files in `own_dir`, from where they can be
    /// given a name beneath it.
    pub fn new(main: File, own_dir: Option<PathBuf>) -> Self {
        Self {
            main,
            length: 0,
            own: Vec::new(),
            own_dir,
            scan: Scan::Header(Box::new([0; BLOCK]), 0),
        }
    }

    /// An archive that is all in one file.
    pub fn whole(main: File) -> Result<Self, Errno> {
        let length = rustix::fs::fstat(&main)?.st_size.max(0) as u64;
        Ok(Self {
            length,
            ..Self::new(main, None)
        })
    }

    /// The main file, by whose file system the space is measured.
    pub fn main(&self) -> &File {
        &self.main
    }

    /// Size of the archive, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What the contents take on disk that have a file of their own, and so need no copy.
    pub fn own_taken(&self) -> u64 {
        self.own.iter().map(|own| taken(own.length)).sum()
    }

    /// The file that holds exactly these bytes of the archive, if there is one.
    pub fn own(&self, start: u64, length: u64) -> Option<&File> {
        let own = self.own.iter().find(|own| own.start == start)?;
        (own.length == length).then_some(&own.file)
    }

    /// Adds bytes at the end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        // `bytes[unwritten..at]` belong to the main file.
        let (mut unwritten, mut at) = (0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            match &mut self.scan {
                Scan::Header(block, seen) => {
                    let count = rest.len().min(BLOCK - *seen);
                    block[*seen..*seen + count].copy_from_slice(&rest[..count]);
                    *seen += count;
                    at += count;
                    if *seen == BLOCK {
                        let block = **block;
                        self.scan = self.after(&block, self.length + (at - unwritten) as u64);
                    }
                }
                Scan::Main(left) => {
                    let count = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    at += count;
                    if *left == 0 {
                        self.scan = Scan::Header(Box::new([0; BLOCK]), 0);
                    }
                }
                Scan::Own(left, padding) => {
                    let count = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    let next = (*left == 0).then_some(*padding);
                    self.write_main(&bytes[unwritten..at])?;
                    self.write_own(&rest[..count])?;
                    at += count;
                    unwritten = at;
                    match next {
                        Some(0) => self.scan = Scan::Header(Box::new([0; BLOCK]), 0),
                        Some(padding) => self.scan = Scan::Main(padding),
                        None => {}
                    }
                }
                Scan::Lost => at = bytes.len(),
            }
        }
        self.write_main(&bytes[unwritten..])
    }

    /// The file in which the byte at `at` lies, where in it, and how many lie together from there.
    pub fn file_at(&self, at: u64) -> (&File, u64, u64) {
        let next = self.own.partition_point(|own| own.start + own.length <= at);
        match self.own.get(next) {
            Some(own) if own.start <= at => {
                (&own.file, at - own.start, own.start + own.length - at)
            }
            Some(own) => (&self.main, at, own.start - at),
            None => (&self.main, at, u64::MAX),
        }
    }

    /// Reads bytes of the archive, as many as lie together; 0 at its end.
    pub fn read_at(&self, out: &mut [u8], at: u64) -> Result<usize, Errno> {
        let (file, from, room) = self.file_at(at);
        let room = out.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        loop {
            match rustix::io::pread(file, &mut out[..room], from) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    /// What follows a header that ends at `end`.
    fn after(&mut self, block: &[u8; BLOCK], end: u64) -> Scan {
        let fields = Header::from_byte_slice(block).as_old();
        let size = field::number(&fields.size).ok().flatten();
        let size = size.and_then(|size| u64::try_from(size).ok());
        let whole = size.and_then(padded);
        let (Some(size), Some(whole)) = (size, whole) else {
            return Scan::Lost;
        };
        if !field::checksum_fits(block, &fields.cksum) {
            return Scan::Lost;
        }
        let is_file = matches!(fields.linkflag[0], b'0' | b'\0');
        if is_file
            && size >= OWN_BYTES
            && self.own.len() < OWN_FILES
            && let Some(dir) = &self.own_dir
            && let Ok(file) = Temp::unlinked(&[dir])
        {
            self.own.push(Own {
                start: end,
                length: size,
                file,
            });
            return Scan::Own(size, whole - size);
        }
        match whole {
            0 => Scan::Header(Box::new([0; BLOCK]), 0),
            whole => Scan::Main(whole),
        }
    }

    fn write_main(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        write_all_at(&self.main, bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn write_own(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let own = self.own.last().ok_or(Errno::BADF)?;
        write_all_at(&own.file, bytes, self.length - own.start)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                bytes = &bytes[count..];
                at += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::header::{Entry, append};
    use super::*;
    use crate::file::testing::TempDir;
    use tar::EntryType;

    fn archive(sizes: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, size) in sizes.iter().enumerate() {
            let name = format!("f{number}");
            let entry = Entry {
                kind: EntryType::Regular,
                name: name.as_bytes(),
                link: b"",
                mode: 0o644,
                uid: 0,
                gid: 0,
                mtime: (0, 0),
                size: *size as u64,
            };
            append(&mut bytes, &entry);
            bytes.extend((0..*size).map(|at| (at * 7 + number) as u8));
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        bytes
    }

    fn read(spool: &Spool, from: u64) -> Vec<u8> {
        let (mut out, mut block, mut at) = (Vec::new(), vec![0; 70_000], from);
        loop {
            let count = spool.read_at(&mut block, at).unwrap();
            if count == 0 {
                return out;
            }
            out.extend_from_slice(&block[..count]);
            at += count as u64;
        }
    }

    #[test]
    fn what_was_written_in_any_pieces_is_read_from_anywhere() {
        let dir = TempDir::make();
        let large = OWN_BYTES as usize;
        let bytes = archive(&[10, large, 0, large + 1, large - 1, 513, large + 512]);
        for piece in [511, 4096, 100_000, bytes.len()] {
            let main = Temp::unlinked(&[dir.path()]).unwrap();
            let mut spool = Spool::new(main, Some(dir.path().to_owned()));
            for piece in bytes.chunks(piece) {
                spool.write(piece).unwrap();
            }
            assert_eq!(spool.length(), bytes.len() as u64);
            assert_eq!(spool.own.len(), 3);
            for from in [0, 1023, 1024 + large + 7, bytes.len() - 1] {
                assert!(
                    read(&spool, from as u64) == bytes[from..],
                    "{piece} from {from}"
                );
            }
            let second = &spool.own[0];
            assert!(spool.own(second.start, second.length).is_some());
            assert!(spool.own(second.start, second.length - 1).is_none());
            assert_eq!(spool.file_at(second.start - 1).2, 1);
            assert_eq!(spool.file_at(second.start).1, 0);
        }
    }

    #[test]
    fn what_is_no_archive_stays_in_one_file() {
        let dir = TempDir::make();
        let main = Temp::unlinked(&[dir.path()]).unwrap();
        let mut spool = Spool::new(main, Some(dir.path().to_owned()));
        let mut bytes = archive(&[2 << 20]);
        bytes[0] ^= 1;
        spool.write(&bytes).unwrap();
        assert!(spool.own.is_empty());
        assert!(read(&spool, 0) == bytes);
    }
}
