//! Output as it is kept: bytes in chunks, in memory or in the store's file.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::store::{Claim, SpoolExtent, Store};

/// Bytes of a chunk; the last one may be shorter. Few in tests, whose output then takes many.
pub const CHUNK_BYTES: usize = if cfg!(test) { 1 << 10 } else { 256 << 10 };
/// What a chunk begins with, in bytes.
const FIRST_BYTES: usize = 256;

enum Chunk {
    Memory(Vec<u8>),
    Stored(SpoolExtent),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Stored(extent) => extent.length,
        }
    }
}

/// The bytes `[start, end)` of an offset space that begins at 0. Others read the fields, and change none.
///
/// Invariants:
/// - byte `offset` is in chunk `(offset - origin) / CHUNK_BYTES`, and all chunks but the last are full;
/// - the first `stored` chunks are in the store's file, the others in memory;
/// - `claim` is for `memory`, the capacity of the chunks in memory and of `spare`, one that was dropped in
///   front and will be the next one behind: a window that moves on takes no new memory;
/// - nothing is appended once `finished`, and there is no spare.
pub struct Chunks {
    chunks: VecDeque<Chunk>,
    spare: Option<Vec<u8>>,
    origin: u64,
    pub start: u64,
    pub end: u64,
    stored: usize,
    pub memory: usize,
    claim: Claim,
    finished: bool,
}

