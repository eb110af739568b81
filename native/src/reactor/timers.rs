//! Deadlines of execs over one timerfd.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::of_the_kernel;

/// What becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The exec's wall-clock budget is spent.
    Timeout,
    /// The leader exited and its pipes are still open.
    Linger,
    /// SIGTERM was sent a while ago.
    Grace,
    /// The oldest stdin write has waited long enough.
    Stdin,
    /// Members of a group may have left it for another.
    Recount,
    /// What the kernel refused to watch is to be tried again.
    Watch,
    /// The pipes were held back for a reader long enough.
    Hold,
    /// The wall clock may have jumped after a freeze (of no single exec).
    Clock,
    /// Orphans may wait to be reaped (of no single exec).
    Orphans,
    /// Settled groups are worth a pass over /proc (of no single exec).
    Census,
}

/// Invariant: `order` holds exactly the entries of `due`, sorted by deadline. A deadline that is
/// no longer wanted is taken out, so a long one costs nothing once its exec has ended.
pub struct Timers {
    due: HashMap<(u32, Timer), u64>,
    order: BTreeSet<(u64, u32, Timer)>,
    timerfd: OwnedFd,
    armed: Option<u64>,
}

impl Timers {
    /// No deadlines yet. Counted on `CLOCK_BOOTTIME`, which goes on while the guest sleeps.
    pub fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timerfd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self {
            due: HashMap::new(),
            order: BTreeSet::new(),
            timerfd,
            armed: None,
        })
    }

    /// The descriptor that is readable when something is due.
    pub fn fd(&self) -> &OwnedFd {
        &self.timerfd
    }

    /// Sets the deadline of `timer`, in nanoseconds of the boot clock; `None` takes it out.
    pub fn set(&mut self, exec: u32, timer: Timer, deadline: Option<u64>) {
        let old = match deadline {
            Some(at) => self.due.insert((exec, timer), at),
            None => self.due.remove(&(exec, timer)),
        };
        if let Some(old) = old {
            self.order.remove(&(old, exec, timer));
        }
        if let Some(at) = deadline {
            self.order.insert((at, exec, timer));
        }
    }

    /// When `timer` is due, if it is set.
    pub fn get(&self, exec: u32, timer: Timer) -> Option<u64> {
        self.due.get(&(exec, timer)).copied()
    }

    /// Brings every deadline of `timer` forward by so many nanoseconds.
    pub fn bring_forward(&mut self, timer: Timer, by: u64) {
        let of_timer = self.due.iter().filter(|((_, kind), _)| *kind == timer);
        let all: Vec<_> = of_timer.map(|(&(exec, _), &at)| (exec, at)).collect();
        for (exec, at) in all {
            self.set(exec, timer, Some(at.saturating_sub(by)));
        }
    }

    /// Takes out the earliest entry that is due at `now`.
    pub fn pop(&mut self, now: u64) -> Option<(u32, Timer)> {
        let &(at, exec, timer) = self.order.first()?;
        if at > now {
            return None;
        }
        self.set(exec, timer, None);
        Some((exec, timer))
    }

    /// Brings the timerfd in line with the earliest deadline.
    pub fn arm(&mut self) -> Result<(), Errno> {
        let earliest = self.order.first().map(|entry| entry.0);
        if earliest == self.armed {
            return Ok(());
        }
        // An absolute time of zero would disarm it.
        let at = earliest.map_or(0, |at| of_the_kernel(at).max(1));
        let it_value = Timespec {
            tv_sec: (at / 1_000_000_000) as i64,
            tv_nsec: (at % 1_000_000_000) as i64,
        };
        let it_interval = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
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
        timers.set(1, Timer::Timeout, Some(50));
        timers.set(1, Timer::Timeout, Some(20));
        timers.set(2, Timer::Grace, Some(10));
        timers.set(2, Timer::Grace, None);
        assert_eq!(timers.pop(19), None);
        assert_eq!(timers.pop(20), Some((1, Timer::Timeout)));
        assert_eq!(timers.pop(u64::MAX), None);
        assert!(timers.due.is_empty() && timers.order.is_empty());
    }

    #[test]
    fn only_deadlines_of_one_kind_are_brought_forward() {
        let mut timers = Timers::new().unwrap();
        timers.set(1, Timer::Timeout, Some(50));
        timers.set(2, Timer::Timeout, Some(90));
        timers.set(1, Timer::Linger, Some(60));
        timers.bring_forward(Timer::Timeout, 55);
        assert_eq!(timers.pop(0), Some((1, Timer::Timeout)));
        assert_eq!(timers.pop(34), None);
        assert_eq!(timers.pop(35), Some((2, Timer::Timeout)));
        assert_eq!(timers.get(1, Timer::Linger), Some(60));
    }
}
