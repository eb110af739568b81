//! A look at this process's own connections, by TCP and vsock: Deno's server owns them and tells little of them.
//! A thread of its own looks when a client comes, and four times a second while there are any. It
//! neither reads nor writes on them.
//!
//! Map:
//! - `probe`    what the kernel tells of one descriptor
//! - `arrivals` waiting for clients to come
//! - `roll`     who is connected, for TypeScript to choose who is to go

mod arrivals;
mod probe;
mod roll;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{Shutdown, shutdown};

use crate::sync::{lock, start_thread};
use crate::wake::{Kind, Wake};
use arrivals::Arrivals;
pub use probe::{CLOSED, Door, End, Facts};
use probe::{Descriptors, Probe};
pub use roll::Change;
use roll::Roll;

/// From one look to the next while there are connections to look at.
const INTERVAL: Duration = Duration::from_millis(250);
/// So many looks follow the last that found anybody, or the last arrival: whoever has come may be accepted a while later.
const LOOKS: u32 = 20;
/// From one look to the next at least, however many clients come.
const REST: Duration = Duration::from_millis(25);

/// The two ends of a connection as it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    peer: End,
    local_port: Option<u32>,
}

impl Ends {
    /// The other end's host, as [`End::host`] has it, and its port, and the port of this end, 0 where any will do.
    pub fn new(host: &[u8], port: u32, local_port: u32) -> Option<Self> {
        Some(Self {
            peer: End::parse(std::str::from_utf8(host).ok()?, port)?,
            local_port: (local_port != 0).then_some(local_port),
        })
    }

    fn fit(&self, probe: &Probe) -> bool {
        probe.peer == Some(self.peer) && self.local_port.is_none_or(|port| port == probe.local.port)
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

/// What the thread and those who ask it share.
#[derive(Default)]
struct Shared {
    watches: HashMap<u32, Watch>,
    last_id: u32,
    roll: Roll,
    closed: bool,
}

/// The connections, and the thread that looks at them.
pub struct Connections {
    shared: Arc<Mutex<Shared>>,
    arrivals: Arc<Arrivals>,
    /// A number for one more descriptor when there is none left, which is when somebody has to go.
    spare: Mutex<OwnedFd>,
}

impl Connections {
    /// Looks at nothing yet.
    pub fn start(wake: Arc<Wake>) -> io::Result<Self> {
        let (shared, arrivals) = (Arc::default(), Arc::new(Arrivals::new()?));
        let own = (Arc::clone(&shared), Arc::clone(&arrivals));
        let descriptors = Descriptors::open()?;
        start_thread("connections", move || {
            run(&own.0, &own.1, descriptors, &wake);
        })?;
        let spare = Mutex::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok(Self {
            shared,
            arrivals,
            spare,
        })
    }

    /// From the next look on tells who is connected to the server that listens there, too: by
    /// [`Kind::Roll`] that there are [`Connections::changes`].
    pub fn follow(&self, door: Door) {
        lock(&self.shared).roll.follow(door);
        self.arrivals.nudge();
    }

    /// What has changed since this was asked last, at most so much of it, the oldest first.
    pub fn changes(&self, most: usize) -> Vec<Change> {
        lock(&self.shared).roll.changes(most)
    }

    /// Ends the connection with this cookie, both directions. Whether it was there.
    pub fn expel(&self, cookie: u64) -> bool {
        let Some(fd) = lock(&self.shared).roll.descriptor(cookie) else {
            return false;
        };
        let mut spare = lock(&self.spare);
        let ended = probe::duplicate_onto(fd, &mut spare)
            && probe::look(spare.as_raw_fd()).is_some_and(|probe| probe.cookie == cookie)
            // It fails only if the connection is gone already.
            && shutdown(&*spare, Shutdown::Both).is_ok();
        // Else the connection would stay open here.
        self.arrivals.blank(&mut spare);
        ended
    }

    /// Watches the one connection with these ends from the next look on, which follows at once.
    /// Where two have them, nothing is known of it and nothing done. Notifies
    /// [`Kind::Connection`] with the returned handle when its TCP state has changed, and when it is
    /// gone.
    pub fn watch(&self, ends: Ends) -> u32 {
        let mut shared = lock(&self.shared);
        loop {
            shared.last_id = (shared.last_id + 1) & (u32::MAX >> 1);
            if shared.last_id != 0 && !shared.watches.contains_key(&shared.last_id) {
                break;
            }
        }
        let id = shared.last_id;
        shared.watches.insert(id, Watch::Fresh(ends));
        self.arrivals.nudge();
        id
    }

    /// What the kernel says now; `None` where the connection was not found or is gone.
    pub fn facts(&self, id: u32) -> Option<Facts> {
        self.duplicate(id).map(|(_, probe)| probe.facts)
    }

    /// Ends both directions of a connection after what was written, whoever holds a descriptor of it. Whether it was there.
    pub fn end(&self, id: u32) -> bool {
        let Some((socket, _)) = self.duplicate(id) else {
            return false;
        };
        // It fails only if the connection is gone already.
        let _ = shutdown(&socket, Shutdown::Both);
        true
    }

    /// Watches a connection no more.
    pub fn forget(&self, id: u32) {
        lock(&self.shared).watches.remove(&id);
    }

    /// Ends the thread.
    pub fn close(&self) {
        lock(&self.shared).closed = true;
        self.arrivals.nudge();
    }

    fn duplicate(&self, id: u32) -> Option<(OwnedFd, Probe)> {
        let found = match lock(&self.shared).watches.get(&id)? {
            Watch::Watching(found) => *found,
            _ => return None,
        };
        duplicate(found.fd, found.cookie)
    }
}

/// A descriptor of our own, whose cookie was looked at again.
fn duplicate(fd: i32, cookie: u64) -> Option<(OwnedFd, Probe)> {
    let socket = probe::duplicate(fd)?;
    let probe = probe::look(socket.as_raw_fd())?;
    (probe.cookie == cookie).then_some((socket, probe))
}

fn run(shared: &Mutex<Shared>, arrivals: &Arrivals, mut descriptors: Descriptors, wake: &Wake) {
    let mut left = LOOKS;
    while !lock(shared).closed {
        for watch in lock(shared).watches.values_mut() {
            if let Watch::Fresh(ends) = watch {
                *watch = Watch::Seeking(*ends);
            }
        }
        let sought = lock(shared).roll.sought();
        let Some((probes, listeners)) = descriptors.look(&sought) else {
            // Nothing is known, which is not to say that nobody is there.
            arrivals.wait(Some(INTERVAL));
            continue;
        };
        let mut state = lock(shared);
        for (door, fd) in listeners {
            arrivals.listen(fd);
            state.roll.found(door);
        }
        for id in settle(&mut state.watches, &probes) {
            wake.queue_notice(Kind::Connection, id);
        }
        if state.roll.call(&probes) {
            wake.queue_notice(Kind::Roll, 0);
        }
        if !state.watches.is_empty() || !state.roll.is_empty() {
            left = LOOKS;
        }
        drop(state);
        wake.flush();
        thread::sleep(REST);
        if arrivals.wait((left > 0).then_some(INTERVAL - REST)) {
            left = LOOKS;
        } else {
            left = left.saturating_sub(1);
        }
    }
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
