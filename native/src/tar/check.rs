//! The check of a whole archive, before anything of it is written.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::Limits;
use super::index::{ArchiveIndex, DirId, NameKey, Node, ROOT};
use super::members::Members;
use super::name::{climbs, components, resolve, split};
use super::parser::{ArchiveMember, MemberKind};
use super::root::{TreeRoot, is_mounted_over, kind_at, step_down};
use super::spool::Spool;
use crate::file::failure::{CANCELLED, Failure, shown_bytes};
use crate::file::reserve::{taken, taken_within};

/// Most bytes that Linux takes for a symlink's target.
const MAX_TARGET: usize = 4095;
/// As many symlinks as the kernel follows on one path.
const MAX_LINKS: u32 = 40;

/// What a checked archive amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Members.
    pub members: u64,
    /// Bytes that they will take on disk.
    pub taken: u64,
}

/// What a member takes on disk, as far as that can be said.
pub fn taken_by(member: &ArchiveMember) -> u64 {
    let Some(map) = &member.sparse else {
        return match member.kind {
            MemberKind::HardLink => 0,
            _ => taken(member.stored),
        };
    };
    let extents = map.extents.iter();
    let extents = extents.map(|extent| taken_within(extent.offset, extent.length));
    let extents = extents.fold(0, u64::saturating_add);
    extents.clamp(taken(0), taken(map.size))
}

/// A check under way.
///
/// Invariant: every member so far can be extracted after those before it, and `index` has what they will be. `parent` is
/// the directory that the last member is in, and what the archive calls it; `open` is a directory on disk.
struct Check<'a> {
    limits: Limits,
    root: Option<&'a TreeRoot>,
    index: ArchiveIndex,
    sum: Sum,
    bytes: u64,
    implied: u64,
    parent: Option<(Vec<u8>, DirId)>,
    open: Option<(DirId, OwnedFd)>,
}

/// Checks the archive in `spool`, which is to be extracted beneath `root`, if that is there.
/// Once `stopped` is set it ends with a failure.
pub fn check(
    spool: &Spool,
    root: Option<&TreeRoot>,
    limits: Limits,
    stopped: &AtomicBool,
) -> Result<Sum, Failure> {
    let mut members = Members::new(spool, limits.bytes);
    let mut check = Check {
        limits,
        root,
        index: ArchiveIndex::new(root.is_none()),
        sum: Sum::default(),
        bytes: 0,
        implied: 0,
        parent: None,
        open: None,
    };
    while let Some(member) = members.next_member()? {
        if stopped.load(Ordering::Relaxed) {
            return Err(Failure::new(CANCELLED, "Cannot extract: it was stopped"));
        }
        check.count(&member)?;
        members.check_content(&member)?;
        check.member(&member)?;
    }
    let implied = check.implied.saturating_mul(taken(0));
    check.sum.taken = check.sum.taken.saturating_add(implied);
    Ok(check.sum)
}

/// The resolved name of a member that [`check`] let pass.
pub fn name_of(member: &ArchiveMember) -> Result<Vec<u8>, Failure> {
    resolve(&member.name).map_err(|why| member.refused(why))
}

