//! Who is connected to the server, told as changes: TypeScript need not go through all to know.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use super::probe::Probe;

/// A connection that came, with its other end, or one that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its cookie, which no other connection ever gets.
    pub cookie: u64,
    /// Where it comes from; `None` once it is gone.
    pub peer: Option<SocketAddr>,
}

/// Invariant: `live` has the descriptor of each connection that the last look found; who takes all `untold` knows of
/// exactly these.
#[derive(Default)]
pub struct Roll {
    /// The port of the server; 0 where nobody wants to know.
    port: u16,
    /// Its listening socket is still to be found.
    fresh: bool,
    live: HashMap<u64, i32>,
    untold: VecDeque<Change>,
}

impl Roll {
    /// The server has begun to listen on this port.
    pub fn follow(&mut self, port: u16) {
        (self.port, self.fresh) = (port, true);
    }

    /// The port whose listening socket is to be found in the look that begins.
    pub fn sought(&self) -> Option<u16> {
        self.fresh.then_some(self.port)
    }

    /// It was found.
    pub fn found(&mut self) {
        self.fresh = false;
    }

    /// Brings it in line with a look; whether anything has changed.
    pub fn call(&mut self, probes: &[Probe]) -> bool {
        let before = self.untold.len();
        let ours = |probe: &&Probe| self.port != 0 && probe.local_port == self.port;
        let mut seen = HashSet::with_capacity(self.live.len());
        for probe in probes.iter().filter(ours) {
            // One that was reset has no other end any more; unless it was known it will be gone soon.
            if self.live.contains_key(&probe.cookie) || probe.peer.is_some() {
                seen.insert(probe.cookie);
                if self.live.insert(probe.cookie, probe.fd).is_none() {
                    let (cookie, peer) = (probe.cookie, probe.peer);
                    self.untold.push_back(Change { cookie, peer });
                }
            }
        }
        let to_tell = &mut self.untold;
        self.live.retain(|cookie, _| {
            let stays = seen.contains(cookie);
            if !stays {
                let (cookie, peer) = (*cookie, None);
                to_tell.push_back(Change { cookie, peer });
            }
            stays
        });
        self.untold.len() > before
    }

    /// Takes the oldest changes, at most so many.
    pub fn changes(&mut self, most: usize) -> Vec<Change> {
        let count = most.min(self.untold.len());
        self.untold.drain(..count).collect()
    }

    /// Where a connection was found.
    pub fn descriptor(&self, cookie: u64) -> Option<i32> {
        self.live.get(&cookie).copied()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}
