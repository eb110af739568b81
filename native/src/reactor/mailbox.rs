//! Commands from other threads to the reactor, and the children that it is given.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::poll::Poll;
use crate::process::actor::Actor;
use crate::procfs::Member;

/// What the reactor is asked to do. `token` names the operation that is completed with the answer.
#[allow(missing_docs, reason = "the fields are named by the line above each")]
pub enum Command {
    /// A spawner thread's number, and the list of its children, if the kernel keeps one.
    Spawner(i32, Option<OwnedFd>),
    /// The spawner thread of this number ends; it has no children.
    SpawnerEnds(i32),
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

/// What waits for the reactor.
#[derive(Default)]
pub struct Sent {
    /// Children that were just started, already in the epoll set.
    pub adopted: Vec<Actor>,
    /// Commands, in the order in which they were sent.
    pub commands: Vec<Command>,
    /// The reactor was woken for them.
    told: bool,
    /// It wants to be woken for every child.
    eager: bool,
    /// Starts that were ever begun, and those that are neither adopted nor failed yet.
    begun: u64,
    open: u32,
}

impl Sent {
    /// The mark of a moment in which every child that was ever started lies here or was taken
    /// before; `None` if a start is under way.
    pub fn mark(&self) -> Option<u64> {
        (self.open == 0).then_some(self.begun)
    }
}

/// A start that is under way, until it is dropped.
pub struct Start<'a>(&'a Mailbox);

impl Drop for Start<'_> {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

/// Invariant: the eventfd is readable whenever a command waits, or a child of which the reactor
/// must know at once. Of any other it learns when it next wakes, by the child's first event at the
/// latest: a child is in the epoll set only once it lies here, for both happen under the lock.
pub struct Mailbox {
    sent: Mutex<Sent>,
    eventfd: OwnedFd,
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> Result<Self, Errno> {
        let eventfd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self {
            sent: Mutex::default(),
            eventfd,
        })
    }

    /// The descriptor that is readable when something was sent.
    pub fn fd(&self) -> &OwnedFd {
        &self.eventfd
    }

    /// Sends a command.
    pub fn send(&self, command: Command) {
        let mut sent = self.lock();
        sent.commands.push(command);
        self.tell(&mut sent);
    }

    /// To be called before a child is cloned, and kept until it is adopted or has failed.
    pub fn begin_start(&self) -> Start<'_> {
        let mut sent = self.lock();
        sent.begun += 1;
        sent.open += 1;
        Start(self)
    }

    /// Whether no start was begun since the mark.
    pub fn is_unchanged(&self, mark: u64) -> bool {
        self.lock().begun == mark
    }

    /// Hands a child over, and begins to watch it. The reactor is woken only if it must know at
    /// once: for a deadline of the child's, or because it said so.
    pub fn adopt(&self, mut actor: Actor, poll: &Poll) {
        let mut sent = self.lock();
        actor.watch(poll);
        let at_once = sent.eager || actor.is_urgent();
        sent.adopted.push(actor);
        if at_once {
            self.tell(&mut sent);
        }
    }

    /// From now on the reactor is woken for every child, also for one that waits here.
    pub fn tell_of_all(&self) {
        let mut sent = self.lock();
        sent.eager = true;
        if !sent.adopted.is_empty() {
            self.tell(&mut sent);
        }
    }

    /// Takes all that waits.
    pub fn take(&self) -> Sent {
        let mut sent = self.lock();
        if sent.told {
            let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
        }
        let (eager, begun, open) = (sent.eager, sent.begun, sent.open);
        let rest = Sent {
            eager,
            begun,
            open,
            ..Sent::default()
        };
        std::mem::replace(&mut *sent, rest)
    }

    fn tell(&self, sent: &mut Sent) {
        if !std::mem::replace(&mut sent.told, true) {
            // Cannot block: at most one write is ever unread.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
