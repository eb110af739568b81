//! What a poll reports of one stream: its first bytes, up to a limit.

use std::sync::Arc;

use rustix::io::Errno;

use super::store::{Claim, Extent, Store};

/// Bytes of a piece; the last one may be shorter.
const PIECE: usize = 256 << 10;
/// What the first piece begins with, in bytes.
const FIRST: usize = 256;

enum Piece {
    Memory(Vec<u8>),
    Stored(Extent),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Stored(extent) => extent.len(),
        }
    }
}

/// The first bytes of one stream.
///
/// Invariants:
/// - byte `offset` is in piece `offset / PIECE`; all pieces but the last are full;
/// - the first `stored` pieces are in the store's file, the others in memory;
/// - `len <= limit`, and `cut` is set exactly when a byte beyond `limit` was seen;
/// - `claim` is for `held`, the capacity of the pieces in memory.
pub struct Capture {
    pieces: Vec<Piece>,
    stored: usize,
    len: usize,
    held: usize,
    claim: Claim,
    limit: usize,
    cut: bool,
}

impl Capture {
    /// An empty capture of at most `limit` bytes.
    pub fn new(limit: usize, store: &Arc<Store>) -> Self {
        let (stored, len, held) = (0, 0, 0);
        Self {
            pieces: Vec::new(),
            stored,
            len,
            held,
            claim: store.claim(),
            limit,
            cut: false,
        }
    }

    /// Takes what fits of `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = &bytes[..bytes.len().min(self.limit - self.len)];
        self.cut |= rest.len() < bytes.len();
        while !rest.is_empty() {
            let filled = self.len % PIECE;
            if filled == 0 {
                self.pieces.push(Piece::Memory(Vec::new()));
            }
            let taken = rest.len().min(PIECE - filled);
            let most = (self.limit - self.len + filled).min(PIECE);
            // A last piece that was moved already is full: only then is it moved before the end.
            let Some(Piece::Memory(piece)) = self.pieces.last_mut() else {
                return;
            };
            let before = piece.capacity();
            let wanted = filled + taken;
            if wanted > before {
                let target = wanted.next_power_of_two().max(FIRST).min(most);
                piece.reserve_exact(target - filled);
            }
            piece.extend_from_slice(&rest[..taken]);
            self.held += piece.capacity() - before;
            self.len += taken;
            rest = &rest[taken..];
        }
        self.claim.set(self.held);
    }

    /// Whether bytes beyond the limit were left out.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Bytes captured.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is captured.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Copies from `offset` into `out`; returns the number of bytes. Errors: the store's file
    /// cannot be read.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<usize, Errno> {
        let count = self.len.saturating_sub(offset).min(out.len());
        let mut done = 0;
        while done < count {
            let (number, at) = ((offset + done) / PIECE, (offset + done) % PIECE);
            let piece = &self.pieces[number];
            let taken = (count - done).min(piece.len() - at);
            let target = &mut out[done..done + taken];
            match piece {
                Piece::Memory(bytes) => target.copy_from_slice(&bytes[at..at + taken]),
                Piece::Stored(extent) => extent.read(at, target)?,
            }
            done += taken;
        }
        Ok(count)
    }

    /// Copies the next piece that can be moved into `scratch`, and names it. The last one can be
    /// moved only once it is `final_`, that is once nothing is added any more.
    pub fn copy_movable(&self, final_: bool, scratch: &mut Vec<u8>) -> Option<usize> {
        let Piece::Memory(bytes) = self.pieces.get(self.stored)? else {
            return None;
        };
        if bytes.len() < PIECE && !final_ {
            return None;
        }
        scratch.clear();
        scratch.extend_from_slice(bytes);
        Some(self.stored)
    }

    /// What was copied of piece `number` is in `extent` now. If it was freed meanwhile, so is that.
    pub fn moved(&mut self, number: usize, extent: Extent) {
        if let (true, Some(piece)) = (number == self.stored, self.pieces.get_mut(number))
            && let Piece::Memory(bytes) = piece
            && bytes.len() == extent.len()
        {
            self.held -= bytes.capacity();
            *piece = Piece::Stored(extent);
            self.stored += 1;
            self.claim.set(self.held);
        }
    }

    /// Gives memory and file space back; `cut` stays, it is part of the outcome.
    pub fn free(&mut self) {
        self.pieces = Vec::new();
        (self.stored, self.len, self.held) = (0, 0, 0);
        self.claim.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Arc<Store> {
        Store::new(u64::MAX, &std::env::temp_dir())
    }

    #[test]
    fn exactly_the_limit_is_not_cut_and_one_byte_more_is() {
        let mut capture = Capture::new(4, &store());
        capture.push(b"abcd");
        assert!(!capture.is_cut());
        capture.push(b"");
        assert!(!capture.is_cut());
        capture.push(b"e");
        assert!(capture.is_cut());
        let mut out = [0; 9];
        assert_eq!(capture.read(1, &mut out), Ok(3));
        assert_eq!(&out[..3], b"bcd");
        assert_eq!(capture.read(9, &mut out), Ok(0));
    }

    #[test]
    fn what_was_moved_reads_as_before_and_costs_no_memory() {
        let store = store();
        let mut capture = Capture::new(3 * PIECE, &store);
        let bytes: Vec<u8> = (0..2 * PIECE + 1000).map(|i| (i / 251) as u8).collect();
        bytes.chunks(70_001).for_each(|chunk| capture.push(chunk));
        assert_eq!(store.used(), capture.held() as u64);
        let mut scratch = Vec::new();
        let mut moves = |capture: &mut Capture, final_| {
            while let Some(piece) = capture.copy_movable(final_, &mut scratch) {
                let extent = store.put(&scratch).unwrap();
                capture.moved(piece, extent);
            }
        };
        moves(&mut capture, false);
        assert!(capture.held() > 0 && capture.held() < PIECE);
        moves(&mut capture, true);
        assert_eq!((capture.held(), store.used()), (0, 0));
        for (offset, length) in [(0, bytes.len()), (PIECE - 3, 7), (2 * PIECE - 1, 1001)] {
            let mut out = vec![0; length];
            assert_eq!(capture.read(offset, &mut out), Ok(length));
            assert!(out == bytes[offset..offset + length], "from {offset}");
        }
        capture.free();
        assert_eq!(store.wait().freed.len(), 3);
    }

    #[test]
    fn a_piece_freed_while_it_was_copied_is_not_put_back() {
        let store = store();
        let mut capture = Capture::new(100, &store);
        capture.push(b"abc");
        let mut scratch = Vec::new();
        let piece = capture.copy_movable(true, &mut scratch).unwrap();
        capture.free();
        capture.moved(piece, store.put(&scratch).unwrap());
        assert_eq!((capture.len(), store.wait().freed.len()), (0, 1));
    }
}
