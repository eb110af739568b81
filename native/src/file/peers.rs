//! One thread that waits for the peers of all transfers that have nothing to read, or nowhere to write, at the moment.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long the thread waits, with nobody waiting for it, before it ends, in seconds.
const IDLE_SECS: i64 = 5;

/// A peer that is a little slower than the disk is waited for on the spot.
const MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};
/// What such a one has sent or taken in a turn, in bytes. A thread that waits for slower ones is kept from others.
const STEADY_BYTES: u64 = 16 << 10;

type Then = Box<dyn FnOnce() + Send>;

/// What a peer is waited for to do. Whatever it is, its leaving counts too.
#[derive(Clone, Copy, Debug)]
pub enum Awaited {
    /// To send something.
    Bytes,
    /// To take something.
    Room,
}

impl Awaited {
    fn flags(self) -> EventFlags {
        match self {
            Self::Bytes => EventFlags::IN | EventFlags::RDHUP,
            Self::Room => EventFlags::OUT,
        }
    }
}

/// Whether a peer that has `moved` so many bytes in this turn does what is awaited within a moment.
pub fn is_steady(socket: impl AsFd, awaited: Awaited, moved: u64) -> bool {
    let flags = match awaited {
        Awaited::Bytes => PollFlags::IN,
        Awaited::Room => PollFlags::OUT,
    };
    let mut socket = [PollFd::new(&socket, flags)];
    moved >= STEADY_BYTES && !matches!(poll(&mut socket, Some(&MOMENT)), Ok(0) | Err(Errno::INTR))
}

/// Invariant: a socket is in the epoll set exactly while what comes then is in `waiting`, under the
/// number that its event carries; `watched` while the thread runs.
#[derive(Default)]
struct State {
    waiting: HashMap<u64, (Arc<OwnedFd>, Then)>,
    next: u64,
    watched: bool,
}

struct Shared {
    epoll: OwnedFd,
    state: Mutex<State>,
}

/// Sockets that are waited for.
#[derive(Clone)]
pub struct Peers(Arc<Shared>);

impl Peers {
    /// Nobody waits, and no thread.
    pub fn new() -> Result<Self, Errno> {
        let (epoll, state) = (epoll::create(CreateFlags::CLOEXEC)?, Mutex::default());
        Ok(Self(Arc::new(Shared { epoll, state })))
    }

    /// Runs `then` once the peer has done what is `awaited`, on a thread that it must not keep. Drops it
    /// unrun if that cannot be waited for.
    pub fn wait(
        &self,
        socket: &Arc<OwnedFd>,
        awaited: Awaited,
        then: impl FnOnce() + Send + 'static,
    ) {
        let mut state = self.0.lock();
        state.next += 1;
        let number = state.next;
        state
            .waiting
            .insert(number, (Arc::clone(socket), Box::new(then)));
        let added = epoll::add(
            &self.0.epoll,
            socket.as_fd(),
            EventData::new_u64(number),
            awaited.flags() | EventFlags::ONESHOT,
        );
        let kept = added.is_ok() && (state.watched || self.start(&mut state));
        if !kept {
            let unrun = state.waiting.remove(&number);
            drop(state);
            let _ = epoll::delete(&self.0.epoll, socket);
            drop(unrun);
        }
    }

    fn start(&self, state: &mut State) -> bool {
        let shared = Arc::clone(&self.0);
        state.watched = thread::Builder::new()
            .name("guestd-peers".into())
            .stack_size(64 << 10)
            .spawn(move || shared.watch())
            .is_ok();
        state.watched
    }
}

impl Shared {
    fn watch(&self) {
        let mut buffer = [MaybeUninit::<Event>::uninit(); 64];
        let idle = Timespec {
            tv_sec: IDLE_SECS,
            tv_nsec: 0,
        };
        loop {
            let ready = match epoll::wait(&self.epoll, &mut buffer, Some(&idle)) {
                Ok((ready, _)) => ready,
                Err(_) => continue,
            };
            let mut state = self.lock();
            if ready.is_empty() && state.waiting.is_empty() {
                state.watched = false;
                return;
            }
            let come: Vec<_> = ready
                .iter()
                .filter_map(|event| state.waiting.remove(&event.data.u64()))
                .collect();
            drop(state);
            for (socket, then) in come {
                let _ = epoll::delete(&self.epoll, &socket);
                // The others must still be waited for.
                let _ = catch_unwind(AssertUnwindSafe(then));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    #[test]
    fn whoever_waits_is_told_once_of_bytes_and_of_an_end() {
        let peers = Peers::new().unwrap();
        for round in 0..100 {
            let (here, there) = UnixStream::pair().unwrap();
            let (told, is_told) = channel();
            let socket = Arc::new(OwnedFd::from(here));
            peers.wait(&socket, Awaited::Bytes, move || told.send(round).unwrap());
            assert!(is_told.try_recv().is_err());
            if round % 2 == 0 {
                crate::file::write_all(&there, b"x").unwrap();
            } else {
                drop(there);
            }
            assert_eq!(is_told.recv(), Ok(round));
            assert!(is_told.recv().is_err());
        }
    }

    #[test]
    fn what_cannot_be_waited_for_is_dropped_unrun() {
        let peers = Peers::new().unwrap();
        let (told, is_told) = channel::<()>();
        // No regular file can be polled.
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        peers.wait(&Arc::new(file.into()), Awaited::Bytes, move || {
            told.send(()).unwrap()
        });
        assert!(is_told.recv().is_err());
    }
}
