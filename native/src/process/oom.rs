//! Who goes first when memory runs out: a command, never the daemon that could still end it.

use std::fs;

const FILE: &str = "/proc/self/oom_score_adj";
/// The kernel's value for "never".
const NEVER: &str = "-1000";

/// Takes this process out of the kernel's choice. Returns what it was set to before, for children
/// to set again; `None` when that may not be done (it needs root), and then nothing is to be undone.
pub fn protect() -> Option<Vec<u8>> {
    let before = fs::read(FILE).ok()?;
    fs::write(FILE, NEVER).ok()?;
    Some(before)
}
