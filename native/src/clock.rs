//! Time as the supervisor sees it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_BOOTTIME`: goes on while the guest sleeps, never jumps with the wall clock.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let boot = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    boot + BOOT_AHEAD_NS.load(Ordering::Relaxed)
}

/// A span in seconds as nanoseconds; what no clock can reach becomes `None` (no deadline).
pub fn span_ns(secs: f64) -> Option<u64> {
    let ns = secs * 1e9;
    // Beyond 2^62 ns (146 years) a deadline cannot be told from "never".
    (ns < 4.6e18).then_some(ns.max(0.0) as u64)
}

/// A time of [`boottime_ns`] as the kernel's own clock will show it.
pub fn of_the_kernel(at_ns: u64) -> u64 {
    at_ns.saturating_sub(BOOT_AHEAD_NS.load(Ordering::Relaxed))
}

/// For tests, which set it from outside, in the memory of a daemon: what the boot clock is ahead of
/// the guest's, in nanoseconds.
#[used]
pub static BOOT_AHEAD_NS: AtomicU64 = AtomicU64::new(0);

/// For tests, likewise: what the wall clock is ahead of the guest's, in nanoseconds.
#[used]
pub static WALL_AHEAD_NS: AtomicI64 = AtomicI64::new(0);

/// How far the wall clock is ahead of the boot clock, in nanoseconds. It changes only when somebody
/// sets the wall clock, and a little while it is slewed.
pub fn wall_offset_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    let wall = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    wall + WALL_AHEAD_NS.load(Ordering::Relaxed) - boottime_ns() as i64
}

/// After a resume hook, so long a jump of the wall clock is still laid to the freeze.
const AFTERMATH_NS: u64 = 60_000_000_000;

/// Finds out how much of the wall clock's time a guest lost while it was frozen.
///
/// Invariant: between a suspend hook and the end of the aftermath of the last resume hook, `highest`
/// is the largest offset that was seen, so that a clock that is set back and forth is not counted
/// twice; otherwise it is `None` and nothing counts.
#[derive(Debug, Default)]
pub struct Freeze {
    highest: Option<i64>,
    until: Option<u64>,
}

impl Freeze {
    /// A suspend hook came, with the wall clock so far ahead of the boot clock.
    pub fn suspended(&mut self, offset_ns: i64) {
        self.highest = Some(self.highest.map_or(offset_ns, |seen| seen.max(offset_ns)));
        self.until = None;
    }

    /// A resume hook came, at `now` of the boot clock.
    pub fn resumed(&mut self, now_ns: u64) {
        if self.highest.is_some() {
            self.until = Some(now_ns + AFTERMATH_NS);
        }
    }

    /// By how much the wall clock jumped forward since it was last looked at, in nanoseconds.
    pub fn jumped(&mut self, offset_ns: i64, now_ns: u64) -> u64 {
        let Some(highest) = self.highest else {
            return 0;
        };
        if self.until.is_some_and(|until| now_ns > until) {
            *self = Self::default();
            return 0;
        }
        self.highest = Some(highest.max(offset_ns));
        offset_ns.saturating_sub(highest).max(0) as u64
    }

    /// Whether jumps count now.
    pub fn is_open(&self) -> bool {
        self.highest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_jump_counts_from_the_suspend_hook_until_60_s_after_the_resume_hook() {
        let mut freeze = Freeze::default();
        assert_eq!(freeze.jumped(HOUR, 1), 0, "before the suspend hook");
        freeze.suspended(HOUR);
        assert_eq!(freeze.jumped(HOUR + 5, 2), 5);
        freeze.resumed(10 * SECOND);
        assert_eq!(freeze.jumped(2 * HOUR, 70 * SECOND), HOUR as u64 - 5);
        assert_eq!(
            freeze.jumped(3 * HOUR, 70 * SECOND + 1),
            0,
            "after the aftermath"
        );
        assert!(!freeze.is_open());
    }

    #[test]
    fn a_clock_that_is_set_back_and_forth_counts_once() {
        let mut freeze = Freeze::default();
        freeze.suspended(0);
        freeze.resumed(0);
        assert_eq!(freeze.jumped(-HOUR, 1), 0);
        assert_eq!(freeze.jumped(0, 2), 0);
        assert_eq!(freeze.jumped(7, 3), 7);
    }

    #[test]
    fn a_resume_hook_alone_opens_nothing() {
        let mut freeze = Freeze::default();
        freeze.resumed(0);
        assert_eq!(freeze.jumped(HOUR, 1), 0);
    }
}
