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

/// What the kernel refused to watch is asked for again after this time, in nanoseconds.
const WATCH_AGAIN_NS: u64 = 100_000_000;

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
    watched: bool,
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
            watched: false,
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

    /// Whether the reactor has to know of it at once: for a deadline, or what is not watched yet.
    pub fn is_urgent(&self) -> bool {
        self.timeout_secs.is_some() || !self.watched
    }

    /// Keeps its deadline.
    pub fn adopted(&mut self, ctx: &mut Context) {
        if !self.watched {
            self.watch_later(ctx);
        }
        let deadline = self
            .timeout_secs
            .and_then(span_ns)
            .map(|span| boottime_ns() + span);
        ctx.timers.set(self.id(), Timer::Timeout, deadline);
    }

    /// Watches what is not watched yet. Whoever does it first is not the reactor: see
    /// `Mailbox::adopt`.
    pub fn watch(&mut self, poll: &Poll) {
        let leader = if self.exec.state().exit.is_none() {
            poll.add(&self.pidfd, Key::Leader(self.id()), Interest::Read)
        } else {
            Ok(())
        };
        let (pipes, stdin) = (self.watch_pipes(poll), self.watch_stdin(poll));
        self.watched = leader.and(pipes).and(stdin).is_ok();
    }

    pub(super) fn watch_again(&mut self, ctx: &mut Context) {
        self.watch(&ctx.poll);
        if !self.watched {
            self.watch_later(ctx);
        }
    }

    /// The kernel may lack memory or allow no more watches; no event tells when it does again.
    fn watch_later(&self, ctx: &mut Context) {
        let again = boottime_ns() + WATCH_AGAIN_NS;
        ctx.timers.set(self.id(), Timer::Watch, Some(again));
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
            self.linger(ctx);
        }
        self.settle(ctx);
        if self.reap && !self.timed_out && self.may_signal() {
            self.escalate(ctx.spans.grace_ns, None, ctx);
        }
    }

    fn linger(&self, ctx: &mut Context) {
        let deadline = boottime_ns().saturating_add(ctx.spans.linger_ns);
        ctx.timers.set(self.id(), Timer::Linger, Some(deadline));
    }

    /// The span has become shorter: for what lingers already, too.
    pub fn shorten_linger(&self, ctx: &mut Context) {
        let shorter = boottime_ns().saturating_add(ctx.spans.linger_ns);
        let due = ctx.timers.get(self.id(), Timer::Linger);
        if due.is_some_and(|due| due > shorter) {
            self.linger(ctx);
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
            Timer::Watch => self.watch_again(ctx),
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::atomic::Ordering::Relaxed;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;
    use crate::process::log::{Log, Sizes};
    use crate::process::store::Store;
    use crate::reactor::Spans;
    use crate::reactor::census::Desk;
    use crate::reactor::timers::Timers;
    use crate::wake::{Outbox, Wake};

    fn context(store: &Arc<Store>) -> Context {
        let spans = Spans {
            linger_ns: u64::MAX / 2,
            grace_ns: u64::MAX / 2,
            stdin_ns: u64::MAX / 2,
        };
        let (poll, timers) = (Poll::new().unwrap(), Timers::new().unwrap());
        let desk = Desk::new(std::sync::mpsc::channel().0);
        let wake = Outbox::new(Arc::new(Wake::default()));
        Context::new(Arc::new(poll), timers, wake, desk, Arc::clone(store), spans)
    }

    /// Handles what comes until nothing of the actor is left to watch.
    fn run(actor: &mut Actor, ctx: &mut Context) {
        let mut ready = Vec::new();
        while !actor.exec.state().published {
            ctx.poll.wait(&mut ready).unwrap();
            for (key, _) in ready.drain(..) {
                match key {
                    Key::Leader(_) => actor.leader_exited(ctx),
                    Key::Output(_, stream) => actor.output_ready(stream, ctx),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn what_the_kernel_refused_to_watch_is_watched_later() {
        let store = Store::new(1 << 20, Path::new("/nowhere"));
        let mut ctx = context(&store);
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read go; echo out; echo err >&2; exit 7"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let pidfd = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let sizes = Sizes {
            capture: 1 << 10,
            window: 1 << 10,
            lag: 1 << 10,
        };
        let exec = Arc::new(Exec::new(1, pid, 0, Log::new(sizes, &store)));
        let mut actor = Actor::new(Parts {
            exec: Arc::clone(&exec),
            pidfd,
            pipes: [out.into(), err.into()],
            stdin: child.stdin.take().map(OwnedFd::from),
            reap: false,
            timeout_secs: None,
        });
        ctx.poll.refuses.store(true, Relaxed);
        actor.watch(&ctx.poll);
        assert!(actor.is_urgent());
        actor.adopted(&mut ctx);
        assert!(ctx.timers.get(1, Timer::Watch).is_some());
        ctx.poll.refuses.store(false, Relaxed);
        actor.stdin_write(b"go\n".to_vec(), true, 1, &mut ctx);
        actor.due(Timer::Watch, &mut ctx);
        run(&mut actor, &mut ctx);
        let state = exec.state();
        assert_eq!(state.exit, Some(reap::Exit::Code(7)));
        assert_eq!(state.log.total(), 8);
        drop(state);
        // The actor may have reaped it.
        let _ = child.wait();
    }
}
