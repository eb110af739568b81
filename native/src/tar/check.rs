//! The check of a whole archive, before anything of it is written.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::Limits;
use super::disk::{Root, is_mounted_over, kind_at};
use super::known::{Key, Known, Node};
use super::member::{Kind, Member, Members};
use super::name::{MAX_TARGET, climbs, depth, resolve, resolve_target, split};
use super::spool::Spool;
use super::way::{Here, Way, joined};
use crate::file::failure::{CANCELLED, Failure, OVER_LIMIT, shown_bytes};
use crate::file::reserve::{taken, taken_within};

/// What a checked archive amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Members.
    pub members: u64,
    /// Bytes that they will take on disk.
    pub taken: u64,
}

/// What a member takes on disk, as far as that can be said.
pub fn taken_by(member: &Member) -> u64 {
    let Some(map) = &member.sparse else {
        return match member.kind {
            Kind::HardLink => 0,
            _ => taken(member.stored),
        };
    };
    let pieces = map.pieces.iter();
    let pieces = pieces.map(|piece| taken_within(piece.offset, piece.length));
    let pieces = pieces.fold(0, u64::saturating_add);
    pieces.clamp(taken(0), taken(map.size))
}

/// What lies on disk at the directory that was asked about last.
enum Parent {
    /// Nothing, so nothing lies in it either.
    Absent,
    /// A directory.
    There(OwnedFd),
}

/// A check under way.
///
/// Invariant: every member so far can be extracted after those before it. All names in `known` are
/// such that no symlink on disk is on the way: `throughs` tells where the names lead that do have
/// one. `parent` is what lies at the directory that members name `parent_name`, and `parent_real`
/// where that is.
struct Check<'a> {
    limits: Limits,
    root: Option<&'a Root>,
    known: Known,
    sum: Sum,
    bytes: u64,
    implied: u64,
    throughs: Vec<Vec<u8>>,
    parent_name: Option<Vec<u8>>,
    parent_real: Vec<u8>,
    parent: Parent,
}

