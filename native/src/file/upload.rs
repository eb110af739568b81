//! An upload under way: something that empties the buffers that TypeScript lends.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::body::{Body, Source, Turn};
use super::crew::{Crew, Lane};
use super::failure::{CANCELLED, Failure};
use super::peers::{Awaited, Peers};
use super::pour::Pipe;
use super::reserve::Reserve;
use super::strand::{Step, Strand};
use super::target::Target;
use super::ticket::Ticket;
use super::write_all;
use crate::abi::Lent;
use crate::socket;
use crate::tar::spool::Spool;

/// Read at a time, in bytes: what a processor's own cache holds.
const PIECE_BYTES: usize = 256 << 10;

/// Where the bytes go and what becomes of them.
pub enum Goal {
    /// A file.
    File(Target),
    /// A spooled archive, to be extracted beneath a root.
    Tree(Box<Spool>, PathBuf),
}

/// Bytes on their way. Dropped, they leave nothing.
pub struct Staged {
    /// Where they go.
    pub goal: Goal,
    /// The space that stays free.
    pub reserve: Reserve,
}

impl Goal {
    fn file(&self) -> Result<&File, Failure> {
        match self {
            Self::File(target) => target.file(),
            Self::Tree(spool, _) => Ok(spool.main()),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(target) => target.path(),
            Self::Tree(_, root) => root,
        }
    }
}

thread_local! {
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Staged {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.put(bytes.len(), |goal| match goal {
            Goal::File(target) => Ok(write_all(target.file()?, bytes)),
            Goal::Tree(spool, _) => Ok(spool.write(bytes)),
        })
    }

    /// Takes a turn of a body: for a file without a copy on the way, an archive is looked through as it comes.
    fn receive(&mut self, body: &mut Body) -> Result<Turn, Failure> {
        match self.goal {
            Goal::File(_) => match Pipe::new() {
                Ok(pipe) => body.turn(|socket, most| self.pour(&pipe, socket, most)),
                Err(_) => self.receive_pieces(body),
            },
            Goal::Tree(..) => self.receive_pieces(body),
        }
    }

    fn pour(
        &mut self,
        pipe: &Pipe,
        socket: BorrowedFd<'_>,
        most: usize,
    ) -> Result<Option<usize>, Failure> {
        // Whatever is wrong with the connection, nothing more comes.
        let taken = pipe.take(socket, most).unwrap_or(Some(0));
        if let Some(count @ 1..) = taken {
            self.put(count, |goal| Ok(pipe.give(goal.file()?, count)))?;
        }
        Ok(taken)
    }

    fn receive_pieces(&mut self, body: &mut Body) -> Result<Turn, Failure> {
        PIECE.with_borrow_mut(|piece| {
            piece.resize(PIECE_BYTES, 0);
            body.turn(|socket, most| {
                let most = most.min(PIECE_BYTES);
                let taken = socket::read(socket, &mut piece[..most]).unwrap_or(Some(0));
                if let Some(count @ 1..) = taken {
                    self.write(&piece[..count])?;
                }
                Ok(taken)
            })
        })
    }

    fn put(
        &mut self,
        count: usize,
        put: impl FnOnce(&mut Goal) -> Result<Result<(), Errno>, Failure>,
    ) -> Result<(), Failure> {
        self.reserve.count(self.goal.file()?, count as u64)?;
        let Err(errno) = put(&mut self.goal)? else {
            return Ok(());
        };
        let failure = Failure::of("write", self.goal.path(), errno);
        Err(self.reserve.explain(errno, self.goal.file()?, failure))
    }
}

/// Invariant: after a failure nothing is staged any more and every later step fails the same way.
enum State {
    Unopened,
    Staged(Box<Staged>),
    Ended(Failure),
}

/// An upload. Its steps run in the order in which they were asked for, on a crew.
pub struct Upload {
    strand: Arc<Strand<State>>,
    stopped: Arc<AtomicBool>,
    /// What its bytes are read from, while they are.
    socket: Mutex<Option<Arc<OwnedFd>>>,
}

impl Default for Upload {
    fn default() -> Self {
        let (strand, stopped, socket) = (
            Strand::new(State::Unopened),
            Arc::default(),
            Mutex::default(),
        );
        Self {
            strand,
            stopped,
            socket,
        }
    }
}

impl Upload {
    /// Begins. `find_lane` says where it belongs among the crew's jobs.
    pub fn open(
        &self,
        crew: &Crew,
        find_lane: impl FnOnce() -> Lane + Send + 'static,
        open: impl FnOnce() -> Result<Staged, Failure> + Send + 'static,
        ticket: Ticket,
    ) {
        self.strand.find_lane(crew, find_lane);
        self.strand.run(crew, move |state| {
            let result = open().map(|staged| *state = State::Staged(Box::new(staged)));
            ticket.end(state.settle(result.map(|()| 0)));
        });
    }

