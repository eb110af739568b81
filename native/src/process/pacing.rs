//! How long an exec's output pipes were not read: for readers, and for a disk that does not take captured output as
//! fast as it comes.

use super::context::READ_BYTES;
use super::log::Log;

/// Pipes wait so long in all for readers that are only expected, in nanoseconds.
const EXPECTED_TOTAL_NS: u64 = 1_000_000_000;
/// How long they wait at a time while captured output is moved out of memory, in nanoseconds.
const CROWDED_NS: u64 = 5_000_000;
/// How long that may last in all per exec: a slow disk makes those wait who fill it, but one that hangs not for ever.
const CROWDED_TOTAL_NS: u64 = 60_000_000_000;

/// A pause of which there is only so much: what is left of it, in nanoseconds.
#[derive(Clone, Copy)]
enum Account {
    Expected,
    Crowded,
}

/// Invariant: the log's `paused` is set only while `pause` is.
pub struct Pacing {
    left_ns: [u64; 2],
    /// Since when the pipes are not read, and on which account; on none for a reader that is there.
    pause: Option<(u64, Option<Account>)>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            left_ns: [EXPECTED_TOTAL_NS, CROWDED_TOTAL_NS],
            pause: None,
        }
    }
}

impl Pacing {
    pub fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Ends a pause and begins another if there is a reason; returns up to when.
    pub fn renew(&mut self, log: &mut Log, crowded: bool, now: u64) -> Option<u64> {
        if let Some((since, Some(account))) = self.pause {
            let left = &mut self.left_ns[account as usize];
            *left = left.saturating_sub(now - since);
        }
        let reason = match log.hold(READ_BYTES as u64, now) {
            Some((until, expected)) => Some((until, expected.then_some(Account::Expected))),
            None if crowded && !log.flows => Some((now + CROWDED_NS, Some(Account::Crowded))),
            None => None,
        };
        let bounded = reason.map(|(until, account)| {
            let left = account.map_or(u64::MAX, |of| self.left_ns[of as usize]);
            (until.min(now.saturating_add(left)), account)
        });
        let pause = bounded.filter(|(until, _)| *until > now);
        self.pause = pause.map(|(_, account)| (now, account));
        log.paused = pause.is_some();
        pause.map(|(until, _)| until)
    }
}
