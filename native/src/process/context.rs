//! What every part of the supervisor works with, and how others reach it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::exec::Spawned;
use super::log::Stream;
use super::proc_scan::{ProcScan, Process};
use super::store::Store;
use crate::reactor::{Poll, Timers};
use crate::sync::lock;
use crate::wake::Wake;

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Mailbox,
    Timers,
    /// Some child of the process ended.
    ChildExit,
    Leader(u32),
    Output(u32, Stream),
    Stdin(u32),
    /// A watched member of an exec's group ended.
    Member(u32, i32),
}

impl Key {
    /// `kind << 56 | pid << 32 | exec`; the kernel's pids fit 22 bits.
    pub fn pack(self) -> u64 {
        let (kind, pid, exec) = match self {
            Self::Mailbox => (0, 0, 0),
            Self::Timers => (1, 0, 0),
            Self::ChildExit => (2, 0, 0),
            Self::Leader(exec) => (3, 0, exec),
            Self::Output(exec, stream) => (4 + stream as u64, 0, exec),
            Self::Stdin(exec) => (6, 0, exec),
            Self::Member(exec, pid) => (7, pid, exec),
        };
        kind << 56 | (pid as u64) << 32 | u64::from(exec)
    }

    pub fn unpack(packed: u64) -> Self {
        let (kind, pid, exec) = (
            packed >> 56,
            (packed >> 32) as i32 & 0xff_ffff,
            packed as u32,
        );
        match kind {
            0 => Self::Mailbox,
            1 => Self::Timers,
            2 => Self::ChildExit,
            3 => Self::Leader(exec),
            4 => Self::Output(exec, Stream::Stdout),
            5 => Self::Output(exec, Stream::Stderr),
            6 => Self::Stdin(exec),
            _ => Self::Member(exec, pid),
        }
    }
}

/// What becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    /// The exec's wall-clock budget is spent.
    Timeout,
    /// The leader exited and its pipes are still open.
    Linger,
    /// SIGTERM was sent a while ago.
    Grace,
    /// The oldest stdin write has waited long enough.
    Stdin,
    /// Members of a group may have left it for another.
    Recount,
    /// What the kernel refused to watch is to be tried again.
    Watch,
    /// The pipes were paused long enough.
    Pause,
    /// A reader that was expected did not come.
    Expected,
    /// The wall clock may have jumped after a freeze (of no single exec).
    Clock,
    /// Orphans may wait to be reaped (of no single exec).
    Orphans,
    /// Groups are worth a look through /proc (of no single exec).
    ProcScan,
}

/// Spans that the supervisor keeps, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spans {
    /// From the leader's exit until its outcome is published though pipes are open.
    pub linger_ns: u64,
    /// From SIGTERM to SIGKILL.
    pub grace_ns: u64,
    /// From the arrival of a stdin write until it is given up.
    pub stdin_ns: u64,
}

/// How much is read from a pipe at a time, in bytes.
pub(super) const READ_BYTES: usize = 256 << 10;

/// What every actor works with.
pub(crate) struct Context {
    pub(super) poll: Poll,
    pub(super) timers: Timers<Timer>,
    pub(super) wake: Arc<Wake>,
    pub(super) scan: ProcScan,
    pub(super) store: Arc<Store>,
    pub(super) spans: Spans,
    /// The pipes of every exec flow, and are never held back again.
    pub(super) draining: bool,
    pub(super) scratch: Box<[u8]>,
    /// The operation that ends once this many groups more were ended.
    pub(super) ending: Option<(u32, usize)>,
}

impl Context {
    pub fn new(wake: Arc<Wake>, store: Arc<Store>, spans: Spans) -> Result<Self, Errno> {
        Ok(Self {
            poll: Poll::new()?,
            timers: Timers::new()?,
            wake,
            scan: ProcScan::default(),
            store,
            spans,
            draining: false,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            ending: None,
        })
    }

    /// A group that [`Command::EndAll`] waits for is done.
    pub(super) fn ended_one(&mut self) {
        if let Some((token, left)) = &mut self.ending {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.wake.queue_result(*token, 0, 0);
                self.ending = None;
            }
        }
    }
}

/// What the supervisor is asked to do. `token` names the operation that is completed with the answer.
#[allow(missing_docs, reason = "the fields are named by the line above each")]
pub enum Command {
    /// Watch a child that was just started.
    Adopt(Spawned),
    /// End a group: SIGTERM, then SIGKILL. Completes with 1 if it had a live member, else 0.
    Kill { exec: u32, token: u32 },
    /// Write to a child's stdin, and close it if `eof`.
    Stdin {
        exec: u32,
        data: Vec<u8>,
        eof: bool,
        token: u32,
    },
    /// Who reads an exec's stream has changed, or how far.
    Readers { exec: u32 },
    /// Forget an exec whose outcome was acknowledged long enough ago.
    Collect { exec: u32 },
    /// End every group that has a live member; completes once each is empty or was sent SIGKILL, unless it is asked for
    /// again before that.
    EndAll { grace_ns: u64, token: u32 },
    /// The guest is about to be frozen.
    Suspended,
    /// The guest goes on after a freeze.
    Resumed,
    /// Never pause a pipe again.
    Drain,
    /// A look through /proc is done.
    Scanned(Result<Vec<Process>, Errno>),
    /// End the supervisor's thread.
    Stop,
}

/// Commands from other threads to the supervisor.
///
/// Invariant: the eventfd is readable whenever a command waits.
pub(crate) struct Mailbox {
    commands: Mutex<Vec<Command>>,
    pub(super) eventfd: OwnedFd,
}

impl Mailbox {
    pub fn new() -> Result<Self, Errno> {
        let eventfd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let commands = Mutex::default();
        Ok(Self { commands, eventfd })
    }

    pub fn send(&self, command: Command) {
        let mut commands = lock(&self.commands);
        commands.push(command);
        if commands.len() == 1 {
            // Cannot block: whoever takes the commands reads it first.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Takes all that waits, in the order in which it was sent.
    pub fn take(&self) -> Vec<Command> {
        let mut commands = lock(&self.commands);
        let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
        std::mem::take(&mut *commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_packing() {
        let keys = [
            Key::Mailbox,
            Key::Timers,
            Key::ChildExit,
            Key::Leader(u32::MAX),
            Key::Output(7, Stream::Stdout),
            Key::Output(7, Stream::Stderr),
            Key::Stdin(9),
            Key::Member(u32::MAX, 4_194_304),
        ];
        for key in keys {
            assert_eq!(Key::unpack(key.pack()), key);
        }
    }
}
