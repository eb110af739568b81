//! An archive while it arrives and until it is extracted, in files without a name.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::io::Errno;

use super::BLOCK;
use super::parser::{ArchiveMember, MemberKind, Parsed, Parser};
use crate::abi::errno_of;
use crate::file::reserve::taken;
use crate::temp::Temp;

/// Contents from this size on get a file of their own: extracted, it is given its name instead of
/// being copied.
const OWN_BYTES: u64 = 1 << 20;
/// As many of these as one archive gets; each holds a descriptor.
const OWN_FILES: usize = 64;

/// A member's content in a file of its own.
struct OwnFile {
    start: u64,
    end: u64,
    file: File,
}

/// Invariant: the byte at an offset of the archive lies at the same offset of `main`, unless an
/// entry of `own` covers it, in whose file it then lies. Entries are in order and do not overlap.
/// `parser` is there as long as what arrives is an archive, and has taken all but the last block of
/// its headers, of which `block` has come.
pub struct Spool {
    main: File,
    length: u64,
    own: Vec<OwnFile>,
    own_dir: Option<PathBuf>,
    parser: Option<Parser>,
    block: Vec<u8>,
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
            parser: Some(Parser::new(u64::MAX)),
            block: Vec::with_capacity(BLOCK),
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
        self.own.iter().map(|own| taken(own.end - own.start)).sum()
    }

    /// The file that holds exactly the content of `member`, if there is one.
    pub fn own(&self, member: &ArchiveMember) -> Option<&File> {
        let own = self.own.iter().find(|own| own.start == member.data)?;
        (own.end == member.data + member.stored).then_some(&own.file)
    }

    /// Adds bytes at the end.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let length = self.length;
            let own = self.own.last().filter(|own| length < own.end);
            let left = own.map(|own| usize::try_from(own.end - length).unwrap_or(usize::MAX));
            let count = left.unwrap_or_else(|| self.scan(bytes)).min(bytes.len());
            let (now, later) = bytes.split_at(count);
            let (file, at) = match self.own.last() {
                Some(own) if (own.start..own.end).contains(&length) => {
                    (&own.file, length - own.start)
                }
                _ => (&self.main, length),
            };
            file.write_all_at(now, at).map_err(errno_of)?;
            self.length += count as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Looks through bytes that come next, up to a content that gets a file of its own. How many lie before that.
    fn scan(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let Some(parser) = &mut self.parser else {
                return bytes.len();
            };
            let rest = &bytes[at..];
            let wanted = parser.next() + self.block.len() as u64;
            let content = wanted.saturating_sub(self.length + at as u64);
            if content > 0 {
                at += rest
                    .len()
                    .min(usize::try_from(content).unwrap_or(usize::MAX));
                continue;
            }
            let count = rest.len().min(BLOCK - self.block.len());
            self.block.extend_from_slice(&rest[..count]);
            at += count;
            let Some(block) = self.block.first_chunk() else {
                continue;
            };
            match parser.take(block) {
                Ok(Parsed::More) => {}
                Ok(Parsed::Member(member)) => {
                    if self.begin_own(&member) {
                        self.block.clear();
                        return at;
                    }
                }
                // What is wrong the check will say.
                Ok(Parsed::End) | Err(_) => self.parser = None,
            }
            self.block.clear();
        }
        at
    }

    /// Makes a file for the content of `member`, which comes next, if it is worth one.
    fn begin_own(&mut self, member: &ArchiveMember) -> bool {
        let plain = member.kind == MemberKind::File && member.sparse.is_none();
        if !plain || member.stored < OWN_BYTES || self.own.len() >= OWN_FILES {
            return false;
        }
        let Some(Ok(file)) = self.own_dir.as_ref().map(|dir| Temp::unlinked(&[dir])) else {
            return false;
        };
        let (start, end) = (member.data, member.data + member.stored);
        self.own.push(OwnFile { start, end, file });
        true
    }

    /// Reads bytes of the archive, as many as lie together; 0 at its end.
    pub fn read_at(&self, out: &mut [u8], at: u64) -> Result<usize, Errno> {
        let next = self.own.partition_point(|own| own.end <= at);
        let (file, from, room) = match self.own.get(next) {
            Some(own) if own.start <= at => (&own.file, at - own.start, own.end - at),
            Some(own) => (&self.main, at, own.start - at),
            None => (&self.main, at, u64::MAX),
        };
        let room = out.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut out[..room], from))
    }
}

#[cfg(test)]
mod tests {
    use super::super::members::{Members, WINDOW};
    use super::*;
    use crate::file::testing::TempDir;
    use tar::{Builder, Header};

    const LARGE: usize = OWN_BYTES as usize;

    fn archive(sizes: &[usize]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (number, size) in sizes.iter().enumerate() {
            let content: Vec<u8> = (0..*size).map(|at| (at * 7 + number) as u8).collect();
            let mut header = Header::new_ustar();
            header.set_size(*size as u64);
            let name = format!("f{number}");
            builder
                .append_data(&mut header, name, &content[..])
                .unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn spooled(bytes: &[u8], piece: usize) -> Spool {
        let dir = TempDir::make();
        let main = Temp::unlinked(&[dir.path()]).unwrap();
        let mut spool = Spool::new(main, Some(dir.path().to_owned()));
        bytes
            .chunks(piece)
            .for_each(|piece| spool.write(piece).unwrap());
        spool
    }

    #[test]
    fn what_was_written_in_any_pieces_is_read_from_anywhere() {
        let bytes = archive(&[10, LARGE, 0, LARGE + 1, LARGE - 1, 513, LARGE + 512]);
        for piece in [511, 4096, 100_000, bytes.len()] {
            let spool = spooled(&bytes, piece);
            assert_eq!(spool.length(), bytes.len() as u64);
            let lengths = spool.own.iter().map(|own| own.end - own.start);
            let wanted = [LARGE, LARGE + 1, LARGE + 512].map(|length| length as u64);
            assert_eq!(lengths.collect::<Vec<_>>(), wanted);
            let mut members = Members::new(&spool, 0);
            for mut at in [0, 1023, LARGE + 1031, 300_000, 270_000, bytes.len() - 600] {
                for length in [1, BLOCK, 33_000, BLOCK, WINDOW, WINDOW] {
                    let read = members.content(at as u64, length).ok();
                    assert!(read == bytes.get(at..at + length), "{length} at {at}");
                    at += length;
                }
            }
        }
    }

    #[test]
    fn what_is_no_archive_stays_in_one_file() {
        let mut bytes = archive(&[2 * LARGE]);
        bytes[0] ^= 1;
        let (spool, mut read) = (spooled(&bytes, 4096), vec![0; bytes.len()]);
        assert!(spool.own.is_empty());
        assert_eq!(spool.read_at(&mut read, 0), Ok(bytes.len()));
        assert!(read == bytes);
    }
}
