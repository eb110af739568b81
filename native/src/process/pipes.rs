//! An exec's pipes. Its output is read as long as somebody may write; its stdin is written in order, each write within
//! its own deadline.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::{Errno, read, write};
use rustix::pipe::fcntl_setpipe_size;

use super::context::{Context, Key, READ_BYTES, Timer};
use super::exec::Exec;
use super::log::Stream;
use super::pacing::Pacing;
use crate::clock::boottime_ns;
use crate::reactor::Poll;
use crate::wake::Kind;

/// A pipe that was full so often is enlarged.
const FULL_READS: u8 = 4;
/// What an unprivileged pipe may be enlarged to, in bytes.
const PIPE_BYTES: usize = 1 << 20;
/// The size that a pipe has at first, in bytes.
const FIRST_PIPE_BYTES: usize = 64 << 10;
/// Both streams, as their pipes are ordered.
const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// The reading ends of stdout and stderr, until their end.
pub struct Output {
    exec: Arc<Exec>,
    pipes: [Option<OwnedFd>; 2],
    full_reads: [u8; 2],
    pacing: Pacing,
}

impl Output {
    pub fn new(exec: Arc<Exec>, pipes: [OwnedFd; 2]) -> Self {
        Self {
            exec,
            pipes: pipes.map(Some),
            full_reads: [0; 2],
            pacing: Pacing::default(),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.pipes.iter().all(Option::is_none)
    }

    /// Watches the pipes unless they are paused.
    pub fn watch(&self, poll: &Poll) -> Result<(), Errno> {
        if self.pacing.is_paused() {
            return Ok(());
        }
        let open = self.pipes.iter().zip(STREAMS);
        let mut open = open.filter_map(|(pipe, stream)| Some((pipe.as_ref()?, stream)));
        open.try_for_each(|(pipe, stream)| {
            let key = Key::Output(self.exec.id, stream).pack();
            poll.add(pipe, key, EventFlags::IN)
        })
    }

    /// A pipe has bytes or came to its end. Reads once: what is left is reported again, after the
    /// others had their turn.
    pub fn ready(&mut self, stream: Stream, ctx: &mut Context) {
        // One that is paused is reported no more, but for what was seen ready before.
        if !self.pacing.is_paused() && self.pace(ctx).is_ok() && !self.pacing.is_paused() {
            self.read_once(stream, ctx);
        }
    }

    /// Reads what the pipes hold, once each beyond their size: for the moment before publishing.
    pub fn drain(&mut self, ctx: &mut Context) {
        for stream in STREAMS {
            let mut left = PIPE_BYTES + READ_BYTES;
            while let Some(count) = self.read_once(stream, ctx) {
                left = left.saturating_sub(count);
                if left == 0 {
                    break;
                }
            }
        }
    }

    /// The number of bytes read; `None` when there is nothing (more) to read.
    fn read_once(&mut self, stream: Stream, ctx: &mut Context) -> Option<usize> {
        let slot = stream as usize;
        let pipe = self.pipes[slot].as_ref()?;
        match read(pipe, &mut ctx.scratch[..]) {
            Ok(count) if count > 0 => {
                let bytes = &ctx.scratch[..count];
                let tell = |reader| ctx.wake.queue_notice(Kind::Readable, reader);
                let mut facts = self.exec.facts();
                facts.log.push(stream, bytes, boottime_ns(), tell);
                drop(facts);
                self.enlarge_if_busy(slot, count);
                Some(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            end => {
                if end.is_err() {
                    self.exec.facts().log.cut();
                }
                ctx.poll.remove(pipe);
                self.pipes[slot] = None;
                None
            }
        }
    }

    fn enlarge_if_busy(&mut self, slot: usize, count: usize) {
        let seen = &mut self.full_reads[slot];
        if count < FIRST_PIPE_BYTES || *seen >= FULL_READS {
            return;
        }
        *seen += 1;
        if let (true, Some(pipe)) = (*seen == FULL_READS, &self.pipes[slot]) {
            // EPERM beyond the user's soft limit on pipe pages: it goes on as it is.
            let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
    }

    /// Pauses the pipes, or reads on, as their readers have it now. Errors: see [`Poll::add`].
    pub fn pace(&mut self, ctx: &mut Context) -> Result<(), Errno> {
        let (was_paused, crowded) = (self.pacing.is_paused(), ctx.store.is_crowded());
        let mut facts = self.exec.facts();
        let until = self.pacing.renew(&mut facts.log, crowded, boottime_ns());
        drop(facts);
        if was_paused || until.is_some() {
            ctx.timers.set(self.exec.id, Timer::Pause, until);
        }
        match until {
            None if was_paused => return self.watch(&ctx.poll),
            Some(_) if !was_paused => {
                let open = self.pipes.iter().flatten();
                open.for_each(|pipe| ctx.poll.remove(pipe));
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads on and pauses never again. Errors: see [`Poll::add`].
    pub fn flow(&mut self, ctx: &mut Context) -> Result<(), Errno> {
        if std::mem::replace(&mut self.exec.facts().log.flows, true) {
            return Ok(());
        }
        self.pace(ctx)
    }
}

struct Write {
    data: Vec<u8>,
    written: usize,
    eof: bool,
    token: u32,
    deadline: u64,
}

/// The writing end of stdin, and what is to be written to it.
///
/// Invariant: `writes` is empty once `pipe` is closed; its deadlines never decrease, for every
/// write has the same time from its arrival.
pub struct Stdin {
    exec: u32,
    pipe: Option<OwnedFd>,
    writes: VecDeque<Write>,
}

impl Stdin {
    pub fn new(exec: u32, pipe: Option<OwnedFd>) -> Self {
        let writes = VecDeque::new();
        Self { exec, pipe, writes }
    }

    /// Whether nothing can be written (any more).
    pub fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Room while something is queued, and else only the reader's end.
    fn interest(&self) -> EventFlags {
        if self.writes.is_empty() {
            EventFlags::empty()
        } else {
            EventFlags::OUT
        }
    }

    pub fn watch(&self, poll: &Poll) -> Result<(), Errno> {
        self.pipe.as_ref().map_or(Ok(()), |pipe| {
            poll.add(pipe, Key::Stdin(self.exec).pack(), self.interest())
        })
    }

    /// Queues a write. Completes `token` with the bytes written, and 0, or ETIMEDOUT when the child
    /// did not read in time, EPIPE when it never will, or the errno of a write that failed.
    pub fn write(&mut self, data: Vec<u8>, eof: bool, token: u32, ctx: &mut Context) {
        if self.is_closed() {
            ctx.wake.queue_result(token, libc::EPIPE, 0);
            return;
        }
        let deadline = boottime_ns().saturating_add(ctx.spans.stdin_ns);
        self.writes.push_back(Write {
            data,
            written: 0,
            eof,
            token,
            deadline,
        });
        if self.writes.len() == 1 {
            self.write_queued(ctx);
        }
    }

    /// The pipe takes bytes again, or its reader is gone.
    pub fn ready(&mut self, gone: bool, ctx: &mut Context) {
        if gone {
            self.close(ctx);
        } else {
            self.write_queued(ctx);
        }
    }

    fn write_queued(&mut self, ctx: &mut Context) {
        while let (Some(front), Some(pipe)) = (self.writes.front_mut(), &self.pipe) {
            let rest = &front.data[front.written..];
            match write(pipe, rest) {
                Ok(count) => {
                    front.written += count;
                    if front.written == front.data.len() {
                        self.front_done(0, ctx);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE) => self.close(ctx),
                Err(errno) => self.front_done(errno.raw_os_error(), ctx),
            }
        }
        self.wait(ctx);
    }

    fn front_done(&mut self, status: i32, ctx: &mut Context) {
        let Some(done) = self.writes.pop_front() else {
            return;
        };
        ctx.wake
            .queue_result(done.token, status, done.written as i64);
        if done.eof && status == 0 {
            self.close(ctx);
        }
    }

    fn wait(&mut self, ctx: &mut Context) {
        let deadline = self.writes.front().map(|front| front.deadline);
        ctx.timers.set(self.exec, Timer::Stdin, deadline);
        if let Some(pipe) = &self.pipe {
            // It fails for one that is not watched yet, which `watch` is about to make up for.
            let key = Key::Stdin(self.exec).pack();
            let _ = ctx.poll.change(pipe, key, self.interest());
        }
    }

    /// The oldest write waited long enough; the pipe stays open.
    pub fn late(&mut self, ctx: &mut Context) {
        let now = boottime_ns();
        let is_late = |front: &Write| front.deadline <= now;
        while self.writes.front().is_some_and(is_late) {
            self.front_done(libc::ETIMEDOUT, ctx);
        }
        self.write_queued(ctx);
    }

    /// Closes it; what is queued is not written.
    pub fn close(&mut self, ctx: &mut Context) {
        if let Some(pipe) = self.pipe.take() {
            ctx.poll.remove(&pipe);
        }
        ctx.timers.set(self.exec, Timer::Stdin, None);
        for write in self.writes.drain(..) {
            let written = write.written as i64;
            ctx.wake.queue_result(write.token, libc::EPIPE, written);
        }
    }
}
