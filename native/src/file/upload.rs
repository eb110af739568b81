//! An upload under way: something that empties the buffers that TypeScript lends.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::crew::Crew;
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

impl Staged {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let length = bytes.len() as u64;
        let (written, file, path) = match &mut self.goal {
            Goal::File(target) => {
                let (file, path) = (target.file()?, target.path());
                self.reserve.count(file, length)?;
                (write_all(file, bytes), file, path)
            }
            Goal::Tree(spool, root) => {
                self.reserve.count(spool.main(), length)?;
                (spool.write(bytes), spool.main(), root.as_path())
            }
        };
        written.map_err(|errno| {
            let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
            let under = full.then(|| self.reserve.check_file(file).err()).flatten();
            under.unwrap_or_else(|| Failure::of("write", path, errno))
        })
    }
}

/// Invariant: after a failure nothing is staged any more and every later step fails the same way.
enum State {
    Unopened,
    Staged(Box<Staged>),
    Ended(Failure),
}

/// An upload. Its steps run in the order in which they were asked for, on a crew.
pub struct Upload(Arc<Strand<State>>);

impl Default for Upload {
    fn default() -> Self {
        Self(Strand::new(State::Unopened))
    }
}

impl Upload {
    /// Begins.
    pub fn open(
        &self,
        crew: &Crew,
        open: impl FnOnce() -> Result<Staged, Failure> + Send + 'static,
        ticket: Ticket,
    ) {
        self.0.run(crew, move |state| {
            let result = open().map(|staged| *state = State::Staged(Box::new(staged)));
            ticket.end(state.settle(result.map(|()| 0)));
        });
    }

    /// Writes a buffer. Ends `ticket` when it is not needed any more.
    pub fn write(&self, crew: &Crew, buffer: Lent, ticket: Ticket) {
        self.0.run(crew, move |state| {
            let count = buffer.bytes().len() as i64;
            let result = match state {
                State::Staged(staged) => staged.write(buffer.bytes()).map(|()| count),
                _ => Err(state.over()),
            };
            ticket.end(state.settle(result));
        });
    }

    /// Ends it by `finish`, which gets everything that was written.
    pub fn finish(
        &self,
        crew: &Crew,
        finish: impl FnOnce(Staged) -> Result<i64, Failure> + Send + 'static,
        ticket: Ticket,
    ) {
        self.0.run(crew, move |state| {
            let over = state.over();
            let result = match std::mem::replace(state, State::Ended(over.clone())) {
                State::Staged(staged) => finish(*staged),
                _ => Err(over),
            };
            ticket.end(state.settle(result));
        });
    }

    /// Ends it and leaves nothing. Ends `ticket` when nothing is left.
    pub fn abort(&self, crew: &Crew, ticket: Ticket) {
        self.0.run(crew, move |state| {
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
