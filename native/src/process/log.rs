//! All output of one exec: captured for the poll, in a window for the stream, and who reads it.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::chunks::Chunks;
use super::readers::{Reader, Readers};
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

/// Sizes of what is kept, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Captured per stream.
    pub capture: u64,
    /// Replay window of the stream.
    pub window: u64,
    /// What a reader that keeps up may leave untaken before the pipes are held back for it.
    pub ahead: u64,
    /// What stays of that which was taken: it may be lost on its way with the connection.
    pub behind: u64,
}

impl Sizes {
    /// What is kept of an exec's output where the limits are `capture` and `window`.
    pub const fn new(capture: u64, window: u64) -> Self {
        Self {
            capture,
            window,
            ahead: 2 << 20,
            behind: 8 << 20,
        }
    }
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
/// - `kept` has the first `sizes.capture` bytes of each stream, and the newest `sizes.window` bytes of both together, or
///   more for its readers, as [`Log::keep_from`] says; its end is the total published, and stands still once `ended`;
/// - `runs` is sorted; the first begins at or before the window's start, each runs up to the next one, the last up to
///   its end; neighbours differ in their stream. It is empty only if the window is;
/// - `released` means that the captures are freed, and the window too as soon as nobody reads.
pub struct Log {
    kept: [Chunks; 3],
    runs: VecDeque<Run>,
    truncated: bool,
    sizes: Sizes,
    readers: Readers,
    ended: bool,
    released: bool,
    /// The pipes are not read until the readers have taken more.
    pub paused: bool,
    /// The pipes are held back for nobody any more.
    pub flows: bool,
}

impl Log {
    /// An empty log of an exec that starts `now`, in nanoseconds of the boot clock, as everywhere here.
    pub fn new(sizes: Sizes, store: &Arc<Store>, now: u64) -> Self {
        Self {
            kept: [(); 3].map(|()| Chunks::new(store)),
            runs: VecDeque::new(),
            truncated: false,
            sizes,
            readers: Readers::new(now),
            ended: false,
            released: false,
            paused: false,
            flows: false,
        }
    }

    /// Takes output; calls `tell` for each reader that waited for it.
    pub fn push(&mut self, stream: Stream, bytes: &[u8], now: u64, tell: impl FnMut(u32)) {
        if self.ended || bytes.is_empty() {
            return;
        }
        let capture = &mut self.kept[stream as usize];
        let room = (self.sizes.capture - capture.end).min(bytes.len() as u64) as usize;
        capture.push(&bytes[..room]);
        self.truncated |= room < bytes.len();
        let begin = self.total();
        self.readers.forget_late(now);
        self.readers.written(begin, now);
        self.forget(self.keep_from(begin + bytes.len() as u64, now));
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
    pub fn attach(&mut self, id: u32, offset: u64, now: u64) {
        self.expire(now);
        self.readers.attach(id, offset, now);
    }

    /// Detaches a reader, which is expected back for a while; returns as [`Log::expire`].
    pub fn detach(&mut self, id: u32, now: u64) -> Option<u64> {
        self.readers.lose(id, self.ended, now);
        self.expire(now)
    }

    /// Gives back what was kept for readers that are expected no longer. Returns when to ask again,
    /// unless nothing is kept for others.
    pub fn expire(&mut self, now: u64) -> Option<u64> {
        let gone = self.readers.forget_late(now);
        self.forget(self.keep_from(self.total(), now));
        if gone {
            self.kept[WINDOW].drop_spare();
        }
        let kept = self.total() - self.kept[WINDOW].start;
        if self.released || (self.ended && kept <= self.sizes.window) {
            self.readers.forget_late(u64::MAX);
        }
        self.free_unread();
        self.readers.next_late()
    }

    /// Reads for reader `id` into `out`, at most one run of one stream.
    pub fn next(&mut self, id: u32, out: &mut [u8], now: u64) -> Next {
        let (start, end) = (self.kept[WINDOW].start, self.total());
        let Some(&mut Reader { cursor, .. }) = self.readers.get(id) else {
            return Next::End;
        };
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
        if let Some(reader) = self.readers.get(id) {
            match next {
                Next::Output(_, _, count) => reader.took(count as u64, now),
                Next::Gap(_, to) => reader.skipped(to, now),
                Next::Nothing => reader.waiting = true,
                Next::End => {}
            }
        }
        next
    }

    /// Which stream the byte at `offset` of the window is of, and up to where those behind it are too.
    fn run_at(&self, offset: u64) -> (Stream, u64) {
        let after = self.runs.partition_point(|run| run.offset() <= offset);
        let next = self.runs.get(after);
        let until = next.map_or(self.total(), |run| run.offset());
        (self.runs[after - 1].stream(), until)
    }

    /// Until when the pipes wait before they bring `more` bytes, which would leave a reader that keeps
    /// up too many not taken; by reason, as [`Readers::waits`] gives it.
    pub fn waits(&self, more: u64, now: u64) -> [Option<u64>; 3] {
        if self.flows {
            return [None; 3];
        }
        let offset = (self.total() + more).saturating_sub(self.sizes.ahead);
        self.readers.waits(self.kept[WINDOW].start, offset, now)
    }

    /// Whether paused pipes can be read again now; if so, it is said once.
    pub fn take_resumption(&mut self, now: u64) -> bool {
        let resume = self.paused && self.waits(self.sizes.ahead / 2, now) == [None; 3];
        self.paused &= !resume;
        resume
    }

    /// Frees what was captured, and the window once nobody reads it.
    pub fn release(&mut self) {
        self.released = true;
        self.kept[..WINDOW].iter_mut().for_each(Chunks::clear);
        self.readers.forget_late(u64::MAX);
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

    /// The window is left in memory as long as it moves on: whoever reads it must not wait for a disk.
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

    /// What a stream still had is lost: its pipe cannot be read.
    pub fn cut(&mut self) {
        self.truncated |= !self.ended;
    }

    /// Whether a stream was longer than what is captured of one, or was cut.
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

    /// Where the window begins if it ends at `end`. It always holds `sizes.window` bytes. While somebody
    /// reads or is expected, it also holds what readers that keep up need, or with none of these as much
    /// as they could; when memory is short, it holds only what they have not taken. Pipes that flow may
    /// leave more of that than pipes that wait.
    fn keep_from(&self, end: u64, now: u64) -> u64 {
        let (Sizes { ahead, behind, .. }, short) = (self.sizes, self.kept[WINDOW].is_short());
        let window = end.saturating_sub(self.sizes.window);
        if self.readers.is_empty() {
            return window;
        }
        let most = behind + if self.flows { 4 * ahead } else { ahead };
        let need = self.readers.need_from(if short { 0 } else { behind }, now);
        let need = need.unwrap_or(if short { end } else { 0 });
        window.min(need.max(end.saturating_sub(most)))
    }

    fn tell_waiting(&mut self, tell: impl FnMut(u32)) {
        let (end, ended) = (self.total(), self.ended);
        self.readers.tell(|cursor| ended || cursor < end, tell);
    }
}
