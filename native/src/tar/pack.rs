//! A directory tree as a pax archive, made while it is read.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use tar::EntryType;

use super::header::append;
use super::walk::TreeWalk;
use super::{BLOCK, Limits, identity, padded};
use crate::abi::errno_of;
use crate::file::failure::{Failure, OVER_LIMIT, shown};
use crate::file::read::Source;

/// Names of files that have several, by device and inode, while some of them are still to come. Only
/// those that were packed.
#[derive(Default)]
struct Links(HashMap<(u64, u64), (Vec<u8>, u64)>);

impl Links {
    /// The name under which this file was met before, if it was.
    fn met(&mut self, stat: &Stat, path: &[u8]) -> Option<Vec<u8>> {
        if stat.st_nlink < 2 {
            return None;
        }
        // 32 bits on aarch64, 64 on x86_64.
        #[allow(clippy::useless_conversion)]
        let links = u64::from(stat.st_nlink);
        let key = identity(stat);
        let Some((first, left)) = self.0.get_mut(&key) else {
            self.0.insert(key, (path.to_vec(), links - 1));
            return None;
        };
        *left -= 1;
        if *left > 0 {
            return Some(first.clone());
        }
        self.0.remove(&key).map(|(first, _)| first)
    }
}

/// An archive under way.
///
/// Invariant: what comes next is `pending[at..]`, then `content`, then what the walk still finds, then,
/// once, the two zero blocks of the end.
pub struct Packer {
    walk: TreeWalk,
    links: Links,
    pending: Vec<u8>,
    at: usize,
    content: Box<dyn Read + Send>,
    ended: bool,
}

impl Packer {
    /// Measures the tree at `path` against `limits`, before anything is packed, and opens it.
    pub fn open(path: &Path, limits: Limits, cancelled: &Arc<AtomicBool>) -> Result<Self, Failure> {
        measure(path, limits, cancelled)?;
        // A tree that grows meanwhile may do so, within bounds.
        let names = limits.members.saturating_mul(2);
        let (walk, root) = TreeWalk::open(path, cancelled, true, names)?;
        let mut pending = Vec::new();
        append(&mut pending, &root, EntryType::Directory, b"./", b"", 0);
        Ok(Self {
            walk,
            links: Links::default(),
            pending,
            at: 0,
            content: Box::new(io::empty()),
            ended: false,
        })
    }

    /// Prepares the next member, or the end.
    fn advance(&mut self) -> Result<(), Failure> {
        self.pending.clear();
        self.at = 0;
        let Some(found) = self.walk.next_member()? else {
            self.pending.resize(2 * BLOCK, 0);
            self.ended = true;
            return Ok(());
        };
        let (out, name, stat) = (&mut self.pending, self.walk.path(), &found.stat);
        match found.kind {
            FileType::Directory => append(out, stat, EntryType::Directory, name, b"", 0),
            FileType::Symlink => {
                if let Some(target) = self.walk.link_target()? {
                    append(out, stat, EntryType::Symlink, name, &target, 0);
                }
            }
            _ => {
                if let Some(first) = self.links.met(stat, name) {
                    append(out, stat, EntryType::Link, name, &first, 0);
                } else if let Some(file) = found.file {
                    let size = stat.st_size.max(0) as u64;
                    append(out, stat, EntryType::Regular, name, b"", size);
                    // Zeros where the file has become shorter, and for the padding.
                    let content = file.take(size).chain(io::repeat(0));
                    self.content = Box::new(content.take(padded(size).unwrap_or(size)));
                }
            }
        }
        Ok(())
    }
}

fn measure(path: &Path, limits: Limits, cancelled: &Arc<AtomicBool>) -> Result<(), Failure> {
    let (mut walk, _) = TreeWalk::open(path, cancelled, false, limits.members)?;
    let (mut links, mut members, mut bytes) = (Links::default(), 1, 0u64);
    loop {
        if let Some(exceeded) = limits.exceeded(members, bytes) {
            let text = format!("Cannot pack {}: it {exceeded}", shown(path));
            return Err(Failure::new(OVER_LIMIT, text));
        }
        let Some(found) = walk.next_member()? else {
            return Ok(());
        };
        members += 1;
        if found.kind == FileType::RegularFile && links.met(&found.stat, &[]).is_none() {
            walk.check_readable()?;
            bytes = bytes.saturating_add(found.stat.st_size.max(0) as u64);
        }
    }
}

impl Source for Packer {
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while filled < out.len() {
            let mut header = &self.pending[self.at..];
            let count = match header.is_empty() {
                true => self.content.read(&mut out[filled..]),
                false => header.read(&mut out[filled..]),
            };
            match (count.map_err(errno_of), self.ended) {
                (Ok(0), true) => break,
                (Ok(0), false) => self.advance()?,
                (Ok(count), _) => {
                    self.at = (self.at + count).min(self.pending.len());
                    filled += count;
                }
                (Err(Errno::INTR), _) => {}
                (Err(errno), _) => return Err(self.walk.failed(errno)),
            }
        }
        Ok(filled)
    }
}
