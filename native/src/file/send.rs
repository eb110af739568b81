//! An answer that goes out on the caller's own connection, past TypeScript and Deno's server.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failure::{Failure, LOST};
use super::peers::{Awaited, Peers, is_steady};
use crate::socket;

/// Most of a turn, in bytes.
const TURN_BYTES: u64 = 1 << 20;

/// Where an answer is being sent at the moment, for whoever gives it up.
pub type Place = Arc<Mutex<Option<Arc<OwnedFd>>>>;

/// A caller's connection, from the answer's first byte to the last.
///
/// Invariant: while this lives the connection is in `place`, and nobody else writes on it. However it is dropped, with
/// the process too, the caller sees a reset; after [`Connection::end`] an end.
pub struct Connection {
    socket: Arc<OwnedFd>,
    place: Place,
}

impl Connection {
    /// Takes it from Deno's server, which waits for the answer meanwhile. `None` where the server has sent anything before: that is how HTTP/2 begins, and part of an earlier answer may still be in the
    /// server's hands.
    pub fn take(socket: OwnedFd, place: &Place) -> Option<Self> {
        // What waits for room in its window is not counted as sent.
        if socket::sent_bytes(&socket) != Some(0) || !socket::has_taken_all(&socket) {
            return None;
        }
        socket::will_reset(&socket, true);
        let socket = Arc::new(socket);
        *lock(place) = Some(Arc::clone(&socket));
        let place = Arc::clone(place);
        Some(Self { socket, place })
    }

    /// What it is written to.
    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Everything was sent: the caller gets it and then the end. Deno's server, which cannot write any more, closes its
    /// descriptor as soon as it tries.
    pub fn end(self, peers: &Peers) {
        let mut place = lock(&self.place);
        if place.take().is_some() {
            socket::will_reset(&self.socket, false);
            socket::end_sending(&self.socket);
            peers.see_off(Arc::clone(&self.socket));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        give_up(&self.place);
    }
}

/// Resets the connection that is there, if an answer is being sent.
pub fn give_up(place: &Place) {
    if let Some(socket) = lock(place).take() {
        socket::reset(&socket);
    }
}

fn lock(place: &Place) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes behind a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// What is queued behind it.
    Next,
    /// Another piece in the same buffer.
    Refill,
    /// Nothing.
    End,
}

/// Something to send.
pub enum Part {
    /// Bytes.
    Bytes(Vec<u8>, Then),
    /// What kept the rest from being read.
    Failure(Failure),
}

/// How a turn of sending ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it is out.
    All,
    /// There may be more to send at once.
    More,
    /// There is nothing to send yet.
    Starved,
    /// The caller has to take something first.
    Full,
}

/// What is to be sent, in its order.
///
/// Invariant: `at` bytes of the first part are out, if that is one of bytes.
#[derive(Default)]
pub struct Queue {
    parts: VecDeque<Part>,
    at: usize,
}

impl Queue {
    /// Puts something behind what is there.
    pub fn push(&mut self, part: Part) {
        self.parts.push_back(part);
    }

    /// Sends on, but for what others would wait for. `refill` gets the buffers that are to be filled again.
    pub fn send(
        &mut self,
        socket: &OwnedFd,
        mut refill: impl FnMut(Vec<u8>),
    ) -> Result<Sent, Failure> {
        let mut moved = 0;
        while moved < TURN_BYTES {
            let sent = match self.parts.front_mut() {
                None => return Ok(Sent::Starved),
                Some(Part::Failure(failure)) => return Err(failure.clone()),
                Some(Part::Bytes(bytes, then)) if self.at == bytes.len() => {
                    let (bytes, then) = (std::mem::take(bytes), *then);
                    self.at = 0;
                    self.parts.pop_front();
                    match then {
                        Then::Next => {}
                        Then::Refill => refill(bytes),
                        Then::End => return Ok(Sent::All),
                    }
                    continue;
                }
                Some(Part::Bytes(bytes, _)) => {
                    let sent = socket::write(socket, &bytes[self.at..]).map_err(|_| lost())?;
                    self.at += sent.unwrap_or(0);
                    sent
                }
            };
            match sent {
                Some(count) => moved += count as u64,
                None if !is_steady(socket, Awaited::Room, moved) => return Ok(Sent::Full),
                None => {}
            }
        }
        Ok(Sent::More)
    }
}

