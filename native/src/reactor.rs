//! What an event loop is made of: an epoll set, and deadlines over one timerfd. Neither knows what it is used for.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::of_the_kernel;

/// A level-triggered epoll set. A descriptor's key is its owner's, who gets it back with every event.
pub struct Poll {
    epoll: OwnedFd,
    /// A kernel that allows no more watches; the limit is the machine's, so no test can lower it.
    #[cfg(test)]
    pub refuses: std::cell::Cell<bool>,
}

impl Poll {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            #[cfg(test)]
            refuses: std::cell::Cell::new(false),
        })
    }

    /// Watches `fd` for `flags`, errors and hang-ups; one that is watched already stays as it is. ENOMEM or ENOSPC where the kernel
    /// has no memory for it or allows no more watches.
    pub fn add(&self, fd: impl AsFd, key: u64, flags: EventFlags) -> Result<(), Errno> {
        #[cfg(test)]
        if self.refuses.get() {
            return Err(Errno::NOSPC);
        }
        match epoll::add(&self.epoll, fd, EventData::new_u64(key), flags) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    pub fn change(&self, fd: impl AsFd, key: u64, flags: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(key), flags)
    }

    /// Stops watching `fd`; not watching it is no error.
    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Blocks until something is ready and lists it: the key, and whether the other end is gone.
    pub fn wait(&self, ready: &mut Vec<(u64, bool)>) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::<epoll::Event>::uninit(); 128];
        let (events, _) = epoll::wait(&self.epoll, &mut buffer, None)?;
        ready.clear();
        ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            let gone = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            (event.data.u64(), gone)
        }));
        Ok(())
    }
}

/// Deadlines of owners, each of whom has at most one of every kind `K`.
///
/// Invariant: `order` holds exactly the entries of `due`, sorted by deadline. A deadline that is
/// no longer wanted is taken out, so a long one costs nothing once its owner has ended.
pub struct Timers<K> {
    due: HashMap<(u32, K), u64>,
    order: BTreeSet<(u64, u32, K)>,
    /// Readable when something is due.
    pub timerfd: OwnedFd,
    armed: Option<u64>,
}

impl<K: Copy + Hash + Ord> Timers<K> {
    /// No deadlines yet. Counted on `CLOCK_BOOTTIME`, which goes on while the guest sleeps.
    pub fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timerfd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let (due, order, armed) = (HashMap::new(), BTreeSet::new(), None);
        Ok(Self {
            due,
            order,
            timerfd,
            armed,
        })
    }

    /// Sets the deadline of a timer, in nanoseconds of the boot clock; `None` takes it out.
    pub fn set(&mut self, owner: u32, kind: K, deadline: Option<u64>) {
        let old = match deadline {
            Some(at) => self.due.insert((owner, kind), at),
            None => self.due.remove(&(owner, kind)),
        };
        if let Some(old) = old {
            self.order.remove(&(old, owner, kind));
        }
        if let Some(at) = deadline {
            self.order.insert((at, owner, kind));
        }
    }

    pub fn get(&self, owner: u32, kind: K) -> Option<u64> {
        self.due.get(&(owner, kind)).copied()
    }

    /// Brings every deadline of one kind forward by so many nanoseconds.
    pub fn bring_forward(&mut self, kind: K, by: u64) {
        let of_kind = self.due.iter().filter(|((_, other), _)| *other == kind);
        let all: Vec<_> = of_kind.map(|(&(owner, _), &at)| (owner, at)).collect();
        for (owner, at) in all {
            self.set(owner, kind, Some(at.saturating_sub(by)));
        }
    }

    /// Takes out the earliest entry that is due at `now`.
    pub fn pop(&mut self, now: u64) -> Option<(u32, K)> {
        let &(at, owner, kind) = self.order.first()?;
        if at > now {
            return None;
        }
        self.set(owner, kind, None);
        Some((owner, kind))
    }

    /// Brings the timerfd in line with the earliest deadline.
    pub fn arm(&mut self) -> Result<(), Errno> {
        let earliest = self.order.first().map(|entry| entry.0);
        if earliest == self.armed {
            return Ok(());
        }
        // An absolute time of zero would disarm it.
        let at = earliest.map_or(0, |at| of_the_kernel(at).max(1));
        let time = |ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        let (it_interval, it_value) = (time(0), time(at));
        let spec = Itimerspec {
            it_interval,
            it_value,
        };
        timerfd_settime(&self.timerfd, TimerfdTimerFlags::ABSTIME, &spec)?;
        self.armed = earliest;
        Ok(())
    }

    /// The timerfd fired: what it was armed for has passed.
    pub fn fired(&mut self) {
        let _ = rustix::io::read(&self.timerfd, &mut [0u8; 8]);
        self.armed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_set_again_or_taken_out_leaves_nothing_behind() {
        let mut timers = Timers::new().unwrap();
        timers.set(1, 'a', Some(50));
        timers.set(1, 'a', Some(20));
        timers.set(2, 'b', Some(10));
        timers.set(2, 'b', None);
        assert_eq!(timers.pop(19), None);
        assert_eq!(timers.pop(20), Some((1, 'a')));
        assert_eq!(timers.pop(u64::MAX), None);
        assert!(timers.due.is_empty() && timers.order.is_empty());
    }

    #[test]
    fn only_deadlines_of_one_kind_are_brought_forward() {
        let mut timers = Timers::new().unwrap();
        timers.set(1, 'a', Some(50));
        timers.set(2, 'a', Some(90));
        timers.set(1, 'b', Some(60));
        timers.bring_forward('a', 55);
        assert_eq!(timers.pop(0), Some((1, 'a')));
        assert_eq!(timers.pop(34), None);
        assert_eq!(timers.pop(35), Some((2, 'a')));
        assert_eq!(timers.get(1, 'b'), Some(60));
    }
}
