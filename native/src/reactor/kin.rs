//! Whether this process has any child but the leaders, by the kernel's own lists: what a pass over
//! /proc finds out slowly, at once.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};

/// The children of a thread: numbers, each with a space behind it.
fn children_of(task: &str) -> Option<OwnedFd> {
    let path = format!("/proc/{task}/children");
    open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The list of the calling thread's children; `None` where the kernel keeps none.
pub fn own_children() -> Option<OwnedFd> {
    children_of("thread-self")
}

/// Whether the calling thread has no child, so that it may end; false where there is no telling.
pub fn has_no_children() -> bool {
    own_children().is_some_and(|list| read_list(&list).is_ok_and(|pids| pids.is_empty()))
}

/// A list longer than this is not read, in bytes.
const LONGEST: usize = 4096;

/// Why this tells that a group is empty: whoever is in the group of a leader is in its session, and
/// so descends from it. When a process ends, its children fall to this process's main thread, in
/// the same instant in which the kernel makes it a zombie. So every live descendant of a leader
/// that has ended descends from a child of the main thread, or, if it was cloned as the leader's
/// sibling (`CLONE_PARENT`), from a child of the spawner's that is no leader. With neither kind
/// of child there is no descendant of any ended leader.
///
/// Invariants: `leaders` are the adopted children of the spawners that are not reaped; a child that
/// is not adopted yet makes the answer "maybe". `spawned` has the list of every spawner thread by
/// its number, but of those that ended without children, and is `None` for ever once one of them
/// has none.
pub struct Kin {
    orphans: Option<OwnedFd>,
    spawned: Option<Vec<(i32, OwnedFd)>>,
    leaders: HashSet<i32>,
}

impl Kin {
    /// No leaders yet.
    pub fn of_this_process() -> Self {
        let main = rustix::process::getpid().as_raw_nonzero();
        Self {
            orphans: children_of(&format!("self/task/{main}")),
            spawned: Some(Vec::new()),
            leaders: HashSet::new(),
        }
    }

    /// Gets a spawner thread's list of children.
    pub fn watch_spawner(&mut self, thread: i32, children: Option<OwnedFd>) {
        self.spawned = self.spawned.take().zip(children).map(|(mut lists, list)| {
            lists.push((thread, list));
            lists
        });
    }

    /// A spawner thread without children ends.
    pub fn forget_spawner(&mut self, thread: i32) {
        if let Some(lists) = &mut self.spawned {
            lists.retain(|(number, _)| *number != thread);
        }
    }

    /// A leader was adopted.
    pub fn add(&mut self, leader: i32) {
        self.leaders.insert(leader);
    }

    /// A leader is about to be reaped.
    pub fn remove(&mut self, leader: i32) {
        self.leaders.remove(&leader);
    }

    /// True if there is no child but the leaders, so that nobody is left of any leader that ended;
    /// false if there is or may be one.
    pub fn are_leaders_only(&self) -> bool {
        let none = |list| matches!(read_list(list), Ok(pids) if pids.is_empty());
        let leaders = |list| {
            let listed = read_list(list);
            listed.is_ok_and(|pids| pids.iter().all(|pid| self.leaders.contains(pid)))
        };
        // The shorter list first: it mostly decides.
        self.orphans.as_ref().is_some_and(none)
            && self
                .spawned
                .as_ref()
                .is_some_and(|lists| lists.iter().all(|(_, list)| leaders(list)))
    }

    /// Children of the spawners that are no leaders: siblings of leaders (`CLONE_PARENT`), and
    /// children that are not adopted yet.
    pub fn strangers(&self) -> Vec<i32> {
        let lists = self.spawned.iter().flatten();
        let listed = lists.filter_map(|(_, list)| read_list(list).ok()).flatten();
        listed.filter(|pid| !self.leaders.contains(pid)).collect()
    }
}

fn read_list(list: &OwnedFd) -> Result<Vec<i32>, Errno> {
    let mut text = [0u8; LONGEST];
    let length = pread(list, &mut text, 0)?;
    if length == LONGEST {
        return Err(Errno::OVERFLOW);
    }
    std::str::from_utf8(&text[..length])
        .map_err(|_| Errno::INVAL)?
        .split_ascii_whitespace()
        .map(|pid| pid.parse().map_err(|_| Errno::INVAL))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_are_leaders_or_they_are_noticed() {
        let mut kin = Kin::of_this_process();
        // This thread plays both: the test's main thread has no children.
        kin.watch_spawner(1, own_children());
        assert!(kin.are_leaders_only());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!kin.are_leaders_only());
        kin.add(pid);
        assert!(kin.are_leaders_only());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(kin.are_leaders_only());
        // A thread that ends leaves no descriptor behind, and the others' lists alone.
        let ended = std::thread::spawn(own_children).join().unwrap();
        kin.watch_spawner(2, ended);
        kin.forget_spawner(2);
        let left: Vec<i32> = kin.spawned.iter().flatten().map(|list| list.0).collect();
        assert_eq!(left, [1]);
        assert!(kin.are_leaders_only());
        kin.watch_spawner(3, None);
        assert!(
            !kin.are_leaders_only(),
            "without every list there is no answer"
        );
        kin.watch_spawner(4, own_children());
        assert!(
            !kin.are_leaders_only(),
            "nor does a later list bring one back"
        );
    }
}
