//! What is known of one started command: the facts that only grow, and its output.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::log::Log;
use super::reap::Exit;

/// What the reactor learns and everybody may read.
pub struct State {
    /// Captured output, the stream's window and its readers.
    pub log: Log,
    /// How the leader ended, once it has.
    pub exit: Option<Exit>,
    /// The outcome is final.
    pub published: bool,
    /// It was published because the linger deadline passed with pipes still open.
    pub writers_may_be_alive: bool,
    /// The group's number may belong to somebody else by now.
    pub group_gone: bool,
}

/// One started command, shared by the reactor, which writes its state, and the exports.
pub struct Exec {
    /// Handle.
    pub id: u32,
    /// The leader's pid, which is also the group's.
    pub pid: i32,
    /// Epoch seconds just before the clone.
    pub started_at: u64,
    state: Mutex<State>,
}

impl Exec {
    /// A command that was just started.
    pub fn new(id: u32, pid: i32, started_at: u64, log: Log) -> Self {
        let state = State {
            log,
            exit: None,
            published: false,
            writers_may_be_alive: false,
            group_gone: false,
        };
        Self {
            id,
            pid,
            started_at,
            state: Mutex::new(state),
        }
    }

    /// The state, for a moment.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The execs that have a handle.
#[derive(Default)]
pub struct Table(RwLock<HashMap<u32, Arc<Exec>>>);

impl Table {
    /// Adds an exec under its handle.
    pub fn insert(&self, exec: &Arc<Exec>) {
        let mut map = self.0.write().unwrap_or_else(PoisonError::into_inner);
        map.insert(exec.id, Arc::clone(exec));
    }

    /// Finds one.
    pub fn get(&self, id: u32) -> Option<Arc<Exec>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
            .cloned()
    }

    /// Takes one out.
    pub fn remove(&self, id: u32) -> Option<Arc<Exec>> {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Exec>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }
}
