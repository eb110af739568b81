//! What every relay works with: buffers, and where its sockets are watched.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::crypto::TAG_BYTES;
use super::frames::HEAD_BYTES;
use super::noise::{CHUNK_BYTES, MESSAGE_BYTES};
use super::relay::Side;
use super::seen::Seen;
use crate::clock::boottime_ns;
use crate::wake::Wake;

/// How much is read of a caller at a time, in bytes.
pub const READ_BYTES: usize = 256 << 10;
/// How much is read of a guest at a time and sent in one frame at most, in bytes.
pub const FRAME_BYTES: usize = 256 << 10;
/// Room for a reading of ciphertext, and for one of plaintext with heads and tags.
const OUTPUT_BYTES: usize = {
    let opened = READ_BYTES + MESSAGE_BYTES;
    let sealed = FRAME_BYTES + FRAME_BYTES.div_ceil(CHUNK_BYTES) * (HEAD_BYTES + TAG_BYTES);
    if opened > sealed { opened } else { sealed }
};

/// What every relay works with.
pub struct Context {
    pub(super) epoll: OwnedFd,
    pub(super) wake: Arc<Wake>,
    /// What was read, for the moment of one call.
    pub(super) input: Vec<u8>,
    /// What is sent, for the moment of one call; the first `used` bytes of it are in use.
    pub(super) output: Vec<u8>,
    pub(super) used: usize,
    pub(super) now: u64,
    /// Keys that are not needed any more may lie on the stack.
    pub(super) stained: bool,
    pub(super) seen: Seen,
}

impl Context {
    pub(super) fn new(wake: Arc<Wake>) -> Result<Self, Errno> {
        let (input, output, used, stained, seen) = Default::default();
        let mut context = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            wake,
            input,
            output,
            used,
            now: boottime_ns(),
            stained,
            seen,
        };
        context.renew();
        Ok(context)
    }

    /// Makes the buffers usable, in whatever state a failure has left them.
    pub(super) fn renew(&mut self) {
        self.input
            .resize(HEAD_BYTES + READ_BYTES.max(FRAME_BYTES), 0);
        self.output.resize(OUTPUT_BYTES, 0);
        self.used = 0;
    }

    /// Watches a socket for `wanted`, or not at all. Fails for want of memory.
    pub(super) fn watch(&self, side: &mut Side, key: u64, wanted: EventFlags) -> Result<(), Errno> {
        let wanted = (!wanted.is_empty()).then_some(wanted);
        if side.watched == wanted {
            return Ok(());
        }
        let data = EventData::new_u64(key);
        match (side.watched, wanted) {
            (_, None) => epoll::delete(&self.epoll, &side.socket),
            (None, Some(flags)) => epoll::add(&self.epoll, &side.socket, data, flags),
            (Some(_), Some(flags)) => epoll::modify(&self.epoll, &side.socket, data, flags),
        }?;
        side.watched = wanted;
        Ok(())
    }

    /// Stops watching a socket that is about to go.
    pub(super) fn forget(&self, side: &Side) {
        if side.watched.is_some() {
            let _ = epoll::delete(&self.epoll, &side.socket);
        }
    }
}
