//! A download under way: something that fills the buffers that TypeScript lends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::crew::Crew;
use super::failure::{CANCELLED, Failure};
use super::strand::Strand;
use super::ticket::Ticket;
use crate::abi::Lent;

/// Something that is read from front to end.
pub trait Source: Send {
    /// Writes as many bytes as fit and are there; fewer than fit only at the end.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure>;
}

/// A source and the size that it claims to have, in bytes; 0 where it claims none.
pub type Opened = (Box<dyn Source>, u64);

/// Invariant: `source` is none before it was opened, after its end, after a failure and after the
/// closing, so that its descriptors are never held longer than they are of use.
#[derive(Default)]
struct State {
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
    /// Set once nobody wants the rest.
    pub fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// The size that the source claimed to have, once it was opened.
    pub fn size(&self) -> u64 {
        self.strand.state().size
    }

    /// Opens the source and fills the first buffer. Ends `ticket` with the bytes in it; fewer than
    /// fit are all.
    pub fn open(
        &self,
        crew: &Crew,
        open: impl FnOnce() -> Result<Opened, Failure> + Send + 'static,
        mut first: Lent,
        ticket: Ticket,
    ) {
        let cancelled = self.cancelled();
        self.strand.run(crew, move |state| {
            let opened = open().and_then(|(mut source, size)| {
                let filled = source.fill(first.bytes_mut())?;
                state.size = size;
                if filled == first.bytes().len() && !cancelled.load(Ordering::Relaxed) {
                    state.source = Some(source);
                }
                Ok(filled as i64)
            });
            ticket.end(opened);
        });
    }

    /// Fills another buffer. Ends `ticket` with the bytes in it; fewer than fit are the last.
    pub fn next(&self, crew: &Crew, mut buffer: Lent, ticket: Ticket) {
        let cancelled = self.cancelled();
        self.strand.run(crew, move |state| {
            let result = match state.source.as_mut() {
                _ if cancelled.load(Ordering::Relaxed) => {
                    Err(Failure::new(CANCELLED, "Cannot read on: it was closed"))
                }
                Some(source) => source.fill(buffer.bytes_mut()),
                None => Ok(0),
            };
            if !matches!(result, Ok(filled) if filled == buffer.bytes().len()) {
                state.source = None;
            }
            ticket.end(result.map(|filled| filled as i64));
        });
    }

    /// Nobody wants the rest. What is open is closed by the crew: closing may take long.
    pub fn close(&self, crew: &Crew) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.strand.run(crew, |state| state.source = None);
    }
}
