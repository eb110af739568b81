//! The check of a whole archive, before anything of it is written.

use std::os::fd::OwnedFd;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::Limits;
use super::disk::{Root, kind_at};
use super::known::{Known, Node};
use super::member::{Kind, Member, Members};
use super::name::{MAX_TARGET, resolve, resolve_target, split};
use super::spool::Spool;
use crate::file::failure::{Failure, OVER_LIMIT, shown_bytes};

/// What a checked archive amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Members.
    pub members: u64,
    /// Bytes that will be written.
    pub stored: u64,
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
/// Invariant: every member so far can be extracted after those before it. `parent` is what lies at
/// the directory named `parent_name`, whose names above it are all known.
struct Check<'a> {
    limits: Limits,
    root: Option<&'a Root>,
    known: Known,
    sum: Sum,
    bytes: u64,
    implied: u64,
    parent_name: Option<Vec<u8>>,
    parent: Parent,
}

/// Checks the archive in `spool`, which is to be extracted beneath `root`, if that is there.
pub fn check(spool: &Spool, root: Option<&Root>, limits: Limits) -> Result<Sum, Failure> {
    let mut members = Members::new(spool, limits.bytes);
    let mut check = Check {
        limits,
        root,
        known: Known::default(),
        sum: Sum::default(),
        bytes: 0,
        implied: 0,
        parent_name: None,
        parent: Parent::Absent,
    };
    while let Some(member) = members.next_member()? {
        check.count(&member)?;
        members.check_content(&member)?;
        check.member(&member)?;
    }
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
        self.sum.stored = self.sum.stored.saturating_add(member.stored);
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
        let fresh = self.enter(member, parent)?;
        let there = match (&self.parent, fresh) {
            (Parent::There(dir), false) => {
                kind_at(dir, last).map_err(|errno| unseen(member, errno))?
            }
            _ => None,
        };
        let node = self.node(member, &name, parent)?;
        let key = self.known.key(&name);
        let is_dir = matches!(node, Node::Directory { .. });
        match self.known.get(key) {
            Some(Node::Directory { .. }) if !is_dir => {
                return Err(member.refused("would replace a directory of the archive"));
            }
            // Through it other members of the archive were to go to what it leads to.
            Some(Node::Directory { fresh: false }) if there == Some(FileType::Symlink) => {
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
                Some(_) => {}
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

    /// Makes sure that `parent` will be a directory that is reached beneath the root. True if
    /// nothing that is on disk now can lie in it.
    fn enter(&mut self, member: &Member, parent: &[u8]) -> Result<bool, Failure> {
        if self.parent_name.as_deref() == Some(parent) {
            return Ok(matches!(self.parent, Parent::Absent));
        }
        self.parent_name = None;
        let mut hash = self.known.root();
        let mut fresh = self.root.is_none();
        let mut end = 0;
        if !parent.is_empty() {
            for component in parent.split(|byte| *byte == b'/') {
                end += component.len();
                hash.push(component);
                let through = || shown_bytes(&parent[..end]);
                match self.known.get(hash.key()) {
                    Some(Node::Directory { fresh: known }) => fresh |= known,
                    Some(Node::Symlink) => {
                        let why = format!("leads through the symlink {} of the archive", through());
                        return Err(member.refused(&why));
                    }
                    Some(Node::File) => {
                        let why = format!("leads through the file {} of the archive", through());
                        return Err(member.refused(&why));
                    }
                    None => {
                        self.implied += 1;
                        if self.implied > self.limits.members {
                            let why = "lies in more directories than the members that are allowed";
                            let failure = member.refused(why);
                            return Err(Failure {
                                status: OVER_LIMIT,
                                ..failure
                            });
                        }
                        self.known.set(hash.key(), Node::Directory { fresh: false });
                    }
                }
                end += 1;
            }
        }
        self.parent = match (fresh, self.root) {
            (false, Some(root)) => look_up(member, root, parent)?,
            _ => Parent::Absent,
        };
        self.parent_name = Some(parent.to_vec());
        Ok(matches!(self.parent, Parent::Absent))
    }

    /// What the member will be, once its link leads where it may.
    fn node(&self, member: &Member, name: &[u8], parent: &[u8]) -> Result<Node, Failure> {
        match member.kind {
            Kind::File => Ok(Node::File),
            Kind::Directory => Ok(Node::Directory { fresh: false }),
            Kind::Symlink => {
                let why = match resolve_target(parent, &member.link) {
                    _ if member.link.is_empty() => "has an empty link target",
                    _ if member.link.len() > MAX_TARGET => "has a link target above 4095 bytes",
                    Ok(_) => return Ok(Node::Symlink),
                    Err("is absolute") => "has an absolute link target",
                    Err("leads out of the root") => "has a link target out of the root",
                    Err(_) => "has a link target that no link can have",
                };
                Err(member.refused(why))
            }
            Kind::HardLink => self.hard_link(member, name),
        }
    }

    fn hard_link(&self, member: &Member, name: &[u8]) -> Result<Node, Failure> {
        let target = resolve(b"", &member.link).map_err(|why| match why {
            "is absolute" => member.refused("has an absolute link target"),
            "leads out of the root" => member.refused("has a link target out of the root"),
            _ => member.refused("has a link target that no link can have"),
        })?;
        if target.is_empty() || target == name {
            return Err(member.refused("is a hard link to the root or to itself"));
        }
        match self.known.get(self.known.key(&target)) {
            Some(Node::Directory { .. }) => {
                return Err(member.refused("is a hard link to a directory"));
            }
            Some(node) => return Ok(node),
            None => {}
        }
        let (parent, last) = split(&target);
        if self.known.blocked(parent).is_some() {
            return Err(member.refused("has a link target that leads through a symlink or a file"));
        }
        let missing =
            || member.refused("is a hard link to what neither the archive nor the root has");
        let Some(root) = self.root else {
            return Err(missing());
        };
        // A directory that the archive replaces does not hold what the one on disk does.
        let replaced = self.known.is_fresh(parent);
        match look_up(member, root, parent)? {
            Parent::There(dir) if !replaced => {
                match kind_at(dir, last).map_err(|errno| unseen(member, errno))? {
                    Some(FileType::RegularFile) => Ok(Node::File),
                    _ => Err(missing()),
                }
            }
            _ => Err(missing()),
        }
    }
}

fn look_up(member: &Member, root: &Root, name: &[u8]) -> Result<Parent, Failure> {
    match root.dir(name) {
        Ok(fd) => Ok(Parent::There(fd)),
        Err(Errno::NOENT) => match root.leads_nowhere(name) {
            Ok(false) => Ok(Parent::Absent),
            Ok(true) => Err(member.refused("leads through a symlink to nothing")),
            Err(errno) => Err(unseen(member, errno)),
        },
        Err(Errno::XDEV) => Err(member.refused("leads through a symlink out of the root")),
        Err(Errno::LOOP) => Err(member.refused("leads through a loop of symlinks")),
        Err(Errno::NOTDIR) => Err(member.refused("leads through a file")),
        Err(errno) => Err(unseen(member, errno)),
    }
}

fn unseen(member: &Member, errno: Errno) -> Failure {
    let text = format!(
        "Cannot extract {}: cannot look at its place",
        shown_bytes(&member.name)
    );
    Failure::new(errno.raw_os_error(), text)
}
