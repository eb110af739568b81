//! An exec's process group: ended by SIGTERM and SIGKILL, watched until nobody is left.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::actor::Actor;
use super::reap;
use crate::clock::boottime_ns;
use crate::reactor::Context;
use crate::reactor::poll::{Interest, Key};
use crate::reactor::timers::Timer;

/// Who waits for a group's end.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    /// The operation that asked for it.
    Kill(u32),
    /// [`crate::reactor::mailbox::Command::EndAll`].
    EndAll,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nobody ends the group.
    #[default]
    Calm,
    /// The leader is a zombie: a pass over /proc tells whether anybody is left to end. The grace,
    /// in nanoseconds, runs from the SIGTERM.
    Asking(u64),
    /// SIGTERM was sent and the grace runs.
    Terminating,
    /// SIGKILL was sent.
    Killed,
}

/// So many members are watched at a time: a descriptor each, and the others live or end the same.
const WATCHED: usize = 8;
/// While somebody waits for a group's end its members are counted again, first after this time,
/// then after twice as long each time, in nanoseconds.
const FIRST_RECOUNT_NS: u64 = 100_000_000;
/// And no more seldom than this.
const RECOUNT_NS: u64 = 1_600_000_000;

/// Invariants:
/// - `members` are some of the live processes that passes found, less those that ended since;
/// - while it is empty and the leader is a zombie, a pass is asked for;
/// - two passes in a row must find nobody before the group counts as empty: one alone can miss a
///   process whose parent forked it after the listing and ended before its turn.
#[derive(Default)]
pub struct Group {
    phase: Phase,
    waiters: Vec<Waiter>,
    members: HashMap<i32, OwnedFd>,
    recount_ns: u64,
    seen_empty: bool,
    signalled: bool,
    gone: bool,
}

impl Group {
    /// Whether the group was ever told to end.
    pub(super) fn was_signalled(&self) -> bool {
        self.signalled
    }
}

impl Actor {
    /// Whether the group's number is still ours.
    pub fn may_signal(&self) -> bool {
        !self.group.gone
    }

    /// Ends the group: SIGTERM now, SIGKILL after `grace_ns`. Who asks while that is under way
    /// shares it; the shorter grace counts.
    pub fn escalate(&mut self, grace_ns: u64, waiter: Option<Waiter>, ctx: &mut Context) {
        if !self.may_signal() {
            self.answer(waiter, false, ctx);
            return;
        }
        self.group.waiters.extend(waiter);
        match self.group.phase {
            Phase::Terminating => self.shorten_grace(grace_ns, ctx),
            Phase::Asking(other) => self.await_pass(other.min(grace_ns), ctx),
            Phase::Calm | Phase::Killed => {
                if self.leader_is_zombie() {
                    self.await_pass(grace_ns, ctx);
                    self.ask(ctx);
                } else {
                    self.terminate(grace_ns, ctx);
                }
            }
        }
    }

    /// The grace bounds this too, should the pass never end.
    fn await_pass(&mut self, grace_ns: u64, ctx: &mut Context) {
        self.group.phase = Phase::Asking(grace_ns);
        self.shorten_grace(grace_ns, ctx);
    }

    fn shorten_grace(&mut self, grace_ns: u64, ctx: &mut Context) {
        let shorter = boottime_ns().saturating_add(grace_ns);
        let due = ctx.timers.get(self.id(), Timer::Grace);
        ctx.timers.set(
            self.id(),
            Timer::Grace,
            Some(due.unwrap_or(shorter).min(shorter)),
        );
    }

    /// /proc cannot be read: the group is ended without knowing who is in it, for its number is
    /// still ours and a signal to a group of zombies does no harm.
    pub fn pass_failed(&mut self, ctx: &mut Context) {
        if let Phase::Asking(grace_ns) = self.group.phase {
            self.terminate(grace_ns, ctx);
        }
    }

    fn terminate(&mut self, grace_ns: u64, ctx: &mut Context) {
        self.group.phase = Phase::Terminating;
        self.group.signalled = true;
        let deadline = boottime_ns().saturating_add(grace_ns);
        ctx.timers.set(self.id(), Timer::Grace, Some(deadline));
        self.signal(Signal::TERM);
        // A stopped process would take note of it only when it is continued.
        self.signal(Signal::CONT);
        // From now on its output is not held back: a writer that is blocked could not end.
        self.resume(ctx);
    }

    pub(super) fn grace_over(&mut self, ctx: &mut Context) {
        self.group.phase = Phase::Killed;
        self.signal(Signal::KILL);
        self.answer_all(true, ctx);
    }

    /// SIGKILL to the group without waiting for anything.
    pub fn kill_now(&self) {
        if self.may_signal() {
            self.signal(Signal::KILL);
        }
    }

