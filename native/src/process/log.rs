//! All output of one exec: captured for the poll, in a window for the stream, and who reads it.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::chunks::Chunks;
use super::store::{SpoolExtent, Store};

/// Which of the two streams a byte came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stream {
    /// Standard output.
    Stdout = 0,
    /// Standard error.
    Stderr = 1,
}

/// How far the window of a command grows for an attached reader that lags behind, in bytes.
pub const LAG_BYTES: u64 = 8 << 20;
/// Room for which paused pipes are read again, in bytes.
const RESUME_BYTES: u64 = 1 << 20;

/// Sizes of what is kept, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Captured per stream.
    pub capture: u64,
    /// Replay window of the stream.
    pub window: u64,
    /// What the window grows to for an attached reader that lags behind.
    pub lag: u64,
}

/// A part of a log that is being moved to the store's file: of stdout's or stderr's capture or of the window, and the
/// offset in it.
pub type Moving = (usize, u64);

/// Where a run of bytes of one stream begins: `offset << 1 | stream`. Eight bytes, because one-byte
/// writes that alternate between the streams make one for every byte.
#[derive(Clone, Copy)]
struct Run(u64);

impl Run {
    fn offset(self) -> u64 {
        self.0 >> 1
    }
    fn stream(self) -> Stream {
        [Stream::Stdout, Stream::Stderr][(self.0 & 1) as usize]
    }
}

/// A reader of the stream at its own cursor.
struct Subscriber {
    id: u32,
    cursor: u64,
    /// It found nothing when it last asked: to be told once there is something.
    waiting: bool,
    /// It took nothing through a whole pause: no longer waited for until it reads again.
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

/// What is kept of the two captures, and the window.
const WINDOW: usize = 2;

/// Invariants:
/// - `kept` has the first `sizes.capture` bytes of each stream, and the newest `sizes.window` bytes of both together,
///   for an attached reader up to `sizes.lag`; the window's end is the total published, and stands still once `ended`;
/// - `runs` is sorted; the first begins at or before the window's start, each runs up to the next one, the last up to
///   its end; neighbours differ in their stream. It is empty only if the window is;
/// - `released` means that the captures are freed, and the window too as soon as nobody reads.
pub struct Log {
    kept: [Chunks; 3],
    runs: VecDeque<Run>,
    truncated: bool,
    sizes: Sizes,
    readers: Vec<Subscriber>,
    ended: bool,
    released: bool,
    /// The pipes are paused until there is room for the readers.
    pub paused: bool,
}

impl Log {
    /// An empty log.
    pub fn new(sizes: Sizes, store: &Arc<Store>) -> Self {
        Self {
            kept: [(); 3].map(|()| Chunks::new(store)),
            runs: VecDeque::new(),
            truncated: false,
            sizes,
            readers: Vec::new(),
            ended: false,
            released: false,
            paused: false,
        }
    }

    /// Takes output; calls `tell` for each reader that waited for it.
    pub fn push(&mut self, stream: Stream, bytes: &[u8], tell: impl FnMut(u32)) {
        if self.ended || bytes.is_empty() {
            return;
        }
        let capture = &mut self.kept[stream as usize];
        let room = (self.sizes.capture - capture.end).min(bytes.len() as u64) as usize;
        capture.push(&bytes[..room]);
        self.truncated |= room < bytes.len();
        let begin = self.total();
        self.forget(self.keep_from(begin + bytes.len() as u64));
        // Of more than the window is to hold, the end alone is kept.
        let skipped = (self.total() - begin) as usize;
        if skipped < bytes.len() {
            if self.runs.back().is_none_or(|last| last.stream() != stream) {
                let run = Run(self.total() << 1 | stream as u64);
                self.runs.push_back(run);
            }
            self.kept[WINDOW].push(&bytes[skipped..]);
        }
        self.tell_waiting(tell);
    }

    /// No more output is published; waiting readers are told.
    pub fn end(&mut self, tell: impl FnMut(u32)) {
        self.ended = true;
        self.kept.iter_mut().for_each(Chunks::finish);
        self.tell_waiting(tell);
    }

    /// Attaches a reader at `offset`.
    pub fn attach(&mut self, id: u32, offset: u64) {
        self.readers.push(Subscriber {
            id,
            cursor: offset,
            waiting: false,
            stuck: false,
        });
    }

    /// Detaches a reader, and gives back what was kept for it alone.
    pub fn detach(&mut self, id: u32) {
        self.readers.retain(|reader| reader.id != id);
        self.forget(self.keep_from(self.total()));
        self.free_unread();
        self.kept[WINDOW].drop_spares();
    }

