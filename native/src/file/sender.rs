//! A download that is sent on its caller's connection: one strand reads while another one sends.

use std::fs::File;
use std::sync::Arc;

use super::crew::Crew;
use super::peers::{Awaited, Peers};
use super::reader::State;
use super::send::{Connection, Part, Queue, Sent, Then};
use super::strand::{Step, Strand};
use super::ticket::Ticket;
use crate::caller::Ends;

/// So many buffers of so many bytes go round between the two.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 120 << 10;

/// An answer.
pub struct Answer {
    /// Whom it is for.
    pub caller: Ends,
    /// Its head, and what was read of its body already.
    pub begin: Vec<u8>,
    /// Bytes of the body that come behind; none where only the end of the connection will tell.
    pub left: Option<u64>,
}

struct Call {
    connection: Connection,
    ticket: Ticket,
}

/// Invariant: `call` is there from the beginning until the end or a failure, but for while its caller is waited for.
struct Outlet {
    call: Option<Call>,
    queue: Queue,
}

/// Both strands of one download.
pub struct Sender {
    source: Arc<Strand<State>>,
    outlet: Arc<Strand<Outlet>>,
    crew: Crew,
    peers: Peers,
}

impl Sender {
    /// Begins to send `begin`, and then so many bytes of the file, or else what `source` still has to give.
    pub fn begin(
        source: Arc<Strand<State>>,
        (crew, peers): (Crew, Peers),
        (connection, ticket): (Connection, Ticket),
        begin: Vec<u8>,
        file: Option<(File, u64)>,
    ) {
        let mut queue = Queue::default();
        queue.push(Part::Bytes(begin, Then::Next));
        let is_file = file.is_some();
        if let Some((file, left)) = file {
            queue.push(Part::File(file, left));
        }
        let call = Some(Call { connection, ticket });
        let sender = Arc::new(Self {
            outlet: source.beside(Outlet { call, queue }),
            source,
            crew,
            peers,
        });
        sender.step(|_| {});
        if !is_file {
            (0..BUFFERS).for_each(|_| sender.fill(vec![0; BUFFER_BYTES]));
        }
    }

    /// Reads into a buffer, behind those that were given before, and sends it.
    fn fill(self: &Arc<Self>, mut buffer: Vec<u8>) {
        let sender = Arc::clone(self);
        self.source.run(&self.crew, move |state| {
            let Some(source) = state.source() else {
                return;
            };
            let filled = source.fill(&mut buffer);
            let is_last = !matches!(filled, Ok(count) if count == buffer.len());
            if is_last {
                state.end();
            }
            let then = if is_last { Then::End } else { Then::Refill };
            let part = match filled {
                Ok(count) => {
                    buffer.truncate(count);
                    Part::Bytes(buffer, then)
                }
                Err(failure) => Part::Failure(failure),
            };
            sender.step(|outlet| outlet.queue.push(part));
        });
    }

    /// Does something about the outlet, and then sends what there is to send.
    fn step(self: &Arc<Self>, before: impl FnOnce(&mut Outlet) + Send + 'static) {
        let (sender, mut before) = (Arc::clone(self), Some(before));
        self.outlet.run_in_steps(&self.crew, move |outlet| {
            if let Some(before) = before.take() {
                before(outlet);
            }
            sender.send(outlet)
        });
    }

    fn send(self: &Arc<Self>, outlet: &mut Outlet) -> Step {
        let Some(call) = outlet.call.take() else {
            return Step::Done;
        };
        let socket = call.connection.socket();
        match outlet.queue.send(socket, |buffer| self.fill(buffer)) {
            Ok(Sent::More) => {
                outlet.call = Some(call);
                return Step::Again;
            }
            Ok(Sent::Starved) => outlet.call = Some(call),
            Ok(Sent::Full) => {
                let (sender, socket) = (Arc::clone(self), Arc::clone(socket));
                self.peers.wait(&socket, Awaited::Room, move || {
                    sender.step(|outlet| outlet.call = Some(call));
                });
            }
            Ok(Sent::All) => {
                call.connection.end(&self.peers);
                call.ticket.end(Ok(1));
            }
            Err(failure) => {
                drop(call.connection);
                call.ticket.end(Err(failure));
            }
        }
        Step::Done
    }
}
