//! The threads that start children. A clone waits for the child's exec, and a child may hang
//! before it (a working directory on a dead mount): that must stop neither JavaScript, nor pipes,
//! nor the next start.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, fcntl_setfl, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::actor::{Actor, Parts};
use super::child::{Failure, Step, clone_child};
use super::exec::{Exec, Table};
use super::log::{Log, Sizes};
use super::request::Request;
use super::stack::Stack;
use super::standing::Before;
use super::store::Store;
use crate::clock::epoch_secs;
use crate::reactor::kin::{has_no_children, own_children};
use crate::reactor::mailbox::{Command, Mailbox};
use crate::reactor::poll::Poll;
use crate::wake::Wake;

/// A child to start as exec `id`. Completes `token` with 0 and the pid, or an errno and the step.
pub struct Order {
    /// The handle it gets.
    pub id: u32,
    /// The operation to complete.
    pub token: u32,
    /// What to start.
    pub request: Request,
}

/// Whom a started child is handed to.
pub struct Desk {
    /// Gets the exec before its start is told.
    pub table: Arc<Table>,
    /// Where the child is adopted.
    pub mailbox: Arc<Mailbox>,
    /// Watches it.
    pub poll: Arc<Poll>,
    /// Is told of the start.
    pub wake: Arc<Wake>,
    /// What a child sets back.
    pub before: Before,
    /// Sizes of what is kept of its output.
    pub sizes: Sizes,
    /// Where that is kept.
    pub store: Arc<Store>,
}

/// Threads that take orders as they come; starting is not faster with more.
const THREADS: usize = 2;
/// And so many at most, while others hang.
const MOST_THREADS: usize = 64;
/// An order that waited this long, while none was taken, shows that every thread hangs, or gets no
/// processor.
const HANG: Duration = Duration::from_millis(250);
/// A thread beyond the first ones ends after so long without an order, if it has no children.
const IDLE: Duration = Duration::from_secs(5);

/// Invariants: `threads` counts those that take orders as they come, `idle` those of them that wait
/// for one. Beside them one stands by, which takes an order only after it waited for [`HANG`], and
/// then counts as one of them.
#[derive(Default)]
struct State {
    orders: VecDeque<(Instant, Order)>,
    /// When one was last taken as it came: on a busy machine a long queue moves, if slowly.
    taken: Option<Instant>,
    threads: usize,
    idle: usize,
}

/// The threads and their queue. Children belong to the thread that cloned them, so none ends that
/// has any: its leaders would fall to the main thread and be reaped there as orphans.
pub struct Spawner {
    state: Mutex<State>,
    /// For the threads that take orders as they come.
    queued: Condvar,
    /// For the one that stands by: orders wait and nobody is idle.
    waiting: Condvar,
    desk: Desk,
}

impl Spawner {
    /// Starts the first threads.
    pub fn start(desk: Desk) -> std::io::Result<Arc<Self>> {
        let spawner = Arc::new(Self {
            state: Mutex::default(),
            queued: Condvar::new(),
            waiting: Condvar::new(),
            desk,
        });
        spawner.lock().threads = THREADS;
        for standby in [false, false, true] {
            spawner.start_thread(standby)?;
        }
        Ok(spawner)
    }

    /// Queues an order.
    pub fn queue(&self, order: Order) {
        let mut state = self.lock();
        state.orders.push_back((Instant::now(), order));
        if state.orders.len() > state.idle {
            self.waiting.notify_one();
        }
        drop(state);
        self.queued.notify_one();
    }

    fn start_thread(self: &Arc<Self>, standby: bool) -> std::io::Result<()> {
        let (spawner, mut stack) = (Arc::clone(self), Stack::new()?);
        let body = move || {
            // Told before the first of its children is.
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            let told = Command::Spawner(thread, own_children());
            spawner.desk.mailbox.send(told);
            if standby {
                let order = spawner.stand_by();
                spawner.spawn(&order, &mut stack);
            }
            while let Some(order) = spawner.next() {
                spawner.spawn(&order, &mut stack);
            }
            spawner.desk.mailbox.send(Command::SpawnerEnds(thread));
        };
        thread::Builder::new()
            .name("guestd-spawner".into())
            .stack_size(256 << 10)
            .spawn(body)?;
        Ok(())
    }

