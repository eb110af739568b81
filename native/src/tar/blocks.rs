//! A spooled archive, block by block.

use rustix::io::Errno;

use super::BLOCK;
use super::spool::Spool;

/// How much is read at a time, in bytes.
const WINDOW: usize = 256 << 10;
/// How much is read where most was passed over; twice as much each time it is not.
const FIRST: usize = 4 << 10;
/// Of so many bytes some are asked for where all are worth reading.
const SPARSE: usize = 16 << 10;

/// Invariant: `window[..filled]` holds the spool's bytes from `start` on, and `used` of them, as
/// [`SPARSE`] counts them, were asked for. `ahead` is how much was read at a time.
pub struct Blocks<'a> {
    spool: &'a Spool,
    window: Vec<u8>,
    start: u64,
    filled: usize,
    used: usize,
    ahead: usize,
}

impl<'a> Blocks<'a> {
    /// Reads `spool` from anywhere.
    pub fn new(spool: &'a Spool) -> Self {
        Self {
            spool,
            window: vec![0; WINDOW],
            start: 0,
            filled: 0,
            used: 0,
            ahead: WINDOW,
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
            self.load(at, length)?;
        }
        self.used = self.used.saturating_add(length.max(SPARSE));
        let from = (at - self.start) as usize;
        let filled = &self.window[..self.filled];
        Ok(from.checked_add(length).and_then(|to| filled.get(from..to)))
    }

    fn load(&mut self, at: u64, length: usize) -> Result<(), Errno> {
        let end = self.start + self.filled as u64;
        let near = at >= self.start && at.saturating_sub(end) < SPARSE as u64;
        self.ahead = match near && self.used >= self.filled {
            true => (2 * self.ahead).min(WINDOW),
            false => FIRST,
        };
        let wanted = self.ahead.max(length).min(WINDOW);
        (self.start, self.filled, self.used) = (at, 0, 0);
        while self.filled < wanted {
            let rest = &mut self.window[self.filled..wanted];
            match self.spool.read_at(rest, at + self.filled as u64) {
                Ok(0) => break,
                Ok(count) => self.filled += count,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use std::fs::File;

    #[test]
    fn what_is_asked_for_is_there_however_far_it_lies_and_what_is_far_is_read_alone() {
        let dir = TempDir::make();
        let path = dir.path().join("archive");
        let all: Vec<u8> = (0..2_000_000u32).map(|at| (at / 251) as u8).collect();
        std::fs::write(&path, &all).unwrap();
        let spool = Spool::whole(File::open(&path).unwrap()).unwrap();
        let mut blocks = Blocks::new(&spool);
        let jumps = [
            0, 200_000, 300_000, 270_000, 900_000, 1_999_000, 4096, 600_000,
        ];
        for mut at in jumps {
            for length in [1, BLOCK, FIRST + 1, BLOCK, 60_000, WINDOW] {
                let found = blocks.bytes(at as u64, length).unwrap();
                assert_eq!(found, all.get(at..at + length), "{length} at {at}");
                at += length;
            }
        }
        assert_eq!(blocks.bytes(1_999_900, 101).unwrap(), None);
        for at in [0, 500_000, 1_000_000, 400_000] {
            blocks.block(at).unwrap().unwrap();
            assert_eq!(blocks.filled, FIRST, "at {at}");
        }
        for at in (400_000..1_400_000).step_by(BLOCK) {
            blocks.block(at).unwrap().unwrap();
        }
        assert_eq!(blocks.filled, WINDOW);
    }
}
