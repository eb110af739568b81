//! The connection of a caller, found among this process's own: Deno's server does not hand it out.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{getpeername, getsockname, sockopt};

/// The two ends of a connection as they are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The other end.
    pub peer: SocketAddr,
    /// The port of this end.
    pub local_port: u16,
}

/// A second descriptor of the one connection with these ends. `ENOENT` if there is none, `EEXIST`
/// if there are two: a caller may use one port of its own towards two addresses of this machine.
///
/// A caller that resets a connection may have the next one with the same ends. If `wary`, it is also
/// `EEXIST` while there is any connection to this port that was reset and is not closed.
pub fn find(ends: Ends, wary: bool) -> Result<OwnedFd, Errno> {
    let mut found: Option<OwnedFd> = None;
    for entry in std::fs::read_dir("/proc/self/fd").map_err(|_| Errno::NOENT)? {
        let name = entry.map_err(|_| Errno::NOENT)?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The duplicate is a descriptor of this process too, and may have got a number that was
        // another's when the list was made.
        if found
            .as_ref()
            .is_some_and(|copy| copy.as_raw_fd() == number)
        {
            continue;
        }
        // SAFETY: borrow_raw demands a descriptor that stays open while borrowed. Another thread
        // may close this one meanwhile; then the calls below fail or meet another file, which is
        // why the duplicate is looked at again before it is used.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        if wary && was_reset(fd, ends.local_port) {
            return Err(Errno::EXIST);
        }
        if ends_of(fd) != Some(ends) {
            continue;
        }
        let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(fd, 3) else {
            continue;
        };
        if ends_of(copy.as_fd()) != Some(ends) {
            continue;
        }
        if found.replace(copy).is_some() {
            return Err(Errno::EXIST);
        }
    }
    found.ok_or(Errno::NOENT)
}

/// Whether this is a connection to a port of ours that has no other end any more.
fn was_reset(fd: BorrowedFd<'_>, local_port: u16) -> bool {
    getpeername(fd) == Err(Errno::NOTCONN)
        && sockopt::socket_acceptconn(fd) == Ok(false)
        && getsockname(fd).is_ok_and(|local| {
            SocketAddr::try_from(local).is_ok_and(|local| local.port() == local_port)
        })
}

/// Connections that were found, for whoever takes them over once it is certain that they are the
/// right ones.
///
/// Invariant: a handle is never 0 and has 31 bits, so that a result can be one or a negated errno.
#[derive(Default)]
pub struct Held {
    sockets: Mutex<HashMap<u32, OwnedFd>>,
    next: AtomicU32,
}

impl Held {
    /// Finds a connection and keeps it. See [`find`].
    pub fn hold(&self, ends: Ends, wary: bool) -> Result<u32, Errno> {
        let socket = find(ends, wary)?;
        let mut sockets = self.lock();
        loop {
            let handle = self.next.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1);
            if handle != 0 && !sockets.contains_key(&handle) {
                sockets.insert(handle, socket);
                return Ok(handle);
            }
        }
    }

    /// Gives one away, which is kept no longer.
    pub fn take(&self, handle: u32) -> Option<OwnedFd> {
        self.lock().remove(&handle)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, OwnedFd>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ends of a connected socket.
pub fn ends_of(fd: BorrowedFd<'_>) -> Option<Ends> {
    let peer = getpeername(fd).ok()??;
    let local = getsockname(fd).ok()?;
    Some(Ends {
        peer: plain(SocketAddr::try_from(peer).ok()?),
        local_port: SocketAddr::try_from(local).ok()?.port(),
    })
}

/// An IPv4 address in its IPv6 clothes is the IPv4 address, and scopes do not count.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_found_by_its_ends_and_only_while_it_is_the_only_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let local_port = listener.local_addr().unwrap().port();
        let ends = Ends { peer, local_port };
        let copy = find(ends, false).unwrap();
        // With the duplicate there are two descriptors of it in this process.
        assert_eq!(find(ends, false).err(), Some(Errno::EXIST));
        drop(copy);
        let other = Ends {
            local_port: local_port ^ 1,
            ..ends
        };
        assert_eq!(find(other, false).err(), Some(Errno::NOENT));
        drop(accepted);
        assert_eq!(find(ends, false).err(), Some(Errno::NOENT));
        drop(caller);
    }

    #[test]
    fn whoever_is_wary_finds_none_while_another_was_reset_and_is_not_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reset = TcpStream::connect(address).unwrap();
        let (left, peer) = listener.accept().unwrap();
        crate::socket::will_reset(&reset, true);
        drop(reset);
        // The next one with the same ends.
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &peer).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        let (_accepted, again) = listener.accept().unwrap();
        assert_eq!(again, peer);
        let local_port = address.port();
        let ends = Ends { peer, local_port };
        assert_eq!(find(ends, true).err(), Some(Errno::EXIST));
        find(ends, false).unwrap();
        drop(left);
        let held = Held::default();
        let handle = held.hold(ends, true).unwrap();
        assert_eq!(held.hold(ends, true).err(), Some(Errno::EXIST));
        assert_eq!(ends_of(held.take(handle).unwrap().as_fd()), Some(ends));
        assert!(held.take(handle).is_none());
    }

    #[test]
    fn an_address_is_the_same_in_ipv6_clothes() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:7".parse().unwrap();
        assert_eq!(plain(mapped), "10.0.0.1:7".parse().unwrap());
    }
}
