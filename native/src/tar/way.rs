//! The way to a name beneath the root, step by step, as the kernel will go it.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::disk::{Root, kind_at, step_down};
use super::known::{Key, Known, Name};
use super::name::split;

/// As many symlinks as the kernel follows.
const MAX_LINKS: usize = 40;

/// The components that are still to be gone.
///
/// Invariant: `links` has, for each symlink that is being followed, how many components are left once
/// it has been; they come in the order in which they were met, so their numbers do not shrink.
pub struct Way {
    left: VecDeque<Vec<u8>>,
    links: Vec<(usize, Key)>,
    met: usize,
}

impl Way {
    /// The way to a resolved name.
    pub fn new(name: &[u8]) -> Self {
        Self {
            left: components(name).collect(),
            links: Vec::new(),
            met: 0,
        }
    }

    /// The next component: a name, or `..` of a symlink's target.
    pub fn step(&mut self) -> Option<Vec<u8>> {
        self.left.pop_front()
    }

    /// Goes by a symlink's target before all else. False if there were too many.
    pub fn follow(&mut self, target: &[u8], key: Key) -> bool {
        self.met += 1;
        self.links.push((self.left.len(), key));
        let target: Vec<_> = components(target).collect();
        for component in target.into_iter().rev() {
            self.left.push_front(component);
        }
        self.met <= MAX_LINKS
    }

    /// Whether the last component was one of a symlink's target.
    pub fn in_link(&self) -> bool {
        !self.links.is_empty()
    }

    /// The symlinks that have been followed to their ends, since this was asked last.
    pub fn followed(&mut self) -> Vec<Key> {
        let left = self.left.len();
        let unfinished = self.links.iter().take_while(|(after, _)| *after < left);
        let unfinished = unfinished.count();
        let finished = self.links.split_off(unfinished);
        finished.into_iter().map(|(_, key)| key).collect()
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    let parts = parts.filter(|part| !matches!(*part, b"" | b"."));
    parts.map(<[u8]>::to_vec)
}

/// A name beneath a directory, empty for the root.
pub fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir.is_empty() {
        true => name.to_vec(),
        false => [dir, b"/", name].concat(),
    }
}

/// Where the way has led so far.
///
/// Invariant: `name` holds no symlink, and `hash` is its hash. With `fresh` nothing that is on disk
/// can lie here. Else `open`, if there is one, is the directory with the first so many bytes of `name`.
pub struct Here<'a> {
    root: Option<&'a Root>,
    /// The resolved name.
    pub name: Vec<u8>,
    hash: Option<Name>,
    fresh: bool,
    open: Option<(usize, OwnedFd)>,
}

impl<'a> Here<'a> {
    /// The root; none if there is nothing on disk yet.
    pub fn new(root: Option<&'a Root>) -> Self {
        Self {
            root,
            name: Vec::new(),
            hash: None,
            fresh: root.is_none(),
            open: None,
        }
    }

    /// The hash of a name in this directory.
    pub fn hash_below(&mut self, known: &Known, component: &[u8]) -> Name {
        let hash = self.hash.get_or_insert_with(|| known.name(&self.name));
        let mut below = hash.clone();
        below.push(component);
        below
    }

    /// Goes into a directory, whose hash this is.
    pub fn down(&mut self, component: &[u8], hash: Name, fresh: bool) {
        if !self.name.is_empty() {
            self.name.push(b'/');
        }
        self.name.extend_from_slice(component);
        self.hash = Some(hash);
        self.fresh |= fresh;
    }

    /// Goes to the directory above; false if that is outside.
    pub fn up(&mut self, known: &Known) -> bool {
        if self.name.is_empty() {
            return false;
        }
        let above = split(&self.name).0.to_vec();
        self.go_to(above, known);
        true
    }

    /// Goes to a directory that was come by before.
    pub fn go_to(&mut self, name: Vec<u8>, known: &Known) {
        self.fresh = self.root.is_none() || known.is_fresh(&name);
        (self.name, self.hash, self.open) = (name, None, None);
    }

    /// What lies on disk at a name in this directory.
    pub fn look(&mut self, component: &[u8]) -> Result<Option<FileType>, Errno> {
        match self.opened()? {
            Some(dir) => kind_at(dir, component),
            None => Ok(None),
        }
    }

    /// Target of a symlink in this directory.
    pub fn read_link(&mut self, component: &[u8]) -> Result<Vec<u8>, Errno> {
        let dir = self.opened()?.ok_or(Errno::NOENT)?;
        let target = readlinkat(dir, OsStr::from_bytes(component), Vec::new())?;
        Ok(target.into_bytes())
    }

    /// The directory on disk, if there is one.
    pub fn dir(&mut self) -> Result<Option<OwnedFd>, Errno> {
        if self.opened()?.is_none() {
            return Ok(None);
        }
        match self.open.take() {
            Some((_, fd)) => Ok(Some(fd)),
            None => self.root.map(|root| root.dir(b"")).transpose(),
        }
    }

    /// Opened from where it was opened last, so that deep names are gone once.
    fn opened(&mut self) -> Result<Option<BorrowedFd<'_>>, Errno> {
        let Some(root) = self.root.filter(|_| !self.fresh) else {
            return Ok(None);
        };
        let from = self.open.as_ref().map_or(0, |(length, _)| *length);
        let mut rest = &self.name[from..];
        if let [b'/', after @ ..] = rest {
            rest = after;
        }
        if !rest.is_empty() {
            for component in rest.split(|byte| *byte == b'/') {
                let name = Path::new(OsStr::from_bytes(component));
                let next = match &self.open {
                    Some((_, fd)) => step_down(fd, name)?,
                    None => step_down(root, name)?,
                };
                self.open = Some((self.name.len(), next));
            }
        }
        Ok(Some(match &self.open {
            Some((_, fd)) => fd.as_fd(),
            None => root.as_fd(),
        }))
    }
}