impl Check<'_> {
    fn count(&mut self, member: &ArchiveMember) -> Result<(), Failure> {
        self.sum.members += 1;
        self.sum.taken = self.sum.taken.saturating_add(taken_by(member));
        self.bytes = self.bytes.saturating_add(member.size());
        for (what, count, limit) in [
            ("members", self.sum.members, self.limits.members),
            ("bytes", self.bytes, self.limits.bytes),
        ] {
            if count > limit {
                let name = shown_bytes(&member.name);
                let text =
                    format!("Cannot extract {name}: the archive has more than {limit} {what}");
                return Err(Failure {
                    text,
                    ..member.over("")
                });
            }
        }
        Ok(())
    }

    fn member(&mut self, member: &ArchiveMember) -> Result<(), Failure> {
        if member.name.is_empty() {
            return Err(member.refused("has no name"));
        }
        let name = name_of(member)?;
        let is_dir = member.kind == MemberKind::Directory;
        if name.is_empty() {
            return match is_dir {
                true => Ok(()),
                false => Err(member.refused("would replace the root")),
            };
        }
        let (parent, last) = split(&name);
        let dir = self.enter(member, parent)?;
        let key = self.index.key(dir, last);
        let there = self.kind_at(member, dir, last)?;
        let node = match member.kind {
            MemberKind::File | MemberKind::Directory => Node::File,
            MemberKind::Symlink => self.symlink(member, dir)?,
            MemberKind::HardLink => self.hard_link(member, dir, key)?,
        };
        let replaced = match (self.index.get(key), there) {
            (Some(Node::Directory(_)), _) if is_dir => return Ok(()),
            (Some(Node::Directory(_)), _) => "a directory of the archive",
            // Through it other members of the archive were to go to what it leads to.
            (Some(Node::Through(_)), _) => "a symlink that members lead through",
            (Some(_), _) if is_dir => "a file of the archive by a directory",
            (None, Some(FileType::Directory)) if !is_dir => "a directory",
            (Some(_), _) | (None, None | Some(FileType::Symlink | FileType::Directory)) => "",
            (None, Some(_)) if is_dir => "a file by a directory",
            (None, Some(_)) => match self.open(dir) {
                Ok(dir) if is_mounted_over(dir, last) => "what is mounted there",
                _ => "",
            },
        };
        if !replaced.is_empty() {
            return Err(member.refused(&format!("would replace {replaced}")));
        }
        if is_dir {
            let fresh = there != Some(FileType::Directory);
            self.index.add_dir(dir, last, fresh);
        } else {
            self.index.set(key, node);
        }
        Ok(())
    }

    /// The directory that the archive calls `name`.
    fn enter(&mut self, member: &ArchiveMember, name: &[u8]) -> Result<DirId, Failure> {
        if let Some((known, dir)) = &self.parent
            && known == name
        {
            return Ok(*dir);
        }
        let dir = PathWalk::new(self, member, "").go(ROOT, name)?;
        self.parent = Some((name.to_vec(), dir));
        Ok(dir)
    }

    /// What lies on disk at a name in a directory.
    fn kind_at(
        &mut self,
        member: &ArchiveMember,
        dir: DirId,
        name: &[u8],
    ) -> Result<Option<FileType>, Failure> {
        if self.index.is_fresh(dir) {
            return Ok(None);
        }
        let kind = self.open(dir).and_then(|dir| kind_at(dir, name));
        kind.map_err(|errno| unseen(member, errno))
    }

    /// Opens a directory that is on disk, from the one above if that was opened last: names may be very deep.
    fn open(&mut self, dir: DirId) -> Result<BorrowedFd<'_>, Errno> {
        let opened = match (self.open.take(), self.index.above(dir)) {
            (Some((last, fd)), _) if last == dir => fd,
            (Some((last, fd)), Some((parent, name))) if last == parent => step_down(fd, name)?,
            (_, above) => {
                let name = above.map(|(parent, name)| self.index.name(parent, name));
                let root = self.root.ok_or(Errno::NOENT)?;
                root.dir(&name.unwrap_or_default())?
            }
        };
        Ok(self.open.insert((dir, opened)).1.as_fd())
    }

    /// Notes a directory, or a symlink to one, that no member was.
    fn count_implied(&mut self, member: &ArchiveMember) -> Result<(), Failure> {
        self.implied += 1;
        let why = "lies in more directories than the members that are allowed";
        match self.implied > self.limits.members {
            true => Err(member.over(why)),
            false => Ok(()),
        }
    }

    fn symlink(&self, member: &ArchiveMember, dir: DirId) -> Result<Node, Failure> {
        let climbs = climbs(&member.link);
        let wrong = match &member.link[..] {
            [] => "has an empty link target",
            target if target.len() > MAX_TARGET => "has a link target above 4095 bytes",
            target if target.contains(&0) => "has a link target that no link can have",
            [b'/', ..] => "has an absolute link target",
            _ if climbs > self.index.depth(dir) => "has a link target out of the root",
            _ => return Ok(Node::Symlink { climbs }),
        };
        Err(member.refused(wrong))
    }

    fn hard_link(
        &mut self,
        member: &ArchiveMember,
        dir: DirId,
        key: NameKey,
    ) -> Result<Node, Failure> {
        let target = resolve(&member.link).map_err(|why| match why {
            "is absolute" => member.refused("has an absolute link target"),
            "leads out of the root" => member.refused("has a link target out of the root"),
            _ => member.refused("has a link target that no link can have"),
        })?;
        let (parent, last) = split(&target);
        let below = PathWalk::new(self, member, "has a link target that ").go(ROOT, parent)?;
        let target_key = self.index.key(below, last);
        let what = match self.index.get(target_key) {
            _ if target.is_empty() || target_key == key => "the root or to itself",
            Some(Node::Directory(_) | Node::Through(_)) => "a directory",
            // The same target leads elsewhere from here.
            Some(Node::Symlink { climbs }) if climbs > self.index.depth(dir) => {
                "a symlink that leads out of the root"
            }
            Some(node) => return Ok(node),
            None => match self.kind_at(member, below, last)? {
                Some(FileType::RegularFile) => return Ok(Node::File),
                _ => "what neither the archive nor the root has",
            },
        };
        Err(member.refused(&format!("is a hard link to {what}")))
    }
}

