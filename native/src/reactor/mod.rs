//! One thread that owns every pipe, pidfd and timer of the execs.

pub mod census;
pub mod kin;
pub mod mailbox;
pub mod poll;
pub mod timers;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::io::Errno;

use crate::clock::{Freeze, boottime_ns, wall_offset_ns};
use crate::process::actor::{Actor, Waiter};
use crate::process::reap;
use crate::process::store::Store;
use crate::wake::{Kind, Outbox, Wake};
use census::Desk;
use kin::Kin;
use mailbox::{Command, Mailbox};
use poll::{Interest, Key, Poll};
use timers::{Timer, Timers};

/// Spans that the reactor keeps, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// From the leader's exit until its outcome is published though pipes are open.
    pub linger_ns: u64,
    /// From SIGTERM to SIGKILL.
    pub grace_ns: u64,
    /// From the arrival of a stdin write until it is given up.
    pub stdin_ns: u64,
}

/// The linger once every group was told to end, in nanoseconds: the streams want their exit before
/// the daemon is gone.
const LAST_LINGER_NS: u64 = 500_000_000;

/// Orphans are reaped this long after the first of them may have ended, in nanoseconds.
const ORPHANS_NS: u64 = 20_000_000;

/// How often the wall clock is looked at after a freeze, in nanoseconds.
const CLOCK_NS: u64 = 500_000_000;
/// How much is read from a pipe at a time, in bytes.
pub const READ_BYTES: usize = 256 << 10;

/// What every actor works with.
pub struct Context {
    pub(crate) poll: Arc<Poll>,
    pub(crate) timers: Timers,
    pub(crate) wake: Outbox,
    pub(crate) desk: Desk,
    pub(crate) kin: Kin,
    pub(crate) store: Arc<Store>,
    pub(crate) spans: Spans,
    pub(crate) draining: bool,
    pub(crate) scratch: Box<[u8]>,
    /// The operation that ends once this many groups more were ended.
    pub(crate) ending: Option<(u32, usize)>,
}

impl Context {
    pub(crate) fn new(
        poll: Arc<Poll>,
        timers: Timers,
        wake: Outbox,
        desk: Desk,
        store: Arc<Store>,
        spans: Spans,
    ) -> Self {
        Self {
            poll,
            timers,
            wake,
            desk,
            kin: Kin::of_this_process(),
            store,
            spans,
            draining: false,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            ending: None,
        }
    }

    /// A group that [`Command::EndAll`] waits for is done.
    pub(crate) fn ended_one(&mut self) {
        if let Some((token, left)) = &mut self.ending {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.wake.complete(*token, 0, 0);
                self.ending = None;
            }
        }
    }
}

/// Invariant: an exec is in `actors` from its start until it is collected, or until nothing of it
/// is left to watch or signal.
struct Reactor {
    context: Context,
    actors: HashMap<u32, Actor>,
    mailbox: Arc<Mailbox>,
    child_exits: OwnedFd,
    freeze: Freeze,
    /// Every group was told to end: one that is started later is killed at once.
    ended: bool,
}

/// Starts the reactor's thread. `child_exits` is the eventfd that SIGCHLD adds to.
pub fn start(
    poll: Arc<Poll>,
    mailbox: Arc<Mailbox>,
    wake: Arc<Wake>,
    desk: Desk,
    store: Arc<Store>,
    spans: Spans,
    child_exits: OwnedFd,
) -> Result<JoinHandle<()>, Errno> {
    let timers = Timers::new()?;
    poll.add(mailbox.fd(), Key::Mailbox, Interest::Read)?;
    poll.add(timers.fd(), Key::Timers, Interest::Read)?;
    poll.add(&child_exits, Key::ChildExit, Interest::Read)?;
    let reactor = Reactor {
        context: Context::new(poll, timers, Outbox::new(wake), desk, store, spans),
        actors: HashMap::new(),
        mailbox,
        child_exits,
        freeze: Freeze::default(),
        ended: false,
    };
    let body = move || reactor.run();
    thread::Builder::new()
        .name("guestd-reactor".into())
        .stack_size(256 << 10)
        .spawn(body)
        .map_err(|error| Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EAGAIN)))
}

