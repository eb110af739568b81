//! One thread that owns every pipe, pidfd and timer of the execs; and the orphans, which the main thread reaps.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::Sender;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::actor::Actor;
use super::context::{Command, Context, Key, Mailbox, Timer};
use super::exec::{Spawned, Table};
use super::group::Waiter;
use super::proc_scan::{Answer, Process};
use crate::clock::{Freeze, boottime_ns, wall_offset_ns};
use crate::sync::start_thread;
use crate::wake::Kind;

/// The linger once every group was told to end, in nanoseconds: the streams want their exit before
/// the daemon is gone.
const LAST_LINGER_NS: u64 = 500_000_000;
/// Orphans are reaped this long after the first of them may have ended, in nanoseconds.
const ORPHANS_NS: u64 = 20_000_000;
/// How often the wall clock is looked at after a freeze, in nanoseconds.
const CLOCK_NS: u64 = 500_000_000;

/// Invariant: an exec is in `actors` from its start until it is collected, or until nothing of it
/// is left to watch or signal.
struct Supervisor {
    context: Context,
    actors: HashMap<u32, Actor>,
    table: Arc<Table>,
    mailbox: Arc<Mailbox>,
    child_exits: OwnedFd,
    asks: Sender<Answer>,
    freeze: Freeze,
    /// Every group was told to end: one that is started later is killed at once.
    ended: bool,
}

/// Starts the supervisor's thread. `child_exits` is the eventfd that SIGCHLD adds to, `asks` leads
/// to the thread that looks through /proc.
pub(crate) fn start(
    context: Context,
    table: Arc<Table>,
    mailbox: Arc<Mailbox>,
    child_exits: OwnedFd,
    asks: Sender<Answer>,
) -> std::io::Result<()> {
    let poll = &context.poll;
    poll.add(&mailbox.eventfd, Key::Mailbox.pack(), EventFlags::IN)?;
    poll.add(&context.timers.timerfd, Key::Timers.pack(), EventFlags::IN)?;
    poll.add(&child_exits, Key::ChildExit.pack(), EventFlags::IN)?;
    let supervisor = Supervisor {
        context,
        actors: HashMap::new(),
        table,
        mailbox,
        child_exits,
        asks,
        freeze: Freeze::default(),
        ended: false,
    };
    start_thread("guestd-supervisor", move || supervisor.run())?;
    Ok(())
}

impl Supervisor {
    fn run(mut self) {
        let mut ready = Vec::new();
        // A panic costs the work of one turn, never the daemon's hold on its execs.
        while catch_unwind(AssertUnwindSafe(|| self.turn(&mut ready))).unwrap_or(true) {}
    }

