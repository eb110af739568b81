//! Waiting for clients to come: the kernel tells when a listening socket has one, whoever accepts it.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::DupFlags;

/// Invariant: the set holds `nudged`, and the listening sockets for as long as Deno's server has them open: it holds no
/// descriptors of its own for them, which would keep their port.
pub struct Arrivals {
    epoll: OwnedFd,
    nudged: OwnedFd,
}

impl Arrivals {
    /// Waits for a nudge alone.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let nudged = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &nudged, EventData::new_u64(0), EDGE)?;
        Ok(Self { epoll, nudged })
    }

    /// Waits for clients of this socket from now on, too.
    pub fn listen(&self, fd: i32) {
        // SAFETY: borrow_raw demands that the descriptor stays open. It may be closed meanwhile, or stand for something
        // else: then a look may come too often, and none less.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        // Where the kernel has no room for it, connections are seen when one is watched, or while some are there.
        let _ = epoll::add(&self.epoll, borrowed, EventData::new_u64(0), EDGE);
    }

    /// Ends the wait.
    pub fn nudge(&self) {
        // It fails only when nobody took the last 2^64 of them.
        let _ = rustix::io::write(&self.nudged, &1u64.to_ne_bytes());
    }

    /// Makes a descriptor one that stands for nothing of anybody's.
    pub fn blank(&self, descriptor: &mut OwnedFd) {
        // It fails on no descriptors that are open.
        let _ = rustix::io::dup3(&self.nudged, descriptor, DupFlags::CLOEXEC);
    }

    /// Waits until a client comes, a nudge does, or so long; whether it was one of the first two.
    pub fn wait(&self, most: Option<Duration>) -> bool {
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 8];
        // An interruption is a look too many.
        epoll::wait(&self.epoll, &mut events, timeout.as_ref())
            .is_ok_and(|(came, _)| !came.is_empty())
    }
}

/// Told once for each that comes: what is never read here would be told for ever.
const EDGE: EventFlags = EventFlags::IN.union(EventFlags::ET);
