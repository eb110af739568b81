//! The supervisor's side of one exec: its leader, its pipes and its group, and what follows from the leader's exit.

use std::sync::Arc;

use rustix::io::Errno;

use super::context::{Context, Timer};
use super::exec::{Exec, Spawned};
use super::group::Group;
use super::pipes::{Output, Stdin};
use crate::clock::{boottime_ns, span_ns};
use crate::wake::Kind;

/// What the kernel refused to watch is asked for again after this time, in nanoseconds.
const WATCH_AGAIN_NS: u64 = 100_000_000;

/// Invariant: the outcome is published once: at the leader's exit with both pipes at their end, or
/// when the linger deadline passes.
pub struct Actor {
    exec: Arc<Exec>,
    pub output: Output,
    pub stdin: Stdin,
    pub group: Group,
    reap: bool,
    timed_out: bool,
    collected: bool,
}

impl Actor {
    /// Takes over a child that was just started: watches it and keeps its deadline.
    pub fn adopt(spawned: Spawned, ctx: &mut Context) -> Self {
        let exec = spawned.exec;
        let timeout = spawned.timeout_secs.and_then(span_ns);
        let deadline = timeout.map(|span| boottime_ns() + span);
        ctx.timers.set(exec.id, Timer::Timeout, deadline);
        let mut actor = Self {
            output: Output::new(Arc::clone(&exec), spawned.output),
            stdin: Stdin::new(exec.id, spawned.stdin),
            group: Group::new(Arc::clone(&exec), spawned.pidfd),
            exec,
            reap: spawned.reap,
            timed_out: false,
            collected: false,
        };
        if ctx.draining {
            actor.flow(ctx);
        }
        actor.watch(ctx);
        actor
    }

    pub fn pgid(&self) -> i32 {
        self.exec.pid
    }

    fn watch(&self, ctx: &mut Context) {
        let leader = self.group.watch(&ctx.poll);
        let (output, stdin) = (self.output.watch(&ctx.poll), self.stdin.watch(&ctx.poll));
        self.watch_later(leader.and(output).and(stdin), ctx);
    }

    /// The kernel may lack memory or allow no more watches; no event tells when it does again.
    fn watch_later(&self, result: Result<(), Errno>, ctx: &mut Context) {
        let again = result.is_err().then(|| boottime_ns() + WATCH_AGAIN_NS);
        if again.is_some() {
            ctx.timers.set(self.exec.id, Timer::Watch, again);
        }
    }

    /// The leader has ended; it stays a zombie.
    pub fn leader_exited(&mut self, ctx: &mut Context) {
        let Some(exit) = self.group.leader_exit(ctx) else {
            return;
        };
        self.exec.facts().exit = Some(exit);
        ctx.timers.set(self.exec.id, Timer::Timeout, None);
        // Its end is not to be late for want of a reader.
        self.flow(ctx);
        if !self.output.is_closed() {
            self.linger(ctx);
        }
        self.group.ask(ctx);
        if self.reap && !self.timed_out && self.group.is_ours() {
            self.group.escalate(ctx.spans.grace_ns, None, ctx);
        }
    }

    fn linger(&self, ctx: &mut Context) {
        let deadline = boottime_ns().saturating_add(ctx.spans.linger_ns);
        ctx.timers.set(self.exec.id, Timer::Linger, Some(deadline));
    }

    /// The span has become shorter: for what lingers already, too.
    pub fn shorten_linger(&self, ctx: &mut Context) {
        let shorter = boottime_ns().saturating_add(ctx.spans.linger_ns);
        let due = ctx.timers.get(self.exec.id, Timer::Linger);
        if due.is_some_and(|due| due > shorter) {
            self.linger(ctx);
        }
    }

    /// Reads on or not, as the readers have it now.
    pub fn pace(&mut self, ctx: &mut Context) {
        let paced = self.output.pace(ctx);
        self.watch_later(paced, ctx);
    }

