//! Events for TypeScript, taken in batches by the one call that is parked here.

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What an event is about.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An operation ended; `token` is the caller's, `status` and `value` are its result.
    Operation = 1,
    /// The outcome of exec `token` was published.
    Published = 2,
    /// Subscriber `token` found nothing when it last asked, and now would.
    Readable = 3,
    /// Orphans may wait to be reaped on the main thread.
    Orphans = 4,
    /// Captured output could not be spooled and stays in memory; `token` is the errno.
    SpoolFailed = 5,
    /// The state of watched connection `token` has changed, or it is gone.
    Connection = 6,
}

/// One event as it lies in the caller's buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub kind: Kind,
    /// Whom it is for.
    pub token: u32,
    /// 0 or an errno or one of the operation's own codes.
    pub status: i32,
    /// Keeps `value` aligned; always 0.
    pub reserved: u32,
    /// The operation's result.
    pub value: i64,
}

/// Size of an [`Event`] in the caller's buffer, in bytes.
pub const EVENT_SIZE: usize = 24;

impl Event {
    fn encode(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&(self.kind as u32).to_le_bytes());
        out[4..8].copy_from_slice(&self.token.to_le_bytes());
        out[8..12].copy_from_slice(&self.status.to_le_bytes());
        out[12..16].copy_from_slice(&0u32.to_le_bytes());
        out[16..24].copy_from_slice(&self.value.to_le_bytes());
    }
}

/// Invariant: `pending` holds exactly the (kind, token) pairs of the queued events that are not
/// operations, so the queue is bounded by the number of live objects and operations under way.
#[derive(Default)]
struct State {
    queue: VecDeque<Event>,
    pending: HashSet<(Kind, u32)>,
    /// A call is parked and was not told yet.
    parked: bool,
    closed: bool,
}

impl State {
    fn push(&mut self, kind: Kind, token: u32, status: i32, value: i64) {
        if kind == Kind::Operation || self.pending.insert((kind, token)) {
            self.queue.push_back(Event {
                kind,
                token,
                status,
                reserved: 0,
                value,
            });
        }
    }
}

/// The queue between native threads and the parked call.
#[derive(Default)]
pub struct Wake {
    state: Mutex<State>,
    filled: Condvar,
}

impl Wake {
    /// Says that `token` changed; said twice before it is taken, it is told once.
    pub fn notify(&self, kind: Kind, token: u32) {
        self.lock().push(kind, token, 0, 0);
        self.flush();
    }

    /// Ends the operation that the caller named `token`.
    pub fn complete(&self, token: u32, status: i32, value: i64) {
        self.lock().push(Kind::Operation, token, status, value);
        self.flush();
    }

    /// Tells the parked call of what was queued.
    fn flush(&self) {
        let mut state = self.lock();
        let tell = !state.queue.is_empty() && std::mem::take(&mut state.parked);
        // Told without the lock, or the one who wakes would wait for it.
        drop(state);
        if tell {
            self.filled.notify_one();
        }
    }

    /// Blocks until there is an event or the queue is closed; writes as many as fit into `out`.
    /// Returns their number, or `None` once closed and empty.
    pub fn wait(&self, out: &mut [u8]) -> Option<usize> {
        let mut state = self.lock();
        while state.queue.is_empty() && !state.closed {
            state.parked = true;
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.parked = false;
        let room = out.len() / EVENT_SIZE;
        let count = room.min(state.queue.len());
        for slot in out.chunks_exact_mut(EVENT_SIZE).take(count) {
            let Some(event) = state.queue.pop_front() else {
                break;
            };
            if event.kind != Kind::Operation {
                state.pending.remove(&(event.kind, event.token));
            }
            event.encode(slot);
        }
        (count > 0 || !state.closed).then_some(count)
    }

    /// Ends the parked call once it has taken what is queued.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's events, told together: each waking of the parked call costs JavaScript a turn.
///
/// Invariant: between [`Outbox::flush`]es events are queued for the parked call, which learns of
/// them at the next one at the latest.
pub struct Outbox {
    wake: Arc<Wake>,
    unsent: Cell<bool>,
}

impl Outbox {
    /// An outbox of its own for a thread that flushes it before it sleeps.
    pub fn new(wake: Arc<Wake>) -> Self {
        let unsent = Cell::new(false);
        Self { wake, unsent }
    }

    /// As [`Wake::notify`], told at the next flush.
    pub fn notify(&self, kind: Kind, token: u32) {
        self.wake.lock().push(kind, token, 0, 0);
        self.unsent.set(true);
    }

    /// As [`Wake::complete`], told at the next flush.
    pub fn complete(&self, token: u32, status: i32, value: i64) {
        self.wake.lock().push(Kind::Operation, token, status, value);
        self.unsent.set(true);
    }

    /// Tells the parked call of all that was queued here.
    pub fn flush(&self) {
        if self.unsent.take() {
            self.wake.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(wake: &Wake) -> Vec<(u32, u32, i64)> {
        let mut out = [0u8; EVENT_SIZE * 8];
        let count = wake.wait(&mut out).unwrap_or(0);
        let field = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        (0..count)
            .map(|i| i * EVENT_SIZE)
            .map(|at| {
                let value = i64::from_le_bytes(out[at + 16..at + 24].try_into().unwrap());
                (field(at), field(at + 4), value)
            })
            .collect()
    }

    #[test]
    fn a_change_said_twice_is_told_once_and_told_again_after_it_was_taken() {
        let wake = Wake::default();
        wake.notify(Kind::Readable, 7);
        wake.notify(Kind::Readable, 7);
        wake.notify(Kind::Published, 7);
        assert_eq!(take(&wake), vec![(3, 7, 0), (2, 7, 0)]);
        wake.notify(Kind::Readable, 7);
        assert_eq!(take(&wake), vec![(3, 7, 0)]);
    }

    #[test]
    fn operations_are_never_merged() {
        let wake = Wake::default();
        wake.complete(1, 0, 5);
        wake.complete(1, 0, -6);
        assert_eq!(take(&wake), vec![(1, 1, 5), (1, 1, -6)]);
    }

    #[test]
    fn a_parked_call_is_woken_by_a_flush_and_then_takes_all() {
        let wake = Arc::new(Wake::default());
        let outbox = Outbox::new(Arc::clone(&wake));
        let parked = std::thread::spawn({
            let wake = Arc::clone(&wake);
            move || take(&wake)
        });
        while !wake.lock().parked {
            std::thread::yield_now();
        }
        outbox.notify(Kind::Readable, 1);
        outbox.complete(2, 0, 3);
        assert!(wake.lock().parked);
        outbox.flush();
        assert_eq!(parked.join().unwrap(), vec![(3, 1, 0), (1, 2, 3)]);
    }

    #[test]
    fn a_closed_queue_gives_what_it_holds_and_then_ends() {
        let wake = Wake::default();
        wake.complete(1, 0, 0);
        wake.close();
        assert_eq!(take(&wake).len(), 1);
        assert_eq!(wake.wait(&mut [0; EVENT_SIZE]), None);
    }
}
