//! The stream's replay window: the newest bytes of both streams in one offset space.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::store::{Claim, Extent, Store};

/// Which of the two streams a byte came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stream {
    /// Standard output.
    Stdout = 0,
    /// Standard error.
    Stderr = 1,
}

const FIRST_CAPACITY: usize = 4096;

/// The bytes `[start, end)` of an offset space that begins at 0.
///
/// Invariants, kept by every method:
/// - byte `offset` lies at `buffer[offset % buffer.len()]`; `buffer.len()` is 0 or a power of two
///   and `end - start <= buffer.len()`; once `stored` is set it takes the place of the buffer, and
///   nothing is pushed any more;
/// - `segments` is sorted; the first begins at or before `start`, each runs up to the next one,
///   the last up to `end`; neighbours differ in their stream. It is empty only if `start == end`.
pub struct Ring {
    buffer: Vec<u8>,
    stored: Option<Extent>,
    claim: Claim,
    segments: VecDeque<Segment>,
    start: u64,
    end: u64,
}

/// Where a run of bytes of one stream begins: `offset << 1 | stream`. Eight bytes, because one-byte
/// writes that alternate between the streams make one for every byte.
#[derive(Clone, Copy)]
struct Segment(u64);

impl Segment {
    fn new(offset: u64, stream: Stream) -> Self {
        Self(offset << 1 | stream as u64)
    }
    fn offset(self) -> u64 {
        self.0 >> 1
    }
    fn stream(self) -> Stream {
        if self.0 & 1 == 0 {
            Stream::Stdout
        } else {
            Stream::Stderr
        }
    }
}

impl Ring {
    /// An empty ring.
    pub fn new(store: &Arc<Store>) -> Self {
        let (buffer, segments, stored) = Default::default();
        Self {
            buffer,
            stored,
            claim: store.claim(),
            segments,
            start: 0,
            end: 0,
        }
    }

    /// The oldest offset that can still be read.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// One past the newest byte.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Appends `bytes`, first dropping what lies before `keep_from`, then growing as needed.
    /// Bytes that could not be kept under `keep_from` themselves are counted but not stored.
    pub fn push(&mut self, stream: Stream, bytes: &[u8], keep_from: u64) {
        let end = self.end + bytes.len() as u64;
        let keep_from = keep_from.min(end);
        self.evict(keep_from);
        let skipped = keep_from.saturating_sub(self.end) as usize;
        let stored = bytes.get(skipped..).unwrap_or_default();
        if skipped > 0 {
            self.start = keep_from;
            self.end = keep_from;
            self.segments.clear();
        }
        if stored.is_empty() {
            return;
        }
        self.fit((self.end - self.start) as usize + stored.len());
        if self
            .segments
            .back()
            .is_none_or(|last| last.stream() != stream)
        {
            self.segments.push_back(Segment::new(self.end, stream));
        }
        self.copy_in(stored);
        self.end = end;
    }

