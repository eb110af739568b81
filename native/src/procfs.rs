//! One pass over the guest's process table.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Dir, Mode, OFlags, open, openat};
use rustix::io::{Errno, read};
use rustix::process::getpid;

/// A live process and the group it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Process id.
    pub pid: i32,
    /// Process group id.
    pub pgid: i32,
}

/// Every live process, in the order of /proc. Zombies are not live; a process whose first thread
/// ended while others run is.
///
/// A process that is forked or ends during the pass may be listed or not. Errors: /proc, or any
/// process in it, cannot be read for another cause than its end; then nobody can be told dead.
pub fn live_processes() -> rustix::io::Result<Vec<Member>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc_dir = open("/proc", flags, Mode::empty())?;
    let mut members = Vec::new();
    for entry in Dir::read_from(&proc_dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.first().is_some_and(u8::is_ascii_digit) {
            members.extend(member(proc_dir.as_fd(), name)?);
        }
    }
    // An empty /proc, or another namespace's, says nothing of anybody.
    let own = getpid().as_raw_nonzero().get();
    if members.iter().any(|member| member.pid == own) {
        Ok(members)
    } else {
        Err(Errno::NOENT)
    }
}

/// `None` for a process that is gone since the listing, hidden, or not live.
fn member(proc_dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<Member>> {
    let path = [name, b"/stat"].concat();
    let mut buffer = [0u8; 1024];
    let stat = openat(
        proc_dir,
        path,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let length = match stat.and_then(|stat| read(&stat, &mut buffer)) {
        Ok(length) => length,
        // Hidden from a daemon that is not root: it can be none of its own commands.
        Err(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let pid = std::str::from_utf8(name)
        .ok()
        .and_then(|text| text.parse().ok());
    let pgid = live_group(&buffer[..length]);
    Ok(pid.zip(pgid).map(|(pid, pgid)| Member { pid, pgid }))
}

/// The group of a live process by its stat line; `None` for one that is not live. The name, in
/// parentheses, may hold anything, so fields are counted from the last parenthesis.
fn live_group(stat: &[u8]) -> Option<i32> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after..])
        .ok()?
        .split_ascii_whitespace();
    let state = fields.next()?;
    let pgid = fields.nth(1)?.parse().ok()?;
    // num_threads is field 20 of the line, 15 behind the group's.
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    let ended = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
    (!ended).then_some(pgid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    const TAIL: &str = "-1 4194304 1 0 0 0 0 0 0 0 20 0";

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = format!("7 (a) Z (b ) 1) S 1 42 7 0 {TAIL} 1 0 100 0");
        assert_eq!(live_group(line.as_bytes()), Some(42));
    }

    #[test]
    fn zombies_are_not_live_unless_threads_go_on() {
        let zombie = |threads| format!("7 (x) Z 1 42 7 0 {TAIL} {threads} 0 100 0");
        assert_eq!(live_group(zombie(1).as_bytes()), None);
        assert_eq!(live_group(zombie(2).as_bytes()), Some(42));
    }

    #[test]
    fn a_child_is_listed_in_its_group() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let members = live_processes().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(members.contains(&Member { pid, pgid: pid }));
    }
}