/// The way to a directory, with the symlinks on disk followed as the kernel will follow them. The kernel itself cannot
/// be asked: what the archive itself brings is not there yet, and it does not tell which symlinks it has followed, so
/// that one of them could be replaced by another member.
struct PathWalk<'a, 'check> {
    check: &'a mut Check<'check>,
    member: &'a ArchiveMember,
    /// What a refusal begins with.
    whose: &'a str,
    links: u32,
}

impl<'a, 'check> PathWalk<'a, 'check> {
    fn new(check: &'a mut Check<'check>, member: &'a ArchiveMember, whose: &'a str) -> Self {
        let links = 0;
        Self {
            check,
            member,
            whose,
            links,
        }
    }

    /// The directory that `path` leads to from `dir`. What is not known on the way is from now on.
    fn go(&mut self, mut dir: DirId, path: &[u8]) -> Result<DirId, Failure> {
        // Only of a symlink's target: names are resolved.
        let in_link = self.links > 0;
        for component in components(path) {
            if component == b".." {
                let above = self.check.index.above(dir).map(|(parent, _)| parent);
                dir = above.ok_or_else(|| self.refused("a symlink out of the root"))?;
                continue;
            }
            let key = self.check.index.key(dir, component);
            dir = match self.check.index.get(key) {
                Some(Node::Directory(below) | Node::Through(below)) => below,
                Some(Node::Symlink { .. }) => return Err(self.met("symlink", dir, component)),
                Some(Node::File) => return Err(self.met("file", dir, component)),
                None => match self.check.kind_at(self.member, dir, component)? {
                    None if in_link => return Err(self.refused("a symlink to nothing")),
                    Some(FileType::Symlink) => {
                        let target = self.follow(dir, component)?;
                        self.check.count_implied(self.member)?;
                        self.check.index.set(key, Node::Through(target));
                        target
                    }
                    kind @ (None | Some(FileType::Directory)) => {
                        self.check.count_implied(self.member)?;
                        self.check.index.add_dir(dir, component, kind.is_none())
                    }
                    Some(_) => return Err(self.refused("a file")),
                },
            };
        }
        Ok(dir)
    }

    /// The directory that a symlink on disk leads to.
    fn follow(&mut self, dir: DirId, name: &[u8]) -> Result<DirId, Failure> {
        let there = self.check.open(dir);
        let target = there.and_then(|dir| readlinkat(dir, OsStr::from_bytes(name), Vec::new()));
        let target = target.map_err(|errno| unseen(self.member, errno))?;
        self.links += 1;
        if target.as_bytes().starts_with(b"/") {
            return Err(self.refused("a symlink out of the root"));
        }
        if self.links > MAX_LINKS {
            return Err(self.refused("a loop of symlinks"));
        }
        self.go(dir, target.as_bytes())
    }

    fn refused(&self, what: &str) -> Failure {
        self.member
            .refused(&format!("{}leads through {what}", self.whose))
    }

    fn met(&self, what: &str, dir: DirId, name: &[u8]) -> Failure {
        let name = shown_bytes(&self.check.index.name(dir, name));
        self.refused(&format!("the {what} {name} of the archive"))
    }
}

fn unseen(member: &ArchiveMember, errno: Errno) -> Failure {
    let name = shown_bytes(&member.name);
    let text = format!("Cannot extract {name}: cannot look at its place");
    Failure::new(errno.raw_os_error(), text)
}