impl Reactor {
    fn run(mut self) {
        reap::take_child_exits();
        let mut ready = Vec::new();
        // A panic costs the work of one turn, never the daemon's hold on its execs.
        while catch_unwind(AssertUnwindSafe(|| self.turn(&mut ready))).unwrap_or(true) {}
    }

    /// Waits, then adopts, then events, commands, deadlines; false once it is told to stop.
    fn turn(&mut self, ready: &mut Vec<(Key, bool)>) -> bool {
        // Told before the look at the groups, which takes a while and mostly has no news.
        self.context.wake.flush();
        self.dispatch_pass();
        self.context.wake.flush();
        // Neither can fail on descriptors that this thread owns, but for an interruption.
        let _ = self.context.timers.arm();
        let _ = self.context.poll.wait(ready);
        // Each time, for nobody wakes the reactor for a child; and before the events, which may
        // already be such a child's.
        let sent = self.mailbox.take();
        let mark = sent.mark();
        sent.adopted.into_iter().for_each(|actor| self.adopt(actor));
        for (key, gone) in ready.drain(..) {
            self.event(key, gone);
        }
        for command in sent.commands {
            if matches!(command, Command::Stop) {
                self.context.wake.flush();
                return false;
            }
            self.obey(command);
        }
        let now = boottime_ns();
        while let Some((exec, timer)) = self.context.timers.pop(now) {
            match timer {
                Timer::Census => {}
                Timer::Clock => self.look_at_clock(),
                Timer::Orphans => {
                    self.context.wake.notify(Kind::Orphans, 0);
                    self.reap_strangers(mark);
                }
                timer => self.with(exec, |actor, ctx| actor.due(timer, ctx)),
            }
        }
        true
    }

    fn event(&mut self, key: Key, gone: bool) {
        match key {
            Key::Mailbox => {}
            Key::Timers => self.context.timers.fired(),
            Key::ChildExit => {
                let _ = rustix::io::read(&self.child_exits, &mut [0u8; 8]);
                self.expect_orphans();
            }
            Key::Leader(exec) => self.with(exec, |actor, ctx| actor.leader_exited(ctx)),
            Key::Output(exec, stream) => {
                self.with(exec, |actor, ctx| actor.output_ready(stream, ctx));
            }
            Key::Stdin(exec) => self.with(exec, |actor, ctx| actor.stdin_ready(gone, ctx)),
            Key::Member(exec, pid) => self.with(exec, |actor, ctx| actor.member_ended(pid, ctx)),
        }
    }

    /// Counts what the wall clock jumped forward over a freeze against every command's budget, and
    /// looks again soon for as long as a jump is laid to it.
    fn look_at_clock(&mut self) {
        let now = boottime_ns();
        let jumped = self.freeze.jumped(wall_offset_ns(), now);
        let timers = &mut self.context.timers;
        if jumped > 0 {
            timers.bring_forward(Timer::Timeout, jumped);
        }
        let again = self.freeze.is_open().then_some(now + CLOCK_NS);
        timers.set(0, Timer::Clock, again);
    }

    /// Some child ended: a leader, of which its pidfd tells, or an orphan, of which nothing does.
    /// Orphans are reaped together a little later, if there are any by then.
    fn expect_orphans(&mut self) {
        if self.context.timers.get(0, Timer::Orphans).is_none() {
            let later = boottime_ns() + ORPHANS_NS;
            self.context.timers.set(0, Timer::Orphans, Some(later));
        }
    }

    /// Reaps siblings of leaders, which are children of spawner threads as leaders are. A child
    /// that is not adopted yet looks the same, so it is done only while there is none; else the
    /// next exit of a child is occasion enough.
    fn reap_strangers(&self, mark: Option<u64>) {
        let Some(mark) = mark else { return };
        let strangers = self.context.kin.strangers();
        if self.mailbox.is_unchanged(mark) {
            strangers.into_iter().for_each(reap::reap_if_ended);
        }
    }

    /// Orders a pass over /proc for those who want one and really need it.
    fn dispatch_pass(&mut self) {
        let ctx = &mut self.context;
        let now = boottime_ns();
        if ctx.desk.is_due(now) && ctx.kin.are_leaders_only() {
            for exec in ctx.desk.take_wanted() {
                self.with(exec, |actor, ctx| actor.counted_as_empty(ctx));
            }
        }
        let next_pass = self.context.desk.dispatch(now);
        self.context.timers.set(0, Timer::Census, next_pass);
    }

