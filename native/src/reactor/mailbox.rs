//! Commands from other threads to the reactor.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::process::actor::Actor;
use crate::procfs::Member;

/// What the reactor is asked to do. `token` names the operation that is completed with the answer.
#[allow(missing_docs, reason = "the fields are named by the line above each")]
pub enum Command {
    /// A spawner thread's list of its children, which it opened itself if the kernel keeps one.
    Spawner(Option<OwnedFd>),
    /// Own a child that was just started.
    Adopt(Box<Actor>),
    /// End a group: SIGTERM, then SIGKILL. Completes with 1 if it had a live member, else 0.
    Kill { exec: u32, token: u32 },
    /// Write to a child's stdin, and close it if `eof`.
    Stdin {
        exec: u32,
        data: Vec<u8>,
        eof: bool,
        token: u32,
    },
    /// A reader made room: the pipes need not be held any more.
    Resume { exec: u32 },
    /// Forget an exec whose outcome was acknowledged long enough ago.
    Collect { exec: u32 },
    /// End every group that has a live member; completes once each is empty or was sent SIGKILL.
    EndAll { grace_ns: u64, token: u32 },
    /// SIGKILL to every group, at once.
    KillAll { token: u32 },
    /// The guest is about to be frozen.
    Suspended,
    /// The guest goes on after a freeze.
    Resumed,
    /// Never hold a pipe back again.
    Drain,
    /// A pass over /proc is done.
    Census(Result<Vec<Member>, Errno>),
    /// End the reactor's thread.
    Stop,
}

/// Invariant: the eventfd is readable whenever `queue` is not empty.
pub struct Mailbox {
    queue: Mutex<Vec<Command>>,
    eventfd: OwnedFd,
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> Result<Self, Errno> {
        let eventfd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            queue: Mutex::new(Vec::new()),
            eventfd,
        })
    }

    /// The descriptor that is readable when something was sent.
    pub fn fd(&self) -> &OwnedFd {
        &self.eventfd
    }

    /// Sends a command.
    pub fn send(&self, command: Command) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push(command);
        if queue.len() == 1 {
            // Cannot block: at most one write per emptied queue is ever unread.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Takes all commands, in the order in which they were sent.
    pub fn take(&self) -> Vec<Command> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
        std::mem::take(&mut *queue)
    }
}