    /// Safe only while the leader is not reaped: its pid keeps the group's number from reuse.
    fn signal(&self, signal: Signal) {
        if let Some(pgid) = Pid::from_raw(self.pgid()) {
            // ESRCH cannot be, with the leader unreaped; EPERM is a group that took another user's
            // identity under a daemon that is not root, and nothing can be done about it.
            let _ = kill_process_group(pgid, signal);
        }
    }

    /// The leader has ended: is anybody left? Mostly nobody is, and that is known at once.
    pub(super) fn settle(&mut self, ctx: &mut Context) {
        if ctx.kin.are_leaders_only() {
            self.group_ended(ctx);
        } else {
            self.ask(ctx);
        }
    }

    /// Nobody is left: known for certain, without a pass.
    pub fn counted_as_empty(&mut self, ctx: &mut Context) {
        if self.may_signal() && self.leader_is_zombie() {
            self.group_ended(ctx);
        }
    }

    fn ask(&mut self, ctx: &mut Context) {
        let urgent = self.group.phase != Phase::Calm;
        ctx.desk.want(self.id(), urgent, boottime_ns());
    }

    /// A watched member ended.
    pub fn member_ended(&mut self, pid: i32, ctx: &mut Context) {
        if let Some(pidfd) = self.group.members.remove(&pid) {
            ctx.poll.remove(&pidfd);
        }
        if self.group.members.is_empty() && self.leader_is_zombie() && self.may_signal() {
            self.ask(ctx);
        }
    }

    /// A pass over /proc found these live members.
    pub fn counted(&mut self, live: &[i32], ctx: &mut Context) {
        if !self.may_signal() || !self.leader_is_zombie() {
            return;
        }
        if live.is_empty() {
            if std::mem::replace(&mut self.group.seen_empty, true) {
                self.group_ended(ctx);
            } else {
                self.ask(ctx);
            }
            return;
        }
        self.group.seen_empty = false;
        if let Phase::Asking(grace_ns) = self.group.phase {
            self.terminate(grace_ns, ctx);
        }
        for pid in live.iter().take(WATCHED) {
            self.watch_member(*pid, ctx);
        }
        if !self.group.waiters.is_empty() {
            // No event tells that a member left the group for another.
            self.group.recount_ns = (2 * self.group.recount_ns).clamp(FIRST_RECOUNT_NS, RECOUNT_NS);
            let recount = boottime_ns() + self.group.recount_ns;
            ctx.timers.set(self.id(), Timer::Recount, Some(recount));
        }
        if self.group.members.is_empty() {
            // None could be watched. Never in a hurry: it may be for want of descriptors.
            ctx.desk.want(self.id(), false, boottime_ns());
        }
    }

    fn watch_member(&mut self, pid: i32, ctx: &mut Context) {
        let Some(raw) = Pid::from_raw(pid) else {
            return;
        };
        if self.group.members.contains_key(&pid) {
            return;
        }
        // It fails for one that ended since the pass: the next pass will not find it. Should the
        // number be somebody else's by now, their end makes for one pass more.
        let Ok(pidfd) = pidfd_open(raw, PidfdFlags::empty()) else {
            return;
        };
        if ctx
            .poll
            .add(&pidfd, Key::Member(self.id(), pid), Interest::Read)
            .is_ok()
        {
            self.group.members.insert(pid, pidfd);
        }
    }

    /// Nobody is left, or nobody asks any more: the number is given up with the leader.
    pub(super) fn group_ended(&mut self, ctx: &mut Context) {
        self.group.gone = true;
        self.exec.state().group_gone = true;
        if self.leader_is_zombie() {
            // Before the number may be another child's, which must count as one.
            ctx.kin.remove(self.pgid());
            reap::reap(&self.pidfd);
        }
        for (_, pidfd) in self.group.members.drain() {
            ctx.poll.remove(&pidfd);
        }
        for timer in [Timer::Grace, Timer::Recount] {
            ctx.timers.set(self.id(), timer, None);
        }
        // Asked for but never told to end: it had no live member.
        let killed = !matches!(self.group.phase, Phase::Asking(_));
        self.group.phase = Phase::Calm;
        self.answer_all(killed, ctx);
    }

    /// Somebody waits for the group's end: did its members leave it without ending?
    pub(super) fn recount(&mut self, ctx: &mut Context) {
        if self.may_signal() && self.leader_is_zombie() {
            self.ask(ctx);
        }
    }

    fn leader_is_zombie(&self) -> bool {
        self.exec.state().exit.is_some()
    }

    fn answer_all(&mut self, killed: bool, ctx: &mut Context) {
        for waiter in std::mem::take(&mut self.group.waiters) {
            self.answer(Some(waiter), killed, ctx);
        }
    }

    fn answer(&self, waiter: Option<Waiter>, killed: bool, ctx: &mut Context) {
        match waiter {
            Some(Waiter::Kill(token)) => ctx.wake.complete(token, 0, i64::from(killed)),
            Some(Waiter::EndAll) => ctx.ended_one(),
            None => {}
        }
    }
}
