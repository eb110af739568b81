//! Noise: who may have a tunnel, and the messages of those who proved it.
//!
//! Map:
//! - `handshake`  the answer to a client's first message, and the messages after it
//! - `crypto`     the primitives below it
//! - `seen`       first messages that were taken already

pub mod crypto;
pub mod handshake;
mod seen;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock;
use handshake::{Keys, Session, respond};
use seen::Seen;

/// Invariant: an id is never 0 and has 31 bits, so that a result can be one or a negated errno.
#[derive(Default)]
struct SessionTable {
    keys: Option<Keys>,
    seen: Seen,
    sessions: HashMap<u32, Session>,
    last_id: u32,
}

/// The keys of the handshake and every session that it has opened. Keys are nowhere else.
#[derive(Default)]
pub struct Sessions {
    state: Mutex<SessionTable>,
}

impl Sessions {
    /// Installs the keys, which replaces older ones for sessions opened from now on.
    pub fn install(&self, keys: Keys) {
        self.lock().keys = Some(keys);
    }

    /// Answers a client's first message, see [`respond`]. Refuses all but a new one by the installed client.
    pub fn accept(&self, port: u16, first: &[u8]) -> Option<(Session, Vec<u8>)> {
        let mut state = self.lock();
        let accepted = respond(state.keys.as_ref()?, port, first)?;
        state.seen.is_new(first).then_some(accepted)
    }

    /// Keeps a session. Returns its handle.
    pub fn keep(&self, session: Session) -> u32 {
        let mut state = self.lock();
        loop {
            state.last_id = (state.last_id + 1) & (u32::MAX >> 1);
            let id = state.last_id;
            if id != 0 && !state.sessions.contains_key(&id) {
                state.sessions.insert(id, session);
                return id;
            }
        }
    }

    /// Does something with a session; `None` where there is none of this id.
    pub fn with<T>(&self, id: u32, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        self.lock().sessions.get_mut(&id).map(act)
    }

    /// Forgets a session, whose keys are wiped.
    pub fn close(&self, id: u32) {
        self.lock().sessions.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_nobody_is_accepted_and_what_is_closed_is_gone() {
        let sessions = Sessions::default();
        assert!(sessions.accept(80, &[0; 48]).is_none());
        assert!(sessions.with(1, |_| ()).is_none());
        sessions.close(1);
    }
}
