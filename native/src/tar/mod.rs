//! Trees as tar: packed while they are read, extracted after the whole archive was checked.
//!
//! - `walk`, `pack`, `header`  a directory as a pax archive
//! - `field`, `pax`, `sparse`, `parser`  headers as members
//! - `spool`, `members`  an archive while it arrives, and what is read of it afterwards
//! - `name`, `index`, `check`  what of it is refused before anything is written
//! - `root`, `place`, `extract`  the members on disk, confined to their root by the kernel

pub mod check;
pub mod extract;
pub mod field;
pub mod header;
pub mod index;
pub mod members;
pub mod name;
pub mod pack;
pub mod parser;
pub mod pax;
pub mod place;
pub mod root;
pub mod sparse;
pub mod spool;
pub mod walk;

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

/// A field that holds not what it should; whoever reads it says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// `size` rounded up to whole blocks; none if that is no u64.
pub fn padded(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK as u64)
}
