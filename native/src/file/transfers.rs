//! All transfers under way, by handle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crew::Crew;
use super::reader::Reader;
use super::ticket::{Texts, Ticket};
use super::upload::Upload;
use crate::wake::Wake;

/// Threads that may be in the middle of a system call of a download, or of an upload. The two do not
/// wait for each other.
const CREW: usize = 32;
/// How many of these one file system may hold, for reading and for writing: one that hangs stops
/// what is meant for others only when others hang, too.
const READERS_OF_ONE: usize = 20;
const WRITERS_OF_ONE: usize = 8;

/// Invariant: a handle is in one of the tables from the opening until it is closed or finished.
pub struct Transfers {
    /// Runs the steps of downloads.
    pub readers: Crew,
    /// Runs the steps of uploads.
    pub writers: Crew,
    wake: Arc<Wake>,
    texts: Texts,
    reads: Mutex<HashMap<u32, Arc<Reader>>>,
    uploads: Arc<Mutex<HashMap<u32, Arc<Upload>>>>,
    next: AtomicU32,
}

impl Transfers {
    /// No transfer, no thread.
    pub fn new(wake: Arc<Wake>) -> Self {
        let (texts, reads, uploads, next) = Default::default();
        Self {
            readers: Crew::new("guestd-read", CREW, READERS_OF_ONE),
            writers: Crew::new("guestd-write", CREW, WRITERS_OF_ONE),
            wake,
            texts,
            reads,
            uploads,
            next,
        }
    }

    /// The promise to complete `token`.
    pub fn ticket(&self, token: u32) -> Ticket {
        Ticket::new(&self.wake, &self.texts, token)
    }

    /// Takes the sentence of a failed operation.
    pub fn take_text(&self, token: u32) -> Option<String> {
        lock(&self.texts).remove(&token)
    }

    /// A new download and its handle.
    pub fn new_reader(&self) -> (u32, Arc<Reader>) {
        self.insert(&self.reads)
    }

    /// The download with this handle.
    pub fn reader(&self, handle: u32) -> Option<Arc<Reader>> {
        lock(&self.reads).get(&handle).cloned()
    }

    /// Forgets a download.
    pub fn remove_reader(&self, handle: u32) -> Option<Arc<Reader>> {
        lock(&self.reads).remove(&handle)
    }

    /// A new upload and its handle.
    pub fn new_upload(&self) -> (u32, Arc<Upload>) {
        self.insert(&self.uploads)
    }

    /// The upload with this handle.
    pub fn upload(&self, handle: u32) -> Option<Arc<Upload>> {
        lock(&self.uploads).get(&handle).cloned()
    }

    /// Forgets an upload; its steps under way still end.
    pub fn remove_upload(&self, handle: u32) -> Option<Arc<Upload>> {
        lock(&self.uploads).remove(&handle)
    }

    /// What forgets an upload when it is dropped.
    pub fn forgetting(&self, handle: u32) -> Forgetting {
        Forgetting(Arc::clone(&self.uploads), handle)
    }

    fn insert<T: Default>(&self, table: &Mutex<HashMap<u32, Arc<T>>>) -> (u32, Arc<T>) {
        let mut table = lock(table);
        loop {
            // 31 bits and never 0, so that a result can be a handle or a negated errno.
            let handle = self.next.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1);
            if handle != 0 && !table.contains_key(&handle) {
                let made = Arc::<T>::default();
                table.insert(handle, Arc::clone(&made));
                return (handle, made);
            }
        }
    }
}

/// Forgets an upload when it is dropped.
pub struct Forgetting(Arc<Mutex<HashMap<u32, Arc<Upload>>>>, u32);

impl Drop for Forgetting {
    fn drop(&mut self) {
        let forgotten = lock(&self.0).remove(&self.1);
        drop(forgotten);
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
