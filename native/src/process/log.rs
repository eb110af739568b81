//! All output of one exec: captured for the poll, in a window for the stream, and who reads it.

use std::sync::Arc;

use rustix::io::Errno;

use super::capture::Capture;
use super::ring::{Ring, Stream};
use super::store::{Extent, Store};

/// How far the window of a command grows for an attached reader that lags behind, in bytes.
pub const LAG_BYTES: u64 = 8 << 20;

/// Sizes of what is kept, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Captured per stream.
    pub capture: usize,
    /// Replay window of the stream.
    pub window: u64,
    /// What the window grows to for an attached reader that lags behind.
    pub lag: u64,
}

/// A part of a log that is being moved to the store's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A piece of what was captured of a stream.
    Captured(Stream, usize),
    /// The ring.
    Ring,
}

/// A reader of the stream at its own cursor.
struct Reader {
    id: u32,
    cursor: u64,
    /// It found nothing when it last asked: to be told once there is something.
    waiting: bool,
    /// It took nothing through a whole hold: no longer waited for until it reads again.
    stuck: bool,
}

/// What a reader got.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes of one stream, at this offset, so many.
    Output(Stream, u64, usize),
    /// The bytes `[from, to)` are gone.
    Gap(u64, u64),
    /// Nothing now; the reader is told when there is.
    Nothing,
    /// Nothing more will ever come.
    End,
}

/// Invariants:
/// - `ring.end()` is the total published; it stands still once `ended`;
/// - the ring holds the newest `window` bytes, and for an attached reader up to `lag`;
/// - the ring and the last pieces of the captures are in memory until `ended`, for they change;
/// - `released` means that the captures are freed, and the ring too as soon as nobody reads.
pub struct Log {
    captures: [Capture; 2],
    ring: Ring,
    sizes: Sizes,
    readers: Vec<Reader>,
    ended: bool,
    released: bool,
    /// The reactor has stopped reading the pipes until [`Log::has_room`].
    pub held: bool,
}

impl Log {
    /// An empty log.
    pub fn new(sizes: Sizes, store: &Arc<Store>) -> Self {
        let captures = [(); 2].map(|()| Capture::new(sizes.capture, store));
        let (ring, readers) = (Ring::new(store), Vec::new());
        Self {
            captures,
            ring,
            sizes,
            readers,
            ended: false,
            released: false,
            held: false,
        }
    }

    /// Takes output; calls `tell` for each reader that waited for it.
    pub fn push(&mut self, stream: Stream, bytes: &[u8], tell: impl FnMut(u32)) {
        if self.ended || bytes.is_empty() {
            return;
        }
        self.captures[stream as usize].push(bytes);
        let end = self.ring.end() + bytes.len() as u64;
        self.ring.push(stream, bytes, self.keep_from(end));
        self.tell_waiting(tell);
    }

    /// No more output is published; waiting readers are told.
    pub fn end(&mut self, tell: impl FnMut(u32)) {
        self.ended = true;
        self.tell_waiting(tell);
    }

    /// Attaches a reader at `offset`.
    pub fn attach(&mut self, id: u32, offset: u64) {
        self.readers.push(Reader {
            id,
            cursor: offset,
            waiting: false,
            stuck: false,
        });
    }

    /// Detaches a reader, and gives back what was kept for it alone.
    pub fn detach(&mut self, id: u32) {
        self.readers.retain(|reader| reader.id != id);
        if self.released && self.readers.is_empty() {
            self.ring.clear();
        } else {
            self.ring
                .shrink(self.keep_from(self.ring.end()), self.sizes.window as usize);
        }
    }

