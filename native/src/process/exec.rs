//! What is known of one started command: the facts that only grow, and its output.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::log::Log;
use super::reap::Exit;

/// What the supervisor learns and everybody may read.
pub struct Facts {
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

/// One started command, shared by the supervisor, which writes its facts, and the exports.
pub struct Exec {
    /// Handle.
    pub id: u32,
    /// The leader's pid, which is also the group's.
    pub pid: i32,
    /// Epoch seconds just before the clone.
    pub started_at: u64,
    facts: Mutex<Facts>,
}

impl Exec {
    /// A command that was just started.
    pub fn new(id: u32, pid: i32, started_at: u64, log: Log) -> Self {
        let facts = Facts {
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
            facts: Mutex::new(facts),
        }
    }

    /// The facts, for a moment.
    pub fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the spawner hands over of a started child.
pub struct Spawned {
    /// Its shared side.
    pub exec: Arc<Exec>,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// The reading ends of its stdout and stderr.
    pub output: [OwnedFd; 2],
    /// The writing end of its stdin.
    pub stdin: Option<OwnedFd>,
    /// End the group once the leader has exited.
    pub reap: bool,
    /// Wall-clock budget in seconds.
    pub timeout_secs: Option<f64>,
}

/// The execs that have a handle.
#[derive(Default)]
pub struct Table(Mutex<HashMap<u32, Arc<Exec>>>);

impl Table {
    /// Adds an exec under its handle.
    pub fn insert(&self, exec: &Arc<Exec>) {
        self.lock().insert(exec.id, Arc::clone(exec));
    }

    /// Finds one.
    pub fn get(&self, id: u32) -> Option<Arc<Exec>> {
        self.lock().get(&id).cloned()
    }

    /// Takes one out.
    pub fn remove(&self, id: u32) -> Option<Arc<Exec>> {
        self.lock().remove(&id)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Exec>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Exec>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
