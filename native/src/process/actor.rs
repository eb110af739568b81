//! The reactor's side of one exec: its leader, and what follows from the leader's exit.
//!
//! The other sides of the same actor are `output` (its pipes), `stdin` and `group`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::exec::Exec;
use super::group::Group;
use super::output::{Pacing, Pipes};
use super::reap;
use super::stdin::Stdin;
use crate::clock::{boottime_ns, span_ns};
use crate::reactor::Context;
use crate::reactor::poll::{Interest, Key, Poll};
use crate::reactor::timers::Timer;
use crate::wake::Kind;

pub use super::group::Waiter;

/// What the spawner hands over of a started child.
pub struct Parts {
    /// Its shared side.
    pub exec: Arc<Exec>,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// The reading ends of its stdout and stderr.
    pub pipes: [OwnedFd; 2],
    /// The writing end of its stdin.
    pub stdin: Option<OwnedFd>,
    /// End the group once the leader has exited.
    pub reap: bool,
    /// Wall-clock budget in seconds.
    pub timeout_secs: Option<f64>,
}

/// Invariants:
/// - the leader is reaped (`group_gone`) only once its group is empty or the exec is collected, so
///   until then the group's number is ours to signal;
/// - the outcome is published once: at the leader's exit with both pipes at their end, or when the
///   linger deadline passes.
pub struct Actor {
    pub(super) exec: Arc<Exec>,
    pub(super) pidfd: OwnedFd,
    pub(super) pipes: Pipes,
    pub(super) pacing: Pacing,
    pub(super) stdin: Stdin,
    pub(super) group: Group,
    reap: bool,
    timeout_secs: Option<f64>,
    timed_out: bool,
    collected: bool,
}

impl Actor {
    /// An actor that is not watched yet.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            exec,
            pidfd,
            pipes,
            stdin,
            reap,
            timeout_secs,
        } = parts;
        Self {
            exec,
            pidfd,
            pipes: pipes.map(Some),
            pacing: Pacing::default(),
            stdin: Stdin::new(stdin),
            group: Group::default(),
            reap,
            timeout_secs,
            timed_out: false,
            collected: false,
        }
    }

    /// The exec's handle.
    pub fn id(&self) -> u32 {
        self.exec.id
    }

    /// The group's number, which is also the leader's pid.
    pub fn pgid(&self) -> i32 {
        self.exec.pid
    }

    /// Begins to watch everything. Whoever does is not the reactor: see `Mailbox::adopt`.
    pub fn watch(&self, poll: &Poll) {
        // Adding can fail for want of kernel memory alone; the exec then reads as running, and
        // kill and timeout still end it.
        let _ = poll.add(&self.pidfd, Key::Leader(self.id()), Interest::Read);
        self.watch_pipes(poll);
        self.watch_stdin(poll);
    }

    /// Whether the reactor has to keep a deadline for it from the start.
    pub fn has_deadline(&self) -> bool {
        self.timeout_secs.is_some()
    }

    /// Keeps its deadline.
    pub fn adopted(&mut self, ctx: &mut Context) {
        let deadline = self
            .timeout_secs
            .and_then(span_ns)
            .map(|span| boottime_ns() + span);
        ctx.timers.set(self.id(), Timer::Timeout, deadline);
    }

    /// The leader has ended; it stays a zombie.
    pub fn leader_exited(&mut self, ctx: &mut Context) {
        let Some(exit) = reap::peek(&self.pidfd) else {
            return;
        };
        ctx.poll.remove(&self.pidfd);
        self.exec.state().exit = Some(exit);
        ctx.timers.set(self.id(), Timer::Timeout, None);
        if self.pipes.iter().all(Option::is_none) {
            self.publish(false, ctx);
        } else {
            let deadline = boottime_ns().saturating_add(ctx.spans.linger_ns);
            ctx.timers.set(self.id(), Timer::Linger, Some(deadline));
        }
        self.settle(ctx);
        if self.reap && !self.timed_out && self.may_signal() {
            self.escalate(ctx.spans.grace_ns, None, ctx);
        }
    }

    /// A pipe came to its end.
    pub(super) fn pipe_ended(&mut self, ctx: &mut Context) {
        let exited = self.exec.state().exit.is_some();
        if exited && self.pipes.iter().all(Option::is_none) {
            self.publish(false, ctx);
        }
    }

    /// A deadline passed.
    pub fn due(&mut self, timer: Timer, ctx: &mut Context) {
        match timer {
            Timer::Timeout => {
                self.timed_out = true;
                self.escalate(ctx.spans.grace_ns, None, ctx);
            }
            Timer::Linger => {
                self.drain_pipes(ctx);
                let still_open = self.pipes.iter().any(Option::is_some);
                self.publish(still_open, ctx);
            }
            Timer::Grace => self.grace_over(ctx),
            Timer::Stdin => self.stdin_late(ctx),
            Timer::Hold => self.hold_over(ctx),
            Timer::Recount => self.recount(ctx),
            Timer::Census | Timer::Clock | Timer::Orphans => {}
        }
    }

    fn publish(&mut self, writers_may_be_alive: bool, ctx: &mut Context) {
        let mut state = self.exec.state();
        if state.published {
            return;
        }
        state.published = true;
        state.writers_may_be_alive = writers_may_be_alive;
        state
            .log
            .end(|reader| ctx.wake.notify(Kind::Readable, reader));
        drop(state);
        ctx.timers.set(self.id(), Timer::Linger, None);
        self.resume(ctx);
        ctx.wake.notify(Kind::Published, self.id());
    }

    /// The exec is forgotten: nothing is signalled any more, and what still writes is discarded.
    pub fn collect(&mut self, ctx: &mut Context) {
        self.collected = true;
        if self.may_signal() {
            self.group_ended(ctx);
        }
        self.close_stdin(ctx);
    }

    /// Nothing is left to watch: the group is gone and all pipes are at their end.
    pub fn is_done(&self) -> bool {
        let pipes = self.pipes.iter().all(Option::is_none);
        pipes && !self.may_signal() && (self.collected || self.stdin.is_closed())
    }
}
