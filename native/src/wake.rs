//! Events for TypeScript, taken in batches by the one call that is parked here.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::sync::lock;

/// What an event is about.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An operation ended; `token` is TypeScript's, `status` and `value` are its result.
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
    /// Clients have come or gone.
    Roll = 7,
}

/// Size of an event in the reader's buffer, in bytes: kind and token (u32 each), status (i32: 0, an errno or one of the
/// operation's own codes), four bytes of nothing, value (i64: the operation's result).
pub const EVENT_SIZE: usize = 24;

/// Its kind, token, status and value.
type Event = (Kind, u32, i32, i64);

/// Invariant: `pending` holds exactly the (kind, token) pairs of the queued events that are not
/// operations, so the queue is bounded by the number of live objects and operations under way.
#[derive(Default)]
struct Events {
    queue: VecDeque<Event>,
    pending: HashSet<(Kind, u32)>,
    /// A call is parked and was not told yet.
    parked: bool,
    closed: bool,
}

/// The queue between native threads and the parked call.
#[derive(Default)]
pub struct Wake {
    events: Mutex<Events>,
    filled: Condvar,
}

impl Wake {
    /// Says that `token` changed; said twice before it is taken, it is told once.
    pub fn notify(&self, kind: Kind, token: u32) {
        self.queue_notice(kind, token);
        self.flush();
    }

    /// Ends the operation that TypeScript named `token`.
    pub fn complete(&self, token: u32, status: i32, value: i64) {
        self.queue_result(token, status, value);
        self.flush();
    }

    /// As [`Wake::notify`], told at the next flush: each waking of the parked call costs JavaScript a turn, and a
    /// thread that sleeps between its events can tell them together.
    pub fn queue_notice(&self, kind: Kind, token: u32) {
        let mut events = lock(&self.events);
        if events.pending.insert((kind, token)) {
            events.queue.push_back((kind, token, 0, 0));
        }
    }

    /// As [`Wake::complete`], told at the next flush.
    pub fn queue_result(&self, token: u32, status: i32, value: i64) {
        let event = (Kind::Operation, token, status, value);
        lock(&self.events).queue.push_back(event);
    }

    /// Tells the parked call of what was queued.
    pub fn flush(&self) {
        let mut events = lock(&self.events);
        let tell = !events.queue.is_empty() && std::mem::take(&mut events.parked);
        // Told without the lock, or the one who wakes would wait for it.
        drop(events);
        if tell {
            self.filled.notify_one();
        }
    }

    /// Blocks until there is an event or the queue is closed; writes as many as fit into `out`.
    /// Returns their number, or `None` once closed and empty.
    pub fn wait(&self, out: &mut [u8]) -> Option<usize> {
        let mut events = lock(&self.events);
        while events.queue.is_empty() && !events.closed {
            events.parked = true;
            let woken = self.filled.wait(events);
            events = woken.unwrap_or_else(PoisonError::into_inner);
        }
        events.parked = false;
        let mut count = 0;
        for slot in out.chunks_exact_mut(EVENT_SIZE) {
            let Some((kind, token, status, value)) = events.queue.pop_front() else {
                break;
            };
            events.pending.remove(&(kind, token));
            slot[0..4].copy_from_slice(&(kind as u32).to_le_bytes());
            slot[4..8].copy_from_slice(&token.to_le_bytes());
            slot[8..12].copy_from_slice(&status.to_le_bytes());
            slot[16..24].copy_from_slice(&value.to_le_bytes());
            count += 1;
        }
        (count > 0 || !events.closed).then_some(count)
    }

    /// Ends the parked call once it has taken what is queued.
    pub fn close(&self) {
        lock(&self.events).closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
        let parked = std::thread::spawn({
            let wake = Arc::clone(&wake);
            move || take(&wake)
        });
        while !lock(&wake.events).parked {
            std::thread::yield_now();
        }
        wake.queue_notice(Kind::Readable, 1);
        wake.queue_result(2, 0, 3);
        assert!(lock(&wake.events).parked);
        wake.flush();
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