    /// Lets an actor work, and drops it once nothing is left to do. An event for an actor that is
    /// gone comes from the same batch as its end, and means nothing any more.
    fn with(&mut self, exec: u32, work: impl FnOnce(&mut Actor, &mut Context)) {
        let Some(actor) = self.actors.get_mut(&exec) else {
            return;
        };
        work(actor, &mut self.context);
        if actor.is_done() {
            self.actors.remove(&exec);
        }
    }

    fn adopt(&mut self, mut actor: Actor) {
        // Before its own deadline is set, which no earlier jump concerns.
        self.look_at_clock();
        self.context.kin.add(actor.pgid());
        actor.adopted(&mut self.context);
        if self.ended {
            actor.kill_now();
        }
        self.actors.insert(actor.id(), actor);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Spawner(thread, children) => {
                self.context.kin.watch_spawner(thread, children);
            }
            Command::SpawnerEnds(thread) => self.context.kin.forget_spawner(thread),
            Command::Kill { exec, token } => {
                if self.actors.contains_key(&exec) {
                    let grace = self.context.spans.grace_ns;
                    let waiter = Some(Waiter::Kill(token));
                    self.with(exec, |actor, ctx| actor.escalate(grace, waiter, ctx));
                } else {
                    self.context.wake.complete(token, 0, 0);
                }
            }
            Command::Stdin {
                exec,
                data,
                eof,
                token,
            } => {
                if self.actors.contains_key(&exec) {
                    self.with(exec, |actor, ctx| actor.stdin_write(data, eof, token, ctx));
                } else {
                    self.context.wake.complete(token, libc::EPIPE, 0);
                }
            }
            Command::Resume { exec } => self.with(exec, |actor, ctx| actor.resume(ctx)),
            Command::Collect { exec } => self.with(exec, |actor, ctx| actor.collect(ctx)),
            Command::EndAll { grace_ns, token } => self.end_all(grace_ns, token),
            Command::KillAll { token } => {
                self.end();
                self.actors.values().for_each(Actor::kill_now);
                self.context.wake.complete(token, 0, 0);
            }
            Command::Suspended => {
                // What an earlier freeze took still counts.
                self.look_at_clock();
                self.freeze.suspended(wall_offset_ns());
                self.look_at_clock();
            }
            Command::Resumed => {
                self.freeze.resumed(boottime_ns());
                self.look_at_clock();
            }
            Command::Drain => {
                self.context.draining = true;
                self.each(|actor, ctx| actor.resume(ctx));
            }
            Command::Census(Ok(members)) => {
                let pgid_of = |exec| Some(self.actors.get(&exec)?.pgid());
                let now = boottime_ns();
                for (exec, pids) in self.context.desk.done(&members, pgid_of, now) {
                    self.with(exec, |actor, ctx| actor.counted(&pids, ctx));
                }
            }
            Command::Census(Err(_)) => {
                for exec in self.context.desk.failed(boottime_ns()) {
                    self.with(exec, |actor, ctx| actor.pass_failed(ctx));
                }
            }
            Command::Stop => {}
        }
    }

    /// Nothing that is started from now on may stay.
    fn end(&mut self) {
        self.ended = true;
        self.mailbox.tell_of_all();
        let spans = &mut self.context.spans;
        spans.linger_ns = spans.linger_ns.min(LAST_LINGER_NS);
        self.each(|actor, ctx| actor.shorten_linger(ctx));
    }

    fn end_all(&mut self, grace_ns: u64, token: u32) {
        self.end();
        let count = self
            .actors
            .values()
            .filter(|actor| actor.may_signal())
            .count();
        // One more than there are, so that it cannot end before the last one was asked to.
        self.context.ending = Some((token, count + 1));
        self.each(|actor, ctx| {
            if actor.may_signal() {
                actor.escalate(grace_ns, Some(Waiter::EndAll), ctx);
            }
        });
        self.context.ended_one();
    }

    fn each(&mut self, mut work: impl FnMut(&mut Actor, &mut Context)) {
        let ids: Vec<u32> = self.actors.keys().copied().collect();
        for exec in ids {
            self.with(exec, &mut work);
        }
    }
}
