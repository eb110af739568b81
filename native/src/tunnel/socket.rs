//! The two sockets of a tunnel: the caller's, found among this process's own, and the guest's.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, getpeername, getsockname, recv,
    shutdown, sockopt,
};

/// An idle caller is asked whether it is still there after this long, and so often, this far apart.
const KEEPALIVE: (Duration, u32, Duration) = (Duration::from_secs(60), 4, Duration::from_secs(15));

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
pub fn find(ends: Ends) -> Result<OwnedFd, Errno> {
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

fn ends_of(fd: BorrowedFd<'_>) -> Option<Ends> {
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

/// Sets up the caller's socket: nothing waits for more to send, and a caller that vanished without
/// a word is noticed in the end.
pub fn prepare_caller(caller: impl AsFd) -> Result<(), Errno> {
    let (idle, count, interval) = KEEPALIVE;
    rustix::io::ioctl_fionbio(&caller, true)?;
    sockopt::set_tcp_nodelay(&caller, true)?;
    sockopt::set_socket_keepalive(&caller, true)?;
    sockopt::set_tcp_keepidle(&caller, idle)?;
    sockopt::set_tcp_keepcnt(&caller, count)?;
    sockopt::set_tcp_keepintvl(&caller, interval)
}

/// Begins to dial a port of the guest on 127.0.0.1.
pub fn dial(port: u16) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let guest = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&guest, true)?;
    let address = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    match rustix::net::connect(&guest, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(guest),
        Err(errno) => Err(errno),
    }
}

/// How a dial ended, once the socket is writable.
pub fn dialled(guest: impl AsFd) -> Result<(), Errno> {
    sockopt::socket_error(&guest)??;
    let Some(ends) = ends_of(guest.as_fd()) else {
        return Err(Errno::NOTCONN);
    };
    // Without a listener, a dial whose own port happens to be the guest's meets itself.
    let itself = ends.peer == SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), ends.local_port);
    if itself {
        return Err(Errno::CONNREFUSED);
    }
    Ok(())
}

/// Reads what is there; `None` when there is nothing now, 0 at the end.
pub fn read(socket: impl AsFd, out: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        match recv(&socket, &mut *out, RecvFlags::DONTWAIT) {
            Ok((_, count)) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

/// Says that nothing more will be sent.
pub fn end_writing(socket: impl AsFd) {
    // Fails only if the connection is gone already.
    let _ = shutdown(socket, Shutdown::Write);
}

/// Ends both directions, whoever else holds a descriptor of the connection.
pub fn end(socket: impl AsFd) {
    let _ = shutdown(socket, Shutdown::Both);
}

/// However the connection is dropped from now on, with the process too: the other end sees a reset
/// instead of an end.
pub fn will_reset(socket: impl AsFd) {
    // Cannot fail on a socket.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Bytes that were handed to the kernel and not yet acknowledged by the other end.
pub fn unacknowledged(socket: impl AsFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes one int to the address that it is given; `count` is one.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result == 0 {
        count.max(0) as usize
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::Context;
    use super::super::relay::{Purpose, Relay};
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    #[test]
    fn a_connection_is_found_by_its_ends_and_only_while_it_is_the_only_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let local_port = listener.local_addr().unwrap().port();
        let ends = Ends { peer, local_port };
        let copy = find(ends).unwrap();
        // With the duplicate there are two descriptors of it in this process.
        assert_eq!(find(ends).err(), Some(Errno::EXIST));
        drop(copy);
        let other = Ends {
            local_port: local_port ^ 1,
            ..ends
        };
        assert_eq!(find(other).err(), Some(Errno::NOENT));
        drop(accepted);
        assert_eq!(find(ends).err(), Some(Errno::NOENT));
        drop(caller);
    }

    #[test]
    fn a_relay_lets_nothing_wait_for_more_and_asks_idle_callers_whether_they_are_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _caller = TcpStream::connect(address).unwrap();
        let accepted = listener.accept().unwrap().0;
        let mut relay = Relay::new(1, accepted.into(), Purpose::Relay(address.port()), 1);
        relay.begin(&mut Context::new(Arc::default()).unwrap());
        let (caller, guest) = (relay.caller.unwrap().socket, relay.guest.unwrap().socket);
        assert_eq!(sockopt::tcp_nodelay(&caller), Ok(true));
        assert_eq!(sockopt::tcp_nodelay(&guest), Ok(true));
        let keepalive = (
            sockopt::tcp_keepidle(&caller).unwrap(),
            sockopt::tcp_keepcnt(&caller).unwrap(),
            sockopt::tcp_keepintvl(&caller).unwrap(),
        );
        assert_eq!(sockopt::socket_keepalive(&caller), Ok(true));
        assert_eq!(keepalive, KEEPALIVE);
    }

    #[test]
    fn an_address_is_the_same_in_ipv6_clothes() {
        let mapped: SocketAddr = "[::ffff:10.0.0.1]:7".parse().unwrap();
        assert_eq!(plain(mapped), "10.0.0.1:7".parse().unwrap());
    }

    #[test]
    fn a_dial_to_nobody_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let there = dial(port).unwrap();
        assert_eq!(dialled(&there), Ok(()));
        drop(listener);
        assert_eq!(dial(port).and_then(dialled), Err(Errno::CONNREFUSED));
    }
}
