//! A window of a file's lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::{memchr_iter, memrchr};

use super::failure::{CANCELLED, Failure};
use super::read::{RegularFile, Source};

/// How much is looked at between two looks at whether anybody still wants it, in bytes.
const BLOCK: usize = 256 << 10;

/// The lines from `first` to `last` of a file; a line ends with its LF, and owns it.
///
/// Invariant: `skip` lines are still to be passed over, then `left` lines are still to be given.
/// The bytes that were read and belong to the window lie in `block[at..end]`.
pub struct LineWindow {
    file: RegularFile,
    skip: u64,
    left: u64,
    block: Vec<u8>,
    at: usize,
    end: usize,
    cancelled: Arc<AtomicBool>,
}

impl LineWindow {
    /// The lines from `first` to `last`, both counted from 1 and inclusive.
    pub fn new(file: RegularFile, first: u64, last: u64, cancelled: Arc<AtomicBool>) -> Self {
        let skip = first.saturating_sub(1);
        Self {
            file,
            skip,
            left: last.saturating_sub(skip),
            block: Vec::new(),
            at: 0,
            end: 0,
            cancelled,
        }
    }

    /// Passes over the lines before the window. However long they are, one block is held.
    fn seek(&mut self) -> Result<(), Failure> {
        let mut block = std::mem::take(&mut self.block);
        block.resize(BLOCK, 0);
        while self.skip > 0 {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Failure::new(CANCELLED, "Cannot read on: nobody wants it"));
            }
            let count = self.file.fill(&mut block)?;
            if count == 0 {
                (self.skip, self.left) = (0, 0);
                break;
            }
            let (lines, start) = pass_over(&block[..count], self.skip);
            self.skip -= lines;
            if let Some(start) = start {
                (self.at, self.end) = (start, count);
            }
        }
        self.block = block;
        Ok(())
    }
}

impl Source for LineWindow {
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        if self.skip > 0 {
            self.seek()?;
        }
        let mut filled = 0;
        while filled < out.len() && self.left > 0 {
            let room = &mut out[filled..];
            let count = if self.at < self.end {
                let rest = &self.block[self.at..self.end];
                let count = rest.len().min(room.len());
                room[..count].copy_from_slice(&rest[..count]);
                self.at += count;
                count
            } else {
                self.block = Vec::new();
                self.file.fill(room)?
            };
            if count == 0 {
                self.left = 0;
                break;
            }
            let (lines, cut) = pass_over(&room[..count], self.left);
            self.left -= lines;
            filled += cut.unwrap_or(count);
        }
        Ok(filled)
    }
}

/// Counts up to `wanted` line ends in `bytes`. Gives their number and, when it is `wanted`, where
/// the bytes after the last of them begin.
fn pass_over(bytes: &[u8], wanted: u64) -> (u64, Option<usize>) {
    // Counting alone is several times faster than finding each.
    let lines = memchr_iter(b'\n', bytes).count() as u64;
    if lines < wanted {
        return (lines, None);
    }
    if lines == wanted {
        let last = memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        return (lines, Some(last));
    }
    let nth = memchr_iter(b'\n', bytes).nth(wanted as usize - 1);
    (wanted, nth.map(|at| at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::testing::TempDir;
    use proptest::prelude::*;

    fn open(content: &[u8], first: u64, last: u64, cancelled: bool) -> LineWindow {
        let dir = TempDir::make();
        let path = dir.path().join("file");
        std::fs::write(&path, content).unwrap();
        let (file, _) = RegularFile::open(&path).unwrap();
        LineWindow::new(file, first, last, Arc::new(cancelled.into()))
    }

    fn window(content: &[u8], first: u64, last: u64, room: usize) -> Vec<u8> {
        let mut source = open(content, first, last, false);
        let (mut found, mut out) = (Vec::new(), vec![0; room]);
        loop {
            let count = source.fill(&mut out).unwrap();
            if count == 0 {
                return found;
            }
            found.extend_from_slice(&out[..count]);
        }
    }

    #[test]
    fn a_line_longer_than_any_block_is_passed_over_and_given() {
        let mut content = vec![b'x'; 3 * BLOCK + 17];
        content.push(b'\n');
        content.extend(vec![b'y'; 2 * BLOCK]);
        content.extend(b"\nz");
        assert_eq!(
            window(&content, 2, 2, 1000),
            content[3 * BLOCK + 18..content.len() - 1]
        );
        assert_eq!(window(&content, 3, 3, 1000), b"z");
    }

    #[test]
    fn a_scan_that_nobody_wants_ends() {
        let mut source = open(b"a\nb\n", 2, 2, true);
        assert_eq!(source.fill(&mut [0; 8]).unwrap_err().status, CANCELLED);
    }

    proptest! {
        #[test]
        fn a_window_is_what_splitting_into_lines_gives(
            content in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 0..64),
            first in 1u64..12, count in 0u64..12, room in 1usize..20,
        ) {
            let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
            let wanted: Vec<u8> = lines.iter()
                .skip(first as usize - 1).take(count as usize + 1)
                .flat_map(|line| line.iter().copied()).collect();
            prop_assert_eq!(window(&content, first, first + count, room), wanted);
        }
    }
}
