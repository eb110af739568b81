//! Where names of members lead, once what came before them is extracted.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::index::{ArchiveIndex, DirId, Node, ROOT};
use super::name::components;
use super::parser::ArchiveMember;
use super::root::{TreeRoot, kind_at, step_down};
use crate::file::failure::{Failure, shown_bytes};

/// As many symlinks as the kernel follows on one path.
const MAX_LINKS: u32 = 40;

/// Goes the way to directories as the kernel will, with the symlinks on disk that it will follow.
/// The kernel cannot be asked: what the archive brings is not there yet, and it does not tell which
/// symlinks it followed, so that another member could replace one of them.
///
/// Invariant: `index` has every directory and symlink that was gone through; `implied` counts those
/// that no member was. `open` is a directory on disk.
pub struct PathWalk<'a> {
    root: Option<&'a TreeRoot>,
    open: Option<(DirId, OwnedFd)>,
    max_implied: u64,
    /// What is known of names.
    pub index: ArchiveIndex,
    /// Directories that are needed and no members, and symlinks to them.
    pub implied: u64,
}

/// Who goes: a member, what a refusal of it begins with, and how many symlinks it went through.
struct Walker<'a> {
    member: &'a ArchiveMember,
    whose: &'a str,
    links: u32,
}

impl<'a> PathWalk<'a> {
    /// Walks beneath `root`, if that is there, that need at most `max_implied` directories more than
    /// members are.
    pub fn new(root: Option<&'a TreeRoot>, max_implied: u64) -> Self {
        Self {
            root,
            open: None,
            max_implied,
            index: ArchiveIndex::new(root.is_none()),
            implied: 0,
        }
    }

    /// The directory that `path` leads to from the root. What is not known on the way is from now
    /// on. A refusal of `member` begins with `whose`.
    pub fn dir(
        &mut self,
        member: &ArchiveMember,
        whose: &str,
        path: &[u8],
    ) -> Result<DirId, Failure> {
        let links = 0;
        let mut walker = Walker {
            member,
            whose,
            links,
        };
        self.go(&mut walker, ROOT, path)
    }

    fn go(&mut self, walker: &mut Walker, mut dir: DirId, path: &[u8]) -> Result<DirId, Failure> {
        let member = walker.member;
        // Only a symlink's target has dots, and it alone has to be there.
        let in_link = walker.links > 0;
        for component in components(path) {
            if component == b".." {
                let above = self.index.above(dir).map(|(parent, _)| parent);
                dir = above.ok_or_else(|| walker.refused("a symlink out of the root"))?;
                continue;
            }
            let met = |what: &str, index: &ArchiveIndex| {
                let name = shown_bytes(&index.name(dir, component));
                Err(walker.refused(&format!("the {what} {name} of the archive")))
            };
            dir = match self.index.get(dir, component) {
                Some(Node::Directory(below)) => below,
                Some(Node::Through(below, links)) => {
                    walker.follow(links)?;
                    below
                }
                Some(Node::Symlink(_)) => return met("symlink", &self.index),
                Some(Node::File) => return met("file", &self.index),
                None => match self.kind_at(member, dir, component)? {
                    None if in_link => return Err(walker.refused("a symlink to nothing")),
                    Some(FileType::Symlink) => {
                        let before = walker.links;
                        let target = self.follow(walker, dir, component)?;
                        self.imply(member)?;
                        let through = Node::Through(target, walker.links - before);
                        self.index.set(dir, component, through);
                        target
                    }
                    kind @ (None | Some(FileType::Directory)) => {
                        self.imply(member)?;
                        self.index.add_dir(dir, component, kind.is_none())
                    }
                    Some(_) => return Err(walker.refused("a file")),
                },
            };
        }
        Ok(dir)
    }

    /// The directory that a symlink on disk leads to.
    fn follow(&mut self, walker: &mut Walker, dir: DirId, name: &[u8]) -> Result<DirId, Failure> {
        let there = self.open(dir);
        let target = there.and_then(|dir| readlinkat(dir, OsStr::from_bytes(name), Vec::new()));
        let target = target.map_err(|errno| unseen(walker.member, errno))?;
        walker.follow(1)?;
        if target.as_bytes().starts_with(b"/") {
            return Err(walker.refused("a symlink out of the root"));
        }
        self.go(walker, dir, target.as_bytes())
    }

    fn imply(&mut self, member: &ArchiveMember) -> Result<(), Failure> {
        self.implied += 1;
        let why = "lies in more directories than the members that are allowed";
        match self.implied > self.max_implied {
            true => Err(member.over(why)),
            false => Ok(()),
        }
    }

    /// What lies on disk at a name in a directory.
    pub fn kind_at(
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

    /// Opens a directory that is on disk, from the one above it where that was opened last: names
    /// may be very deep.
    pub fn open(&mut self, dir: DirId) -> Result<BorrowedFd<'_>, Errno> {
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
}

impl Walker<'_> {
    /// Counts symlinks on the way, which may be a loop.
    fn follow(&mut self, links: u32) -> Result<(), Failure> {
        self.links += links;
        match self.links > MAX_LINKS {
            true => Err(self.refused("more symlinks than the kernel follows")),
            false => Ok(()),
        }
    }

    fn refused(&self, what: &str) -> Failure {
        let why = format!("{}leads through {what}", self.whose);
        self.member.refused(&why)
    }
}

fn unseen(member: &ArchiveMember, errno: Errno) -> Failure {
    let name = shown_bytes(&member.name);
    let text = format!("Cannot extract {name}: cannot look at its place");
    Failure::new(errno.raw_os_error(), text)
}
