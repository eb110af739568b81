//! A download that is sent on its caller's connection: one strand reads while another one sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crew::{Crew, NO_DISK_LANE};
use super::failure::{Failure, SHORTER};
use super::peers::{Awaited, Peers};
use super::reader::State;
use super::send::{Connection, Part, Queue, Sent, Then};
use super::strand::{Step, Strand};
use super::ticket::Ticket;

/// So many buffers of so many bytes go round between the two. What was read is sent as it was: pages that wait in a socket
/// as they are (`sendfile`) would show what becomes of them, and here cost more than the copy.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 120 << 10;

/// An answer.
pub struct Answer {
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
///
/// Invariant: `left` bytes are still to be read, as many as there are if that is the most; the source's jobs alone change
/// it.
pub struct Sender {
    source: Arc<Strand<State>>,
    outlet: Arc<Strand<Outlet>>,
    left: AtomicU64,
    crew: Crew,
    peers: Peers,
}

impl Sender {
    /// Begins to send an answer, of which `source` still has to give what comes behind its beginning.
    pub fn begin(
        source: Arc<Strand<State>>,
        (crew, peers): (Crew, Peers),
        connection: Connection,
        answer: Answer,
        ticket: Ticket,
    ) -> Arc<Self> {
        let mut queue = Queue::default();
        let is_all = answer.left == Some(0);
        let then = if is_all { Then::End } else { Then::Next };
        queue.push(Part::Bytes(answer.begin, then));
        let call = Some(Call { connection, ticket });
        let sender = Arc::new(Self {
            outlet: Strand::in_lane(Outlet { call, queue }, NO_DISK_LANE),
            left: AtomicU64::new(answer.left.unwrap_or(u64::MAX)),
            source,
            crew,
            peers,
        });
        sender.step(|_| {});
        if !is_all {
            (0..BUFFERS).for_each(|_| sender.fill(vec![0; BUFFER_BYTES]));
        }
        sender
    }

    /// Nobody wants the rest. The source may hang; what waits for the caller ends by its reset.
    pub fn give_up(&self) {
        let call = self.outlet.state().call.take();
        drop(call);
    }

    /// Reads into a buffer, behind those that were given before, and sends it.
    fn fill(self: &Arc<Self>, mut buffer: Vec<u8>) {
        let sender = Arc::clone(self);
        self.source.run(&self.crew, move |state| {
            let Some(source) = state.source() else {
                return;
            };
            let read = source.fill(sender.room(&mut buffer));
            let part = match read.and_then(|count| sender.count(count, buffer.len())) {
                Ok((count, then)) => {
                    buffer.truncate(count);
                    Part::Bytes(buffer, then)
                }
                Err(failure) => Part::Failure(failure),
            };
            if !matches!(part, Part::Bytes(_, Then::Refill)) {
                state.end();
            }
            sender.step(|outlet| outlet.queue.push(part));
        });
    }

    fn room<'a>(&self, buffer: &'a mut [u8]) -> &'a mut [u8] {
        let left = self.left.load(Ordering::Relaxed);
        let most = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        &mut buffer[..most]
    }

    /// So many bytes were read into a buffer of `length`: as many, and what comes behind them.
    fn count(&self, count: usize, length: usize) -> Result<(usize, Then), Failure> {
        let left = self.left.load(Ordering::Relaxed);
        let is_short = count < length;
        let rest = left.saturating_sub(count as u64);
        match left {
            u64::MAX if is_short => Ok((count, Then::End)),
            u64::MAX => Ok((count, Then::Refill)),
            _ if rest == 0 => Ok((count, Then::End)),
            _ if is_short => Err(shorter()),
            _ => {
                self.left.store(rest, Ordering::Relaxed);
                Ok((count, Then::Refill))
            }
        }
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

fn shorter() -> Failure {
    Failure::new(SHORTER, "Cannot send the rest: the file became shorter")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller;
    use crate::file::crew::UNKNOWN_LANE;
    use crate::file::reader::{Reader, Source};
    use crate::file::testing::connected;
    use crate::file::ticket::Texts;
    use crate::wake::{EVENT_SIZE, Wake};
    use std::io::{ErrorKind, Read};
    use std::sync::mpsc::{Receiver, channel};

    /// Hangs as long as the other end of the channel is there.
    struct Hanging(Receiver<()>);

    impl Source for Hanging {
        fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
            if !out.is_empty() {
                let _ = self.0.recv();
            }
            Ok(0)
        }
    }

    /// The status with which the next operation ends.
    fn next_end(wake: &Wake) -> i32 {
        let mut event = [0; EVENT_SIZE];
        assert_eq!(wake.wait(&mut event), Some(1));
        event[8..]
            .first_chunk()
            .copied()
            .map(i32::from_le_bytes)
            .unwrap()
    }

    #[test]
    fn a_caller_that_leaves_does_not_wait_for_a_disk_that_hangs() {
        let (wake, texts): (Arc<Wake>, Texts) = Default::default();
        let ticket = |token| Ticket::new(&wake, &texts, token);
        let (crew, peers) = (Crew::new("test", 4, 4), Peers::new().unwrap());
        let (release, hangs) = channel();
        let reader = Reader::default();
        // SAFETY: no bytes are lent.
        #[allow(unsafe_code)]
        let nothing = unsafe { crate::abi::Lent::new(std::ptr::null_mut(), 0) };
        reader.open(
            &crew,
            || UNKNOWN_LANE,
            move || Ok((Box::new(Hanging(hangs)) as Box<dyn Source>, 0)),
            nothing,
            ticket(1),
        );
        assert_eq!(next_end(&wake), 0);
        let (mut caller, _accepted, ends) = connected();
        let answer = Answer {
            begin: b"head".to_vec(),
            left: None,
        };
        let found = caller::find(ends, false).unwrap();
        reader.send((&crew, &peers), found, answer, ticket(2));
        caller.read_exact(&mut [0; 4]).unwrap();
        reader.close(&crew);
        assert_ne!(next_end(&wake), 0);
        let ended = caller.read(&mut [0]);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
        drop(release);
    }
}
