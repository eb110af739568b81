//! Passes over /proc: asked for by the reactor and by `procs`, made on a thread of their own,
//! because a pass over a large table takes longer than a pipe may wait.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;

use super::mailbox::{Command, Mailbox};
use crate::procfs::{Member, live_processes};

/// Who wants to know.
pub enum Order {
    /// The reactor, which settles groups.
    Settle,
    /// Somebody else, who gets the answer by this call.
    Answer(Box<dyn FnOnce(Result<Vec<Member>, Errno>) + Send>),
}

/// Starts the thread; it ends when every sender is gone.
pub fn start(mailbox: Arc<Mailbox>) -> std::io::Result<(Sender<Order>, JoinHandle<()>)> {
    let (orders, inbox) = channel();
    let body = move || {
        for order in inbox {
            match order {
                Order::Settle => mailbox.send(Command::Census(live_processes())),
                Order::Answer(answer) => answer(live_processes()),
            }
        }
    };
    let thread = thread::Builder::new()
        .name("guestd-census".into())
        .stack_size(256 << 10)
        .spawn(body)?;
    Ok((orders, thread))
}

/// Exits are settled together this long after the first of them, in nanoseconds.
const GATHER_NS: u64 = 25_000_000;
/// After a pass that failed the next one waits so long, in nanoseconds.
const RETRY_NS: u64 = 1_000_000_000;
/// Unhurried passes take at most this share of the time.
const SHARE: u64 = 10;

/// Which execs want to know who is left in their group, and when the next pass is due.
///
/// Invariant: at most one pass is under way, for the execs in `asked`; who asks meanwhile waits
/// in `wanted` for the next, because a pass under way may have gone by their group already.
pub struct Desk {
    orders: Sender<Order>,
    wanted: HashSet<u32>,
    asked: Option<(HashSet<u32>, u64)>,
    urgent: bool,
    next_pass: u64,
}

impl Desk {
    /// A desk that sends its orders to the census thread.
    pub fn new(orders: Sender<Order>) -> Self {
        Self {
            orders,
            wanted: HashSet::new(),
            asked: None,
            urgent: false,
            next_pass: 0,
        }
    }

    /// Asks for the group of `exec`; at once if somebody waits for the answer.
    pub fn want(&mut self, exec: u32, urgent: bool, now: u64) {
        if self.wanted.is_empty() {
            self.next_pass = self.next_pass.max(now + GATHER_NS);
        }
        self.wanted.insert(exec);
        self.urgent |= urgent;
    }

    /// Whether [`Desk::dispatch`] would start a pass now.
    pub fn is_due(&self, now: u64) -> bool {
        let due = self.urgent || now >= self.next_pass;
        !self.wanted.is_empty() && self.asked.is_none() && due
    }

    /// Takes out all who want to know: they were answered without a pass.
    pub fn take_wanted(&mut self) -> HashSet<u32> {
        self.urgent = false;
        std::mem::take(&mut self.wanted)
    }

    /// Starts a pass if one is due; else says when the next is, if any.
    pub fn dispatch(&mut self, now: u64) -> Option<u64> {
        if self.wanted.is_empty() || self.asked.is_some() {
            return None;
        }
        if !self.urgent && now < self.next_pass {
            return Some(self.next_pass);
        }
        self.asked = Some((std::mem::take(&mut self.wanted), now));
        self.urgent = false;
        // The thread outlives the desk; were it gone, nobody would be left to answer.
        let _ = self.orders.send(Order::Settle);
        None
    }

    /// A pass is done: for each exec that asked, the live pids of its group.
    pub fn done(
        &mut self,
        members: &[Member],
        pgid_of: impl Fn(u32) -> Option<i32>,
        now: u64,
    ) -> Vec<(u32, Vec<i32>)> {
        let Some((asked, since)) = self.asked.take() else {
            return Vec::new();
        };
        self.next_pass = now + (now - since) * SHARE;
        let mut groups: HashMap<i32, (u32, Vec<i32>)> = asked
            .into_iter()
            .filter_map(|exec| Some((pgid_of(exec)?, (exec, Vec::new()))))
            .collect();
        for member in members {
            if let Some((_, pids)) = groups.get_mut(&member.pgid) {
                pids.push(member.pid);
            }
        }
        groups.into_values().collect()
    }

    /// /proc could not be read: all who asked, who go on waiting for the next pass.
    pub fn failed(&mut self, now: u64) -> Vec<u32> {
        let Some((asked, _)) = self.asked.take() else {
            return Vec::new();
        };
        self.wanted.extend(&asked);
        self.next_pass = now + RETRY_NS;
        asked.into_iter().collect()
    }
}
