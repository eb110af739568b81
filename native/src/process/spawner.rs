//! The threads that start children. A clone waits for the child's exec, and a child may hang
//! before it (a working directory on a dead mount): that must stop neither JavaScript, nor pipes,
//! nor the next start.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, fcntl_setfl, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::child::{SpawnFailure, Stack, Step, clone_child};
use super::context::{Command, Mailbox};
use super::exec::{Exec, Request, Spawned, Table};
use super::log::{Log, Sizes};
use super::store::Store;
use crate::clock::boottime_ns;
use crate::self_protection::{Original, Reserve};
use crate::sync::{lock, start_thread};
use crate::wake::Wake;

/// A child to start as exec `id`. Completes `token` with 0 and the pid, or an errno and the step.
pub struct SpawnOrder {
    pub id: u32,
    pub token: u32,
    pub request: Request,
}

/// What a start needs besides its request.
pub struct SpawnContext {
    pub table: Arc<Table>,
    pub mailbox: Arc<Mailbox>,
    pub wake: Arc<Wake>,
    pub original: Original,
    pub sizes: Sizes,
    pub store: Arc<Store>,
}

/// Threads that take orders as they come; starting is not faster with more.
const THREADS: usize = 2;
/// Threads there are at most, while others hang.
const MOST_THREADS: usize = 64;
/// An order that waited this long, while none was taken, shows that every thread hangs, or gets no
/// processor.
const HANG: Duration = Duration::from_millis(250);

/// Invariants: `threads` counts those that take orders as they come, `idle` those of them that wait
/// for one. Beside them one stands by, which takes an order only after it waited for [`HANG`], and
/// then counts as one of them.
#[derive(Default)]
struct Queue {
    orders: VecDeque<(Instant, SpawnOrder)>,
    /// When one was last taken: on a busy machine a long queue moves, if slowly.
    taken: Option<Instant>,
    threads: usize,
    idle: usize,
}

impl Queue {
    fn take(&mut self) -> Option<SpawnOrder> {
        let (_, order) = self.orders.pop_front()?;
        self.taken = Some(Instant::now());
        Some(order)
    }

    /// How long orders wait without one being taken; `None` if none waits.
    fn waited(&self) -> Option<Duration> {
        let (since, _) = self.orders.front()?;
        let begun = self.taken.map_or(*since, |taken| taken.max(*since));
        Some(begun.elapsed())
    }
}

/// The threads and their queue. None of them ends: children belong to the thread that cloned them,
/// and its leaders would fall to the main thread and be reaped there as orphans.
pub struct Spawner {
    queue: Mutex<Queue>,
    /// For the threads that take orders as they come.
    queued: Condvar,
    /// For the one that stands by: orders wait and nobody is idle.
    waiting: Condvar,
    context: SpawnContext,
}

impl Spawner {
    pub fn start(context: SpawnContext) -> std::io::Result<Arc<Self>> {
        let spawner = Arc::new(Self {
            queue: Mutex::default(),
            queued: Condvar::new(),
            waiting: Condvar::new(),
            context,
        });
        lock(&spawner.queue).threads = THREADS;
        for standby in [false, false, true] {
            spawner.start_thread(standby)?;
        }
        Ok(spawner)
    }

    pub fn queue(&self, order: SpawnOrder) {
        let mut queue = lock(&self.queue);
        queue.orders.push_back((Instant::now(), order));
        if queue.orders.len() > queue.idle {
            self.waiting.notify_one();
        }
        drop(queue);
        self.queued.notify_one();
    }

    fn start_thread(self: &Arc<Self>, standby: bool) -> std::io::Result<()> {
        let (spawner, mut stack) = (Arc::clone(self), Stack::new()?);
        let body = move || {
            if standby {
                spawner.spawn(spawner.stand_by(), &mut stack);
            }
            loop {
                spawner.spawn(spawner.next(), &mut stack);
            }
        };
        start_thread("guestd-spawner", body)
    }

