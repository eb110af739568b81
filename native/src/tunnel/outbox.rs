//! Bytes that a socket did not take yet.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Invariant: the bytes from `sent` on wait for the socket, in order; an outbox that is empty holds
/// no memory, so that idle tunnels cost none.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    taken: u64,
}

impl Outbox {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// How many bytes the socket has taken in all.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Sends what waits and then `bytes`, as much as the socket takes; the rest waits.
    pub fn send(&mut self, socket: impl AsFd, bytes: &[u8]) -> Result<(), Errno> {
        self.flush(&socket)?;
        let mut rest = bytes;
        while self.is_empty() && !rest.is_empty() {
            match write(&socket, rest)? {
                0 => break,
                count => {
                    self.taken += count as u64;
                    rest = &rest[count..];
                }
            }
        }
        self.bytes.extend_from_slice(rest);
        Ok(())
    }

    /// Sends what waits, as much as the socket takes.
    pub fn flush(&mut self, socket: impl AsFd) -> Result<(), Errno> {
        while !self.is_empty() {
            match write(&socket, &self.bytes[self.sent..])? {
                0 => return Ok(()),
                count => {
                    self.taken += count as u64;
                    self.sent += count;
                }
            }
        }
        self.clear();
        Ok(())
    }

    /// Drops what waits.
    pub fn clear(&mut self) {
        self.bytes = Vec::new();
        self.sent = 0;
    }
}

/// Writes what the socket takes now; 0 when it takes nothing.
fn write(socket: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match send(&socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_a_full_socket_does_not_take_waits_in_order() {
        let (mine, mut other) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let mut sent = Vec::new();
        for number in 0u8..60 {
            let piece = vec![number; 10_000];
            outbox.send(&mine, &piece).unwrap();
            sent.extend(piece);
        }
        assert!(!outbox.is_empty());
        let mut heard = vec![0; sent.len()];
        let mut at = 0;
        while at < heard.len() {
            at += other.read(&mut heard[at..]).unwrap();
            outbox.flush(&mine).unwrap();
        }
        assert!(outbox.is_empty() && outbox.bytes.capacity() == 0);
        assert!(heard == sent);
    }

    #[test]
    fn a_socket_whose_other_end_is_gone_is_an_error_and_no_signal() {
        let (mine, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(Outbox::default().send(&mine, b"x"), Err(Errno::PIPE));
    }
}
