//! What is left of a request's body, read from its socket and never seen by TypeScript.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::failure::{Failure, LOST};
use super::peers::{Awaited, is_steady};
use crate::socket;

/// Most of a turn, in bytes.
const TURN_BYTES: u64 = 1 << 20;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The body is complete.
    Complete,
    /// There may be more to read.
    More,
    /// There is nothing to read for now.
    Dry,
}

/// Where the rest of a body comes from, and how it is known to lie bare in the socket.
#[derive(Debug)]
pub struct Source {
    /// The caller's connection.
    pub caller: OwnedFd,
    /// Bytes that have yet to come.
    pub left: u64,
    /// What the server has sent on the connection before, if it speaks HTTP/1; `None` if it surely does.
    pub sent: Option<u64>,
}

/// Invariant: nobody else reads the socket until this is dropped.
pub struct Body {
    socket: Arc<OwnedFd>,
    length: u64,
    left: u64,
}

impl Body {
    /// Takes the rest of a body over. `None` where the connection cannot be told from one whose bytes are frames
    /// of HTTP/2, which begins with some of the server's.
    pub fn take(source: Source) -> Option<Self> {
        if source.sent.is_some() && socket::sent_bytes(&source.caller) != source.sent {
            return None;
        }
        Some(Self {
            socket: Arc::new(source.caller),
            length: source.left,
            left: source.left,
        })
    }

    /// How much there was to read at first, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What it is read from.
    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Moves on, but for what others would wait for. `take` moves what is there from the socket, at most as much as
    /// it is told: how much, `None` when there is nothing now, 0 at the end.
    pub fn turn(
        &mut self,
        mut take: impl FnMut(BorrowedFd<'_>, usize) -> Result<Option<usize>, Failure>,
    ) -> Result<Turn, Failure> {
        let mut moved = 0;
        while self.left > 0 && moved < TURN_BYTES {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            match take(self.socket.as_fd(), most)? {
                Some(0) => {
                    return Err(Failure::new(LOST, "Cannot read the body: it ended early"));
                }
                Some(count) => {
                    self.left -= count as u64;
                    moved += count as u64;
                }
                None if !is_steady(&self.socket, Awaited::Bytes, moved) => return Ok(Turn::Dry),
                None => {}
            }
        }
        Ok(if self.left == 0 {
            Turn::Complete
        } else {
            Turn::More
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{self, Ends};
    use crate::file::testing::connected;
    use std::io::Write;

    fn source(caller: Ends, left: u64, sent: Option<u64>) -> Source {
        let caller = caller::find(caller, false).unwrap();
        Source { caller, left, sent }
    }

    /// Turns until the body is dry, complete or lost.
    fn turns(body: &mut Body, bytes: &mut Vec<u8>) -> Result<Turn, i32> {
        loop {
            let turn = body.turn(|socket, most| {
                let mut piece = vec![0; most.min(100_000)];
                let count = socket::read(socket, &mut piece).unwrap_or(Some(0));
                bytes.extend_from_slice(&piece[..count.unwrap_or(0)]);
                Ok(count)
            });
            match turn {
                Ok(Turn::More) => {}
                turn => return turn.map_err(|failure| failure.status),
            }
        }
    }

    #[test]
    fn a_body_is_read_to_its_end_and_not_beyond() {
        let (mut caller, accepted, ends) = connected();
        let mut body = Body::take(source(ends, 3 << 20, Some(0))).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(turns(&mut body, &mut bytes), Ok(Turn::Dry));
        let sending = std::thread::spawn(move || {
            caller.write_all(&vec![7; 3 << 20]).unwrap();
            caller.write_all(b"next").unwrap();
            caller
        });
        while turns(&mut body, &mut bytes) != Ok(Turn::Complete) {}
        assert_eq!(bytes, vec![7; 3 << 20]);
        let _caller = sending.join().unwrap();
        let mut next = [0; 9];
        while socket::read(&accepted, &mut next) == Ok(None) {}
        assert_eq!(&next[..4], b"next");
    }

    #[test]
    fn a_thread_does_not_wait_for_a_caller_that_trickles() {
        let (mut caller, _accepted, ends) = connected();
        let mut body = Body::take(source(ends, 1 << 20, Some(0))).unwrap();
        // How often this thread has slept.
        let slept = || -> u64 {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let count = status.split("\nvoluntary_ctxt_switches:").nth(1).unwrap();
            count.lines().next().unwrap().trim().parse().unwrap()
        };
        let before = slept();
        for _ in 0..100 {
            caller.write_all(b"x").unwrap();
            assert_eq!(turns(&mut body, &mut Vec::new()), Ok(Turn::Dry));
        }
        assert!(slept() - before < 50);
    }

    #[test]
    fn a_body_that_ends_early_is_lost() {
        let (mut caller, _accepted, ends) = connected();
        let mut body = Body::take(source(ends, 1 << 20, Some(0))).unwrap();
        caller.write_all(b"some").unwrap();
        drop(caller);
        let mut bytes = Vec::new();
        assert_eq!(turns(&mut body, &mut bytes), Err(LOST));
        assert_eq!(bytes, b"some");
    }

    #[test]
    fn a_connection_on_which_more_was_sent_than_by_http_1_is_left_alone() {
        let (_caller, mut accepted, ends) = connected();
        accepted.write_all(&[0; 25]).unwrap();
        assert!(Body::take(source(ends, 1, Some(0))).is_none());
        assert!(Body::take(source(ends, 1, Some(25))).is_some());
        assert!(Body::take(source(ends, 1, None)).is_some());
    }
}
