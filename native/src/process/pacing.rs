//! When an exec's output pipes are not read for a while: for a reader that lags behind, and for a disk that does not
//! take captured output as fast as it comes.

use super::log::Log;

/// The pipes are paused at most this long at a time, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;
/// The pipes of one exec are paused this long in all, in nanoseconds.
const PAUSE_TOTAL_NS: u64 = 1_000_000_000;
/// How long they are paused at a time while captured output is moved out of memory, in nanoseconds.
const CROWDED_NS: u64 = 5_000_000;
/// How long that may last in all per exec: a slow disk makes those wait who fill it, but one that hangs not for ever.
const CROWDED_TOTAL_NS: u64 = 60_000_000_000;

/// Where each reader is.
type Cursors = Vec<(u32, u64)>;

/// How long the pipes of an exec were paused, and may be yet.
///
/// Invariant: the log's `paused` is set only while `pause` is.
#[derive(Default)]
pub struct Pacing {
    /// For readers, and for the disk.
    spent_ns: [u64; 2],
    /// Since when the pipes are paused, and where the readers were then; no cursors for the disk.
    pause: Option<(u64, Option<Cursors>)>,
    /// Nothing is a reason to pause any more.
    pub never_again: bool,
}

impl Pacing {
    pub fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Begins a pause if `more` bytes would take unread ones from a reader worth waiting for, or
    /// the store is crowded. Returns the time up to which it may last.
    pub fn begin(&mut self, log: &mut Log, more: u64, crowded: bool, now: u64) -> Option<u64> {
        if self.never_again || (!crowded && log.has_room(more)) {
            return None;
        }
        let (most, total) = if crowded {
            (CROWDED_NS, CROWDED_TOTAL_NS)
        } else {
            (PAUSE_NS, PAUSE_TOTAL_NS)
        };
        let left = total.saturating_sub(self.spent_ns[usize::from(crowded)]);
        if left == 0 {
            return None;
        }
        let cursors = (!crowded).then(|| log.cursors());
        self.pause = Some((now, cursors));
        log.paused = true;
        Some(now + left.min(most))
    }

    /// The pause lasted as long as one may: readers that took nothing are not waited for again.
    pub fn give_up_on_readers(&self, log: &mut Log) {
        if let Some((_, Some(cursors))) = &self.pause {
            log.give_up_on(cursors);
        }
    }

    /// Ends a pause; whether there was one.
    pub fn end(&mut self, log: &mut Log, now: u64) -> bool {
        let Some((since, cursors)) = self.pause.take() else {
            return false;
        };
        self.spent_ns[usize::from(cursors.is_none())] += now.saturating_sub(since);
        log.paused = false;
        true
    }
}
