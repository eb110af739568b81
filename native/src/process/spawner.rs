//! The thread that starts children. A clone waits for the child's exec, and a child may hang
//! before it (a working directory on a dead mount): that must stop neither JavaScript nor pipes.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, fcntl_setfl, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::actor::{Actor, Parts};
use super::child::{Failure, Stack, Step, clone_child};
use super::exec::{Exec, Table};
use super::log::{Log, Sizes};
use super::request::Request;
use super::store::Store;
use crate::clock::epoch_secs;
use crate::reactor::kin::own_children;
use crate::reactor::mailbox::{Command, Mailbox};
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
    /// Adopts the child.
    pub mailbox: Arc<Mailbox>,
    /// Is told of the start.
    pub wake: Arc<Wake>,
    /// Sizes of what is kept of its output.
    pub sizes: Sizes,
    /// Where that is kept.
    pub store: Arc<Store>,
}

/// Starts the thread; it ends when every sender of orders is gone.
///
/// Children belong to the thread that cloned them, so it must live as long as any leader: were it
/// to end, they would fall to the main thread and be reaped there as orphans.
pub fn start(orders: Receiver<Order>, desk: Desk) -> std::io::Result<JoinHandle<()>> {
    let mut stack = Stack::new()?;
    let body = move || {
        if let Some(children) = own_children() {
            desk.mailbox.send(Command::Spawner(children));
        }
        for order in orders {
            let (id, token) = (order.id, order.token);
            let result = catch_unwind(AssertUnwindSafe(|| {
                spawn(id, &order.request, &desk, &mut stack)
            }));
            match result {
                Ok(Ok(pid)) => desk.wake.complete(token, 0, i64::from(pid)),
                Ok(Err(failure)) => desk
                    .wake
                    .complete(token, failure.errno, failure.step as i64),
                Err(_) => desk.wake.complete(token, libc::EIO, Step::Clone as i64),
            }
        }
    };
    thread::Builder::new()
        .name("guestd-spawner".into())
        .stack_size(256 << 10)
        .spawn(body)
}

fn spawn(id: u32, request: &Request, desk: &Desk, stack: &mut Stack) -> Result<i32, Failure> {
    let pipes = Ends::open(request).map_err(|errno| Failure {
        step: Step::Pipes,
        errno: errno.raw_os_error(),
    })?;
    let started_at = epoch_secs();
    let child = clone_child(request, pipes.child.each_ref().map(OwnedFd::as_fd), stack)?;
    let log = Log::new(desk.sizes, &desk.store);
    let exec = Arc::new(Exec::new(id, child.pid, started_at, log));
    desk.table.insert(&exec);
    let Ends { ours, stdin, .. } = pipes;
    let (reap, timeout_secs) = (request.reap, request.timeout_secs);
    let parts = Parts {
        exec,
        pidfd: child.pidfd,
        pipes: ours,
        stdin,
        reap,
        timeout_secs,
    };
    desk.mailbox
        .send(Command::Adopt(Box::new(Actor::new(parts))));
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
