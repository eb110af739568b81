//! A spooled archive, block by block.

use rustix::io::Errno;

use super::BLOCK;
use super::spool::Spool;

/// How much is read at a time, in bytes.
const WINDOW: usize = 256 << 10;

/// Invariant: `window[..filled]` holds the spool's bytes from `start` on.
pub struct Blocks<'a> {
    spool: &'a Spool,
    window: Vec<u8>,
    start: u64,
    filled: usize,
}

impl<'a> Blocks<'a> {
    /// Reads `spool` from anywhere.
    pub fn new(spool: &'a Spool) -> Self {
        Self {
            spool,
            window: vec![0; WINDOW],
            start: 0,
            filled: 0,
        }
    }

    /// The block at `at`; none where the file ends before the block does.
    pub fn block(&mut self, at: u64) -> Result<Option<&[u8; BLOCK]>, Errno> {
        Ok(self.bytes(at, BLOCK)?.and_then(|bytes| bytes.first_chunk()))
    }

    /// `length` bytes at `at`, at most a window of them; none where the file ends before they do.
    pub fn bytes(&mut self, at: u64, length: usize) -> Result<Option<&[u8]>, Errno> {
        let inside = at
            .checked_sub(self.start)
            .map_or(WINDOW as u64, |offset| offset);
        if inside.saturating_add(length as u64) > self.filled as u64 {
            self.load(at)?;
        }
        let from = (at - self.start) as usize;
        let filled = &self.window[..self.filled];
        Ok(from.checked_add(length).and_then(|to| filled.get(from..to)))
    }

    fn load(&mut self, at: u64) -> Result<(), Errno> {
        (self.start, self.filled) = (at, 0);
        while self.filled < WINDOW {
            let rest = &mut self.window[self.filled..];
            match self.spool.read_at(rest, at + self.filled as u64) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
