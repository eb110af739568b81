//! A spooled archive, member by member.

use rustix::io::Errno;

use super::BLOCK;
use super::parser::{ArchiveMember, Parsed, Parser};
use super::spool::Spool;
use crate::file::failure::Failure;

/// Most bytes that are asked for at a time.
pub const WINDOW: usize = 128 << 10;
/// How much is read at least: the headers and contents of some small members.
const AHEAD: usize = 32 << 10;

/// Invariant: `bytes[..filled]` are the spool's bytes from `start` on.
struct Window {
    bytes: Vec<u8>,
    start: u64,
    filled: usize,
}

/// Reads members one after the other.
pub struct Members<'a> {
    spool: &'a Spool,
    parser: Parser,
    window: Window,
}

impl<'a> Members<'a> {
    /// Members of the archive in `spool`, none of them larger than `max_bytes`.
    pub fn new(spool: &'a Spool, max_bytes: u64) -> Self {
        let (bytes, start, filled) = (vec![0; WINDOW], 0, 0);
        Self {
            spool,
            parser: Parser::new(max_bytes),
            window: Window {
                bytes,
                start,
                filled,
            },
        }
    }

    /// The archive.
    pub fn spool(&self) -> &'a Spool {
        self.spool
    }

    /// Goes to the member whose header begins at `start`.
    pub fn seek(&mut self, start: u64) {
        self.parser.seek(start);
    }

    /// The next member; none at the end marker. Whether its content is there is not looked at.
    pub fn next_member(&mut self) -> Result<Option<ArchiveMember>, Failure> {
        loop {
            let at = self.parser.next();
            let unreadable = |errno: Errno| {
                Failure::new(errno.raw_os_error(), "Cannot read the spooled archive")
            };
            let block = self
                .window
                .read(self.spool, at, BLOCK)
                .map_err(unreadable)?;
            let block = block.and_then(|bytes| bytes.first_chunk());
            match self
                .parser
                .take(block.ok_or_else(|| self.parser.truncated())?)?
            {
                Parsed::More => {}
                Parsed::Member(member) => return Ok(Some(member)),
                Parsed::End => return Ok(None),
            }
        }
    }

    /// Refuses a member of whose content a part is missing.
    pub fn check_content(&self, member: &ArchiveMember) -> Result<(), Failure> {
        match member.end > self.spool.length() {
            true => Err(member.refused("is truncated: the archive ends in its content")),
            false => Ok(()),
        }
    }

    /// `length` bytes of the archive, [`WINDOW`] at most. EIO if there are fewer.
    pub fn content(&mut self, at: u64, length: usize) -> Result<&[u8], Errno> {
        self.window.read(self.spool, at, length)?.ok_or(Errno::IO)
    }
}

impl Window {
    /// `length` bytes at `at`; none where the archive ends before they do.
    fn read(&mut self, spool: &Spool, at: u64, length: usize) -> Result<Option<&[u8]>, Errno> {
        let inside = at
            .checked_sub(self.start)
            .map(|from| from.saturating_add(length as u64));
        if inside.is_none_or(|end| end > self.filled as u64) {
            (self.start, self.filled) = (at, 0);
            let wanted = length.clamp(AHEAD, WINDOW);
            while self.filled < wanted {
                let rest = &mut self.bytes[self.filled..wanted];
                match spool.read_at(rest, at + self.filled as u64)? {
                    0 => break,
                    count => self.filled += count,
                }
            }
        }
        let from = (at - self.start) as usize;
        Ok(self.bytes[..self.filled].get(from..from + length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::fs::File;

    #[test]
    fn what_is_asked_for_is_there_however_far_it_lies() {
        let dir = TempDir::make();
        let path = dir.path().join("archive");
        let all: Vec<u8> = (0..1_000_000u32).map(|at| (at / 251) as u8).collect();
        std::fs::write(&path, &all).unwrap();
        let spool = Spool::whole(File::open(&path).unwrap()).unwrap();
        let mut members = Members::new(&spool, 0);
        for mut at in [0, 200_000, 300_000, 270_000, 900_000, 999_000, 4096] {
            for length in [1, BLOCK, AHEAD + 1, BLOCK, WINDOW] {
                let found = members.content(at as u64, length).ok();
                assert_eq!(found, all.get(at..at + length), "{length} at {at}");
                at += length;
            }
        }
    }
}
