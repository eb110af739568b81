//! Where captured output is kept: how much of it is in memory, and the file for the rest.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

use crate::sync::lock;
use crate::temp::Temp;

/// Extents begin at multiples of this, so that the blocks of a freed one can be given back.
const BLOCK: u64 = 4096;
/// With nothing left to move, memory grows by so much until it is looked for again, in bytes.
const NEXT_ALARM: u64 = 4 << 20;

/// What the spooler thread is to do.
#[derive(Default)]
pub struct SpoolWork {
    /// Extents that nobody needs any more: where they begin, and their length.
    pub freed: Vec<(u64, u64)>,
    /// More is in memory than there should be.
    pub crowded: bool,
    /// Nothing more: end.
    pub closed: bool,
}

/// Memory for captured output, and a file beyond it. The file is unlinked, only grows at its end,
/// and has holes where extents were freed; once none is left it is closed, and gone with that.
///
/// Invariants: `used` is the sum of all claims; the file is written by the spooler thread alone;
/// an extent's bytes do not change while it lives.
pub struct Store {
    /// How much is to be in memory at most, in bytes.
    pub(super) limit: u64,
    directory: PathBuf,
    used: AtomicU64,
    /// From this much in memory on the spooler is called.
    alarm: AtomicU64,
    file: Mutex<Option<Arc<File>>>,
    end: AtomicU64,
    live: AtomicU64,
    failing: AtomicBool,
    orders: Mutex<SpoolWork>,
    called: Condvar,
}

impl Store {
    /// A store that keeps up to `limit` bytes in memory and the rest in a file in `directory`.
    pub fn new(limit: u64, directory: &Path) -> Arc<Self> {
        Arc::new(Self {
            limit,
            directory: directory.to_owned(),
            used: AtomicU64::new(0),
            alarm: AtomicU64::new(limit),
            file: Mutex::new(None),
            end: AtomicU64::new(0),
            live: AtomicU64::new(0),
            failing: AtomicBool::new(false),
            orders: Mutex::default(),
            called: Condvar::new(),
        })
    }

    /// Bytes in memory.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Whether there is half as much again in memory as there should be, and waiting will help: the
    /// spooler is at work.
    pub fn is_crowded(&self) -> bool {
        let at_work = self.alarm.load(Relaxed) == u64::MAX && !self.failing.load(Relaxed);
        at_work && self.used() > self.limit / 2 * 3
    }

    /// Whether the file cannot be written: what is in memory then stays there.
    pub fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Relaxed);
    }

    /// A claim on no memory yet.
    pub fn claim(self: &Arc<Self>) -> Claim {
        let store = Arc::clone(self);
        Claim { store, bytes: 0 }
    }

    /// Writes `bytes` behind what is in the file. Called by the spooler thread alone.
    pub fn put(self: &Arc<Self>, bytes: &[u8]) -> Result<SpoolExtent, Errno> {
        let opened = lock(&self.file).clone();
        let file = match opened {
            Some(file) => file,
            None => {
                let file = Arc::new(Temp::unlinked(&[&self.directory])?);
                Arc::clone(lock(&self.file).insert(file))
            }
        };
        let at = self.end.load(Relaxed);
        if let Err(error) = file.write_all_at(bytes, at) {
            // What was written of it is given back: the next one begins at the same place.
            let _ = ftruncate(&*file, at);
            if self.live.load(Relaxed) == 0 {
                // Nothing lies in it whose end would close it.
                *lock(&self.file) = None;
            }
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::NOSPC));
        }
        let (length, end) = (bytes.len(), at + bytes.len() as u64);
        self.end.store(end.next_multiple_of(BLOCK), Relaxed);
        self.live.fetch_add(1, Relaxed);
        let store = Arc::clone(self);
        Ok(SpoolExtent {
            store,
            file,
            at,
            length,
        })
    }

    /// Gives freed extents back to the file system. Called by the spooler thread alone.
    pub fn give_back(&self, freed: &[(u64, u64)]) {
        let count = freed.len() as u64;
        let mut file = lock(&self.file);
        if self.live.fetch_sub(count, Relaxed) == count {
            self.end.store(0, Relaxed);
            *file = None;
        }
        let Some(file) = file.clone() else { return };
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (at, length) in freed {
            // Without holes, on a file system that knows none, the space returns with the last.
            let _ = fallocate(&*file, hole, *at, length.next_multiple_of(BLOCK));
        }
    }

    /// Waits for something to do, and takes it.
    pub fn wait(&self) -> SpoolWork {
        let mut orders = lock(&self.orders);
        while orders.freed.is_empty() && !orders.crowded && !orders.closed {
            let waited = self.called.wait(orders);
            orders = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let closed = orders.closed;
        let taken = std::mem::take(&mut *orders);
        orders.closed = closed;
        taken
    }

    /// All that can be moved was: the next alarm is when there is clearly more again.
    pub fn rest(&self) {
        let next = self.used() + NEXT_ALARM;
        self.alarm.store(next.max(self.limit), Relaxed);
    }

    /// Ends the spooler thread.
    pub fn close(&self) {
        lock(&self.orders).closed = true;
        self.called.notify_one();
    }

    fn account(&self, before: u64, now: u64) {
        if now > before {
            let used = self.used.fetch_add(now - before, Relaxed) + (now - before);
            if used > self.alarm.load(Relaxed) {
                self.alarm.store(u64::MAX, Relaxed);
                lock(&self.orders).crowded = true;
                self.called.notify_one();
            }
        } else if now < before {
            let used = self.used.fetch_sub(before - now, Relaxed) - (before - now);
            if used < self.limit && self.alarm.load(Relaxed) != u64::MAX {
                self.alarm.store(self.limit, Relaxed);
            }
        }
    }
}

