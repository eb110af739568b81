//! A checked archive put on disk.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, fchmod, fstat, futimens};
use rustix::io::Errno;

use super::Limits;
use super::check::{check, name_of, taken_by};
use super::disk::Root;
use super::known::{Key, Known};
use super::member::{Kind, Member, Members};
use super::name::{resolve, split};
use super::place::{Place, Source, Why, times};
use super::spool::Spool;
use crate::file::failure::{CANCELLED, Failure, UNDER_RESERVE, shown_bytes};
use crate::file::parents::Parents;
use crate::file::reserve::Reserve;
use crate::file::temp::sweep;

/// Checks the archive in `spool` and, if all of it may be extracted, extracts it beneath `path`,
/// which is made if it is not there. Refused, it leaves nothing. What stops it halfway, a failure of
/// the disk or `stopped`, leaves whole members, and is said with the first that is missing.
pub fn unpack(
    spool: &Spool,
    path: &Path,
    limits: Limits,
    reserve: Reserve,
    stopped: &AtomicBool,
) -> Result<(), Failure> {
    let existing = match Root::open(path) {
        Ok(root) => Some(root),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(Failure::of("extract into", path, errno)),
    };
    let sum = check(spool, existing.as_ref(), limits, stopped)?;
    reserve.check(path, sum.taken.saturating_sub(spool.own_taken()))?;
    let mut parents = Parents::default();
    let root = match existing {
        Some(root) => root,
        None => {
            parents.make(path)?;
            Root::open(path).map_err(|errno| Failure::of("extract into", path, errno))?
        }
    };
    let source = Source::new(spool, reserve);
    let extracted = Extraction::new(root, source).run(limits, stopped);
    // Halfway they hold members and stay; before the first member they go again.
    if extracted.is_ok() {
        parents.keep();
    }
    extracted
}

/// Invariant: `parent` is the open directory named `parent_name`. `swept` has the directories, by
/// the hashes of `names`, that were rid of what killed daemons have left there.
struct Extraction<'a> {
    root: Root,
    source: Source<'a>,
    parent_name: Vec<u8>,
    parent: Option<OwnedFd>,
    directories: Vec<Directory>,
    names: Known,
    swept: HashSet<Key>,
}

/// A directory that a member names: how deep it lies, where the member begins, and whether it was
/// made for it.
struct Directory {
    depth: usize,
    start: u64,
    made: bool,
}

impl<'a> Extraction<'a> {
    fn new(root: Root, source: Source<'a>) -> Self {
        let (parent_name, parent, directories) = Default::default();
        let (names, swept) = Default::default();
        Self {
            root,
            source,
            parent_name,
            parent,
            directories,
            names,
            swept,
        }
    }

    fn run(mut self, limits: Limits, stopped: &AtomicBool) -> Result<(), Failure> {
        let mut members = Members::new(self.source.spool, limits.bytes);
        let mut result = Ok(());
        while let Some(member) = members.next_member()? {
            result = match stopped.load(Ordering::Relaxed) {
                true => Err(self.failed(&member, Why::Stopped)),
                false => self
                    .member(&member, &mut members)
                    .map_err(|why| self.failed(&member, why)),
            };
            if result.is_err() {
                break;
            }
        }
        // What is there is as it should be, also where the rest is missing.
        result.and(self.finish(members))
    }

    fn member(&mut self, member: &Member, members: &mut Members) -> Result<(), Why> {
        let name = name_of(member).map_err(Why::Reserve)?;
        let mut made = false;
        if !name.is_empty() {
            let (parent, last) = split(&name);
            if self.parent.is_none() || self.parent_name != parent {
                self.parent = Some(self.root.make_dir(parent)?);
                self.parent_name.clear();
                self.parent_name.extend_from_slice(parent);
            }
            let dir = self.parent.as_ref().ok_or(Errno::BADF)?.as_fd();
            let taken = Cell::new(false);
            let place = Place {
                dir,
                name: last,
                taken: &taken,
            };
            self.source
                .reserve
                .count(dir, taken_by(member))
                .map_err(Why::Reserve)?;
            match member.kind {
                Kind::File => place.file(member, &mut self.source, members.blocks())?,
                Kind::Directory => made = place.directory()?,
                Kind::Symlink => place.symlink(member)?,
                Kind::HardLink => {
                    let target = resolve(b"", &member.link).map_err(|_| Errno::INVAL)?;
                    let (parent, last) = split(&target);
                    let dir = self.root.dir(parent)?;
                    let target = Place {
                        dir: dir.as_fd(),
                        name: last,
                        taken: &taken,
                    };
                    place.hard_link(target)?;
                }
            }
            if taken.get() && self.swept.insert(self.names.key(parent)) {
                // What cannot be swept is in nobody's way.
                let _ = sweep(dir);
            }
        }
        if member.kind == Kind::Directory {
            let depth = name.iter().filter(|byte| **byte == b'/').count();
            let depth = if name.is_empty() { 0 } else { depth + 1 };
            let start = member.start;
            self.directories.push(Directory { depth, start, made });
        }
        Ok(())
    }

    /// Gives directories their modes and times, once nothing more is written into them. The deepest
    /// first, since one above may be closed afterwards.
    fn finish(mut self, mut members: Members) -> Result<(), Failure> {
        let known = Known::default();
        let mut done = HashSet::new();
        // The last member of a name is the one that counts.
        self.directories.reverse();
        self.directories
            .sort_by_key(|directory| Reverse(directory.depth));
        for Directory { start, made, .. } in &self.directories {
            members.seek(*start);
            let Some(member) = members.next_member()? else {
                continue;
            };
            let name = name_of(&member)?;
            if !done.insert(known.key(&name)) {
                continue;
            }
            let set = || {
                let dir = self.root.dir_itself(&name)?;
                // What lies in it depends on these: they are for who owns it to change.
                let kept = fstat(&dir)?.st_mode & 0o7000;
                fchmod(&dir, Mode::from_raw_mode(kept | member.mode))?;
                futimens(&dir, &times(&member))
            };
            match set() {
                // It was there, and is another user's: that it is there is what was asked for.
                Ok(()) => {}
                Err(Errno::PERM | Errno::ACCESS | Errno::ROFS) if !made => {}
                Err(errno) => {
                    let name = shown_bytes(&member.name);
                    let text =
                        format!("Cannot set the mode and time of {name}: all members are there");
                    return Err(Failure::new(errno.raw_os_error(), text));
                }
            }
        }
        Ok(())
    }

    fn failed(&self, member: &Member, why: Why) -> Failure {
        let name = shown_bytes(&member.name);
        let missing = |text: &str| format!("{text}; {name} and the members after it are missing");
        match why {
            Why::Errno(errno) => {
                let text =
                    format!("Cannot extract {name}: it and the members after it are missing");
                let failure = Failure::new(errno.raw_os_error(), text);
                let explained = self.source.reserve.explain(errno, &self.root, failure);
                match explained.status {
                    UNDER_RESERVE => Failure {
                        text: missing(&explained.text),
                        ..explained
                    },
                    _ => explained,
                }
            }
            Why::Reserve(failure) => Failure {
                text: missing(&failure.text),
                ..failure
            },
            Why::Stopped => Failure::new(CANCELLED, missing("Cannot extract on: it was stopped")),
        }
    }
}
