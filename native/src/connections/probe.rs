//! What the kernel tells of one descriptor of this process, if it is a connection by TCP or vsock.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketAddrAny, getpeername, getsockname, sockopt};

use super::WatchedSocket;

/// The TCP state of a connection that was reset or closed: `TCP_CLOSE` of the kernel.
pub const CLOSED: u8 = 7;
/// That of one whose other end sends no more: `TCP_CLOSE_WAIT` of the kernel.
const CLOSE_WAIT: u8 = 8;
/// `TCP_ESTABLISHED` of the kernel.
const ESTABLISHED: u8 = 1;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An address that is plain.
    Tcp(SocketAddr),
    /// A virtual machine or its host.
    Vsock {
        /// Which of them: the host is 2.
        cid: u32,
        /// Its port.
        port: u32,
    },
}

impl End {
    fn of(address: SocketAddrAny) -> Option<Self> {
        if address.address_family() != AddressFamily::VSOCK {
            return Some(Self::Tcp(plain(SocketAddr::try_from(address).ok()?)));
        }
        if (address.addr_len() as usize) < size_of::<libc::sockaddr_vm>() {
            return None;
        }
        // SAFETY: read_unaligned demands an initialized value of the type: the kernel has written as many bytes, and the
        // type is of integers alone.
        let vm = unsafe {
            address
                .as_ptr()
                .cast::<libc::sockaddr_vm>()
                .read_unaligned()
        };
        let (cid, port) = (vm.svm_cid, vm.svm_port);
        Some(Self::Vsock { cid, port })
    }

    /// From a host as [`End::host`] has it.
    pub fn parse(host: &str, port: u32) -> Option<Self> {
        if let Some(cid) = host.strip_prefix("vsock:") {
            let cid = cid.parse().ok()?;
            return Some(Self::Vsock { cid, port });
        }
        // An IPv6 address may name its scope, which counts for nothing here.
        let address = host.split('%').next()?.parse().ok()?;
        let address = SocketAddr::new(address, u16::try_from(port).ok()?);
        Some(Self::Tcp(plain(address)))
    }

    /// Its address as text, or `vsock:` and its context id.
    pub fn host(&self) -> String {
        match self {
            Self::Tcp(address) => address.ip().to_string(),
            Self::Vsock { cid, .. } => format!("vsock:{cid}"),
        }
    }

    /// Its port.
    pub fn port(&self) -> u32 {
        match self {
            Self::Tcp(address) => address.port().into(),
            Self::Vsock { port, .. } => *port,
        }
    }

    fn door(&self) -> Door {
        let (is_vsock, port) = (matches!(self, Self::Vsock { .. }), self.port());
        Door { is_vsock, port }
    }
}

/// A port of this process, whatever the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Door {
    /// Of vsock, else of TCP.
    pub is_vsock: bool,
    /// Its number.
    pub port: u32,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The TCP state, by the kernel's numbers: 1 is established, 8 has had the other end's FIN,
    /// [`CLOSED`] was reset.
    pub state: u8,
    /// Milliseconds since data came; vsock does not tell, and has 0.
    pub came_ms: u32,
    /// Bytes that were written and that the other end has not acknowledged; of vsock older kernels tell 0.
    pub unsent: u32,
    /// Bytes that the other end has acknowledged, ever; vsock does not tell, and has `u64::MAX`.
    pub acked: u64,
}

/// One look at one connection.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub(super) fd: i32,
    pub(super) cookie: u64,
    /// `None` once it was reset.
    pub(super) peer: Option<End>,
    pub(super) local: Door,
    /// Bytes; vsock does not tell, and has 0.
    pub(super) received: u64,
    pub(super) facts: Facts,
}

impl Probe {
    /// It was a connection once, and its other end cannot be told any more.
    pub(super) fn was_reset(&self) -> bool {
        self.peer.is_none() && self.facts.state == CLOSED && self.received > 0
    }

