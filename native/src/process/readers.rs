//! Who reads an exec's stream: how far each has come, and up to when each is waited for.

/// A reader is waited for this long after it took something, in nanoseconds, ...
const GRACE_NS: u64 = 1_000_000_000;
/// ... and as long again as what it took needs at 1 MiB a second: the kernel takes for it in bursts.
const NS_PER_BYTE: u64 = 1_000_000_000_u64.div_ceil(1 << 20);
/// But no longer: a burst is what the kernel's buffers hold, some MiB.
const MOST_NS: u64 = 7_000_000_000;
/// The first reader of an exec, and one that was lost, is expected for so long, in nanoseconds.
const ABSENT_NS: u64 = 100_000_000;
/// Instead of its own, the id of a reader that is only expected.
const EXPECTED: u32 = 0;

/// A reader at its own cursor.
pub struct Reader {
    id: u32,
    /// Where it began: its client has all that is before.
    first: u64,
    pub cursor: u64,
    /// It found nothing when it last asked: to be told once there is something.
    pub waiting: bool,
    /// It keeps up until then: what it has not taken is kept for it, and the pipes are held back.
    until: u64,
}

impl Reader {
    /// It took so many bytes.
    pub fn took(&mut self, count: u64, now: u64) {
        self.cursor += count;
        self.until = self.until.max(now + GRACE_NS) + count * NS_PER_BYTE;
        self.until = self.until.min(now + MOST_NS);
    }

    /// It was told that what is before `to` is gone.
    pub fn skipped(&mut self, to: u64, now: u64) {
        (self.first, self.cursor) = (to, to);
        self.took(0, now);
    }
}

/// Invariant: an id is one reader's alone, but for `EXPECTED`.
pub struct Readers(Vec<Reader>);

impl Readers {
    /// Nobody yet, but somebody is expected.
    pub fn new(now: u64) -> Self {
        let mut readers = Self(Vec::new());
        readers.add(EXPECTED, 0, now + ABSENT_NS);
        readers
    }

    fn add(&mut self, id: u32, first: u64, until: u64) {
        self.0.push(Reader {
            id,
            first,
            cursor: first,
            waiting: false,
            until,
        });
    }

    /// Adds a reader, in place of one that was expected and is not behind it.
    pub fn attach(&mut self, id: u32, offset: u64, now: u64) {
        let mut all = self.0.iter();
        if let Some(at) = all.position(|of| of.id == EXPECTED && of.cursor >= offset) {
            self.0.swap_remove(at);
        }
        self.add(id, offset, now + GRACE_NS);
    }

    /// A reader left and is expected back; at the stream's end, as long as the kernel may need to
    /// deliver what it took.
    pub fn lose(&mut self, id: u32, ended: bool, now: u64) {
        if let Some(reader) = self.get(id) {
            let back = now + ABSENT_NS;
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

    /// Bytes come from `offset` on: who has taken all before them is waited for from now on.
    pub fn written(&mut self, offset: u64, now: u64) {
        let all = self.0.iter_mut();
        for reader in all.filter(|of| of.id != EXPECTED && of.cursor >= offset) {
            reader.until = reader.until.max(now + GRACE_NS);
        }
    }

    /// From where on those who keep up need what there is: what they have not taken, and the last
    /// `behind` bytes that they have. `None` if nobody does.
    pub fn need_from(&self, behind: u64, now: u64) -> Option<u64> {
        let keeping_up = self.0.iter().filter(|of| of.until > now);
        let need = keeping_up.map(|of| of.cursor.saturating_sub(behind).max(of.first));
        need.min()
    }

    /// Up to when the pipes are held back, if somebody who keeps up is behind `offset`, and whether
    /// for those alone who are expected.
    pub fn hold(&self, start: u64, offset: u64, now: u64) -> Option<(u64, bool)> {
        let behind = |of: &&Reader| of.until > now && of.cursor.max(start) < offset;
        let behind = self.0.iter().filter(behind);
        let latest = behind.map(|of| (of.id != EXPECTED, of.until)).max();
        latest.map(|(attached, until)| (until, !attached))
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
