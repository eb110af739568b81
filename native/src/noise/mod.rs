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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handshake::{Keys, Refused, Session, respond};
use seen::Seen;

/// What answers a client's first message.
pub struct OpenedSession {
    /// The session's handle.
    pub id: u32,
    /// The second message, for the client.
    pub answer: Vec<u8>,
    /// The client must confirm before anything is dialled.
    pub must_confirm: bool,
    /// Both ends say with an empty message when their stream ends.
    pub ends: bool,
}

/// Invariant: an id is never 0 and has 31 bits, so that a result can be one or a negated errno.
#[derive(Default)]
struct SessionTable {
    keys: Option<Arc<Keys>>,
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
    pub fn install(&self, keys: Arc<Keys>) {
        self.lock().keys = Some(keys);
    }

    /// Answers a client's first message. Refuses all but a new one by the installed client.
    pub fn open(&self, port: u16, first: &[u8]) -> Result<OpenedSession, Refused> {
        let mut state = self.lock();
        let keys = state.keys.clone().ok_or(Refused)?;
        let accepted = respond(&keys, port, first)?;
        if !state.seen.is_new(first) {
            return Err(Refused);
        }
        let id = loop {
            state.last_id = (state.last_id + 1) & (u32::MAX >> 1);
            if state.last_id != 0 && !state.sessions.contains_key(&state.last_id) {
                break state.last_id;
            }
        };
        let ends = accepted.session.has_authenticated_end();
        state.sessions.insert(id, accepted.session);
        Ok(OpenedSession {
            id,
            answer: accepted.answer,
            must_confirm: accepted.must_confirm,
            ends,
        })
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_nobody_is_accepted_and_what_is_closed_is_gone() {
        let sessions = Sessions::default();
        assert!(sessions.open(80, &[0; 48]).is_err());
        assert!(sessions.with(1, |_| ()).is_none());
        sessions.close(1);
    }
}
