//! Who is connected to the server, told as changes: TypeScript need not go through all to know.

use std::collections::{HashMap, HashSet, VecDeque};

use super::probe::{Door, End, Probe};

/// A connection that came, with its other end, or one that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its cookie, which no other connection ever gets.
    pub cookie: u64,
    /// Where it comes from; `None` once it is gone.
    pub peer: Option<End>,
}

/// Invariant: `live` has the descriptor of each connection that the last look found; who takes all `untold` knows of
/// exactly these.
#[derive(Default)]
pub struct Roll {
    /// Where the servers listen; none where nobody wants to know.
    doors: HashSet<Door>,
    /// Those whose listening socket is still to be found.
    fresh: HashSet<Door>,
    live: HashMap<u64, i32>,
    untold: VecDeque<Change>,
}

impl Roll {
    /// A server has begun to listen there.
    pub fn follow(&mut self, door: Door) {
        self.doors.insert(door);
        self.fresh.insert(door);
    }

    /// Whose listening sockets are to be found in the look that begins.
    pub fn sought(&self) -> HashSet<Door> {
        self.fresh.clone()
    }

    /// One was found.
    pub fn found(&mut self, door: Door) {
        self.fresh.remove(&door);
    }

    /// Brings it in line with a look; whether anything has changed.
    pub fn call(&mut self, probes: &[Probe]) -> bool {
        let before = self.untold.len();
        let ours = |probe: &&Probe| self.doors.contains(&probe.local);
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
