//! Time as the reactor sees it.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_BOOTTIME`: goes on while the guest sleeps, never jumps with the wall clock.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whole seconds since the epoch on the guest's wall clock.
pub fn epoch_secs() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec.max(0) as u64
}

/// A span in seconds as nanoseconds; what no clock can reach becomes `None` (no deadline).
pub fn span_ns(secs: f64) -> Option<u64> {
    let ns = secs * 1e9;
    // Beyond 2^62 ns (146 years) a deadline cannot be told from "never".
    (ns < 4.6e18).then_some(ns.max(0.0) as u64)
}
