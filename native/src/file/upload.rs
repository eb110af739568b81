//! An upload under way: something that empties the buffers that TypeScript lends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use super::crew::{Crew, Lane};
use super::failure::{CANCELLED, Failure};
use super::reserve::Reserve;
use super::strand::Strand;
use super::target::Target;
use super::ticket::Ticket;
use super::write_all;
use crate::abi::Lent;
use crate::tar::spool::Spool;

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

impl Staged {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.put(bytes.len(), |goal| match goal {
            Goal::File(target) => Ok(write_all(target.file()?, bytes)),
            Goal::Tree(spool, _) => Ok(spool.write(bytes)),
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
}

impl Default for Upload {
    fn default() -> Self {
        let (strand, stopped) = (Strand::new(State::Unopened), Arc::default());
        Self { strand, stopped }
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