    /// Writes a buffer. Ends `ticket` when it is not needed any more.
    pub fn write(&self, crew: &Crew, buffer: Lent, ticket: Ticket) {
        self.strand.run(crew, move |state| {
            let count = buffer.bytes().len() as i64;
            let result = match state {
                State::Staged(staged) => staged.write(buffer.bytes()).map(|()| count),
                _ => Err(state.over()),
            };
            ticket.end(state.settle(result));
        });
    }

    /// Writes the rest of a body, read from its socket. Ends `ticket` with how much that was: 0 where
    /// it cannot be had so and nothing of it was read.
    pub fn receive(self: &Arc<Self>, crew: &Crew, peers: &Peers, source: Source, ticket: Ticket) {
        let (upload, receiving) = (Arc::clone(self), (crew.clone(), peers.clone()));
        self.strand.run(crew, move |_| match Body::take(source) {
            None => ticket.end(Ok(0)),
            Some(body) => {
                upload.read_from(Some(body.socket()));
                upload.go_on(receiving, body, ticket);
            }
        });
    }

    fn go_on(self: &Arc<Self>, receiving: (Crew, Peers), body: Body, ticket: Ticket) {
        let upload = Arc::clone(self);
        let crew = receiving.0.clone();
        let mut under_way = Some((receiving, body, ticket));
        self.strand.run_in_steps(&crew, move |state| {
            let Some((receiving, mut body, ticket)) = under_way.take() else {
                return Step::Done;
            };
            let turn = match state {
                State::Staged(staged) => staged.receive(&mut body),
                _ => Err(state.over()),
            };
            match turn {
                Ok(Turn::More) => {
                    under_way = Some((receiving, body, ticket));
                    return Step::Again;
                }
                Ok(Turn::Dry) => {
                    let (upload, socket) = (Arc::clone(&upload), Arc::clone(body.socket()));
                    let peers = receiving.1.clone();
                    peers.wait(&socket, Awaited::Bytes, move || {
                        upload.go_on(receiving, body, ticket);
                    });
                }
                Ok(Turn::Complete) => {
                    // Deno's server does not know that it was read, and would wait for it.
                    socket::end_reading(body.socket());
                    upload.read_from(None);
                    ticket.end(Ok(body.length() as i64));
                }
                Err(failure) => {
                    upload.read_from(None);
                    ticket.end(state.settle(Err(failure)));
                }
            }
            Step::Done
        });
    }

    fn read_from(&self, socket: Option<&Arc<OwnedFd>>) {
        let mut place = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        *place = socket.cloned();
        if let Some(socket) = socket
            && self.stopped.load(Ordering::Relaxed)
        {
            socket::end_reading(socket);
        }
    }

    /// Ends it by `finish`, which gets everything that was written, and what is set when it is to end
    /// soon.
    pub fn finish(
        &self,
        crew: &Crew,
        finish: impl FnOnce(Staged, &AtomicBool) -> Result<i64, Failure> + Send + 'static,
        ticket: Ticket,
    ) {
        let stopped = Arc::clone(&self.stopped);
        self.strand.run(crew, move |state| {
            let over = state.over();
            let result = match std::mem::replace(state, State::Ended(over.clone())) {
                State::Staged(staged) => finish(*staged, &stopped),
                _ => Err(over),
            };
            ticket.end(state.settle(result));
        });
    }

    /// Ends it and leaves nothing. What has not begun is dropped, and `finish` told;
    /// `ticket` ends when nothing more is done.
    pub fn abort(&self, crew: &Crew, ticket: Ticket) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(socket) = &*self.socket.lock().unwrap_or_else(PoisonError::into_inner) {
            socket::end_reading(socket);
        }
        if self.strand.clear() && !matches!(*self.strand.state(), State::Staged(_)) {
            return ticket.end(Ok(0));
        }
        self.strand.run(crew, move |state| {
            *state = State::Ended(state.over());
            ticket.end(Ok(0));
        });
    }
}

impl State {
    fn over(&self) -> Failure {
        match self {
            Self::Ended(failure) => failure.clone(),
            _ => Failure::new(CANCELLED, "Cannot write on: the upload is over"),
        }
    }

    fn settle(&mut self, result: Result<i64, Failure>) -> Result<i64, Failure> {
        if let Err(failure) = &result {
            *self = Self::Ended(failure.clone());
        }
        result
    }
}
