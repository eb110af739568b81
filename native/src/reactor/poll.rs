//! The epoll set, keyed by what a descriptor is to the reactor.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::process::ring::Stream;

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The mailbox.
    Mailbox,
    /// The timerfd.
    Timers,
    /// Some child of the process ended.
    ChildExit,
    /// The leader of an exec ended.
    Leader(u32),
    /// An output pipe of an exec.
    Output(u32, Stream),
    /// The stdin pipe of an exec.
    Stdin(u32),
    /// A watched member of an exec's group ended.
    Member(u32, i32),
}

const PID_BITS: u64 = 24;

impl Key {
    /// `kind << 56 | pid << 32 | exec`; the kernel's pids fit 22 bits.
    fn pack(self) -> u64 {
        let (kind, pid, exec) = match self {
            Self::Mailbox => (0, 0, 0),
            Self::Timers => (1, 0, 0),
            Self::ChildExit => (2, 0, 0),
            Self::Leader(exec) => (3, 0, exec),
            Self::Output(exec, Stream::Stdout) => (4, 0, exec),
            Self::Output(exec, Stream::Stderr) => (5, 0, exec),
            Self::Stdin(exec) => (6, 0, exec),
            Self::Member(exec, pid) => (7, pid as u64 & ((1 << PID_BITS) - 1), exec),
        };
        (kind as u64) << 56 | pid << 32 | u64::from(exec)
    }

    fn unpack(packed: u64) -> Option<Self> {
        let exec = packed as u32;
        Some(match packed >> 56 {
            0 => Self::Mailbox,
            1 => Self::Timers,
            2 => Self::ChildExit,
            3 => Self::Leader(exec),
            4 => Self::Output(exec, Stream::Stdout),
            5 => Self::Output(exec, Stream::Stderr),
            6 => Self::Stdin(exec),
            7 => Self::Member(exec, (packed >> 32) as i32 & ((1 << PID_BITS) - 1)),
            _ => return None,
        })
    }
}

/// What to wait for on a descriptor. Errors and hang-ups are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable.
    Read,
    /// Writable.
    Write,
    /// Only that the other end is gone.
    Closed,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::Closed => EventFlags::empty(),
        }
    }
}

/// A level-triggered epoll set.
pub struct Poll {
    epoll: OwnedFd,
    /// A kernel that allows no more watches; the limit is the machine's, so no test can lower it.
    #[cfg(test)]
    pub refuses: std::sync::atomic::AtomicBool,
}

impl Poll {
    /// An empty set.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            #[cfg(test)]
            refuses: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// Watches `fd`; one that is watched already stays as it is. ENOMEM or ENOSPC where the kernel
    /// has no memory for it or allows no more watches.
    pub fn add(&self, fd: impl AsFd, key: Key, interest: Interest) -> Result<(), Errno> {
        #[cfg(test)]
        if self.refuses.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Errno::NOSPC);
        }
        let data = EventData::new_u64(key.pack());
        match epoll::add(&self.epoll, fd, data, interest.flags()) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// Changes what is waited for.
    pub fn change(&self, fd: impl AsFd, key: Key, interest: Interest) -> Result<(), Errno> {
        epoll::modify(
            &self.epoll,
            fd,
            EventData::new_u64(key.pack()),
            interest.flags(),
        )
    }

    /// Stops watching `fd`; not watching it is no error.
    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Blocks until something is ready and lists it: the key, and whether the other end is gone.
    pub fn wait(&self, ready: &mut Vec<(Key, bool)>) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::<Event>::uninit(); 128];
        let (events, _) = epoll::wait(&self.epoll, &mut buffer, None)?;
        ready.clear();
        ready.extend(events.iter().filter_map(|event| {
            let flags = event.flags;
            let gone = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            Some((Key::unpack(event.data.u64())?, gone))
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_packing() {
        let keys = [
            Key::Mailbox,
            Key::Timers,
            Key::ChildExit,
            Key::Leader(u32::MAX),
            Key::Output(7, Stream::Stdout),
            Key::Output(7, Stream::Stderr),
            Key::Stdin(9),
            Key::Member(u32::MAX, 4_194_304),
        ];
        for key in keys {
            assert_eq!(Key::unpack(key.pack()), Some(key));
        }
    }
}
