//! One thread that waits for the peers of all transfers that have nothing to read, or nowhere to write, at the moment,
//! and for those that have yet to take the rest of what was sent.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::socket;

/// How often those that were sent all are looked at whose leaving was not seen.
const ROUND: Duration = Duration::from_secs(5);
/// Most that is thrown away at a time of what a peer still says, in bytes.
const DISCARDED_BYTES: usize = 64 << 10;

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

/// A socket that was sent all, and whether its peer had taken that when it was looked at last.
struct Leaving(Arc<OwnedFd>, bool);

/// Invariant: a socket is in the epoll set exactly while it is in `waiting`, with what comes then, or in `leaving`,
/// under the number that its event carries; `watched` while the thread runs.
#[derive(Default)]
struct State {
    waiting: HashMap<u64, (Arc<OwnedFd>, Then)>,
    leaving: HashMap<u64, Leaving>,
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

    /// Keeps a socket whose sending was ended until the peer has taken everything and left, or had time to leave. To
    /// close it earlier may reset it: of what is not yet taken the peer would then get nothing.
    pub fn see_off(&self, socket: Arc<OwnedFd>) {
        let mut state = self.0.lock();
        state.next += 1;
        let number = state.next;
        let added = epoll::add(
            &self.0.epoll,
            socket.as_fd(),
            EventData::new_u64(number),
            LEAVING_FLAGS,
        );
        let kept = added.is_ok() && (state.watched || self.start(&mut state));
        if kept {
            state.leaving.insert(number, Leaving(socket, false));
        } else {
            drop(state);
            let _ = epoll::delete(&self.0.epoll, &socket);
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

const LEAVING_FLAGS: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ONESHOT);

/// What a peer that was sent all is doing.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// It has left, with everything or by a reset.
    Gone,
    /// It will send nothing more, but has not taken everything.
    Taking,
    /// It may still send something.
    There,
}

fn look_after(socket: &OwnedFd) -> Seen {
    let (mut discarded, mut bytes) = (0, [0; 4096]);
    while discarded < DISCARDED_BYTES {
        match socket::read(socket, &mut bytes) {
            Ok(Some(0)) if socket::has_taken_all(socket) => return Seen::Gone,
            Ok(Some(0)) => return Seen::Taking,
            Ok(Some(count)) => discarded += count,
            Ok(None) => break,
            Err(_) => return Seen::Gone,
        }
    }
    Seen::There
}

impl Shared {
    /// Those of `leaving` that an event came for. One that has said its end is not asked for again: that would be
    /// told at once.
    fn see_off(&self, state: &mut State, number: u64) -> Option<Leaving> {
        let Leaving(socket, _) = state.leaving.get(&number)?;
        let data = EventData::new_u64(number);
        let stays = match look_after(socket) {
            Seen::Gone => false,
            Seen::Taking => true,
            Seen::There => epoll::modify(&self.epoll, socket, data, LEAVING_FLAGS).is_ok(),
        };
        if stays {
            None
        } else {
            state.leaving.remove(&number)
        }
    }

    /// Those of `leaving` that have been there with everything for a round.
    fn overdue(state: &mut State) -> Vec<Leaving> {
        let mut overdue = Vec::new();
        for (&number, Leaving(socket, had_all)) in &mut state.leaving {
            let is_gone = look_after(socket) == Seen::Gone;
            let has_all = socket::has_taken_all(&**socket);
            if is_gone || std::mem::replace(had_all, has_all) && has_all {
                overdue.push(number);
            }
        }
        let overdue = overdue.iter();
        overdue
            .filter_map(|number| state.leaving.remove(number))
            .collect()
    }

    fn watch(&self) {
        let mut buffer = [MaybeUninit::<Event>::uninit(); 64];
        let idle = Timespec {
            tv_sec: IDLE_SECS,
            tv_nsec: 0,
        };
        let mut round = Instant::now();
        loop {
            let ready = match epoll::wait(&self.epoll, &mut buffer, Some(&idle)) {
                Ok((ready, _)) => ready,
                Err(_) => continue,
            };
            let mut state = self.lock();
            if ready.is_empty() && state.waiting.is_empty() && state.leaving.is_empty() {
                state.watched = false;
                return;
            }
            let (mut come, mut left) = (Vec::new(), Vec::new());
            for number in ready.iter().map(|event| event.data.u64()) {
                match state.waiting.remove(&number) {
                    Some(waited) => come.push(waited),
                    None => left.extend(self.see_off(&mut state, number)),
                }
            }
            if round.elapsed() >= ROUND {
                round = Instant::now();
                left.extend(Self::overdue(&mut state));
            }
            drop(state);
            for Leaving(socket, _) in left {
                let _ = epoll::delete(&self.epoll, &socket);
            }
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
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::Weak;
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

    /// A caller and what it was sent, which is more than it takes unread.
    fn sent_all(peers: &Peers) -> (TcpStream, Weak<OwnedFd>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Arc::new(OwnedFd::from(listener.accept().unwrap().0));
        while crate::socket::write(&socket, &[7; 1 << 16])
            .unwrap()
            .is_some()
        {}
        crate::socket::end_sending(&socket);
        let kept = Arc::downgrade(&socket);
        peers.see_off(socket);
        (caller, kept)
    }

    fn overdue(peers: &Peers) -> usize {
        Shared::overdue(&mut peers.0.lock()).len()
    }

    #[test]
    fn who_was_sent_all_is_let_go_when_it_has_left() {
        let peers = Peers::new().unwrap();
        let (mut caller, kept) = sent_all(&peers);
        caller.read_to_end(&mut Vec::new()).unwrap();
        drop(caller);
        let begun = Instant::now();
        while kept.strong_count() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(4), "it is kept");
            thread::yield_now();
        }
    }

    #[test]
    fn who_was_sent_all_is_kept_until_it_has_taken_it_and_no_longer_than_it_needs_to_leave() {
        let peers = Peers::new().unwrap();
        // A thread that looks by itself would disturb this.
        peers.0.lock().watched = true;
        let (mut caller, kept) = sent_all(&peers);
        caller.write_all(b"more").unwrap();
        assert_eq!([overdue(&peers), overdue(&peers), overdue(&peers)], [0; 3]);
        caller.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!([overdue(&peers), overdue(&peers)], [0; 2]);
        caller.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(overdue(&peers), 1);
        let (mut caller, _) = sent_all(&peers);
        caller.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!([overdue(&peers), overdue(&peers)], [0, 1]);
        assert_eq!(kept.strong_count(), 0);
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