    /// Waits, then events, commands, deadlines; false once it is told to stop.
    fn turn(&mut self, ready: &mut Vec<(u64, bool)>) -> bool {
        self.context.wake.flush();
        self.look_if_due();
        // Neither can fail on descriptors that this thread owns, but for an interruption.
        let _ = self.context.timers.arm();
        let _ = self.context.poll.wait(ready);
        let mut commands = Vec::new();
        for (key, gone) in ready.drain(..) {
            match Key::unpack(key) {
                Key::Mailbox => commands = self.mailbox.take(),
                key => self.event(key, gone),
            }
        }
        for command in commands {
            if matches!(command, Command::Stop) {
                self.context.wake.flush();
                return false;
            }
            self.obey(command);
        }
        let now = boottime_ns();
        while let Some((exec, timer)) = self.context.timers.pop(now) {
            match timer {
                Timer::ProcScan => {}
                Timer::Clock => self.look_at_clock(),
                Timer::Orphans => self.context.wake.queue_notice(Kind::Orphans, 0),
                Timer::Expected => self.look_at_readers(exec),
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
                self.with(exec, |actor, ctx| actor.output.ready(stream, ctx));
            }
            Key::Stdin(exec) => self.with(exec, |actor, ctx| actor.stdin.ready(gone, ctx)),
            Key::Member(exec, pid) => {
                self.with(exec, |actor, ctx| actor.group.recount(Some(pid), ctx));
            }
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

    /// Orders a look through /proc for those who want one, once it is due.
    fn look_if_due(&mut self) {
        let now = boottime_ns();
        let scan = &mut self.context.scan;
        if scan.begin(now) {
            let mailbox = Arc::clone(&self.mailbox);
            let answer = move |found| mailbox.send(Command::Scanned(found));
            // The thread lives as long as this sender; were it gone, nobody would be left to answer.
            let _ = self.asks.send(Box::new(answer));
        }
        let next = scan.next(now);
        self.context.timers.set(0, Timer::ProcScan, next);
    }

    /// Lets an actor work, and drops it once nothing is left to do. An event for an actor that is
    /// gone comes from the same batch as its end, and means nothing any more.
    fn with(&mut self, exec: u32, work: impl FnOnce(&mut Actor, &mut Context)) {
        let Some(actor) = self.actors.get_mut(&exec) else {
            return;
        };
        work(actor, &mut self.context);
        if actor.conclude(&mut self.context) {
            self.actors.remove(&exec);
        }
    }

    fn each(&mut self, mut work: impl FnMut(&mut Actor, &mut Context)) {
        let ids: Vec<u32> = self.actors.keys().copied().collect();
        for exec in ids {
            self.with(exec, &mut work);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Adopt(spawned) => self.adopt(spawned),
            Command::Kill { exec, token } if self.actors.contains_key(&exec) => {
                let (grace_ns, waiter) = (self.context.spans.grace_ns, Waiter::Kill(token));
                self.with(exec, |actor, ctx| {
                    actor.group.escalate(grace_ns, Some(waiter), ctx);
                });
            }
            Command::Kill { token, .. } => self.context.wake.queue_result(token, 0, 0),
            Command::Stdin {
                exec,
                data,
                eof,
                token,
            } => {
                if self.actors.contains_key(&exec) {
                    self.with(exec, |actor, ctx| actor.stdin.write(data, eof, token, ctx));
                } else {
                    self.context.wake.queue_result(token, libc::EPIPE, 0);
                }
            }
            Command::Readers { exec } => self.look_at_readers(exec),
            Command::Collect { exec } => self.with(exec, |actor, ctx| actor.collect(ctx)),
            Command::EndAll { grace_ns, token } => self.end_all(grace_ns, token),
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
                self.each(|actor, ctx| actor.flow(ctx));
            }
            Command::Scanned(found) => self.looked(found),
            Command::Stop => {}
        }
    }

    /// Reads on or not, as an exec's readers have it now; forgets those that were expected and did
    /// not come. An exec has readers also when nothing of it is left to watch.
    fn look_at_readers(&mut self, exec: u32) {
        if let Some(exec) = self.table.get(exec) {
            let next = exec.facts().log.expire(boottime_ns());
            self.context.timers.set(exec.id, Timer::Expected, next);
        }
        self.with(exec, |actor, ctx| actor.pace(ctx));
    }

    fn adopt(&mut self, spawned: Spawned) {
        // Before its own deadline is set, which no earlier jump concerns.
        self.look_at_clock();
        let id = spawned.exec.id;
        let actor = Actor::adopt(spawned, &mut self.context);
        if self.ended {
            actor.group.kill_now();
        }
        self.actors.insert(id, actor);
    }

    fn looked(&mut self, found: Result<Vec<Process>, Errno>) {
        let (scan, now) = (&mut self.context.scan, boottime_ns());
        let Ok(processes) = found else {
            for exec in scan.failed(now) {
                self.with(exec, |actor, ctx| actor.group.look_failed(ctx));
            }
            return;
        };
        let pgid_of = |exec| Some(self.actors.get(&exec)?.pgid());
        for (exec, members) in scan.done(&processes, pgid_of, now) {
            self.with(exec, |actor, ctx| actor.group.counted(&members, ctx));
        }
    }

    /// Nothing that is started from now on may stay.
    fn end_all(&mut self, grace_ns: u64, token: u32) {
        self.ended = true;
        let spans = &mut self.context.spans;
        spans.linger_ns = spans.linger_ns.min(LAST_LINGER_NS);
        self.each(|actor, ctx| actor.shorten_linger(ctx));
        let ours = self.actors.values().filter(|actor| actor.group.is_ours());
        // One more than there are, so that it cannot end before the last one was asked to.
        self.context.ending = Some((token, ours.count() + 1));
        self.each(|actor, ctx| {
            if actor.group.is_ours() {
                actor.group.escalate(grace_ns, Some(Waiter::EndAll), ctx);
            }
        });
        self.context.ended_one();
    }
}

/// Reaps every orphan that has ended; returns their number.
///
/// Call it on the main thread: orphans become the main thread's children, while leaders are the
/// spawner's and are not looked at (`__WNOTHREAD`), so they stay zombies as long as needed.
pub fn reap_orphans() -> i32 {
    let mut reaped = 0;
    loop {
        // SAFETY: waitid demands a writable siginfo_t: a zeroed local.
        let pid = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::__WNOTHREAD;
            if libc::waitid(libc::P_ALL, 0, &mut info, options) < 0 {
                return reaped;
            }
            info.si_pid()
        };
        if pid == 0 {
            return reaped;
        }
        reaped += 1;
    }
}

/// The eventfd that the handler writes to; -1 until [`on_child_exit`].
static NOTIFY: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_sigchld(_signal: libc::c_int) {
    let one = 1u64;
    // SAFETY: write is async-signal-safe and gets eight bytes of a local; errno is put back, for
    // the interrupted code may be about to read it.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(NOTIFY.load(Ordering::Relaxed), (&raw const one).cast(), 8);
        *errno = saved;
    }
}

/// From now on every SIGCHLD adds to `eventfd`, which must stay open for the process's life:
/// the handler has no owner that could take it back in time.
pub(crate) fn on_child_exit(eventfd: OwnedFd) -> Result<(), Errno> {
    NOTIFY.store(eventfd.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: sigaction demands a valid action: zeroed, then a handler that is async-signal-safe.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigchld as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut()) < 0
    };
    if failed { Err(Errno::INVAL) } else { Ok(()) }
}
