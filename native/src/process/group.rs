//! An exec's leader and its process group: ended by SIGTERM and SIGKILL, watched until nobody is left.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::context::{Context, Key, Timer};
use super::exec::{Exec, Exit, peek, reap, reap_of_group};
use super::proc_scan::Process;
use crate::clock::boottime_ns;
use crate::reactor::Poll;

/// Who waits for a group's end.
#[derive(Clone, Copy, Debug)]
pub enum Waiter {
    Kill(u32),
    EndAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escalation {
    /// Nobody ends the group.
    Calm,
    /// The leader is a zombie: a look through /proc tells whether anybody is left to end. The grace,
    /// in nanoseconds, runs from the SIGTERM.
    Asking(u64),
    Terminating,
    Killed,
}

/// So many members are watched at a time: a descriptor each, and the others live or end the same.
const WATCHED: usize = 8;
/// While somebody waits for a group's end its members are counted again, first after this time,
/// then after twice as long each time, in nanoseconds.
const FIRST_RECOUNT_NS: u64 = 100_000_000;
/// The longest time between two such counts, in nanoseconds.
const RECOUNT_NS: u64 = 1_600_000_000;

/// Invariants:
/// - the leader is reaped (`gone`) only once the group is empty or the exec is collected, so until
///   then the group's number is ours to signal;
/// - `members` are some of the live processes that looks found, less those that ended since; while
///   it is empty and the leader is a zombie, a look is asked for;
/// - two looks in a row must find nobody before the group counts as empty: one alone can miss a
///   process whose parent forked it after the listing and ended before its turn.
pub struct Group {
    exec: Arc<Exec>,
    leader: OwnedFd,
    escalation: Escalation,
    waiters: Vec<Waiter>,
    members: HashMap<i32, OwnedFd>,
    recount_ns: u64,
    seen_empty: bool,
    /// It was told to end at some time.
    pub signalled: bool,
    gone: bool,
}

impl Group {
    pub fn new(exec: Arc<Exec>, leader: OwnedFd) -> Self {
        Self {
            exec,
            leader,
            escalation: Escalation::Calm,
            waiters: Vec::new(),
            members: HashMap::new(),
            recount_ns: 0,
            seen_empty: false,
            signalled: false,
            gone: false,
        }
    }

    /// Watches the leader, if it is not known to have ended.
    pub fn watch(&self, poll: &Poll) -> Result<(), Errno> {
        if self.leader_is_zombie() {
            return Ok(());
        }
        let key = Key::Leader(self.exec.id).pack();
        poll.add(&self.leader, key, EventFlags::IN)
    }

    /// The exit of the leader, which stays a zombie; `None` if it did not end.
    pub fn leader_exit(&self, ctx: &Context) -> Option<Exit> {
        let exit = peek(&self.leader)?;
        ctx.poll.remove(&self.leader);
        Some(exit)
    }

    /// Whether the group's number is still ours.
    pub fn is_ours(&self) -> bool {
        !self.gone
    }

    /// Ends the group: SIGTERM now, SIGKILL after `grace_ns`. Who asks while that is under way
    /// shares it; the shorter grace counts.
    pub fn escalate(&mut self, grace_ns: u64, waiter: Option<Waiter>, ctx: &mut Context) {
        if self.gone {
            answer(waiter, false, ctx);
            return;
        }
        self.waiters.extend(waiter);
        match self.escalation {
            Escalation::Terminating => self.shorten_grace(grace_ns, ctx),
            Escalation::Asking(other) => self.await_look(other.min(grace_ns), ctx),
            Escalation::Calm | Escalation::Killed if self.leader_is_zombie() => {
                self.await_look(grace_ns, ctx);
                self.ask(ctx);
            }
            Escalation::Calm | Escalation::Killed => self.terminate(grace_ns, ctx),
        }
    }

    /// The grace bounds this too, should the look never end.
    fn await_look(&mut self, grace_ns: u64, ctx: &mut Context) {
        self.escalation = Escalation::Asking(grace_ns);
        self.shorten_grace(grace_ns, ctx);
    }

    fn shorten_grace(&mut self, grace_ns: u64, ctx: &mut Context) {
        let shorter = boottime_ns().saturating_add(grace_ns);
        let due = ctx.timers.get(self.exec.id, Timer::Grace);
        let deadline = due.unwrap_or(shorter).min(shorter);
        ctx.timers.set(self.exec.id, Timer::Grace, Some(deadline));
    }

    /// /proc cannot be read: the group is ended without knowing who is in it, for its number is
    /// still ours and a signal to a group of zombies does no harm.
    pub fn look_failed(&mut self, ctx: &mut Context) {
        if let Escalation::Asking(grace_ns) = self.escalation {
            self.terminate(grace_ns, ctx);
        }
    }

    fn terminate(&mut self, grace_ns: u64, ctx: &mut Context) {
        self.escalation = Escalation::Terminating;
        self.signalled = true;
        let deadline = boottime_ns().saturating_add(grace_ns);
        ctx.timers.set(self.exec.id, Timer::Grace, Some(deadline));
        self.signal(Signal::TERM);
        // A stopped process would take note of it only when it is continued.
        self.signal(Signal::CONT);
    }