    pub fn due(&mut self, timer: Timer, ctx: &mut Context) {
        match timer {
            Timer::Timeout => {
                self.timed_out = true;
                self.group.escalate(ctx.spans.grace_ns, None, ctx);
            }
            Timer::Linger => {
                self.output.drain(ctx);
                self.publish(!self.output.is_closed(), ctx);
            }
            Timer::Grace => self.group.grace_over(ctx),
            Timer::Stdin => self.stdin.late(ctx),
            Timer::Pause => self.pace(ctx),
            Timer::Recount => self.group.recount(None, ctx),
            Timer::Watch => self.watch(ctx),
            Timer::ProcScan | Timer::Clock | Timer::Orphans | Timer::Expected => {}
        }
    }

    fn publish(&mut self, writers_may_be_alive: bool, ctx: &mut Context) {
        let mut facts = self.exec.facts();
        if facts.published {
            return;
        }
        facts.published = true;
        facts.writers_may_be_alive = writers_may_be_alive;
        let tell = |reader| ctx.wake.queue_notice(Kind::Readable, reader);
        facts.log.end(tell);
        let expected = facts.log.expire(boottime_ns());
        drop(facts);
        ctx.timers.set(self.exec.id, Timer::Expected, expected);
        ctx.timers.set(self.exec.id, Timer::Linger, None);
        ctx.wake.queue_notice(Kind::Published, self.exec.id);
    }

    /// Holds the pipes back for nobody any more.
    pub fn flow(&mut self, ctx: &mut Context) {
        let flows = self.output.flow(ctx);
        self.watch_later(flows, ctx);
    }

    /// The exec is forgotten: nothing is signalled any more, and what still writes is discarded.
    pub fn collect(&mut self, ctx: &mut Context) {
        self.collected = true;
        self.group.give_up(ctx);
        self.stdin.close(ctx);
    }

    /// What follows from whatever has just happened. Afterwards, whether nothing is left to watch:
    /// the group is gone and all pipes are at their end.
    pub fn conclude(&mut self, ctx: &mut Context) -> bool {
        if self.group.signalled {
            // A writer that is blocked could not end.
            self.flow(ctx);
        }
        if self.output.is_closed() && self.exec.facts().exit.is_some() {
            self.publish(false, ctx);
        }
        let closed = self.output.is_closed() && (self.collected || self.stdin.is_closed());
        closed && !self.group.is_ours()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;
    use crate::process::context::{Key, Spans};
    use crate::process::exec::Exit;
    use crate::process::log::{Log, Sizes};
    use crate::process::store::Store;

    #[test]
    fn what_the_kernel_refused_to_watch_is_watched_later() {
        let store = Store::new(1 << 20, Path::new("/nowhere"));
        // No deadline passes here, for nobody looks at them.
        let spans = Spans::default();
        let mut ctx = Context::new(Arc::default(), Arc::clone(&store), spans).unwrap();
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read go; echo out; echo err >&2; exit 7"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let log = Log::new(Sizes::default(), &store, boottime_ns());
        let exec = Arc::new(Exec::new(1, pid, 0, log));
        let spawned = Spawned {
            exec: Arc::clone(&exec),
            pidfd: pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap(),
            output: [out.into(), err.into()],
            stdin: child.stdin.take().map(Into::into),
            reap: false,
            timeout_secs: None,
        };
        ctx.poll.refuses.set(true);
        let mut actor = Actor::adopt(spawned, &mut ctx);
        assert!(ctx.timers.get(1, Timer::Watch).is_some());
        ctx.poll.refuses.set(false);
        actor.stdin.write(b"go\n".to_vec(), true, 1, &mut ctx);
        actor.due(Timer::Watch, &mut ctx);
        let mut ready = Vec::new();
        while !exec.facts().published {
            ctx.poll.wait(&mut ready).unwrap();
            for (key, _) in ready.drain(..) {
                match Key::unpack(key) {
                    Key::Leader(_) => actor.leader_exited(&mut ctx),
                    Key::Output(_, stream) => actor.output.ready(stream, &mut ctx),
                    other => panic!("{other:?}"),
                }
                actor.conclude(&mut ctx);
            }
        }
        assert_eq!(exec.facts().exit, Some(Exit::Code(7)));
        assert_eq!(exec.facts().log.total(), 8);
        child.wait().unwrap();
    }
}
