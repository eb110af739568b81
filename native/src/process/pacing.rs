//! How long an exec's output pipes were not read, by reason: for readers, and for a disk that does not take captured
//! output as fast as it comes.

use super::context::READ_BYTES;
use super::log::Log;
use super::readers::Reason;

/// How long the pipes wait at a time while captured output is moved out of memory, in nanoseconds.
const DISK_NS: u64 = 5_000_000;
/// How long the pipes of an exec wait in all for each [`Reason`], in nanoseconds. A reader that reads may be as slow as it
/// likes. Those who come again and again and never read have 6 s together, and who is away has 1 s. A slow disk makes
/// those wait who fill it, but one that hangs not for ever.
const TOTALS_NS: [u64; 4] = [u64::MAX, 6_000_000_000, 1_000_000_000, 60_000_000_000];

/// Invariant: the log's `paused` is set only while `pause` is.
pub struct Pacing {
    /// How long the pipes may yet wait for each reason, in nanoseconds.
    left_ns: [u64; 4],
    /// Since when the pipes are not read, and why.
    pause: Option<(u64, usize)>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            left_ns: TOTALS_NS,
            pause: None,
        }
    }
}

impl Pacing {
    pub fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Ends the pause and begins another if there is still a reason with time left. Returns until when.
    pub fn renew(&mut self, log: &mut Log, crowded: bool, now: u64) -> Option<u64> {
        if let Some((since, reason)) = self.pause {
            let left = &mut self.left_ns[reason];
            *left = left.saturating_sub(now - since);
        }
        let mut waits = [None; Reason::Disk as usize + 1];
        waits[..Reason::Disk as usize].copy_from_slice(&log.waits(READ_BYTES as u64, now));
        waits[Reason::Disk as usize] = (crowded && !log.flows).then_some(now + DISK_NS);
        let bounded = waits.into_iter().zip(self.left_ns).enumerate();
        let mut bounded = bounded.filter_map(|(reason, (until, left))| {
            Some((reason, until?.min(now.saturating_add(left))))
        });
        let pause = bounded.find(|(_, until)| *until > now);
        self.pause = pause.map(|(reason, _)| (now, reason));
        log.paused = pause.is_some();
        pause.map(|(_, until)| until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::log::Sizes;
    use crate::process::store::Store;

    const MS: u64 = 1_000_000;

    /// With no room for anything that is not taken.
    fn log() -> Log {
        let store = Store::new(u64::MAX, &std::env::temp_dir());
        Log::new(Sizes::default(), &store, 0)
    }

    #[test]
    fn whoever_comes_again_and_again_and_never_reads_is_waited_for_no_longer() {
        let (mut log, mut pacing, mut now) = (log(), Pacing::default(), 0);
        let mut held = 0;
        for _ in 0..2000 {
            log.attach(1, 0, now);
            let waits = pacing.renew(&mut log, false, now).is_some();
            held += if waits { 9 } else { 0 };
            now += 9 * MS;
            log.detach(1, now);
            let waits = pacing.renew(&mut log, false, now).is_some();
            held += if waits { 1 } else { 0 };
            now += MS;
        }
        assert!((6_900..=7_020).contains(&held), "{held} ms");
    }

    #[test]
    fn pipes_wait_for_the_disk_also_when_there_is_no_time_left_for_who_is_expected() {
        let (mut log, mut pacing) = (log(), Pacing::default());
        pacing.left_ns[Reason::Expected as usize] = 0;
        assert_eq!(pacing.renew(&mut log, false, 0), None);
        assert_eq!(pacing.renew(&mut log, true, 0), Some(DISK_NS));
        log.flows = true;
        assert_eq!(pacing.renew(&mut log, true, 0), None);
    }
}
