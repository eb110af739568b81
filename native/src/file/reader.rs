//! A download under way: something that fills the buffers that TypeScript lends.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::crew::{Crew, Lane};
use super::failure::{CANCELLED, Failure};
use super::peers::Peers;
use super::send::{Connection, Place, give_up};
use super::sender::{Answer, Sender};
use super::strand::{Step, Strand};
use super::ticket::Ticket;
use crate::abi::Lent;

/// Something that is read from front to end.
pub trait Source: Send {
    /// Does a piece of what has to be done before the first byte; true once there is no more of it.
    fn prepare(&mut self) -> Result<bool, Failure> {
        Ok(true)
    }

    /// Writes as many bytes as fit and are there; fewer than fit only at the end.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure>;
}

/// A source and the size that it claims to have, in bytes; 0 where it claims none.
pub type Opened = (Box<dyn Source>, u64);

/// Invariant: `source` is none before it was opened, after its end, after a failure and after the
/// closing, so that its descriptors are never held longer than they are of use.
#[derive(Default)]
pub struct State {
    source: Option<Box<dyn Source>>,
    size: u64,
}

impl State {
    /// What is read, unless that is over.
    pub fn source(&mut self) -> Option<&mut Box<dyn Source>> {
        self.source.as_mut()
    }

    /// There is no more to read.
    pub fn end(&mut self) {
        self.source = None;
    }
}

/// A download. Its steps run in the order in which they were asked for, on a crew.
pub struct Reader {
    strand: Arc<Strand<State>>,
    cancelled: Arc<AtomicBool>,
    place: Place,
    sending: Arc<Mutex<Weak<Sender>>>,
}

impl Default for Reader {
    fn default() -> Self {
        let (strand, cancelled) = (Strand::new(State::default()), Arc::default());
        let (place, sending) = Default::default();
        Self {
            strand,
            cancelled,
            place,
            sending,
        }
    }
}

impl Reader {
    /// Set once nobody wants the rest, also while it is being opened.
    pub fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// The size that the source claimed to have, once it was opened.
    pub fn size(&self) -> u64 {
        self.strand.state().size
    }

    /// Opens the source and fills the first buffer. Ends `ticket` with the bytes in it; fewer than
    /// fit are all. `find_lane` says where it belongs among the crew's jobs.
    pub fn open(
        &self,
        crew: &Crew,
        find_lane: impl FnOnce() -> Lane + Send + 'static,
        open: impl FnOnce() -> Result<Opened, Failure> + Send + 'static,
        mut first: Lent,
        ticket: Ticket,
    ) {
        let cancelled = self.cancelled();
        let (mut open, mut ticket, mut opened) = (Some(open), Some(ticket), None);
        let mut begin = move || {
            if cancelled.load(Ordering::Relaxed) {
                return Err(closed());
            }
            if let Some(open) = open.take() {
                opened = Some(open()?);
            }
            let Some((mut source, size)) = opened.take() else {
                return Err(closed());
            };
            if !source.prepare()? {
                opened = Some((source, size));
                return Ok(None);
            }
            let filled = source.fill(first.bytes_mut())?;
            let more = filled == first.bytes().len() && !cancelled.load(Ordering::Relaxed);
            Ok(Some((filled, size, more.then_some(source))))
        };
        self.strand.find_lane(crew, find_lane);
        self.strand.run_in_steps(crew, move |state| {
            let result = match begin() {
                Ok(None) => return Step::Again,
                Ok(Some((filled, size, source))) => {
                    (state.size, state.source) = (size, source);
                    Ok(filled as i64)
                }
                Err(failure) => Err(failure),
            };
            if let Some(ticket) = ticket.take() {
                ticket.end(result);
            }
            Step::Done
        });
    }

    /// Fills another buffer. Ends `ticket` with the bytes in it; fewer than fit are the last.
    pub fn next(&self, crew: &Crew, mut buffer: Lent, ticket: Ticket) {
        let cancelled = self.cancelled();
        self.strand.run(crew, move |state| {
            let result = match state.source.as_mut() {
                _ if cancelled.load(Ordering::Relaxed) => Err(closed()),
                Some(source) => source.fill(buffer.bytes_mut()),
                None => Ok(0),
            };
            if !matches!(result, Ok(filled) if filled == buffer.bytes().len()) {
                state.source = None;
            }
            ticket.end(result.map(|filled| filled as i64));
        });
    }

    /// Sends all on the caller's connection `caller`. Ends `ticket` with 1, or with 0 where that cannot be had so
    /// and nothing was sent; after a failure the connection is reset.
    pub fn send(
        &self,
        (crew, peers): (&Crew, &Peers),
        caller: OwnedFd,
        answer: Answer,
        ticket: Ticket,
    ) {
        let (strand, place) = (Arc::clone(&self.strand), Arc::clone(&self.place));
        let sending = Arc::clone(&self.sending);
        let (crews, cancelled) = ((crew.clone(), peers.clone()), self.cancelled());
        self.strand.run(crew, move |_| {
            let Some(connection) = Connection::take(caller, &place) else {
                return ticket.end(Ok(0));
            };
            let sender = Sender::begin(strand, crews, connection, answer, ticket);
            *lock(&sending) = Arc::downgrade(&sender);
            // Whoever closes it from now on finds the sender.
            if cancelled.load(Ordering::Relaxed) {
                sender.give_up();
            }
        });
    }

    /// Nobody wants the rest: what is under way ends soon, what has not begun is dropped. What is
    /// open is closed by the crew: closing may take long.
    pub fn close(&self, crew: &Crew) {
        self.cancelled.store(true, Ordering::Relaxed);
        give_up(&self.place);
        let sender = lock(&self.sending).upgrade();
        if let Some(sender) = sender {
            sender.give_up();
        }
        if self.strand.clear() && self.strand.state().source.is_none() {
            return;
        }
        self.strand.run(crew, |state| state.source = None);
    }
}

fn lock(sending: &Mutex<Weak<Sender>>) -> MutexGuard<'_, Weak<Sender>> {
    sending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> Failure {
    Failure::new(CANCELLED, "Cannot read on: it was closed")
}
