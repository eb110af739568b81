//! A directory tree as a pax archive, made while it is read.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{FileType, Stat};
use tar::EntryType;

use super::header::{self, Entry};
use super::walk::TreeWalk;
use super::{BLOCK, Limits, padded};
use crate::file::failure::{Failure, OVER_LIMIT, shown};
use crate::file::read::read_full;
use crate::file::reader::Source;

/// Counts what was met against the limits.
struct Tally {
    path: PathBuf,
    limits: Limits,
    members: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) -> Result<(), Failure> {
        self.members += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        for (what, count, limit) in [
            ("members", self.members, self.limits.members),
            ("bytes", self.bytes, self.limits.bytes),
        ] {
            if count > limit {
                let path = shown(&self.path);
                let text = format!("Cannot pack {path}: it has more than {limit} {what}");
                return Err(Failure::new(OVER_LIMIT, text));
            }
        }
        Ok(())
    }
}

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
        let key = (stat.st_dev, stat.st_ino);
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

/// The content of a member: of `left` bytes still to come so many are the file's, of which it may have fewer by now, and
/// all others are zeros.
struct Content {
    file: Option<File>,
    of_file: u64,
    left: u64,
}

/// So many members are measured before others have their turn.
const TURN: usize = 500;

/// An archive under way.
///
/// Invariant: with `tally` the tree is still being measured, and nothing was packed. Else what comes next is
/// `pending[at..]`, then `content`, then what the walk still finds, then, once, the two zero blocks of the end.
pub struct Packer {
    tally: Option<Tally>,
    cancelled: Arc<AtomicBool>,
    walk: TreeWalk,
    links: Links,
    pending: Vec<u8>,
    at: usize,
    content: Option<Content>,
    ended: bool,
}

impl Packer {
    /// Opens the tree at `path`, which is measured against `limits` before anything is packed.
    pub fn open(path: &Path, limits: Limits, cancelled: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let (walk, _) = TreeWalk::open(path, cancelled, false, limits.members)?;
        let mut tally = Tally {
            path: path.to_owned(),
            limits,
            members: 0,
            bytes: 0,
        };
        tally.add(0)?;
        Ok(Self {
            tally: Some(tally),
            cancelled: Arc::clone(cancelled),
            walk,
            links: Links::default(),
            pending: Vec::new(),
            at: 0,
            content: None,
            ended: false,
        })
    }

    /// Measures on for a while; true once all was measured and packing can begin.
    fn measure(&mut self) -> Result<bool, Failure> {
        let Some(tally) = &mut self.tally else {
            return Ok(true);
        };
        for _ in 0..TURN {
            let Some(found) = self.walk.next_member()? else {
                return self.begin().map(|()| true);
            };
            let is_file = found.kind == FileType::RegularFile;
            if !is_file || self.links.met(&found.stat, &[]).is_some() {
                tally.add(0)?;
                continue;
            }
            self.walk.check_readable()?;
            tally.add(found.stat.st_size.max(0) as u64)?;
        }
        Ok(false)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let Some(tally) = self.tally.take() else {
            return Ok(());
        };
        self.links = Links::default();
        // A tree that grows meanwhile may do so, within bounds.
        let names = tally.limits.members.saturating_mul(2);
        let (walk, root) = TreeWalk::open(&tally.path, &self.cancelled, true, names)?;
        self.walk = walk;
        append(
            &mut self.pending,
            &root,
            EntryType::Directory,
            b"./",
            b"",
            0,
        );
        Ok(())
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
                    let of_file = stat.st_size.max(0) as u64;
                    append(out, stat, EntryType::Regular, name, b"", of_file);
                    let (file, left) = (Some(file), padded(of_file).unwrap_or(of_file));
                    self.content = Some(Content {
                        file,
                        of_file,
                        left,
                    });
                }
            }
        }
        Ok(())
    }

    /// Gives of the content what there is: zeros where the file has become shorter.
    fn content(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let Some(content) = &mut self.content else {
            return Ok(0);
        };
        let fits = |bytes: u64| out.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        let (count, wanted) = (fits(content.left), fits(content.of_file));
        let given = match &content.file {
            Some(file) => read_full(file, &mut out[..wanted]),
            None => Ok(0),
        };
        let given = given.map_err(|errno| self.walk.failed(errno))?;
        if given < wanted {
            content.file = None;
        }
        out[given..count].fill(0);
        content.of_file -= wanted as u64;
        content.left -= count as u64;
        if content.left == 0 {
            self.content = None;
        }
        Ok(count)
    }
}

fn append(out: &mut Vec<u8>, stat: &Stat, kind: EntryType, name: &[u8], link: &[u8], size: u64) {
    let entry = Entry {
        kind,
        name,
        link,
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        // The type of the fraction differs between architectures and versions of the crate.
        #[allow(clippy::unnecessary_cast)]
        mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
        size,
    };
    header::append(out, &entry);
}

impl Source for Packer {
    fn prepare(&mut self) -> Result<bool, Failure> {
        self.measure()
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        while !self.measure()? {}
        let mut filled = 0;
        while filled < out.len() {
            let room = &mut out[filled..];
            if self.at < self.pending.len() {
                let rest = &self.pending[self.at..];
                let count = rest.len().min(room.len());
                room[..count].copy_from_slice(&rest[..count]);
                self.at += count;
                filled += count;
            } else if self.content.is_some() {
                filled += self.content(room)?;
            } else if self.ended {
                break;
            } else {
                self.advance()?;
            }
        }
        Ok(filled)
    }
}
