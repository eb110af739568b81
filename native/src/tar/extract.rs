//! A checked archive put on disk.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, Stat, fchmod, fstat, futimens};
use rustix::io::Errno;

use super::check::{check, name_of, taken_by};
use super::members::Members;
use super::name::{components, resolve, split};
use super::parser::{ArchiveMember, MemberKind};
use super::place::{MemberPlace, Why, times};
use super::root::TreeRoot;
use super::spool::Spool;
use super::{Limits, identity};
use crate::file::failure::{CANCELLED, Failure, shown_bytes};
use crate::file::parents::Parents;
use crate::file::reserve::Reserve;

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
    let open = || TreeRoot::open(path);
    let failed = |errno| Failure::of("extract into", path, errno);
    let existing = match open() {
        Err(Errno::NOENT) => None,
        found => Some(found.map_err(failed)?),
    };
    let taken = check(spool, existing.as_ref(), limits, stopped)?;
    reserve.check(path, taken.saturating_sub(spool.own_taken()))?;
    let mut parents = Parents::default();
    let root = match existing {
        Some(root) => root,
        None => {
            parents.make(path)?;
            open().map_err(failed)?
        }
    };
    let mut extraction = Extraction {
        root,
        members: Members::new(spool, limits.bytes),
        reserve,
        parent: None,
        directories: HashMap::new(),
    };
    let extracted = extraction.run(stopped);
    // What is there is as it should be, also where the rest is missing.
    extracted.and(extraction.finish())?;
    // Halfway they hold members and stay; before the first member they go again.
    parents.keep();
    Ok(())
}

/// Invariant: `parent` is the directory that the last member went to, and its resolved name.
/// `directories` are those that members name, by device and inode.
struct Extraction<'a> {
    root: TreeRoot,
    members: Members<'a>,
    reserve: Reserve,
    parent: Option<(Vec<u8>, OwnedFd)>,
    directories: HashMap<(u64, u64), NamedDir>,
}

/// A directory that a member names: how deep it lies, where the last such member begins, and whether
/// it was made.
struct NamedDir {
    depth: usize,
    start: u64,
    made: bool,
}

impl Extraction<'_> {
    fn run(&mut self, stopped: &AtomicBool) -> Result<(), Failure> {
        while let Some(member) = self.members.next_member()? {
            let extracted = match stopped.load(Ordering::Relaxed) {
                true => Err(Failure::new(CANCELLED, "Cannot extract on: it was stopped").into()),
                false => self.member(&member),
            };
            extracted.map_err(|why| self.failed(&member, why))?;
        }
        Ok(())
    }

    fn member(&mut self, member: &ArchiveMember) -> Result<(), Why> {
        let name = name_of(member)?;
        if name.is_empty() {
            self.name_dir(member, 0, fstat(&self.root.0)?, false);
            return Ok(());
        }
        let (parent, last) = split(&name);
        let (known, dir) = match self.parent.take() {
            Some((known, dir)) if known == parent => (known, dir),
            _ => (parent.to_vec(), self.root.make_dir(parent)?),
        };
        let placed = self.place(member, dir.as_fd(), &name, last);
        self.parent = Some((known, dir));
        placed
    }

    fn place(
        &mut self,
        member: &ArchiveMember,
        dir: BorrowedFd<'_>,
        whole: &[u8],
        name: &[u8],
    ) -> Result<(), Why> {
        let place = MemberPlace { dir, name };
        self.reserve.count(dir, taken_by(member))?;
        match member.kind {
            MemberKind::File => place.file(member, &mut self.members, &mut self.reserve)?,
            MemberKind::Directory => {
                let (made, stat) = place.directory()?;
                self.name_dir(member, components(whole).count(), stat, made);
            }
            MemberKind::Symlink => place.symlink(member)?,
            MemberKind::HardLink => {
                let target = resolve(&member.link).map_err(|_| Errno::INVAL)?;
                let (parent, name) = split(&target);
                let dir = &self.root.dir(parent)?;
                let dir = dir.as_fd();
                place.hard_link(MemberPlace { dir, name })?;
            }
        }
        Ok(())
    }

    fn name_dir(&mut self, member: &ArchiveMember, depth: usize, stat: Stat, made: bool) {
        let start = member.start;
        let dir = NamedDir { depth, start, made };
        self.directories.insert(identity(&stat), dir);
    }

    /// Gives directories their modes and times, once nothing more is written into them. The deepest
    /// first, since one above may be closed afterwards.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut directories: Vec<_> = self.directories.drain().map(|(_, dir)| dir).collect();
        directories.sort_by_key(|dir| (Reverse(dir.depth), dir.start));
        for NamedDir { start, made, .. } in directories {
            self.members.seek(start);
            let Some(member) = self.members.next_member()? else {
                continue;
            };
            let name = name_of(&member)?;
            let set = || {
                let dir = self.root.dir_itself(&name)?;
                // What lies in it depends on these: they are for who owns it to change.
                let kept = fstat(&dir)?.st_mode & 0o7000;
                fchmod(&dir, Mode::from_raw_mode(kept | member.mode))?;
                futimens(&dir, &times(&member))
            };
            match set() {
                Ok(()) => {}
                // It was there, and is another user's: that it is there is what was asked for.
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

    fn failed(&self, member: &ArchiveMember, why: Why) -> Failure {
        let name = shown_bytes(&member.name);
        let failure = match why {
            Why::Failure(failure) => failure,
            Why::Errno(errno) => match self.reserve.filled(errno, &self.root.0) {
                Some(failure) => failure,
                None => {
                    let text =
                        format!("Cannot extract {name}: it and the members after it are missing");
                    return Failure::new(errno.raw_os_error(), text);
                }
            },
        };
        let text = format!(
            "{}; {name} and the members after it are missing",
            failure.text
        );
        Failure { text, ..failure }
    }
}
