//! Who reads an exec's stream: how far each has come, and up to when each is waited for.

/// A reader keeps up for this long after it took something, in nanoseconds.
const GRACE_NS: u64 = 1_000_000_000;
/// For each byte that it took it keeps up this much longer, in nanoseconds: the time of a byte at 1 MiB a second, for
/// the kernel's buffers take in bursts.
const NS_PER_BYTE: u64 = 1_000_000_000_u64.div_ceil(1 << 20);
/// It keeps up no longer than this after it took something, in nanoseconds: a burst is some MiB at most.
const MOST_NS: u64 = 7_000_000_000;
/// The first reader of an exec, and one that left, is expected for so long, in nanoseconds.
const EXPECTED_NS: u64 = 100_000_000;
/// A reader that took nothing for so long and then did has a client that reads, in nanoseconds.
const BLOCKED_NS: u64 = 100_000_000;
/// The kernel's buffers do not hold so much, in bytes: a client that took more reads.
const KERNEL_BYTES: u64 = 8 << 20;
/// A reader that is expected has this id, for it has no handle.
const EXPECTED: u32 = 0;

/// Why pipes are not read.
#[derive(Clone, Copy)]
pub enum Reason {
    /// For a reader whose client is known to read.
    Reader,
    /// For one of which only the kernel's buffers may have taken something so far.
    Newcomer,
    /// For one that is not there.
    Expected,
    /// For the disk that captured output is moved to.
    Disk,
}

/// A reader at its own cursor.
pub struct Reader {
    id: u32,
    /// Its offset when it came, or the end of its last gap: what is before is not kept for it.
    first: u64,
    pub cursor: u64,
    /// It found nothing when it last asked: it is to be told once there is something.
    pub waiting: bool,
    /// Its client is known to read.
    proven: bool,
    /// When it last took something, or found everything taken.
    since: u64,
    /// It keeps up until then: what it has not taken is kept, and the pipes wait for it.
    until: u64,
}

impl Reader {
    /// It took so many bytes.
    pub fn took(&mut self, count: u64, now: u64) {
        self.cursor += count;
        self.proven |= now >= self.since + BLOCKED_NS || self.cursor - self.first > KERNEL_BYTES;
        self.since = now;
        self.until = self.until.max(now + GRACE_NS) + count * NS_PER_BYTE;
        self.until = self.until.min(now + MOST_NS);
    }

    /// It was told that what is before `to` is gone.
    pub fn skipped(&mut self, to: u64, now: u64) {
        (self.first, self.cursor) = (to, to);
        self.until = self.until.max(now + GRACE_NS);
    }

    fn reason(&self) -> Reason {
        match self.id {
            EXPECTED => Reason::Expected,
            _ if self.proven => Reason::Reader,
            _ => Reason::Newcomer,
        }
    }
}

/// Invariant: an id is one reader's alone, but for `EXPECTED`.
pub struct Readers(Vec<Reader>);

impl Readers {
    /// Nobody yet, but somebody is expected.
    pub fn new(now: u64) -> Self {
        let mut readers = Self(Vec::new());
        readers.add(EXPECTED, 0, now, now + EXPECTED_NS);
        readers
    }

    fn add(&mut self, id: u32, first: u64, now: u64, until: u64) {
        self.0.push(Reader {
            id,
            first,
            cursor: first,
            waiting: false,
            proven: false,
            since: now,
            until,
        });
    }

    /// Adds a reader, in place of one that was expected and is not behind it. If that one began
    /// before `offset`, the client has received something in the meantime.
    pub fn attach(&mut self, id: u32, offset: u64, now: u64) {
        let mut all = self.0.iter();
        let same = all.position(|of| of.id == EXPECTED && of.cursor >= offset);
        let before = same.map(|at| self.0.swap_remove(at));
        self.add(id, offset, now, now + GRACE_NS);
        if let (Some(before), Some(reader)) = (before, self.get(id)) {
            reader.proven = before.proven || before.first < offset;
        }
    }

    /// A reader left and is expected back: for a moment, or, at the stream's end, as long as the
    /// kernel may need to deliver what it took.
    pub fn lose(&mut self, id: u32, ended: bool, now: u64) {
        if let Some(reader) = self.get(id) {
            let back = now + EXPECTED_NS;
            reader.until = if ended { reader.until.max(back) } else { back };
            (reader.id, reader.waiting) = (EXPECTED, false);
        }
    }

    /// Forgets those that were expected up to `now`; whether there were any.
    pub fn forget_late(&mut self, now: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|of| of.id != EXPECTED || of.until > now);
        self.0.len() < before
    }

    /// When the next of them is late.
    pub fn next_late(&self) -> Option<u64> {
        let expected = self.0.iter().filter(|of| of.id == EXPECTED);
        expected.map(|of| of.until).min()
    }

    pub fn get(&mut self, id: u32) -> Option<&mut Reader> {
        self.0.iter_mut().find(|reader| reader.id == id)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes are written from `offset` on. Until now there was nothing to take for those who are there.
    pub fn written(&mut self, offset: u64, now: u64) {
        let all = self.0.iter_mut();
        for reader in all.filter(|of| of.id != EXPECTED && of.cursor >= offset) {
            reader.since = now;
            reader.until = reader.until.max(now + GRACE_NS);
        }
    }

    /// The first byte that somebody who keeps up needs, if anybody does: the first one not taken, or
    /// of the last `behind` bytes that were taken the first one, for they may still be on their way.
    pub fn need_from(&self, behind: u64, now: u64) -> Option<u64> {
        let keeping_up = self.0.iter().filter(|of| of.until > now);
        let need = keeping_up.map(|of| of.cursor.saturating_sub(behind).max(of.first));
        need.min()
    }

    /// Until when the pipes wait for those who keep up and have not come to `offset`, by the reasons
    /// `Reader`, `Newcomer` and `Expected`. Whoever lost what is before `start` is there.
    pub fn waits(&self, start: u64, offset: u64, now: u64) -> [Option<u64>; 3] {
        let mut waits = [None; 3];
        let behind = |of: &&Reader| of.until > now && of.cursor.max(start) < offset;
        for reader in self.0.iter().filter(behind) {
            let wait = &mut waits[reader.reason() as usize];
            *wait = (*wait).max(Some(reader.until));
        }
        waits
    }

    /// Calls `tell` for those that wait at a cursor where something is there.
    pub fn tell(&mut self, is_there: impl Fn(u64) -> bool, mut tell: impl FnMut(u32)) {
        for reader in self.0.iter_mut().filter(|of| of.waiting) {
            if is_there(reader.cursor) {
                reader.waiting = false;
                tell(reader.id);
            }
        }
    }
}