    /// Reads at `offset` (inside `[start, end)`) as much of one stream as fits into `out`. Errors:
    /// the store's file cannot be read.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<Option<(Stream, usize)>, Errno> {
        let Some((stream, until)) = self.run_at(offset) else {
            return Ok(None);
        };
        let count = ((until - offset) as usize).min(out.len());
        let at = self.index(offset);
        let first = count.min(self.size() - at);
        match &self.stored {
            Some(extent) => {
                extent.read(at, &mut out[..first])?;
                extent.read(0, &mut out[first..count])?;
            }
            None => {
                out[..first].copy_from_slice(&self.buffer[at..at + first]);
                out[first..count].copy_from_slice(&self.buffer[..count - first]);
            }
        }
        Ok(Some((stream, count)))
    }

    /// Which stream the byte at `offset` is of, and up to where those behind it are too.
    fn run_at(&self, offset: u64) -> Option<(Stream, u64)> {
        if offset < self.start || offset >= self.end {
            return None;
        }
        let after = self
            .segments
            .partition_point(|segment| segment.offset() <= offset);
        let stream = self.segments.get(after.checked_sub(1)?)?.stream();
        let until = self
            .segments
            .get(after)
            .map_or(self.end, |next| next.offset());
        Some((stream, until))
    }

    /// Copies the buffer into `scratch`, to be moved; false if none is in memory.
    pub fn copy_movable(&self, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        scratch.extend_from_slice(&self.buffer);
        !self.buffer.is_empty()
    }

    /// What was copied is in `extent` now. If the buffer was given up or changed its size
    /// meanwhile, that is freed.
    pub fn moved(&mut self, extent: Extent) {
        if self.buffer.len() == extent.len() && !extent.is_empty() {
            self.set_buffer(Vec::new());
            self.stored = Some(extent);
        }
    }

    /// Drops what lies before `keep_from` and gives back memory that a window of `window` bytes
    /// does not need.
    pub fn shrink(&mut self, keep_from: u64, window: usize) {
        self.evict(keep_from.min(self.end));
        let held = (self.end - self.start) as usize;
        let target = held.max(window).next_power_of_two();
        // What is in the file stays as it is: there it costs no memory.
        if self.buffer.len() > target {
            self.resize(target);
        }
    }

    /// Forgets every byte; offsets stay.
    pub fn clear(&mut self) {
        self.start = self.end;
        self.segments = VecDeque::new();
        self.stored = None;
        self.set_buffer(Vec::new());
    }

    fn evict(&mut self, keep_from: u64) {
        if keep_from <= self.start {
            return;
        }
        self.start = keep_from.min(self.end);
        while self
            .segments
            .get(1)
            .is_some_and(|second| second.offset() <= self.start)
        {
            self.segments.pop_front();
        }
        if self.start == self.end {
            self.segments.clear();
        }
    }

    fn fit(&mut self, needed: usize) {
        if needed > self.buffer.len() {
            self.resize(needed.next_power_of_two().max(FIRST_CAPACITY));
        }
    }

    fn resize(&mut self, capacity: usize) {
        let mut buffer = vec![0; capacity];
        let mut offset = self.start;
        while offset < self.end {
            let from = self.index(offset);
            let to = offset as usize & (capacity - 1);
            let run = (self.buffer.len() - from)
                .min(capacity - to)
                .min((self.end - offset) as usize);
            buffer[to..to + run].copy_from_slice(&self.buffer[from..from + run]);
            offset += run as u64;
        }
        self.set_buffer(buffer);
    }

    fn set_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
        self.claim.set(self.buffer.len());
    }

    fn copy_in(&mut self, bytes: &[u8]) {
        let at = self.index(self.end);
        let first = bytes.len().min(self.buffer.len() - at);
        self.buffer[at..at + first].copy_from_slice(&bytes[..first]);
        self.buffer[..bytes.len() - first].copy_from_slice(&bytes[first..]);
    }

    fn index(&self, offset: u64) -> usize {
        offset as usize & (self.size() - 1)
    }

    fn size(&self) -> usize {
        self.stored.as_ref().map_or(self.buffer.len(), Extent::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring() -> Ring {
        Ring::new(&Store::new(u64::MAX, &std::env::temp_dir()))
    }

    fn read_all(ring: &Ring, mut offset: u64, chunk: usize) -> Vec<(Stream, u8)> {
        let mut out = Vec::new();
        let mut buffer = vec![0; chunk];
        while let Some((stream, count)) = ring.read(offset, &mut buffer).unwrap() {
            out.extend(buffer[..count].iter().map(|byte| (stream, *byte)));
            offset += count as u64;
        }
        out
    }

    #[test]
    fn offsets_before_the_window_and_beyond_the_end_read_nothing() {
        let mut ring = ring();
        ring.push(Stream::Stdout, b"abcdef", 4);
        assert_eq!((ring.start(), ring.end()), (4, 6));
        assert_eq!(ring.read(3, &mut [0; 4]), Ok(None));
        assert_eq!(ring.read(6, &mut [0; 4]), Ok(None));
        assert_eq!(
            read_all(&ring, 4, 9),
            vec![(Stream::Stdout, b'e'), (Stream::Stdout, b'f')]
        );
    }

    #[test]
    fn cleared_keeps_its_offsets_and_no_memory() {
        let mut ring = ring();
        ring.push(Stream::Stderr, b"abc", 0);
        ring.clear();
        assert_eq!((ring.start(), ring.end(), ring.capacity()), (3, 3, 0));
    }

    proptest! {
        #[test]
        fn the_window_reads_as_the_tail_of_everything_pushed(
            writes in prop::collection::vec((any::<bool>(), 0usize..9000, 0u64..20_000), 1..60),
            chunk in 1usize..5000,
            shrink_at in 0usize..60,
            forget in 0u64..5000,
        ) {
            let store = Store::new(u64::MAX, &std::env::temp_dir());
            let mut ring = Ring::new(&store);
            let mut model: Vec<(Stream, u8)> = Vec::new();
            let mut kept_from = 0u64;
            for (turn, (err, length, window)) in writes.into_iter().enumerate() {
                let stream = if err { Stream::Stderr } else { Stream::Stdout };
                let bytes: Vec<u8> = (0..length).map(|i| (model.len() + i) as u8).collect();
                model.extend(bytes.iter().map(|byte| (stream, *byte)));
                kept_from = kept_from.max((model.len() as u64).saturating_sub(window));
                ring.push(stream, &bytes, kept_from);
                if turn == shrink_at {
                    ring.shrink(kept_from, window as usize);
                }
                prop_assert_eq!(ring.end(), model.len() as u64);
                prop_assert_eq!(ring.start(), kept_from);
                prop_assert_eq!(&read_all(&ring, kept_from, chunk)[..], &model[kept_from as usize..]);
            }
            // Moved to the file it reads the same, also when more of it is forgotten.
            let mut scratch = Vec::new();
            if ring.copy_movable(&mut scratch) {
                ring.moved(store.put(&scratch).unwrap());
                prop_assert_eq!((ring.capacity(), store.used()), (0, 0));
            }
            prop_assert_eq!(&read_all(&ring, kept_from, chunk)[..], &model[kept_from as usize..]);
            let kept_from = (kept_from + forget).min(model.len() as u64);
            ring.shrink(kept_from, 0);
            prop_assert_eq!(&read_all(&ring, kept_from, chunk)[..], &model[kept_from as usize..]);
        }
    }
}
