//! The two sockets of a tunnel: the caller's and the guest's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::caller::ends_of;

/// An idle caller is asked whether it is still there after this long, and so often, this far apart.
const KEEPALIVE: (Duration, u32, Duration) = (Duration::from_secs(60), 4, Duration::from_secs(15));

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

#[cfg(test)]
mod tests {
    use super::super::context::Context;
    use super::super::relay::{Purpose, Relay};
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

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
    fn a_dial_to_nobody_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let there = dial(port).unwrap();
        assert_eq!(dialled(&there), Ok(()));
        drop(listener);
        assert_eq!(dial(port).and_then(dialled), Err(Errno::CONNREFUSED));
    }
}