    fn next(&self) -> SpawnOrder {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(order) = queue.take() {
                return order;
            }
            queue.idle += 1;
            let woken = self.queued.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Waits until an order has waited too long, leaves the post to another thread and takes it.
    fn stand_by(self: &Arc<Self>) -> SpawnOrder {
        let mut queue = lock(&self.queue);
        loop {
            let patience = match queue.waited() {
                // At the most threads, or for want of memory for another, this one stays at its post.
                Some(waited)
                    if waited >= HANG
                        && queue.threads < MOST_THREADS
                        && self.start_thread(true).is_ok() =>
                {
                    queue.threads += 1;
                    if let Some(order) = queue.take() {
                        return order;
                    }
                    continue;
                }
                Some(waited) => HANG.saturating_sub(waited),
                None => Duration::ZERO,
            };
            queue = if patience.is_zero() {
                let woken = self.waiting.wait(queue);
                woken.unwrap_or_else(PoisonError::into_inner)
            } else {
                let timed = self.waiting.wait_timeout(queue, patience);
                timed.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Takes the order, for megabytes may be in it, and the next one may never come.
    fn spawn(&self, order: SpawnOrder, stack: &mut Stack) {
        let (token, context) = (order.token, &self.context);
        let start = || {
            let mut start = || start_child(order.id, &order.request, context, stack);
            match start() {
                Err((_, libc::EMFILE)) => {
                    let _reserve = Reserve::open();
                    start()
                }
                other => other,
            }
        };
        match catch_unwind(AssertUnwindSafe(start)) {
            Ok(Ok(pid)) => context.wake.complete(token, 0, i64::from(pid)),
            Ok(Err((step, errno))) => context.wake.complete(token, errno, step as i64),
            Err(_) => context.wake.complete(token, libc::EIO, Step::Clone as i64),
        }
    }
}

fn start_child(
    id: u32,
    request: &Request,
    context: &SpawnContext,
    stack: &mut Stack,
) -> Result<i32, SpawnFailure> {
    let pipes = open_pipes(request).map_err(|errno| (Step::Pipes, errno.raw_os_error()));
    let (theirs, output, stdin) = pipes?;
    let started_at = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let stdio = theirs.each_ref().map(OwnedFd::as_fd);
    let (pid, pidfd) = clone_child(request, stdio, &context.original, stack)?;
    // At once: as long as they are open here, a pipe that the child closed seems in use.
    drop(theirs);
    let log = Log::new(context.sizes, &context.store, boottime_ns());
    let exec = Arc::new(Exec::new(id, pid, started_at, log));
    context.table.insert(&exec);
    context.mailbox.send(Command::Adopt(Spawned {
        exec,
        pidfd,
        output,
        stdin,
        reap: request.reap,
        timeout_secs: request.timeout_secs,
    }));
    Ok(pid)
}

/// Both ends of what connects a child: its 0, 1 and 2; where its stdout and stderr are read; where
/// its stdin is written, if it has one.
type Pipes = ([OwnedFd; 3], [OwnedFd; 2], Option<OwnedFd>);

fn open_pipes(request: &Request) -> Result<Pipes, Errno> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((out, out_child), (err, err_child)) = (pipe()?, pipe()?);
    let (in_child, stdin) = if request.stdin {
        let (child, ours) = pipe()?;
        (child, Some(ours))
    } else {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        (open("/dev/null", flags, Mode::empty())?, None)
    };
    for ours in [&out, &err].into_iter().chain(&stdin) {
        fcntl_setfl(ours, OFlags::NONBLOCK)?;
        give(ours, request)?;
    }
    Ok(([in_child, out_child, err_child], [out, err], stdin))
}

/// Makes the pipe the child's own, so that a demoted child may open /dev/stdout again.
fn give(pipe: &OwnedFd, request: &Request) -> Result<(), Errno> {
    let [uid, gid] = [request.uid, request.gid].map(|id| id.filter(|id| *id != u32::MAX));
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    match fchown(pipe, uid.map(Uid::from_raw), gid.map(Gid::from_raw)) {
        // Who may not give it away may not demote either: the child's own step says so.
        Err(Errno::PERM) => Ok(()),
        other => other,
    }
}