    pub(super) fn found(&self) -> WatchedSocket {
        WatchedSocket {
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

/// Every connection, each once, and the listening sockets that are sought.
type Seen = (Vec<Probe>, Vec<(Door, i32)>);

/// The list of this process's descriptors, which is kept open: there may be none left to open it with.
pub struct Descriptors(Dir);

impl Descriptors {
    /// Opens the list.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let list = open("/proc/self/fd", flags, Mode::empty())?;
        Ok(Self(Dir::new(list)?))
    }

    /// Every connection of this process, and the sockets that listen at one of `doors`; `None` where the list cannot be
    /// read.
    pub fn look(&mut self, doors: &HashSet<Door>) -> Option<Seen> {
        self.0.rewind();
        let (mut probes, mut listeners) = (Vec::new(), Vec::new());
        while let Some(entry) = self.0.read() {
            let entry = entry.ok()?;
            let Some(fd) = entry
                .file_name()
                .to_str()
                .ok()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            probes.extend(look(fd));
            if !doors.is_empty() {
                let door = listens(fd).filter(|door| doors.contains(door));
                listeners.extend(door.map(|door| (door, fd)));
            }
        }
        probes.sort_by_key(|probe| (probe.cookie, probe.fd));
        probes.dedup_by_key(|probe| probe.cookie);
        Some((probes, listeners))
    }
}

fn listens(fd: i32) -> Option<Door> {
    // SAFETY: as in `look`.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let local = End::of(getsockname(borrowed).ok()?)?;
    (sockopt::socket_acceptconn(borrowed) == Ok(true)).then(|| local.door())
}

/// Looks at a descriptor, whoever it belongs to; `None` if it is no connection by TCP or vsock.
pub fn look(fd: i32) -> Option<Probe> {
    // SAFETY: borrow_raw demands that the descriptor stays open. It may be closed meanwhile, or stand
    // for something else; the system calls below only ask, and their answers say what they are about.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let local = End::of(getsockname(borrowed).ok()?)?;
    let peer = getpeername(borrowed).ok().flatten().and_then(End::of);
    let (received, facts) = match local {
        End::Tcp(_) => tcp_facts(fd)?,
        End::Vsock { .. } => (0, vsock_facts(borrowed)),
    };
    if sockopt::socket_acceptconn(borrowed) != Ok(false) {
        return None;
    }
    Some(Probe {
        fd,
        cookie: sockopt::socket_cookie(borrowed).ok()?,
        peer,
        local: local.door(),
        received,
        facts: Facts {
            unsent: unsent(fd),
            ..facts
        },
    })
}

/// Bytes received, and what else the kernel tells of a TCP connection.
fn tcp_facts(fd: i32) -> Option<(u64, Facts)> {
    let info = tcp_info(fd)?;
    let facts = Facts {
        state: info.tcpi_state,
        came_ms: info.tcpi_last_data_recv,
        unsent: 0,
        acked: info.tcpi_bytes_acked,
    };
    Some((info.tcpi_bytes_received, facts))
}

/// Of a vsock connection only what `poll` tells of its ends.
fn vsock_facts(socket: BorrowedFd<'_>) -> Facts {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    // Where it fails nothing is told, and the connection taken for whole.
    let _ = poll(&mut polled, Some(&Timespec::default()));
    let told = polled[0].revents();
    let state = if told.intersects(PollFlags::ERR | PollFlags::HUP) {
        CLOSED
    } else if told.contains(PollFlags::RDHUP) {
        CLOSE_WAIT
    } else {
        ESTABLISHED
    };
    Facts {
        state,
        acked: u64::MAX,
        ..Facts::default()
    }
}

/// A descriptor of our own for what `number` stands for now.
pub fn duplicate(number: i32) -> Option<OwnedFd> {
    // SAFETY: as in `look`: one that is not open is an error of the system call.
    fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 3).ok()
}

/// The same under the number of a descriptor that we have; whether that could be.
pub fn duplicate_onto(number: i32, spare: &mut OwnedFd) -> bool {
    // SAFETY: as in `look`.
    dup3(
        unsafe { BorrowedFd::borrow_raw(number) },
        spare,
        DupFlags::CLOEXEC,
    )
    .is_ok()
}

/// An idle client is asked after this long whether it is still there, so often, this far apart.
const KEEPALIVE: (Duration, u32, Duration) = (Duration::from_secs(60), 4, Duration::from_secs(15));

/// Has the kernel notice in the end that the other end vanished without a word.
pub fn keep_alive(probe: &Probe) {
    let (idle, count, interval) = KEEPALIVE;
    let Some(socket) = duplicate(probe.fd) else {
        return;
    };
    if look(socket.as_raw_fd()).is_some_and(|again| again.cookie == probe.cookie) {
        // They fail only if the connection is gone already.
        let _ = sockopt::set_tcp_keepidle(&socket, idle);
        let _ = sockopt::set_tcp_keepcnt(&socket, count);
        let _ = sockopt::set_tcp_keepintvl(&socket, interval);
        let _ = sockopt::set_socket_keepalive(&socket, true);
    }
}

fn tcp_info(fd: i32) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let to = info.as_mut_ptr().cast();
    // SAFETY: getsockopt writes at most `len` bytes to the address that it is given, and how many
    // these were to that of `len`; both are of locals that are as large as said.
    let result =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len) };
    // The last of the fields above; older kernels tell less, newer ones more.
    let needed = offset_of!(libc::tcp_info, tcpi_bytes_received) + size_of::<u64>();
    // SAFETY: assume_init demands a value: all fields are integers, which are written or zero.
    (result == 0 && len as usize >= needed).then(|| unsafe { info.assume_init() })
}

fn unsent(fd: i32) -> u32 {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ writes one int to the address that it is given; `count` is one.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut count) };
    if result == 0 { count.max(0) as u32 } else { 0 }
}
