//! Standard error, written to without ever waiting for its reader: a log that nobody reads must not
//! stop the daemon.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// A pipe or terminal that is ready takes so much without blocking: PIPE_BUF.
const READY_BYTES: usize = 4096;

/// Writes the beginning of `bytes` if that needs no waiting. Its flags stay as they are, for others
/// may share it.
pub fn write_ready(bytes: &[u8]) -> Result<usize, Errno> {
    let stderr = std::io::stderr();
    let mut polled = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut polled, Some(&now))? == 0 {
        return Err(Errno::AGAIN);
    }
    write(&stderr, &bytes[..bytes.len().min(READY_BYTES)])
}