impl Chunks {
    pub fn new(store: &Arc<Store>) -> Self {
        Self {
            chunks: VecDeque::new(),
            spare: None,
            origin: 0,
            start: 0,
            end: 0,
            stored: 0,
            memory: 0,
            claim: store.claim(),
            finished: false,
        }
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = (self.end - self.origin) as usize % CHUNK_BYTES;
            if filled == 0 {
                let spare = self.spare.take().unwrap_or_default();
                self.chunks.push_back(Chunk::Memory(spare));
            }
            let Some(Chunk::Memory(chunk)) = self.chunks.back_mut() else {
                return;
            };
            let (taken, before) = (bytes.len().min(CHUNK_BYTES - filled), chunk.capacity());
            if filled + taken > before {
                let target = (filled + taken).next_power_of_two().max(FIRST_BYTES);
                chunk.reserve_exact(target - filled);
            }
            chunk.extend_from_slice(&bytes[..taken]);
            self.memory += chunk.capacity() - before;
            self.end += taken as u64;
            bytes = &bytes[taken..];
        }
        self.claim.set(self.memory);
    }

    /// Forgets what lies before `offset`; beyond the end, what lies between will never be there.
    pub fn drop_before(&mut self, offset: u64) {
        while self.origin + CHUNK_BYTES as u64 <= offset && self.drop_first() {}
        if offset >= self.end {
            while self.drop_first() {}
            (self.origin, self.end) = (offset, offset);
        }
        self.start = self.start.max(offset);
        self.claim.set(self.memory);
    }

    /// Nothing is appended any more.
    pub fn finish(&mut self) {
        self.finished = true;
        self.drop_spare();
    }

    /// Gives the memory back that bytes to come would be put into.
    pub fn drop_spare(&mut self) {
        self.memory -= self.spare.take().map_or(0, |spare| spare.capacity());
        self.claim.set(self.memory);
    }

    /// Gives all memory and file space back; offsets stay.
    pub fn clear(&mut self) {
        self.finish();
        self.drop_before(self.end);
    }

    /// Whether there was one to be dropped.
    fn drop_first(&mut self) -> bool {
        match self.chunks.pop_front() {
            Some(Chunk::Memory(mut bytes)) if !self.finished && self.spare.is_none() => {
                bytes.clear();
                self.spare = Some(bytes);
            }
            Some(Chunk::Memory(bytes)) => self.memory -= bytes.capacity(),
            Some(Chunk::Stored(_)) => self.stored -= 1,
            None => return false,
        }
        self.origin += CHUNK_BYTES as u64;
        true
    }

    /// Whether more is in memory than there should be, all execs together.
    pub fn is_short(&self) -> bool {
        self.claim.is_short()
    }

    /// Copies from `offset`, not before the start, into `out`; returns the number of bytes. Errors:
    /// the store's file cannot be read.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let count = self.end.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut done = 0;
        while done < count {
            let from = (offset - self.origin) as usize + done;
            let (chunk, at) = (&self.chunks[from / CHUNK_BYTES], from % CHUNK_BYTES);
            let taken = (count - done).min(chunk.len() - at);
            let target = &mut out[done..done + taken];
            match chunk {
                Chunk::Memory(bytes) => target.copy_from_slice(&bytes[at..at + taken]),
                Chunk::Stored(extent) => extent.read(at, target)?,
            }
            done += taken;
        }
        Ok(count)
    }

    /// Copies the next chunk that can be moved into `scratch`, and names it by its offset. One that
    /// is not full can be moved only once nothing is appended.
    pub fn copy_movable(&self, scratch: &mut Vec<u8>) -> Option<u64> {
        let Chunk::Memory(bytes) = self.chunks.get(self.stored)? else {
            return None;
        };
        if bytes.len() < CHUNK_BYTES && !self.finished {
            return None;
        }
        scratch.clear();
        scratch.extend_from_slice(bytes);
        Some(self.origin + (self.stored * CHUNK_BYTES) as u64)
    }

    /// What was copied of the chunk at `offset` is in `extent` now. If the chunk was dropped
    /// meanwhile, so is that.
    pub fn moved(&mut self, offset: u64, extent: SpoolExtent) {
        let next = self.origin + (self.stored * CHUNK_BYTES) as u64;
        if let (true, Some(chunk)) = (offset == next, self.chunks.get_mut(self.stored))
            && let Chunk::Memory(bytes) = chunk
            && bytes.len() == extent.length
        {
            self.memory -= bytes.capacity();
            *chunk = Chunk::Stored(extent);
            self.stored += 1;
            self.claim.set(self.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Arc<Store> {
        Store::new(u64::MAX, &std::env::temp_dir())
    }

    #[test]
    fn what_was_moved_reads_as_before_and_costs_no_memory() {
        let store = store();
        let mut chunks = Chunks::new(&store);
        let bytes: Vec<u8> = (0..2 * CHUNK_BYTES + 100)
            .map(|i| (i / 251) as u8)
            .collect();
        bytes.chunks(701).for_each(|part| chunks.push(part));
        assert_eq!(store.used(), chunks.memory as u64);
        let mut scratch = Vec::new();
        let mut moves = |chunks: &mut Chunks| {
            while let Some(offset) = chunks.copy_movable(&mut scratch) {
                chunks.moved(offset, store.put(&scratch).unwrap());
            }
        };
        moves(&mut chunks);
        assert!(chunks.memory > 0 && chunks.memory < CHUNK_BYTES);
        chunks.finish();
        moves(&mut chunks);
        assert_eq!((chunks.memory, store.used()), (0, 0));
        let ranges = [
            (0, bytes.len()),
            (CHUNK_BYTES - 3, 7),
            (2 * CHUNK_BYTES - 1, 101),
        ];
        for (offset, length) in ranges {
            let mut out = vec![0; length];
            assert_eq!(chunks.read(offset as u64, &mut out), Ok(length));
            assert!(out == bytes[offset..offset + length], "from {offset}");
        }
        chunks.drop_before(CHUNK_BYTES as u64);
        assert_eq!(store.wait().freed.len(), 1);
        chunks.clear();
        assert_eq!(store.wait().freed.len(), 2);
    }

    #[test]
    fn a_chunk_dropped_while_it_was_copied_is_not_put_back() {
        let store = store();
        let mut chunks = Chunks::new(&store);
        chunks.push(b"abc");
        chunks.finish();
        let mut scratch = Vec::new();
        let offset = chunks.copy_movable(&mut scratch).unwrap();
        chunks.clear();
        chunks.moved(offset, store.put(&scratch).unwrap());
        assert_eq!(store.wait().freed.len(), 1);
        assert_eq!((chunks.start, chunks.end, store.used()), (3, 3, 0));
    }

    #[test]
    fn a_window_that_moves_on_takes_no_new_memory() {
        let store = store();
        let mut chunks = Chunks::new(&store);
        let (part, window) = (vec![7; CHUNK_BYTES / 3], 4 * CHUNK_BYTES as u64);
        for turn in 1..200 {
            chunks.push(&part);
            chunks.drop_before((turn * part.len() as u64).saturating_sub(window));
            assert!(
                store.used() <= window + 2 * CHUNK_BYTES as u64,
                "turn {turn}"
            );
        }
        chunks.finish();
        assert!(store.used() <= window + CHUNK_BYTES as u64);
    }
}
