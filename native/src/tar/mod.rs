//! Trees as tar: packed while they are read, extracted after the whole archive was checked.
//!
//! - `walk`, `pack`, `header`  a directory as a pax archive
//! - `field`, `pax`, `sparse`, `parser`  headers as members
//! - `spool`, `members`  an archive while it arrives, and what is read of it afterwards
//! - `name`, `index`, `path_walk`, `check`  what of it is refused before anything is written
//! - `root`, `place`, `extract`  the members on disk, confined to their root by the kernel

pub mod check;
pub mod extract;
mod field;
mod header;
mod index;
mod members;
mod name;
pub mod pack;
mod parser;
mod path_walk;
mod pax;
mod place;
mod root;
mod sparse;
pub mod spool;
mod walk;

use rustix::fs::Stat;

/// Size of a tar block, in bytes.
pub const BLOCK: usize = 512;

/// What a tree may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Members, the root among them if it is one.
    pub members: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

impl Limits {
    /// What there is too much of, if anything.
    pub fn exceeded(&self, members: u64, bytes: u64) -> Option<String> {
        let counts = [
            (members, self.members, "members"),
            (bytes, self.bytes, "bytes"),
        ];
        let mut exceeded = counts.iter().filter(|(count, limit, _)| count > limit);
        exceeded
            .next()
            .map(|(_, limit, what)| format!("has more than {limit} {what}"))
    }
}

/// A field that holds not what it should; whoever reads it says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// `size` rounded up to whole blocks; none if that is no u64.
pub fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK as u64)
}

/// What tells a file from all others: device and inode.
pub fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
