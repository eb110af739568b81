//! An exec's output pipes: read as long as somebody may write, held back for a reader that lags.

use std::os::fd::OwnedFd;

use rustix::io::{Errno, read};
use rustix::pipe::fcntl_setpipe_size;

use super::actor::Actor;
use super::ring::Stream;
use crate::clock::boottime_ns;
use crate::reactor::Context;
use crate::reactor::READ_BYTES;
use crate::reactor::poll::{Interest, Key, Poll};
use crate::reactor::timers::Timer;
use crate::wake::Kind;

/// The reading ends of stdout and stderr, until their end.
pub type Pipes = [Option<OwnedFd>; 2];

/// The pipes are held back at most this long at a time, in nanoseconds.
const HOLD_NS: u64 = 100_000_000;
/// And this long in all per exec, in nanoseconds.
const HOLD_TOTAL_NS: u64 = 1_000_000_000;
/// The same while captured output is moved out of memory: a disk that is slow holds the commands that
/// fill it up, one that hangs not for ever.
const CROWDED_NS: u64 = 5_000_000;
const CROWDED_TOTAL_NS: u64 = 60_000_000_000;
/// A pipe that was full so often is enlarged.
const FULL_READS: u8 = 4;
/// What an unprivileged pipe may be enlarged to, in bytes.
const PIPE_BYTES: usize = 1 << 20;
/// The size that a pipe has at first, in bytes.
const FIRST_PIPE_BYTES: usize = 64 << 10;

/// Where each reader is.
type Cursors = Vec<(u32, u64)>;

/// Both streams, as their pipes are ordered.
const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// How long the pipes were held back, and how busy they are.
#[derive(Default)]
pub struct Pacing {
    /// For readers, and for the disk.
    spent_ns: [u64; 2],
    /// Since when they are held, and where the readers were then; `None` for the disk.
    held: Option<(u64, Option<Cursors>)>,
    full_reads: [u8; 2],
}

impl Actor {
    pub(super) fn watch_pipes(&self, poll: &Poll) -> Result<(), Errno> {
        if self.pacing.held.is_some() {
            return Ok(());
        }
        let open = self.pipes.iter().zip(STREAMS);
        open.filter_map(|(pipe, stream)| Some((pipe.as_ref()?, stream)))
            .try_for_each(|(pipe, stream)| {
                poll.add(pipe, Key::Output(self.exec.id, stream), Interest::Read)
            })
    }

    /// A pipe has bytes or came to its end. Reads once: what is left is reported again, after the
    /// others had their turn.
    pub fn output_ready(&mut self, stream: Stream, ctx: &mut Context) {
        if self.pacing.held.is_none() && !self.hold_if_behind(ctx) {
            self.read_once(stream, ctx);
        }
    }

    /// Reads what the pipes hold, once each beyond their size: for the moment before publishing.
    pub(super) fn drain_pipes(&mut self, ctx: &mut Context) {
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
                let mut state = self.exec.state();
                state.log.push(stream, bytes, |reader| {
                    ctx.wake.notify(Kind::Readable, reader)
                });
                drop(state);
                self.enlarge_if_busy(slot, count);
                Some(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok(_) | Err(_) => {
                ctx.poll.remove(pipe);
                self.pipes[slot] = None;
                self.pipe_ended(ctx);
                None
            }
        }
    }

    fn enlarge_if_busy(&mut self, slot: usize, count: usize) {
        let seen = &mut self.pacing.full_reads[slot];
        if count < FIRST_PIPE_BYTES || *seen >= FULL_READS {
            return;
        }
        *seen += 1;
        if let (true, Some(pipe)) = (*seen == FULL_READS, &self.pipes[slot]) {
            // EPERM beyond the user's soft limit on pipe pages: it goes on as it is.
            let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
    }

    fn hold_if_behind(&mut self, ctx: &mut Context) -> bool {
        let mut state = self.exec.state();
        let crowded = ctx.store.is_crowded();
        if state.published || (!crowded && state.log.has_room(READ_BYTES as u64)) {
            return false;
        }
        let [for_readers, for_disk] = self.pacing.spent_ns;
        let (most, left, cursors) = if crowded {
            (CROWDED_NS, CROWDED_TOTAL_NS.saturating_sub(for_disk), None)
        } else {
            let left = HOLD_TOTAL_NS.saturating_sub(for_readers);
            (HOLD_NS, left, Some(state.log.cursors()))
        };
        if left == 0 || ctx.draining || self.group.was_signalled() {
            return false;
        }
        state.log.held = true;
        let now = boottime_ns();
        self.pacing.held = Some((now, cursors));
        drop(state);
        self.pipes
            .iter()
            .flatten()
            .for_each(|pipe| ctx.poll.remove(pipe));
        ctx.timers
            .set(self.id(), Timer::Hold, Some(now + left.min(most)));
        true
    }

    /// The hold lasted as long as one may: readers that took nothing are not waited for again.
    pub(super) fn hold_over(&mut self, ctx: &mut Context) {
        if let Some((_, Some(cursors))) = &self.pacing.held {
            self.exec.state().log.give_up_on(cursors);
        }
        self.resume(ctx);
    }

    /// Reads on.
    pub fn resume(&mut self, ctx: &mut Context) {
        let Some((since, cursors)) = self.pacing.held.take() else {
            return;
        };
        let spent = &mut self.pacing.spent_ns[usize::from(cursors.is_none())];
        *spent += boottime_ns().saturating_sub(since);
        self.exec.state().log.held = false;
        ctx.timers.set(self.id(), Timer::Hold, None);
        self.watch_again(ctx);
    }
}