    /// Waits for an order; `None` once this thread may end and is one too many.
    fn next(&self) -> Option<Order> {
        let mut state = self.lock();
        let mut since = Instant::now();
        loop {
            if let Some((_, order)) = state.orders.pop_front() {
                state.taken = Some(Instant::now());
                return Some(order);
            }
            if state.threads > THREADS && since.elapsed() >= IDLE {
                if has_no_children() {
                    state.threads -= 1;
                    return None;
                }
                since = Instant::now();
            }
            state.idle += 1;
            state = if state.threads > THREADS {
                let timed = self.queued.wait_timeout(state, IDLE);
                timed.unwrap_or_else(PoisonError::into_inner).0
            } else {
                let woken = self.queued.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            };
            state.idle -= 1;
        }
    }

    /// Waits until an order has waited too long, leaves the post to another thread and takes it.
    fn stand_by(self: &Arc<Self>) -> Order {
        let mut state = self.lock();
        loop {
            let front = state.orders.front().map(|(since, _)| Some(*since));
            let Some(since) = front.and_then(|since| since.max(state.taken)) else {
                state = self
                    .waiting
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = since.elapsed();
            if waited < HANG {
                let timed = self.waiting.wait_timeout(state, HANG - waited);
                state = timed.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            // At the most threads, or for want of memory for another, this one stays at its post.
            if state.threads < MOST_THREADS && self.start_thread(true).is_ok() {
                state.threads += 1;
                if let Some((_, order)) = state.orders.pop_front() {
                    return order;
                }
            }
            state = self
                .waiting
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn spawn(&self, order: &Order, stack: &mut Stack) {
        let Order {
            id,
            token,
            ref request,
        } = *order;
        let desk = &self.desk;
        match catch_unwind(AssertUnwindSafe(|| start_child(id, request, desk, stack))) {
            Ok(Ok(pid)) => desk.wake.complete(token, 0, i64::from(pid)),
            Ok(Err(failure)) => desk
                .wake
                .complete(token, failure.errno, failure.step as i64),
            Err(_) => desk.wake.complete(token, libc::EIO, Step::Clone as i64),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_child(id: u32, request: &Request, desk: &Desk, stack: &mut Stack) -> Result<i32, Failure> {
    let Ends {
        child: theirs,
        ours,
        stdin,
    } = Ends::open(request).map_err(|errno| Failure {
        step: Step::Pipes,
        errno: errno.raw_os_error(),
    })?;
    let started_at = epoch_secs();
    let _under_way = desk.mailbox.begin_start();
    let child = clone_child(
        request,
        theirs.each_ref().map(OwnedFd::as_fd),
        &desk.before,
        stack,
    )?;
    // At once: as long as they are open here, a pipe that the child closed seems in use.
    drop(theirs);
    let log = Log::new(desk.sizes, &desk.store);
    let exec = Arc::new(Exec::new(id, child.pid, started_at, log));
    desk.table.insert(&exec);
    let (reap, timeout_secs) = (request.reap, request.timeout_secs);
    let parts = Parts {
        exec,
        pidfd: child.pidfd,
        pipes: ours,
        stdin,
        reap,
        timeout_secs,
    };
    desk.mailbox.adopt(Actor::new(parts), &desk.poll);
    Ok(child.pid)
}

/// Both ends of what connects a child.
struct Ends {
    /// The child's 0, 1 and 2.
    child: [OwnedFd; 3],
    /// Where its stdout and stderr are read.
    ours: [OwnedFd; 2],
    /// Where its stdin is written, if it has one.
    stdin: Option<OwnedFd>,
}

impl Ends {
    fn open(request: &Request) -> Result<Self, Errno> {
        let (out, out_child) = output_pipe(request)?;
        let (err, err_child) = output_pipe(request)?;
        let (stdin_child, stdin) = if request.stdin {
            let (child, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setfl(&ours, OFlags::NONBLOCK)?;
            give(&child, request)?;
            (child, Some(ours))
        } else {
            (
                open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
                None,
            )
        };
        Ok(Self {
            child: [stdin_child, out_child, err_child],
            ours: [out, err],
            stdin,
        })
    }
}

fn output_pipe(request: &Request) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (ours, child) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    give(&child, request)?;
    Ok((ours, child))
}

/// Makes the pipe the child's own, so that a demoted child may open /dev/stdout again.
fn give(pipe: &OwnedFd, request: &Request) -> Result<(), Errno> {
    let uid = request
        .uid
        .filter(|uid| *uid != u32::MAX)
        .map(Uid::from_raw);
    let gid = request
        .gid
        .filter(|gid| *gid != u32::MAX)
        .map(Gid::from_raw);
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    match fchown(pipe, uid, gid) {
        // Who may not give it away may not demote either: the child's own step says so.
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}