fn lost() -> Failure {
    Failure::new(LOST, "Cannot send on: the caller left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{self, Ends};
    use crate::file::testing::connected;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn found(ends: Ends) -> OwnedFd {
        caller::find(ends, false).unwrap()
    }

    /// Sends all of `queue` to a caller that reads to the end; what that got, and how many buffers came back.
    fn sent(queue: &mut Queue) -> (Result<Sent, Failure>, Vec<u8>, usize) {
        let (here, mut there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let reading = thread::spawn(move || {
            let mut got = Vec::new();
            there.read_to_end(&mut got).unwrap();
            got
        });
        let (socket, mut refilled) = (OwnedFd::from(here), 0);
        let result = loop {
            match queue.send(&socket, |_| refilled += 1) {
                Ok(Sent::More | Sent::Full) => thread::yield_now(),
                other => break other,
            }
        };
        drop(socket);
        (result, reading.join().unwrap(), refilled)
    }

    #[test]
    fn parts_go_out_in_their_order_and_buffers_come_back() {
        let mut queue = Queue::default();
        let content: Vec<u8> = (0..600_000u32).map(|at| (at >> 3) as u8).collect();
        queue.push(Part::Bytes(b"head".to_vec(), Then::Next));
        queue.push(Part::Bytes(content.clone(), Then::Refill));
        queue.push(Part::Bytes(Vec::new(), Then::Refill));
        let (result, got, refilled) = sent(&mut queue);
        assert_eq!((result, refilled), (Ok(Sent::Starved), 2));
        assert_eq!(got, [b"head", &content[..]].concat());
        queue.push(Part::Bytes(b"last".to_vec(), Then::End));
        assert_eq!(sent(&mut queue), (Ok(Sent::All), b"last".to_vec(), 0));
        queue.push(Part::Failure(Failure::new(LOST, "expected")));
        assert_eq!(sent(&mut queue).0.unwrap_err().text, "expected");
    }

    #[test]
    fn a_caller_that_takes_nothing_keeps_no_thread_and_one_that_leaves_is_lost() {
        let (caller, accepted, _) = connected();
        accepted.set_nonblocking(true).unwrap();
        let socket = OwnedFd::from(accepted);
        let mut queue = Queue::default();
        queue.push(Part::Bytes(vec![7; 64 << 20], Then::End));
        let mut last = Ok(Sent::More);
        while last == Ok(Sent::More) {
            last = queue.send(&socket, |_| {});
        }
        assert_eq!(last, Ok(Sent::Full));
        drop(caller);
        while matches!(last, Ok(Sent::More | Sent::Full)) {
            last = queue.send(&socket, |_| {});
        }
        assert_eq!(last.unwrap_err().status, LOST);
    }

    #[test]
    fn only_a_connection_on_which_nothing_was_sent_is_taken() {
        let (_caller, mut accepted, ends) = connected();
        let place = Place::default();
        accepted.write_all(b"x").unwrap();
        assert!(Connection::take(found(ends), &place).is_none());
        assert!(lock(&place).is_none());
    }

    #[test]
    fn what_a_caller_says_after_the_end_costs_it_nothing_of_the_answer() {
        let (mut caller, accepted, ends) = connected();
        let connection = Connection::take(found(ends), &Place::default()).unwrap();
        let mut sent = 0;
        while let Some(count) = socket::write(connection.socket(), &[7; 1 << 16]).unwrap() {
            sent += count;
        }
        connection.end(&Peers::new().unwrap());
        drop(accepted);
        caller.write_all(b"another request").unwrap();
        caller.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        caller.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), sent);
    }

    #[test]
    fn a_caller_sees_a_reset_unless_all_was_sent() {
        let place = Place::default();
        let (mut caller, _accepted, ends) = connected();
        let connection = Connection::take(found(ends), &place).unwrap();
        socket::write(connection.socket(), b"all").unwrap();
        connection.end(&Peers::new().unwrap());
        give_up(&place);
        let mut got = Vec::new();
        assert_eq!(caller.read_to_end(&mut got).unwrap(), 3);
        for give_up_first in [false, true] {
            let (mut caller, _accepted, ends) = connected();
            let connection = Connection::take(found(ends), &place).unwrap();
            socket::write(connection.socket(), b"some").unwrap();
            if give_up_first {
                give_up(&place);
                connection.end(&Peers::new().unwrap());
            } else {
                drop(connection);
            }
            let ended = caller.read_to_end(&mut Vec::new());
            assert_eq!(
                ended.unwrap_err().kind(),
                std::io::ErrorKind::ConnectionReset
            );
        }
    }
}
