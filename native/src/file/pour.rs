//! Bytes that go from a socket to a file without being copied into this process.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::write_all;

/// What a pipe may hold where that is allowed, in bytes; a page of the socket's takes a place of a whole one.
const PIPE_BYTES: usize = 1 << 20;

/// The kernel's way between the two: pages of the one are lent to a pipe, and from there to the other.
pub struct Pipe {
    outlet: OwnedFd,
    inlet: OwnedFd,
}

impl Pipe {
    /// An empty one.
    pub fn new() -> Result<Self, Errno> {
        let (outlet, inlet) = pipe_with(PipeFlags::CLOEXEC)?;
        // EPERM beyond the user's soft limit on pipe pages: then it takes less at a time.
        let _ = fcntl_setpipe_size(&inlet, PIPE_BYTES);
        Ok(Self { outlet, inlet })
    }

    /// Takes what is there of a socket that does not block, at most `most` bytes, with nothing in the pipe; `None` when
    /// there is nothing now, 0 at the end.
    pub fn take(&self, socket: impl AsFd, most: usize) -> Result<Option<usize>, Errno> {
        loop {
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match splice(
                &socket,
                None,
                &self.inlet,
                None,
                most.min(PIPE_BYTES),
                flags,
            ) {
                Ok(count) => return Ok(Some(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Writes the `count` bytes that were taken. After a failure the pipe is of no use.
    pub fn give(&self, file: impl AsFd, mut count: usize) -> Result<(), Errno> {
        while count > 0 {
            match splice(&self.outlet, None, &file, None, count, SpliceFlags::MOVE) {
                Ok(0) => return Err(Errno::IO),
                Ok(given) => count -= given,
                Err(Errno::INTR) => {}
                // Not every file system has a way for pages.
                Err(Errno::INVAL) => return self.copy(file, count),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn copy(&self, file: impl AsFd, mut count: usize) -> Result<(), Errno> {
        let mut piece = vec![0; count.min(64 << 10)];
        while count > 0 {
            let most = count.min(piece.len());
            let got = read(&self.outlet, &mut piece[..most])?;
            write_all(&file, &piece[..got])?;
            count -= got;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_taken_is_given_also_to_a_file_that_takes_no_pages() {
        let directory = crate::file::testing::TempDir::make();
        // The kernel lends no pages to a file that is only appended to.
        for append in [false, true] {
            let path = directory.path().join(format!("append-{append}"));
            let file = OpenOptions::new()
                .create(true)
                .write(true)
                .append(append)
                .open(&path)
                .unwrap();
            let (mut there, here) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            let pipe = Pipe::new().unwrap();
            assert_eq!(pipe.take(&here, 1 << 20), Ok(None));
            let sent: Vec<u8> = (0..150_000u32).map(|at| (at >> 3) as u8).collect();
            there.write_all(&sent).unwrap();
            drop(there);
            while let Some(count @ 1..) = pipe.take(&here, 1 << 20).unwrap() {
                pipe.give(&file, count).unwrap();
            }
            assert_eq!(std::fs::read(path).unwrap(), sent);
        }
    }
}
