//! A look at this process's own TCP connections: Deno's server owns them and tells little of them.
//! A thread of its own looks four times a second while anybody watches one. It neither reads nor
//! writes on them.
//!
//! Map:
//! - `probe`  what the kernel tells of one descriptor

mod probe;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::{Shutdown, connect_unspec, shutdown};

use crate::wake::{Kind, Wake};
pub use probe::{CLOSED, Facts};
use probe::{Probe, plain};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(250);

/// The two ends of a connection as it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    peer: SocketAddr,
    local_port: Option<u16>,
}

impl Ends {
    /// The other end's address as text and its port, and the port of this end, 0 where any will do.
    pub fn new(host: &[u8], port: u32, local_port: u32) -> Option<Self> {
        // An IPv6 address may name its scope, which counts for nothing here.
        let host = std::str::from_utf8(host).ok()?.split('%').next()?;
        let peer = SocketAddr::new(host.parse().ok()?, u16::try_from(port).ok()?);
        let local_port = u16::try_from(local_port).ok()?;
        Some(Self {
            peer: plain(peer),
            local_port: (local_port != 0).then_some(local_port),
        })
    }

    fn fit(&self, probe: &Probe) -> bool {
        probe.peer == Some(self.peer) && self.local_port.is_none_or(|port| port == probe.local_port)
    }
}

/// Where a watched connection was found. Descriptors are reused, a cookie never is.
#[derive(Clone, Copy)]
struct WatchedSocket {
    fd: i32,
    cookie: u64,
    state: u8,
}

/// Invariant: once a watch has found its connection it stays with that cookie, whoever else comes
/// from the same end later.
enum Watch {
    /// Came after the last look began.
    Fresh(Ends),
    Seeking(Ends),
    Watching(WatchedSocket),
    /// There was no such connection, or it is gone: this was told.
    Lost,
}

/// Invariant: `looking` is set while the thread lives.
#[derive(Default)]
struct WatchTable {
    watches: HashMap<u32, Watch>,
    last_id: u32,
    looking: bool,
    closed: bool,
}

#[derive(Default)]
struct SharedTable {
    state: Mutex<WatchTable>,
    changed: Condvar,
}

impl SharedTable {
    fn lock(&self) -> MutexGuard<'_, WatchTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watched connections.
pub struct Connections {
    shared: Arc<SharedTable>,
    wake: Arc<Wake>,
}

impl Connections {
    /// Watches nothing yet.
    pub fn new(wake: Arc<Wake>) -> Self {
        Self {
            shared: Arc::default(),
            wake,
        }
    }

    /// Watches the one connection with these ends from the next look on, which follows at once.
    /// Where two have them, nothing is known of it and nothing done. Notifies
    /// [`Kind::Connection`] with the returned handle when its TCP state has changed, and when it is
    /// gone. Fails where no thread can be had.
    pub fn watch(&self, ends: Ends) -> io::Result<u32> {
        let mut state = self.shared.lock();
        if !state.looking {
            let (shared, wake) = (Arc::clone(&self.shared), Arc::clone(&self.wake));
            thread::Builder::new()
                .name("connections".into())
                .stack_size(256 << 10)
                .spawn(move || run(&shared, &wake))?;
            state.looking = true;
        }
        loop {
            state.last_id = (state.last_id + 1) & (u32::MAX >> 1);
            if state.last_id != 0 && !state.watches.contains_key(&state.last_id) {
                break;
            }
        }
        let id = state.last_id;
        state.watches.insert(id, Watch::Fresh(ends));
        self.shared.changed.notify_one();
        Ok(id)
    }

    /// What the kernel says now; `None` where the connection was not found or is gone.
    pub fn facts(&self, id: u32) -> Option<Facts> {
        self.duplicate(id).map(|(_, probe)| probe.facts)
    }

