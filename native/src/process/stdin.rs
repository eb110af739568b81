//! Writing to a child's stdin: in order, each write within its own deadline.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, write};

use super::actor::Actor;
use crate::clock::boottime_ns;
use crate::reactor::Context;
use crate::reactor::poll::{Interest, Key, Poll};
use crate::reactor::timers::Timer;

struct Write {
    data: Vec<u8>,
    written: usize,
    eof: bool,
    token: u32,
    deadline: u64,
}

/// Invariant: `writes` is empty once `pipe` is closed; its deadlines never decrease, for every
/// write has the same time from its arrival.
pub struct Stdin {
    pipe: Option<OwnedFd>,
    writes: VecDeque<Write>,
}

impl Stdin {
    pub(super) fn new(pipe: Option<OwnedFd>) -> Self {
        Self {
            pipe,
            writes: VecDeque::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Room while something is queued, and else only the reader's end.
    fn interest(&self) -> Interest {
        if self.writes.is_empty() {
            Interest::Closed
        } else {
            Interest::Write
        }
    }
}

impl Actor {
    pub(super) fn watch_stdin(&self, poll: &Poll) -> Result<(), Errno> {
        self.stdin.pipe.as_ref().map_or(Ok(()), |pipe| {
            poll.add(pipe, Key::Stdin(self.exec.id), self.stdin.interest())
        })
    }

    /// Queues a write. Completes `token` with the bytes written, and 0, or ETIMEDOUT when the child
    /// did not read in time, EPIPE when it never will, or the errno of a write that failed.
    pub fn stdin_write(&mut self, data: Vec<u8>, eof: bool, token: u32, ctx: &mut Context) {
        if self.stdin.is_closed() {
            ctx.wake.complete(token, libc::EPIPE, 0);
            return;
        }
        let deadline = boottime_ns().saturating_add(ctx.spans.stdin_ns);
        self.stdin.writes.push_back(Write {
            data,
            written: 0,
            eof,
            token,
            deadline,
        });
        if self.stdin.writes.len() == 1 {
            self.write_queued(ctx);
        }
    }

    /// The pipe takes bytes again, or its reader is gone.
    pub fn stdin_ready(&mut self, gone: bool, ctx: &mut Context) {
        if gone {
            self.close_stdin(ctx)
        } else {
            self.write_queued(ctx)
        }
    }

    fn write_queued(&mut self, ctx: &mut Context) {
        while let (Some(front), Some(pipe)) = (self.stdin.writes.front_mut(), &self.stdin.pipe) {
            let rest = &front.data[front.written..];
            let result = if rest.is_empty() {
                Ok(0)
            } else {
                write(pipe, rest)
            };
            match result {
                Ok(count) => {
                    front.written += count;
                    if front.written == front.data.len() {
                        self.front_done(0, ctx);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE) => self.close_stdin(ctx),
                Err(errno) => self.front_done(errno.raw_os_error(), ctx),
            }
        }
        self.await_stdin(ctx);
    }

    fn front_done(&mut self, status: i32, ctx: &mut Context) {
        let Some(done) = self.stdin.writes.pop_front() else {
            return;
        };
        ctx.wake.complete(done.token, status, done.written as i64);
        if done.eof && status == 0 {
            self.close_stdin(ctx);
        }
    }

    fn await_stdin(&mut self, ctx: &mut Context) {
        let deadline = self.stdin.writes.front().map(|front| front.deadline);
        ctx.timers.set(self.exec.id, Timer::Stdin, deadline);
        if let Some(pipe) = &self.stdin.pipe {
            // It fails for one that is not watched yet, which `watch` is about to make up for.
            let interest = self.stdin.interest();
            let _ = ctx.poll.change(pipe, Key::Stdin(self.exec.id), interest);
        }
    }

    /// The oldest write waited long enough; the pipe stays open.
    pub(super) fn stdin_late(&mut self, ctx: &mut Context) {
        self.front_done(libc::ETIMEDOUT, ctx);
        let now = boottime_ns();
        while self
            .stdin
            .writes
            .front()
            .is_some_and(|front| front.deadline <= now)
        {
            self.front_done(libc::ETIMEDOUT, ctx);
        }
        self.write_queued(ctx);
    }

    pub(super) fn close_stdin(&mut self, ctx: &mut Context) {
        if let Some(pipe) = self.stdin.pipe.take() {
            ctx.poll.remove(&pipe);
        }
        ctx.timers.set(self.exec.id, Timer::Stdin, None);
        for write in self.stdin.writes.drain(..) {
            ctx.wake
                .complete(write.token, libc::EPIPE, write.written as i64);
        }
    }
}