/// Somebody's share of the memory. Dropping it gives it back.
pub struct Claim {
    store: Arc<Store>,
    bytes: u64,
}

impl Claim {
    /// Whether all claims together are for more than there should be in memory.
    pub fn is_short(&self) -> bool {
        self.store.used() > self.store.limit
    }

    /// Changes it to `bytes`.
    pub fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes as u64);
        self.store.account(before, self.bytes);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Bytes in the file. Dropping it frees them.
pub struct SpoolExtent {
    store: Arc<Store>,
    file: Arc<File>,
    at: u64,
    pub(super) length: usize,
}

impl SpoolExtent {
    /// Fills `out` from `offset` on; there must be as many bytes.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), Errno> {
        let read = self.file.read_exact_at(out, self.at + offset as u64);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl Drop for SpoolExtent {
    fn drop(&mut self) {
        let freed = (self.at, self.length as u64);
        lock(&self.store.orders).freed.push(freed);
        self.store.called.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(store: &Store) -> i64 {
        let file = lock(&store.file);
        rustix::fs::fstat(&**file.as_ref().unwrap())
            .unwrap()
            .st_blocks
    }

    #[test]
    fn extents_are_read_back_and_their_space_is_given_back() {
        let store = Store::new(10, &std::env::temp_dir());
        let extents: Vec<SpoolExtent> = (1..=3u8)
            .map(|fill| store.put(&vec![fill; 100_000]).unwrap())
            .collect();
        let mut out = [0; 3];
        for (extent, fill) in extents.iter().zip(1..) {
            extent.read(99_997, &mut out).unwrap();
            assert_eq!(out, [fill; 3]);
        }
        let full = blocks(&store);
        let mut extents = extents.into_iter();
        drop(extents.next_back());
        let freed = store.wait().freed;
        assert_eq!(freed.len(), 1);
        store.give_back(&freed);
        assert!(blocks(&store) < full);
        drop(extents);
        store.give_back(&store.wait().freed);
        assert!(lock(&store.file).is_none());
        assert_eq!(store.put(b"x").unwrap().at, 0);
    }

    #[test]
    fn a_directory_that_is_missing_is_an_error() {
        let store = Store::new(10, Path::new("/nonexistent"));
        assert_eq!(store.put(b"x").err(), Some(Errno::NOENT));
    }

    #[test]
    fn claims_beyond_the_limit_call_once_until_all_was_moved() {
        let store = Store::new(10, &std::env::temp_dir());
        let (mut first, mut second) = (store.claim(), store.claim());
        first.set(10);
        assert!(!lock(&store.orders).crowded);
        second.set(1);
        assert!(std::mem::take(&mut lock(&store.orders).crowded));
        second.set(5);
        assert!(!lock(&store.orders).crowded);
        store.rest();
        drop(first);
        assert_eq!(store.used(), 5);
        second.set(11);
        assert!(lock(&store.orders).crowded);
    }
}