    /// Reads for reader `id` into `out`, at most one run of one stream.
    pub fn next(&mut self, id: u32, out: &mut [u8]) -> Next {
        let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == id) else {
            return Next::End;
        };
        reader.stuck = false;
        let (start, end) = (self.ring.start(), self.ring.end());
        if reader.cursor < start {
            let from = std::mem::replace(&mut reader.cursor, start);
            return Next::Gap(from, start);
        }
        match self.ring.read(reader.cursor, out) {
            Ok(Some((stream, count))) => {
                let offset = reader.cursor;
                reader.cursor += count as u64;
                return Next::Output(stream, offset, count);
            }
            Ok(None) => {}
            // A disk that cannot be read has lost them.
            Err(_) => return Next::Gap(std::mem::replace(&mut reader.cursor, end), end),
        }
        if self.ended && reader.cursor >= end {
            return Next::End;
        }
        reader.waiting = true;
        Next::Nothing
    }

    /// Whether `more` bytes can come without taking unread ones from a reader worth waiting for.
    pub fn has_room(&self, more: u64) -> bool {
        let end = self.ring.end() + more;
        let reach = self.sizes.lag.max(self.sizes.window);
        // A reader behind the window has lost its bytes already: nothing to wait for.
        self.readers
            .iter()
            .filter(|reader| !reader.stuck && reader.cursor >= self.ring.start())
            .all(|reader| end.saturating_sub(reader.cursor) <= reach)
    }

    /// Readers for which the pipes were held and which took nothing: `cursors` is from then.
    pub fn give_up_on(&mut self, cursors: &[(u32, u64)]) {
        for reader in &mut self.readers {
            reader.stuck |= cursors.contains(&(reader.id, reader.cursor));
        }
    }

    /// Every reader's cursor.
    pub fn cursors(&self) -> Vec<(u32, u64)> {
        self.readers
            .iter()
            .map(|reader| (reader.id, reader.cursor))
            .collect()
    }

    /// Frees what was captured, and the ring once nobody reads it.
    pub fn release(&mut self) {
        self.released = true;
        self.captures.iter_mut().for_each(Capture::free);
        if self.readers.is_empty() {
            self.ring.clear();
        }
    }

    /// Bytes of memory that moving could free.
    pub fn movable(&self) -> usize {
        let captured: usize = self.captures.iter().map(Capture::held).sum();
        captured + if self.ended { self.ring.capacity() } else { 0 }
    }

    /// Copies something that can be moved into `scratch`, and names it.
    pub fn copy_movable(&self, scratch: &mut Vec<u8>) -> Option<Part> {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let piece = self.capture(stream).copy_movable(self.ended, scratch);
            if let Some(piece) = piece {
                return Some(Part::Captured(stream, piece));
            }
        }
        (self.ended && self.ring.copy_movable(scratch)).then_some(Part::Ring)
    }

    /// What was copied of `part` is in `extent` now.
    pub fn moved(&mut self, part: Part, extent: Extent) {
        match part {
            Part::Captured(stream, piece) => self.captures[stream as usize].moved(piece, extent),
            Part::Ring => self.ring.moved(extent),
        }
    }

    /// Copies captured bytes of a stream from `offset` into `out`; returns their number.
    pub fn read_captured(
        &self,
        stream: Stream,
        offset: usize,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        self.capture(stream).read(offset, out)
    }

    /// What was captured of a stream.
    pub fn capture(&self, stream: Stream) -> &Capture {
        &self.captures[stream as usize]
    }

    /// Bytes published on both streams.
    pub fn total(&self) -> u64 {
        self.ring.end()
    }

    fn keep_from(&self, end: u64) -> u64 {
        let window = end.saturating_sub(self.sizes.window);
        let reach = end.saturating_sub(self.sizes.lag);
        let slowest = self
            .readers
            .iter()
            .map(|reader| reader.cursor)
            .min()
            .unwrap_or(window);
        window.min(slowest.max(reach)).max(self.ring.start())
    }

    fn tell_waiting(&mut self, mut tell: impl FnMut(u32)) {
        let end = self.ring.end();
        for reader in &mut self.readers {
            if reader.waiting && (self.ended || reader.cursor < end) {
                reader.waiting = false;
                tell(reader.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(window: u64) -> Log {
        log_in(&Store::new(u64::MAX, &std::env::temp_dir()), window)
    }

    fn log_in(store: &Arc<Store>, window: u64) -> Log {
        let (capture, lag) = (100, LAG_BYTES);
        let sizes = Sizes {
            capture,
            window,
            lag,
        };
        Log::new(sizes, store)
    }

    fn push(log: &mut Log, bytes: &[u8]) -> Vec<u32> {
        let mut told = Vec::new();
        log.push(Stream::Stdout, bytes, |id| told.push(id));
        told
    }

    #[test]
    fn a_reader_that_waits_is_told_once() {
        let mut log = log(8);
        log.attach(1, 0);
        assert_eq!(log.next(1, &mut [0; 4]), Next::Nothing);
        assert_eq!(push(&mut log, b"ab"), vec![1]);
        assert_eq!(push(&mut log, b"cd"), Vec::<u32>::new());
        assert_eq!(log.next(1, &mut [0; 9]), Next::Output(Stream::Stdout, 0, 4));
    }

    #[test]
    fn a_reader_beyond_the_total_waits_for_its_own_offset() {
        let mut log = log(8);
        log.attach(1, 3);
        assert_eq!(log.next(1, &mut [0; 4]), Next::Nothing);
        assert_eq!(push(&mut log, b"abc"), Vec::<u32>::new());
        assert_eq!(push(&mut log, b"d"), vec![1]);
        assert_eq!(log.next(1, &mut [0; 4]), Next::Output(Stream::Stdout, 3, 1));
    }

    #[test]
    fn the_window_holds_unread_bytes_for_an_attached_reader_and_no_longer() {
        let mut log = log(4);
        log.attach(1, 0);
        push(&mut log, b"abcdefgh");
        assert_eq!(log.next(1, &mut [0; 9]), Next::Output(Stream::Stdout, 0, 8));
        push(&mut log, b"i");
        log.attach(2, 0);
        assert_eq!(log.next(2, &mut [0; 9]), Next::Gap(0, 5));
        log.detach(2);
        log.detach(1);
        assert_eq!(log.ring.start(), 5);
    }

    #[test]
    fn room_is_counted_for_readers_that_take_bytes() {
        let mut log = log(4);
        log.attach(1, 0);
        assert!(log.has_room(LAG_BYTES));
        assert!(!log.has_room(LAG_BYTES + 1));
        let cursors = log.cursors();
        log.give_up_on(&cursors);
        assert!(log.has_room(LAG_BYTES + 1));
        push(&mut log, b"a");
        log.next(1, &mut [0; 1]);
        assert!(!log.has_room(LAG_BYTES + 1));
    }

    #[test]
    fn released_is_one_gap_and_the_end() {
        let mut log = log(4);
        push(&mut log, b"abc");
        log.attach(1, 0);
        log.end(|_| ());
        log.release();
        assert_eq!(log.next(1, &mut [0; 9]), Next::Output(Stream::Stdout, 0, 3));
        log.detach(1);
        log.attach(2, 1);
        assert_eq!(log.next(2, &mut [0; 9]), Next::Gap(1, 3));
        assert_eq!(log.next(2, &mut [0; 9]), Next::End);
        assert_eq!(log.capture(Stream::Stdout).len(), 0);
    }

    #[test]
    fn an_ended_log_is_moved_whole_and_reads_as_before() {
        let store = Store::new(u64::MAX, &std::env::temp_dir());
        let mut log = log_in(&store, 8);
        push(&mut log, b"abcdefghijkl");
        let mut scratch = Vec::new();
        assert_eq!(log.copy_movable(&mut scratch), None);
        log.end(|_| ());
        while let Some(part) = log.copy_movable(&mut scratch) {
            log.moved(part, store.put(&scratch).unwrap());
        }
        assert_eq!((log.movable(), store.used()), (0, 0));
        let mut out = [0; 20];
        assert_eq!(log.read_captured(Stream::Stdout, 0, &mut out), Ok(12));
        assert_eq!(&out[..12], b"abcdefghijkl");
        log.attach(1, 0);
        assert_eq!(log.next(1, &mut out), Next::Gap(0, 4));
        assert_eq!(log.next(1, &mut out), Next::Output(Stream::Stdout, 4, 8));
        assert_eq!(&out[..8], b"efghijkl");
        assert_eq!(log.next(1, &mut out), Next::End);
        log.release();
        log.detach(1);
        assert_eq!(store.wait().freed.len(), 2);
    }

    #[test]
    fn output_after_the_end_is_not_published() {
        let mut log = log(4);
        push(&mut log, b"abc");
        log.end(|_| ());
        push(&mut log, b"late");
        assert_eq!(log.total(), 3);
        assert_eq!(log.capture(Stream::Stdout).len(), 3);
    }
}