    /// Ends a connection, whoever holds a descriptor of it: with a reset, or both directions after what
    /// was written. Whether it was there.
    pub fn end(&self, id: u32, reset: bool) -> bool {
        let Some((socket, _)) = self.duplicate(id) else {
            return false;
        };
        // Both fail only if the connection is gone already.
        let _ = match reset {
            true => connect_unspec(&socket),
            false => shutdown(&socket, Shutdown::Both),
        };
        true
    }

    /// Watches a connection no more.
    pub fn forget(&self, id: u32) {
        self.shared.lock().watches.remove(&id);
    }

    /// Ends the thread.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }

    /// A descriptor of our own, whose cookie was looked at again.
    fn duplicate(&self, id: u32) -> Option<(OwnedFd, Probe)> {
        let found = match self.shared.lock().watches.get(&id)? {
            Watch::Watching(found) => *found,
            _ => return None,
        };
        let socket = probe::duplicate(found.fd)?;
        let probe = probe::look(socket.as_raw_fd())?;
        (probe.cookie == found.cookie).then_some((socket, probe))
    }
}

/// Looks for as long as anybody wants to know.
fn run(shared: &SharedTable, wake: &Wake) {
    let mut state = shared.lock();
    while !state.closed && !state.watches.is_empty() {
        let known = begin(&mut state.watches);
        drop(state);
        let probes = known.map_or_else(probe::all, |fds| probe::of(&fds));
        state = shared.lock();
        let changed = settle(&mut state.watches, &probes);
        drop(state);
        for id in changed {
            wake.notify(Kind::Connection, id);
        }
        let is_fresh = |watch: &Watch| matches!(watch, Watch::Fresh(_));
        let rests = |state: &mut WatchTable| !state.closed && !state.watches.values().any(is_fresh);
        state = shared
            .changed
            .wait_timeout_while(shared.lock(), INTERVAL, rests)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
    state.looking = false;
}

/// What is to be looked at: the descriptors that are known, or all while a connection is sought.
fn begin(watches: &mut HashMap<u32, Watch>) -> Option<Vec<i32>> {
    let mut known = Some(Vec::new());
    for watch in watches.values_mut() {
        match watch {
            Watch::Fresh(ends) => {
                *watch = Watch::Seeking(*ends);
                known = None;
            }
            Watch::Seeking(_) => known = None,
            Watch::Watching(found) => known.iter_mut().for_each(|fds| fds.push(found.fd)),
            Watch::Lost => {}
        }
    }
    known
}

/// Brings the watches in line with a look; the ids of those whose connection has changed.
fn settle(watches: &mut HashMap<u32, Watch>, probes: &[Probe]) -> Vec<u32> {
    let known: Vec<u64> = watches
        .values()
        .filter_map(|watch| match watch {
            Watch::Watching(found) => Some(found.cookie),
            _ => None,
        })
        .collect();
    // Of a connection that was reset nobody can say any more whose it was: it may be the one that is
    // sought, and what fits now its successor from the same port.
    let in_doubt = probes
        .iter()
        .any(|probe| probe.was_reset() && !known.contains(&probe.cookie));
    let mut changed = Vec::new();
    for (id, watch) in watches {
        match watch {
            Watch::Seeking(ends) => {
                let mut fitting = probes.iter().filter(|probe| ends.fit(probe));
                match (fitting.next(), fitting.next()) {
                    (Some(one), None) if !in_doubt => {
                        *watch = Watch::Watching(one.found());
                        probe::keep_alive(one);
                    }
                    (None, _) => {
                        *watch = Watch::Lost;
                        changed.push(*id);
                    }
                    _ => {}
                }
            }
            Watch::Watching(found) => {
                let now = probes.iter().find(|probe| probe.cookie == found.cookie);
                if now.is_none_or(|probe| probe.facts.state != found.state) {
                    changed.push(*id);
                }
                *watch = now.map_or(Watch::Lost, |probe| Watch::Watching(probe.found()));
            }
            Watch::Fresh(_) | Watch::Lost => {}
        }
    }
    changed
}

#[cfg(test)]
#[path = "connections/tests.rs"]
mod tests;
