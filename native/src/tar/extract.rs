//! A checked archive put on disk.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, fchmod, futimens};
use rustix::io::Errno;

use super::Limits;
use super::check::{check, name_of};
use super::disk::Root;
use super::known::Known;
use super::member::{Kind, Member, Members};
use super::name::{resolve, split};
use super::place::{Place, Source, Why, times};
use super::spool::Spool;
use crate::file::failure::{Failure, shown_bytes};
use crate::file::parents::Parents;
use crate::file::reserve::Reserve;

/// Checks the archive in `spool` and, if all of it may be extracted, extracts it beneath `path`,
/// which is made if it is not there. Refused, it leaves nothing; only a failure of the disk itself
/// can stop it halfway, and then names the first member that is missing.
pub fn unpack(spool: &Spool, path: &Path, limits: Limits, reserve: Reserve) -> Result<(), Failure> {
    let existing = match Root::open(path) {
        Ok(root) => Some(root),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(Failure::of("extract into", path, errno)),
    };
    let sum = check(spool, existing.as_ref(), limits)?;
    reserve.check(path, sum.stored.saturating_sub(spool.own_bytes()))?;
    let mut parents = Parents::default();
    let root = match existing {
        Some(root) => root,
        None => {
            parents.make(path)?;
            Root::open(path).map_err(|errno| Failure::of("extract into", path, errno))?
        }
    };
    let source = Source {
        spool,
        reserve,
        kernel_copies: true,
    };
    let extracted = Extraction::new(root, source).run(limits);
    // Halfway they hold members and stay; before the first member they go again.
    if extracted.is_ok() {
        parents.keep();
    }
    extracted
}

/// Invariant: `parent` is the open directory named `parent_name`.
struct Extraction<'a> {
    root: Root,
    source: Source<'a>,
    parent_name: Vec<u8>,
    parent: Option<OwnedFd>,
    directories: Vec<u64>,
}

impl<'a> Extraction<'a> {
    fn new(root: Root, source: Source<'a>) -> Self {
        let (parent_name, parent, directories) = Default::default();
        Self {
            root,
            source,
            parent_name,
            parent,
            directories,
        }
    }

    fn run(mut self, limits: Limits) -> Result<(), Failure> {
        let mut members = Members::new(self.source.spool, limits.bytes);
        while let Some(member) = members.next_member()? {
            self.member(&member, &mut members)
                .map_err(|why| failed(&member, why))?;
        }
        self.finish(members)
    }

    fn member(&mut self, member: &Member, members: &mut Members) -> Result<(), Why> {
        let name = name_of(member).map_err(Why::Reserve)?;
        if member.kind == Kind::Directory {
            self.directories.push(member.start);
            if name.is_empty() {
                return Ok(());
            }
        }
        let (parent, last) = split(&name);
        if self.parent.is_none() || self.parent_name != parent {
            self.parent = Some(self.root.make_dir(parent)?);
            self.parent_name.clear();
            self.parent_name.extend_from_slice(parent);
        }
        let dir = self.parent.as_ref().ok_or(Errno::BADF)?.as_fd();
        let place = Place { dir, name: last };
        match member.kind {
            Kind::File => place.file(member, &mut self.source, members.blocks())?,
            Kind::Directory => place.directory()?,
            Kind::Symlink => place.symlink(member)?,
            Kind::HardLink => {
                let target = resolve(b"", &member.link).map_err(|_| Errno::INVAL)?;
                let (parent, last) = split(&target);
                let dir = self.root.dir(parent)?;
                let target = Place {
                    dir: dir.as_fd(),
                    name: last,
                };
                place.hard_link(target)?;
            }
        }
        Ok(())
    }

    /// Gives directories their modes and times, once nothing more is written into them. From the
    /// last to the first: one that cannot be entered afterwards comes after what is in it.
    fn finish(self, mut members: Members) -> Result<(), Failure> {
        let known = Known::default();
        let mut done = HashSet::new();
        for start in self.directories.iter().rev() {
            members.seek(*start);
            let Some(member) = members.next_member()? else {
                continue;
            };
            let name = name_of(&member)?;
            // The last member of a name is the one that counts.
            if !done.insert(known.key(&name)) {
                continue;
            }
            let set = || {
                let dir = self.root.dir_itself(&name)?;
                fchmod(&dir, Mode::from_raw_mode(member.mode))?;
                futimens(&dir, &times(&member))
            };
            set().map_err(|errno| failed(&member, errno.into()))?;
        }
        Ok(())
    }
}

fn failed(member: &Member, why: Why) -> Failure {
    let name = shown_bytes(&member.name);
    match why {
        Why::Errno(errno) => Failure::new(
            errno.raw_os_error(),
            format!("Cannot extract {name}: it and the members after it are missing"),
        ),
        Why::Reserve(failure) => {
            let text = format!(
                "{}; {name} and the members after it are missing",
                failure.text
            );
            Failure { text, ..failure }
        }
    }
}
