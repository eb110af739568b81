//! Events for TypeScript, taken in batches by the one call that is parked here.

use std::collections::{HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    closed: bool,
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
        let mut state = self.lock();
        if state.pending.insert((kind, token)) {
            state.queue.push_back(Event {
                kind,
                token,
                status: 0,
                reserved: 0,
                value: 0,
            });
            self.filled.notify_one();
        }
    }

    /// Ends the operation that the caller named `token`.
    pub fn complete(&self, token: u32, status: i32, value: i64) {
        let mut state = self.lock();
        let kind = Kind::Operation;
        state.queue.push_back(Event {
            kind,
            token,
            status,
            reserved: 0,
            value,
        });
        self.filled.notify_one();
    }

    /// Blocks until there is an event or the queue is closed; writes as many as fit into `out`.
    /// Returns their number, or `None` once closed and empty.
    pub fn wait(&self, out: &mut [u8]) -> Option<usize> {
        let mut state = self.lock();
        while state.queue.is_empty() && !state.closed {
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
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
    fn a_closed_queue_gives_what_it_holds_and_then_ends() {
        let wake = Wake::default();
        wake.complete(1, 0, 0);
        wake.close();
        assert_eq!(take(&wake).len(), 1);
        assert_eq!(wake.wait(&mut [0; EVENT_SIZE]), None);
    }
}
