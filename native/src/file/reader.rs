//! A download under way: something that fills the buffers that TypeScript lends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::crew::{Crew, Lane};
use super::failure::{CANCELLED, Failure};
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

/// A download. Its steps run in the order in which they were asked for, on a crew.
pub struct Reader {
    strand: Arc<Strand<State>>,
    cancelled: Arc<AtomicBool>,
}

impl Default for Reader {
    fn default() -> Self {
        let (strand, cancelled) = (Strand::new(State::default()), Arc::default());
        Self { strand, cancelled }
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

    /// Nobody wants the rest: what is under way ends soon, what has not begun is dropped. What is
    /// open is closed by the crew: closing may take long.
    pub fn close(&self, crew: &Crew) {
        self.cancelled.store(true, Ordering::Relaxed);
        if self.strand.clear() && self.strand.state().source.is_none() {
            return;
        }
        self.strand.run(crew, |state| state.source = None);
    }
}

fn closed() -> Failure {
    Failure::new(CANCELLED, "Cannot read on: it was closed")
}
