//! What is asked of a connection, whichever end of it, and whoever else holds a descriptor of it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendFlags, Shutdown, connect_unspec, getpeername, recv, send, shutdown, sockopt,
};

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

/// Writes what there is room for; `None` when there is none now.
pub fn write(socket: impl AsFd, bytes: &[u8]) -> Result<Option<usize>, Errno> {
    loop {
        match send(&socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

/// Ends both directions, whoever else holds a descriptor of the connection.
pub fn end(socket: impl AsFd) {
    // Fails only if the connection is gone already.
    let _ = shutdown(socket, Shutdown::Both);
}

/// Makes everybody who reads the socket see the end of the body, once what has come is read.
pub fn end_reading(socket: impl AsFd) {
    // Fails only if the connection is gone already.
    let _ = shutdown(socket, Shutdown::Read);
}

/// Ends what is sent, whoever else holds a descriptor of the connection.
pub fn end_sending(socket: impl AsFd) {
    // Fails only if the connection is gone already.
    let _ = shutdown(socket, Shutdown::Write);
}

/// Whether the other end has acknowledged all that was written, the end too; also when the connection is gone.
pub fn has_taken_all(socket: impl AsFd) -> bool {
    let socket = socket.as_fd();
    unacknowledged(socket) == 0 || getpeername(socket).is_err()
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

/// Whether the other end sees a reset instead of an end, however the connection is dropped from now on, with the
/// process too.
pub fn will_reset(socket: impl AsFd, reset: bool) {
    // Cannot fail on a socket.
    let _ = sockopt::set_socket_linger(socket, reset.then_some(Duration::ZERO));
}

/// Resets it at once, whoever else holds a descriptor of the connection.
pub fn reset(socket: impl AsFd) {
    // Fails only if the connection is gone already.
    let _ = connect_unspec(socket);
}

/// Bytes that were sent on a connection, as far as the kernel counts them; `None` where it does not
/// (before Linux 4.19).
pub fn sent_bytes(socket: impl AsFd) -> Option<u64> {
    /// Offset of `tcpi_bytes_sent` in `struct tcp_info`, of include/uapi/linux/tcp.h.
    const BYTES_SENT: usize = 200;
    let mut info = [0u8; BYTES_SENT + 8];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: getsockopt writes at most `len` bytes to the address that it is given, and how many
    // these were to that of `len`; both are of locals that are as large as said.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 || len as usize != info.len() {
        return None;
    }
    info.last_chunk().copied().map(u64::from_ne_bytes)
}
