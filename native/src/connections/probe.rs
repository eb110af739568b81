//! What the kernel tells of one descriptor of this process, if it is a TCP connection.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{Shutdown, connect_unspec, getpeername, getsockname, shutdown, sockopt};

use super::{Ending, Found};

/// The TCP state of a connection that was reset or closed: `TCP_CLOSE` of the kernel.
pub const CLOSED: u8 = 7;

/// Where the fields lie in `struct tcp_info` of include/uapi/linux/tcp.h, in bytes.
mod at {
    pub const STATE: usize = 0;
    pub const LAST_DATA_SENT: usize = 44;
    pub const LAST_DATA_RECEIVED: usize = 52;
    pub const BYTES_ACKED: usize = 120;
    pub const BYTES_RECEIVED: usize = 128;
    pub const END: usize = 136;
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The TCP state, by the kernel's numbers: 1 is established, 8 has had the other end's FIN,
    /// [`CLOSED`] was reset.
    pub state: u8,
    /// Milliseconds since data came.
    pub came_ms: u32,
    /// Milliseconds since data went.
    pub went_ms: u32,
    /// Bytes that were written and that the other end has not acknowledged.
    pub unsent: u32,
    /// Bytes that the other end has acknowledged, ever.
    pub acked: u64,
}

/// One look at one connection.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub(super) fd: i32,
    pub(super) cookie: u64,
    /// `None` once it was reset.
    pub(super) peer: Option<SocketAddr>,
    pub(super) local_port: u16,
    pub(super) received: u64,
    pub(super) facts: Facts,
}

impl Probe {
    /// It was a connection once, and its other end cannot be told any more.
    pub(super) fn was_reset(&self) -> bool {
        self.peer.is_none() && self.facts.state == CLOSED && self.received > 0
    }

    pub(super) fn found(&self) -> Found {
        Found {
            fd: self.fd,
            cookie: self.cookie,
            state: self.facts.state,
        }
    }
}

/// An IPv4 address in its IPv6 clothes is the IPv4 address, and scopes do not count.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Every TCP connection of this process.
pub fn all() -> Vec<Probe> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    of(&numbers.collect::<Vec<i32>>())
}

/// The TCP connections among these descriptors, each once.
pub fn of(numbers: &[i32]) -> Vec<Probe> {
    let mut probes: Vec<Probe> = numbers.iter().copied().filter_map(look_at).collect();
    probes.sort_by_key(|probe| (probe.cookie, probe.fd));
    probes.dedup_by_key(|probe| probe.cookie);
    probes
}

/// Looks at a descriptor that belongs to somebody else.
fn look_at(number: i32) -> Option<Probe> {
    // SAFETY: borrow_raw demands a descriptor that stays open while borrowed. Its owner may close it
    // meanwhile, and another file may take its number: the calls that follow only ask, so they fail
    // or tell of that other file, and what they told is looked at again before anything is done.
    look(&unsafe { BorrowedFd::borrow_raw(number) })
}

/// Looks at a descriptor; `None` if it is no TCP connection.
pub fn look(socket: &impl AsRawFd) -> Option<Probe> {
    let fd = socket.as_raw_fd();
    // SAFETY: as in `look_at`, whose callers' descriptors may be anybody's.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let local = SocketAddr::try_from(getsockname(borrowed).ok()?).ok()?;
    let info = tcp_info(fd)?;
    if sockopt::socket_acceptconn(borrowed) != Ok(false) {
        return None;
    }
    let peer = getpeername(borrowed).ok().flatten();
    Some(Probe {
        fd,
        cookie: sockopt::socket_cookie(borrowed).ok()?,
        peer: peer.and_then(|peer| SocketAddr::try_from(peer).ok().map(plain)),
        local_port: local.port(),
        received: u64_at(&info, at::BYTES_RECEIVED),
        facts: Facts {
            state: info[at::STATE],
            came_ms: u32_at(&info, at::LAST_DATA_RECEIVED),
            went_ms: u32_at(&info, at::LAST_DATA_SENT),
            unsent: unsent(fd),
            acked: u64_at(&info, at::BYTES_ACKED),
        },
    })
}

/// A descriptor of our own for what `number` stands for now.
pub fn duplicate(number: i32) -> Option<OwnedFd> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC takes any number and writes to no memory; one that is not
    // open is an error.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: from_raw_fd demands an open descriptor that nobody else owns: it was made just now.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Ends a connection, whoever else holds a descriptor of it.
pub fn end(socket: &OwnedFd, ending: Ending) {
    // Both fail only if the connection is gone already.
    match ending {
        Ending::Shut => drop(shutdown(socket, Shutdown::Both)),
        Ending::Reset => drop(connect_unspec(socket)),
    }
}

/// An idle client is asked after this long whether it is still there, so often, this far apart.
const KEEPALIVE: (Duration, u32, Duration) = (Duration::from_secs(60), 4, Duration::from_secs(15));

/// Has the kernel notice in the end that the other end vanished without a word.
pub fn keep_alive(probe: &Probe) {
    let (idle, count, interval) = KEEPALIVE;
    let Some(socket) = duplicate(probe.fd) else {
        return;
    };
    if look(&socket).is_some_and(|again| again.cookie == probe.cookie) {
        // They fail only if the connection is gone already.
        let _ = sockopt::set_tcp_keepidle(&socket, idle);
        let _ = sockopt::set_tcp_keepcnt(&socket, count);
        let _ = sockopt::set_tcp_keepintvl(&socket, interval);
        let _ = sockopt::set_socket_keepalive(&socket, true);
    }
}

fn tcp_info(fd: i32) -> Option<[u8; at::END]> {
    let mut info = [0u8; at::END];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: getsockopt writes at most `len` bytes to the address that it is given, and how many
    // these were to that of `len`; both are of locals that are as large as said.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    (result == 0 && len as usize == info.len()).then_some(info)
}

fn unsent(fd: i32) -> u32 {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes one int to the address that it is given; `count` is one.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut count) };
    if result == 0 { count.max(0) as u32 } else { 0 }
}

fn u32_at(info: &[u8; at::END], offset: usize) -> u32 {
    let bytes = info[offset..].first_chunk();
    u32::from_ne_bytes(bytes.copied().unwrap_or_default())
}

fn u64_at(info: &[u8; at::END], offset: usize) -> u64 {
    let bytes = info[offset..].first_chunk();
    u64::from_ne_bytes(bytes.copied().unwrap_or_default())
}
