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

/// Reads members one after the other.
///
/// Invariant: `window[..filled]` are the spool's bytes from `start` on.
pub struct Members<'a> {
    spool: &'a Spool,
    parser: Parser,
    window: Vec<u8>,
    start: u64,
    filled: usize,
}

impl<'a> Members<'a> {
    /// Members of the archive in `spool`, none of them larger than `max_bytes`.
    pub fn new(spool: &'a Spool, max_bytes: u64) -> Self {
        Self {
            spool,
            parser: Parser::new(max_bytes),
            window: vec![0; WINDOW],
            start: 0,
            filled: 0,
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
            let block = self.read(self.parser.next(), BLOCK).map_err(|errno| {
                Failure::new(errno.raw_os_error(), "Cannot read the spooled archive")
            })?;
            let block = block.and_then(|bytes| bytes.first_chunk()).copied();
            match self
                .parser
                .take(&block.ok_or_else(|| self.parser.truncated())?)?
            {
                Parsed::More => {}
                Parsed::Member(member) => return Ok(Some(member)),
                Parsed::End => return Ok(None),
            }
        }
    }

    /// `length` bytes of the archive, [`WINDOW`] at most. EIO if there are fewer.
    pub fn content(&mut self, at: u64, length: usize) -> Result<&[u8], Errno> {
        self.read(at, length)?.ok_or(Errno::IO)
    }

    fn read(&mut self, at: u64, length: usize) -> Result<Option<&[u8]>, Errno> {
        let from = at.checked_sub(self.start);
        let end = from.map(|from| from.saturating_add(length as u64));
        if end.is_none_or(|end| end > self.filled as u64) {
            (self.start, self.filled) = (at, 0);
            let wanted = length.clamp(AHEAD, WINDOW);
            while self.filled < wanted {
                let rest = &mut self.window[self.filled..wanted];
                match self.spool.read_at(rest, at + self.filled as u64)? {
                    0 => break,
                    count => self.filled += count,
                }
            }
        }
        let from = (at - self.start) as usize;
        Ok(self.window[..self.filled].get(from..from + length))
    }
}