    pub fn grace_over(&mut self, ctx: &mut Context) {
        self.escalation = Escalation::Killed;
        self.signal(Signal::KILL);
        self.answer_all(true, ctx);
    }

    pub fn kill_now(&self) {
        if !self.gone {
            self.signal(Signal::KILL);
        }
    }

    /// Safe only while the leader is not reaped: its pid keeps the group's number from reuse.
    fn signal(&self, signal: Signal) {
        if let Some(pgid) = Pid::from_raw(self.exec.pid) {
            // ESRCH cannot be, with the leader unreaped; EPERM is a group that took another user's
            // identity under a daemon that is not root, and nothing can be done about it.
            let _ = kill_process_group(pgid, signal);
        }
    }

    /// Asks who is left of the group, now that its leader has ended.
    pub fn ask(&mut self, ctx: &mut Context) {
        let urgent = self.escalation != Escalation::Calm;
        ctx.scan.want(self.exec.id, urgent, boottime_ns());
    }

    /// Asks again, if that still matters: a watched member ended, or may have left the group
    /// without ending while somebody waits.
    pub fn recount(&mut self, ended: Option<i32>, ctx: &mut Context) {
        if let Some(pidfd) = ended.and_then(|pid| self.members.remove(&pid)) {
            ctx.poll.remove(&pidfd);
        }
        let known = ended.is_some() && !self.members.is_empty();
        if !known && !self.gone && self.leader_is_zombie() {
            self.ask(ctx);
        }
    }

    /// A look through /proc found these processes of the group.
    pub fn counted(&mut self, found: &[Process], ctx: &mut Context) {
        if self.gone || !self.leader_is_zombie() {
            return;
        }
        let (live, ended): (Vec<&Process>, Vec<&Process>) =
            found.iter().partition(|process| process.live);
        // Siblings of the leader, which it cloned with CLONE_PARENT, are children of this process.
        let siblings = ended.iter().filter(|process| process.pid != self.exec.pid);
        siblings.for_each(|process| reap_of_group(process.pid, self.exec.pid));
        if live.is_empty() {
            if std::mem::replace(&mut self.seen_empty, true) {
                self.give_up(ctx);
            } else {
                self.ask(ctx);
            }
            return;
        }
        self.seen_empty = false;
        if let Escalation::Asking(grace_ns) = self.escalation {
            self.terminate(grace_ns, ctx);
        }
        for process in live.iter().take(WATCHED) {
            self.watch_member(process.pid, ctx);
        }
        if !self.waiters.is_empty() {
            // No event tells that a member left the group for another.
            self.recount_ns = (2 * self.recount_ns).clamp(FIRST_RECOUNT_NS, RECOUNT_NS);
            let recount = boottime_ns() + self.recount_ns;
            ctx.timers.set(self.exec.id, Timer::Recount, Some(recount));
        }
        if self.members.is_empty() {
            // None could be watched. Never in a hurry: it may be for want of descriptors.
            ctx.scan.want(self.exec.id, false, boottime_ns());
        }
    }

    fn watch_member(&mut self, pid: i32, ctx: &mut Context) {
        let Some(raw) = Pid::from_raw(pid) else {
            return;
        };
        if self.members.contains_key(&pid) {
            return;
        }
        // It fails for one that ended since the look: the next one will not find it. Should the
        // number be somebody else's by now, their end makes for one look more.
        let Ok(pidfd) = pidfd_open(raw, PidfdFlags::empty()) else {
            return;
        };
        let key = Key::Member(self.exec.id, pid).pack();
        if ctx.poll.add(&pidfd, key, EventFlags::IN).is_ok() {
            self.members.insert(pid, pidfd);
        }
    }

    /// Nobody is left, or nobody asks any more: the number is given up with the leader.
    pub fn give_up(&mut self, ctx: &mut Context) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        self.exec.facts().group_gone = true;
        if self.leader_is_zombie() {
            reap(&self.leader);
        }
        for (_, pidfd) in self.members.drain() {
            ctx.poll.remove(&pidfd);
        }
        for timer in [Timer::Grace, Timer::Recount] {
            ctx.timers.set(self.exec.id, timer, None);
        }
        // Asked for but never told to end: it had no live member.
        let killed = !matches!(self.escalation, Escalation::Asking(_));
        self.escalation = Escalation::Calm;
        self.answer_all(killed, ctx);
    }

    fn leader_is_zombie(&self) -> bool {
        self.exec.facts().exit.is_some()
    }

    fn answer_all(&mut self, killed: bool, ctx: &mut Context) {
        for waiter in std::mem::take(&mut self.waiters) {
            answer(Some(waiter), killed, ctx);
        }
    }
}

fn answer(waiter: Option<Waiter>, killed: bool, ctx: &mut Context) {
    match waiter {
        Some(Waiter::Kill(token)) => ctx.wake.queue_result(token, 0, i64::from(killed)),
        Some(Waiter::EndAll) => ctx.ended_one(),
        None => {}
    }
}