/// Checks the archive in `spool`, which is to be extracted beneath `root`, if that is there.
/// Once `stopped` is set it ends with a failure.
pub fn check(
    spool: &Spool,
    root: Option<&Root>,
    limits: Limits,
    stopped: &AtomicBool,
) -> Result<Sum, Failure> {
    let mut members = Members::new(spool, limits.bytes);
    let mut check = Check {
        limits,
        root,
        known: Known::default(),
        sum: Sum::default(),
        bytes: 0,
        implied: 0,
        throughs: Vec::new(),
        parent_name: None,
        parent_real: Vec::new(),
        parent: Parent::Absent,
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
pub fn name_of(member: &Member) -> Result<Vec<u8>, Failure> {
    resolve(b"", &member.name).map_err(|why| member.refused(why))
}

impl Check<'_> {
    fn count(&mut self, member: &Member) -> Result<(), Failure> {
        let over = |what: &str, limit: u64| {
            let name = shown_bytes(&member.name);
            let text = format!("Cannot extract {name}: the archive has more than {limit} {what}");
            Err(Failure::new(OVER_LIMIT, text))
        };
        self.sum.members += 1;
        if self.sum.members > self.limits.members {
            return over("members", self.limits.members);
        }
        self.bytes = self.bytes.saturating_add(member.size());
        if self.bytes > self.limits.bytes {
            return over("bytes", self.limits.bytes);
        }
        self.sum.taken = self.sum.taken.saturating_add(taken_by(member));
        Ok(())
    }

    fn member(&mut self, member: &Member) -> Result<(), Failure> {
        if member.name.is_empty() {
            return Err(member.refused("has no name"));
        }
        let name = name_of(member)?;
        if name.is_empty() {
            return match member.kind {
                Kind::Directory => Ok(()),
                _ => Err(member.refused("would replace the root")),
            };
        }
        let (parent, last) = split(&name);
        self.enter(member, parent)?;
        let name = joined(&self.parent_real, last);
        let there = match &self.parent {
            Parent::There(dir) => kind_at(dir, last).map_err(|errno| unseen(member, errno))?,
            Parent::Absent => None,
        };
        let node = self.node(member, &name)?;
        let key = self.known.key(&name);
        let is_dir = matches!(node, Node::Directory { .. });
        match self.known.get(key) {
            Some(Node::Directory { .. }) if !is_dir => {
                return Err(member.refused("would replace a directory of the archive"));
            }
            // Through it other members of the archive were to go to what it leads to.
            Some(Node::Through(_)) => {
                return Err(member.refused("would replace a symlink that members lead through"));
            }
            Some(Node::Directory { .. }) => return Ok(()),
            Some(_) if is_dir => {
                return Err(member.refused("would replace a file of the archive by a directory"));
            }
            Some(_) => {}
            None => match there {
                Some(FileType::Directory) if !is_dir => {
                    return Err(member.refused("would replace a directory"));
                }
                Some(FileType::Symlink | FileType::Directory) | None => {}
                Some(_) if is_dir => {
                    return Err(member.refused("would replace a file by a directory"));
                }
                Some(_) => {
                    if let Parent::There(dir) = &self.parent
                        && is_mounted_over(dir, last)
                    {
                        return Err(member.refused("would replace what is mounted there"));
                    }
                }
            },
        }
        let node = match node {
            Node::Directory { .. } => Node::Directory {
                fresh: there != Some(FileType::Directory),
            },
            other => other,
        };
        self.known.set(key, node);
        Ok(())
    }

    /// Makes sure that `parent` will be a directory that is reached beneath the root.
    fn enter(&mut self, member: &Member, parent: &[u8]) -> Result<(), Failure> {
        if self.parent_name.as_deref() == Some(parent) {
            return Ok(());
        }
        self.parent_name = None;
        (self.parent_real, self.parent) = self.reach(member, parent, "")?;
        self.parent_name = Some(parent.to_vec());
        Ok(())
    }

    /// Where a directory lies and what is there, with the symlinks on disk followed as the kernel
    /// will. What is not known on the way is from now on, as a directory. `whose` begins a refusal.
    fn reach(
        &mut self,
        member: &Member,
        name: &[u8],
        whose: &str,
    ) -> Result<(Vec<u8>, Parent), Failure> {
        let refused = |why: String| Err(member.refused(&format!("{whose}leads {why}")));
        let mut way = Way::new(name);
        let mut here = Here::new(self.root);
        while let Some(component) = way.step() {
            let hash = here.hash_below(&self.known, &component);
            match self.known.get(hash.key()) {
                _ if component == b".." => {
                    if !here.up(&self.known) {
                        return refused("through a symlink out of the root".into());
                    }
                }
                Some(Node::Directory { fresh }) => here.down(&component, hash, fresh),
                Some(Node::Through(at)) => {
                    let real = self.throughs.get(at as usize).cloned().unwrap_or_default();
                    here.go_to(real, &self.known);
                }
                Some(Node::Symlink { .. }) => {
                    let name = joined(&here.name, &component);
                    return refused(format!(
                        "through the symlink {} of the archive",
                        shown_bytes(&name)
                    ));
                }
                Some(Node::File) => {
                    let name = joined(&here.name, &component);
                    return refused(format!(
                        "through the file {} of the archive",
                        shown_bytes(&name)
                    ));
                }
                None => match here
                    .look(&component)
                    .map_err(|errno| unseen(member, errno))?
                {
                    None if way.in_link() => return refused("through a symlink to nothing".into()),
                    None => {
                        self.implied(member, hash.key(), true)?;
                        here.down(&component, hash, true);
                    }
                    Some(FileType::Directory) => {
                        self.implied(member, hash.key(), false)?;
                        here.down(&component, hash, false);
                    }
                    Some(FileType::Symlink) => {
                        let target = here.read_link(&component);
                        let target = target.map_err(|errno| unseen(member, errno))?;
                        if target.first() == Some(&b'/') {
                            return refused("through a symlink out of the root".into());
                        }
                        if !way.follow(&target, hash.key()) {
                            return refused("through a loop of symlinks".into());
                        }
                    }
                    Some(_) => return refused("through a file".into()),
                },
            }
            // The link was followed to its end: whoever comes by again need not look.
            for key in way.followed() {
                self.implied(member, key, false)?;
                let at = self.throughs.len() as u32;
                self.throughs.push(here.name.clone());
                self.known.set(key, Node::Through(at));
            }
        }
        let parent = match here.dir() {
            Ok(Some(dir)) => Parent::There(dir),
            Ok(None) => Parent::Absent,
            Err(errno) => return Err(unseen(member, errno)),
        };
        Ok((here.name, parent))
    }

    /// Notes a directory that no member was.
    fn implied(&mut self, member: &Member, key: Key, fresh: bool) -> Result<(), Failure> {
        self.implied += 1;
        if self.implied > self.limits.members {
            let why = "lies in more directories than the members that are allowed";
            let failure = member.refused(why);
            return Err(Failure {
                status: OVER_LIMIT,
                ..failure
            });
        }
        self.known.set(key, Node::Directory { fresh });
        Ok(())
    }

    /// What the member will be, once its link leads where it may.
    fn node(&mut self, member: &Member, name: &[u8]) -> Result<Node, Failure> {
        match member.kind {
            Kind::File => Ok(Node::File),
            Kind::Directory => Ok(Node::Directory { fresh: false }),
            Kind::Symlink => {
                let why = match resolve_target(&self.parent_real, &member.link) {
                    _ if member.link.is_empty() => "has an empty link target",
                    _ if member.link.len() > MAX_TARGET => "has a link target above 4095 bytes",
                    Ok(_) => {
                        let climbs = climbs(&member.link);
                        return Ok(Node::Symlink { climbs });
                    }
                    Err("is absolute") => "has an absolute link target",
                    Err("leads out of the root") => "has a link target out of the root",
                    Err(_) => "has a link target that no link can have",
                };
                Err(member.refused(why))
            }
            Kind::HardLink => self.hard_link(member, name),
        }
    }

    fn hard_link(&mut self, member: &Member, name: &[u8]) -> Result<Node, Failure> {
        let target = resolve(b"", &member.link).map_err(|why| match why {
            "is absolute" => member.refused("has an absolute link target"),
            "leads out of the root" => member.refused("has a link target out of the root"),
            _ => member.refused("has a link target that no link can have"),
        })?;
        let (parent, last) = split(&target);
        let (real, there) = self.reach(member, parent, "has a link target that ")?;
        let target = match target.is_empty() {
            true => target,
            false => joined(&real, last),
        };
        if target.is_empty() || target == name {
            return Err(member.refused("is a hard link to the root or to itself"));
        }
        match self.known.get(self.known.key(&target)) {
            Some(Node::Directory { .. } | Node::Through(_)) => {
                return Err(member.refused("is a hard link to a directory"));
            }
            // The same target leads elsewhere from here.
            Some(Node::Symlink { climbs }) if climbs > depth(name) => {
                return Err(
                    member.refused("is a hard link to a symlink that leads out of the root")
                );
            }
            Some(node) => return Ok(node),
            None => {}
        }
        let found = match &there {
            Parent::There(dir) => {
                let last = split(&target).1;
                kind_at(dir, last).map_err(|errno| unseen(member, errno))?
            }
            Parent::Absent => None,
        };
        match found {
            Some(FileType::RegularFile) => Ok(Node::File),
            _ => Err(member.refused("is a hard link to what neither the archive nor the root has")),
        }
    }
}

fn unseen(member: &Member, errno: Errno) -> Failure {
    let text = format!(
        "Cannot extract {}: cannot look at its place",
        shown_bytes(&member.name)
    );
    Failure::new(errno.raw_os_error(), text)
}
