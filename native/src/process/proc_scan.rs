//! Looks through the guest's process table, and when they are due.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};

use rustix::fs::{Dir, Mode, OFlags, open, openat};
use rustix::io::{Errno, read};
use rustix::process::getpid;

use crate::sync::start_thread;

/// A live process, or a child of this one that has ended and is not reaped, and the group it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Process group id.
    pub pgid: i32,
    /// Zombies are not live; a process whose first thread ended while others run is.
    pub live: bool,
}

/// Every process of these kinds, in the order of /proc.
///
/// A process that is forked or ends meanwhile may be listed or not. Errors: /proc, or any process
/// in it, cannot be read for another cause than its end; then nobody can be told dead.
pub fn processes() -> Result<Vec<Process>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc_dir = open("/proc", flags, Mode::empty())?;
    let own = getpid().as_raw_nonzero().get();
    let mut found = Vec::new();
    for entry in Dir::read_from(&proc_dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.first().is_some_and(u8::is_ascii_digit) {
            found.extend(process(proc_dir.as_fd(), name, own)?);
        }
    }
    // An empty /proc, or another namespace's, says nothing of anybody.
    if found.iter().any(|process| process.pid == own) {
        Ok(found)
    } else {
        Err(Errno::NOENT)
    }
}

/// `None` for a process that is gone since the listing, hidden, or somebody else's zombie.
fn process(proc_dir: BorrowedFd<'_>, name: &[u8], own: i32) -> Result<Option<Process>, Errno> {
    let path = [name, b"/stat"].concat();
    let mut line = [0u8; 1024];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let stat = openat(proc_dir, path, flags, Mode::empty());
    match stat.and_then(|stat| read(&stat, &mut line)) {
        Ok(length) => Ok(parse(&line[..length], own)),
        // Hidden from a daemon that is not root: it can be none of its own commands.
        Err(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What a stat line says. The name, in parentheses, may hold anything, so fields are counted from
/// the last parenthesis.
fn parse(stat: &[u8], own: i32) -> Option<Process> {
    let pid = stat.split(|byte| *byte == b' ').next()?;
    let pid = std::str::from_utf8(pid).ok()?.parse().ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent: i32 = fields.next()?.parse().ok()?;
    let pgid = fields.next()?.parse().ok()?;
    // num_threads is field 20 of the line, 15 behind the group's.
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    let live = !matches!(state, "X" | "x") && (state != "Z" || threads > 1);
    (live || parent == own).then_some(Process { pid, pgid, live })
}

/// Who asked for a look, and gets what it found.
pub type Answer = Box<dyn FnOnce(Result<Vec<Process>, Errno>) + Send>;

/// Starts the thread that looks, because a large table takes longer than a pipe may wait. It ends
/// when every sender is gone.
pub fn start() -> std::io::Result<Sender<Answer>> {
    let (asks, inbox) = channel::<Answer>();
    let body = move || inbox.into_iter().for_each(|answer| answer(processes()));
    start_thread("guestd-proc-scan", body)?;
    Ok(asks)
}

/// Groups are settled together this long after the first of them asks, in nanoseconds.
const GATHER_NS: u64 = 25_000_000;
/// After a look that failed the next one waits so long, in nanoseconds.
const RETRY_NS: u64 = 1_000_000_000;
/// Unhurried looks take at most this share of the time.
const SHARE: u64 = 10;

/// Which execs want to know who is left in their group, and when the next look is due.
///
/// Invariant: at most one look is under way, for the execs in `asked`, since the time beside them;
/// who asks meanwhile waits in `wanted` for the next, for this one may have gone by their group.
#[derive(Default)]
pub struct ProcScan {
    wanted: HashSet<u32>,
    asked: Option<(HashSet<u32>, u64)>,
    urgent: bool,
    next: u64,
}

impl ProcScan {
    /// Asks for the group of `exec`; at once if somebody waits for the answer.
    pub fn want(&mut self, exec: u32, urgent: bool, now: u64) {
        if self.wanted.is_empty() {
            self.next = self.next.max(now + GATHER_NS);
        }
        self.wanted.insert(exec);
        self.urgent |= urgent;
    }

    /// When the next look is due, if it is not due now and one is wanted.
    pub fn next(&self, now: u64) -> Option<u64> {
        let waits = !self.wanted.is_empty() && self.asked.is_none();
        (waits && !self.urgent && now < self.next).then_some(self.next)
    }

    /// Whether a look is due. Who asks must then make one, and tell of it.
    pub fn begin(&mut self, now: u64) -> bool {
        if self.wanted.is_empty() || self.asked.is_some() || self.next(now).is_some() {
            return false;
        }
        self.asked = Some((std::mem::take(&mut self.wanted), now));
        self.urgent = false;
        true
    }

    /// A look is done: for each exec that asked, the processes of its group.
    pub fn done(
        &mut self,
        processes: &[Process],
        pgid_of: impl Fn(u32) -> Option<i32>,
        now: u64,
    ) -> Vec<(u32, Vec<Process>)> {
        let Some((asked, since)) = self.asked.take() else {
            return Vec::new();
        };
        self.next = now + (now - since) * SHARE;
        let groups = asked
            .into_iter()
            .filter_map(|exec| Some((pgid_of(exec)?, (exec, Vec::new()))));
        let mut groups: HashMap<i32, (u32, Vec<Process>)> = groups.collect();
        for process in processes {
            if let Some((_, members)) = groups.get_mut(&process.pgid) {
                members.push(*process);
            }
        }
        groups.into_values().collect()
    }

    /// /proc could not be read: all who asked, who go on waiting for the next look.
    pub fn failed(&mut self, now: u64) -> Vec<u32> {
        let Some((asked, _)) = self.asked.take() else {
            return Vec::new();
        };
        self.wanted.extend(&asked);
        self.next = now + RETRY_NS;
        asked.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, state: &str, parent: i32, threads: u32) -> Option<Process> {
        let zeros = "-1 4194304 1 0 0 0 0 0 0 0 20 0";
        let line = format!("7 ({name}) {state} {parent} 42 7 0 {zeros} {threads} 0 100 0");
        parse(line.as_bytes(), 9)
    }

    fn process(live: bool) -> Option<Process> {
        let (pid, pgid) = (7, 42);
        Some(Process { pid, pgid, live })
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        assert_eq!(parsed("a) Z (b ) 1", "S", 1, 1), process(true));
    }

    #[test]
    fn zombies_are_not_live_unless_threads_go_on_and_only_own_ones_are_listed() {
        assert_eq!(parsed("x", "Z", 1, 1), None);
        assert_eq!(parsed("x", "Z", 9, 1), process(false));
        assert_eq!(parsed("x", "Z", 1, 2), process(true));
    }
}