    /// Reads for reader `id` into `out`, at most one run of one stream.
    pub fn next(&mut self, id: u32, out: &mut [u8]) -> Next {
        let Some(at) = self.readers.iter().position(|reader| reader.id == id) else {
            return Next::End;
        };
        let (start, end) = (self.kept[WINDOW].start, self.total());
        let cursor = self.readers[at].cursor;
        let next = if cursor < start {
            Next::Gap(cursor, start)
        } else if cursor < end {
            let (stream, until) = self.run_at(cursor);
            let most = ((until - cursor) as usize).min(out.len());
            match self.kept[WINDOW].read(cursor, &mut out[..most]) {
                Ok(count) => Next::Output(stream, cursor, count),
                // A disk that cannot be read has lost them.
                Err(_) => Next::Gap(cursor, end),
            }
        } else if self.ended {
            Next::End
        } else {
            Next::Nothing
        };
        let reader = &mut self.readers[at];
        match next {
            Next::Output(_, _, count) => reader.cursor += count as u64,
            Next::Gap(_, to) => reader.cursor = to,
            Next::Nothing => reader.waiting = true,
            Next::End => {}
        }
        reader.stuck = false;
        next
    }

    /// Which stream the byte at `offset` of the window is of, and up to where those behind it are too.
    fn run_at(&self, offset: u64) -> (Stream, u64) {
        let after = self.runs.partition_point(|run| run.offset() <= offset);
        let next = self.runs.get(after);
        let until = next.map_or(self.total(), |run| run.offset());
        (self.runs[after - 1].stream(), until)
    }

    /// Whether `more` bytes can come without taking unread ones from a reader worth waiting for.
    pub fn has_room(&self, more: u64) -> bool {
        let end = self.total() + more;
        let reach = self.sizes.lag.max(self.sizes.window);
        let start = self.kept[WINDOW].start;
        // A reader behind the window has lost its bytes already: nothing to wait for.
        self.readers.iter().all(|reader| {
            reader.stuck || reader.cursor < start || end.saturating_sub(reader.cursor) <= reach
        })
    }

    /// Whether paused pipes can be read again now; if so, it is said once.
    pub fn take_resumption(&mut self) -> bool {
        let resume = self.paused && self.has_room(RESUME_BYTES);
        self.paused &= !resume;
        resume
    }

    /// Readers for which the pipes were paused and which took nothing: `cursors` is from then.
    pub fn give_up_on(&mut self, cursors: &[(u32, u64)]) {
        for reader in &mut self.readers {
            reader.stuck |= cursors.contains(&(reader.id, reader.cursor));
        }
    }

    /// Every reader's cursor.
    pub fn cursors(&self) -> Vec<(u32, u64)> {
        let cursors = self.readers.iter();
        cursors.map(|reader| (reader.id, reader.cursor)).collect()
    }

    /// Frees what was captured, and the window once nobody reads it.
    pub fn release(&mut self) {
        self.released = true;
        self.kept[..WINDOW].iter_mut().for_each(Chunks::clear);
        self.free_unread();
    }

    fn free_unread(&mut self) {
        if self.released && self.readers.is_empty() {
            self.forget(self.total());
        }
    }

    /// Bytes of memory that moving could free.
    pub fn movable(&self) -> usize {
        self.movables().iter().map(|chunks| chunks.memory).sum()
    }

    /// Copies something that can be moved into `scratch`, and names it.
    pub fn copy_movable(&self, scratch: &mut Vec<u8>) -> Option<Moving> {
        let mut movables = self.movables().iter().enumerate();
        movables.find_map(|(slot, chunks)| Some((slot, chunks.copy_movable(scratch)?)))
    }

    /// What was copied of `part` is in `extent` now.
    pub fn moved(&mut self, (slot, offset): Moving, extent: SpoolExtent) {
        self.kept[slot].moved(offset, extent);
    }

    /// The window is left in memory as long as it moves on.
    fn movables(&self) -> &[Chunks] {
        &self.kept[..if self.ended { WINDOW + 1 } else { WINDOW }]
    }

    /// Copies captured bytes of a stream from `offset` into `out`; returns their number.
    pub fn read_captured(
        &self,
        stream: Stream,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        let capture = &self.kept[stream as usize];
        if offset < capture.start {
            return Ok(0);
        }
        capture.read(offset, out)
    }

    /// How much of a stream is captured, in bytes.
    pub fn captured(&self, stream: Stream) -> u64 {
        let capture = &self.kept[stream as usize];
        capture.end - capture.start
    }

    /// Whether a stream was longer than what is captured of one.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Bytes published on both streams.
    pub fn total(&self) -> u64 {
        self.kept[WINDOW].end
    }

    fn forget(&mut self, keep_from: u64) {
        let window = &mut self.kept[WINDOW];
        window.drop_before(keep_from);
        let start = window.start;
        let over = self.runs.partition_point(|run| run.offset() <= start);
        self.runs.drain(..over.saturating_sub(1));
        if start == window.end {
            self.runs = VecDeque::new();
        }
    }

    fn keep_from(&self, end: u64) -> u64 {
        let window = end.saturating_sub(self.sizes.window);
        let reach = end.saturating_sub(self.sizes.lag);
        let cursors = self.readers.iter().map(|reader| reader.cursor);
        window.min(cursors.min().unwrap_or(window).max(reach))
    }

    fn tell_waiting(&mut self, mut tell: impl FnMut(u32)) {
        let end = self.total();
        for reader in &mut self.readers {
            if reader.waiting && (self.ended || reader.cursor < end) {
                reader.waiting = false;
                tell(reader.id);
            }
        }
    }
}
