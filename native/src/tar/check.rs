//! The check of a whole archive, before anything of it is written.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;

use super::Limits;
use super::index::{DirId, Node};
use super::members::Members;
use super::name::{climbs, resolve, split};
use super::parser::{ArchiveMember, MemberKind};
use super::path_walk::PathWalk;
use super::root::{TreeRoot, is_mounted_over};
use super::spool::Spool;
use crate::file::failure::{CANCELLED, Failure, OVER_LIMIT, shown_bytes};
use crate::file::reserve::{taken, taken_within};

/// Most bytes that Linux takes for a symlink's target.
const MAX_TARGET: usize = 4095;

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
/// Invariant: every member so far can be extracted after those before it, and the index of `walk` has
/// what they will be. They are so many `members`, have so many `bytes`, and will take so many bytes on
/// disk. `parent` is the directory that the last one is in, and what the archive calls that.
struct Check<'a> {
    limits: Limits,
    walk: PathWalk<'a>,
    members: u64,
    bytes: u64,
    taken: u64,
    parent: Option<(Vec<u8>, DirId)>,
}

/// Checks the archive in `spool`, which is to be extracted beneath `root`, if that is there. Gives
/// how many bytes it will take on disk. Once `stopped` is set it ends with a failure.
pub fn check(
    spool: &Spool,
    root: Option<&TreeRoot>,
    limits: Limits,
    stopped: &AtomicBool,
) -> Result<u64, Failure> {
    let mut members = Members::new(spool, limits.bytes);
    let mut check = Check {
        limits,
        walk: PathWalk::new(root, limits.members),
        members: 0,
        bytes: 0,
        taken: 0,
        parent: None,
    };
    while let Some(member) = members.next_member()? {
        if stopped.load(Ordering::Relaxed) {
            return Err(Failure::new(CANCELLED, "Cannot extract: it was stopped"));
        }
        check.count(&member)?;
        if member.end > spool.length() {
            return Err(member.refused("is truncated: the archive ends in its content"));
        }
        check.member(&member)?;
    }
    let implied = check.walk.implied.saturating_mul(taken(0));
    Ok(check.taken.saturating_add(implied))
}

/// The resolved name of a member that [`check`] let pass.
pub fn name_of(member: &ArchiveMember) -> Result<Vec<u8>, Failure> {
    resolve(&member.name).map_err(|why| member.refused(why))
}

impl Check<'_> {
    fn count(&mut self, member: &ArchiveMember) -> Result<(), Failure> {
        self.members += 1;
        self.taken = self.taken.saturating_add(taken_by(member));
        self.bytes = self.bytes.saturating_add(member.size());
        let Some(exceeded) = self.limits.exceeded(self.members, self.bytes) else {
            return Ok(());
        };
        let name = shown_bytes(&member.name);
        let text = format!("Cannot extract {name}: the archive {exceeded}");
        Err(Failure::new(OVER_LIMIT, text))
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
        let (known, dir) = match self.parent.take() {
            Some((known, dir)) if known == parent => (known, dir),
            _ => (parent.to_vec(), self.walk.dir(member, "", parent)?),
        };
        self.parent = Some((known, dir));
        let there = self.walk.kind_at(member, dir, last)?;
        let node = match member.kind {
            MemberKind::File | MemberKind::Directory => Node::File,
            MemberKind::Symlink => self.symlink(member, dir)?,
            MemberKind::HardLink => self.hard_link(member, dir, last)?,
        };
        let replaced = match (self.walk.index.get(dir, last), there) {
            (Some(Node::Directory(_)), _) if is_dir => return Ok(()),
            (Some(Node::Directory(_)), _) => "a directory of the archive",
            // Through it other members of the archive were to go to what it leads to.
            (Some(Node::Through(..)), _) => "a symlink that members lead through",
            (Some(_), _) if is_dir => "a file of the archive by a directory",
            (None, Some(FileType::Directory)) if !is_dir => "a directory",
            (Some(_), _) | (None, None | Some(FileType::Symlink | FileType::Directory)) => "",
            (None, Some(_)) if is_dir => "a file by a directory",
            (None, Some(_)) => match self.walk.open(dir) {
                Ok(dir) if is_mounted_over(dir, last) => "what is mounted there",
                _ => "",
            },
        };
        if !replaced.is_empty() {
            return Err(member.refused(&format!("would replace {replaced}")));
        }
        if is_dir {
            let fresh = there != Some(FileType::Directory);
            self.walk.index.add_dir(dir, last, fresh);
        } else {
            self.walk.index.set(dir, last, node);
        }
        Ok(())
    }

    fn symlink(&self, member: &ArchiveMember, dir: DirId) -> Result<Node, Failure> {
        let climbs = climbs(&member.link);
        let wrong = match &member.link[..] {
            [] => "has an empty link target",
            target if target.len() > MAX_TARGET => "has a link target above 4095 bytes",
            target if target.contains(&0) => "has a link target that no link can have",
            [b'/', ..] => "has an absolute link target",
            _ if climbs > self.walk.index.depth(dir) => "has a link target out of the root",
            _ => return Ok(Node::Symlink(climbs)),
        };
        Err(member.refused(wrong))
    }

    /// What the hard link at `name` in `dir` will be another name of.
    fn hard_link(
        &mut self,
        member: &ArchiveMember,
        dir: DirId,
        name: &[u8],
    ) -> Result<Node, Failure> {
        let target = resolve(&member.link).map_err(|why| match why {
            "is absolute" => member.refused("has an absolute link target"),
            "leads out of the root" => member.refused("has a link target out of the root"),
            _ => member.refused("has a link target that no link can have"),
        })?;
        let (parent, last) = split(&target);
        let below = self.walk.dir(member, "has a link target that ", parent)?;
        let what = match self.walk.index.get(below, last) {
            _ if target.is_empty() || (below, last) == (dir, name) => "the root or to itself",
            Some(Node::Directory(_) | Node::Through(..)) => "a directory",
            // The same target leads elsewhere from here.
            Some(Node::Symlink(climbs)) if climbs > self.walk.index.depth(dir) => {
                "a symlink that leads out of the root"
            }
            Some(node) => return Ok(node),
            None => match self.walk.kind_at(member, below, last)? {
                Some(FileType::RegularFile) => return Ok(Node::File),
                _ => "what neither the archive nor the root has",
            },
        };
        Err(member.refused(&format!("is a hard link to {what}")))
    }
}
