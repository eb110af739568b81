//! The names in a directory, in the order of their members.

use std::ops::Range;

use rustix::fs::FileType;

/// The entries of a directory: which bytes of `bytes` are the name, with a slash at the end if it is
/// a directory, so that entries sort as the names of their members do; and the kind, if the
/// directory says it. One allocation for all names: small files are many.
#[derive(Default)]
pub struct Names {
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, FileType)>,
}

impl Names {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry.
    pub fn push(&mut self, name: &[u8], kind: FileType) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        if kind == FileType::Directory {
            self.bytes.push(b'/');
        }
        self.entries.push((start..self.bytes.len(), kind));
    }

    /// Sorts them, the first one last.
    pub fn sort(&mut self) {
        let Self { bytes, entries } = self;
        entries
            .sort_unstable_by(|(one, _), (other, _)| bytes[other.clone()].cmp(&bytes[one.clone()]));
        bytes.shrink_to_fit();
        entries.shrink_to_fit();
    }

    /// Takes the last one; its name without the slash.
    pub fn pop(&mut self) -> Option<(&[u8], FileType)> {
        let (range, kind) = self.entries.pop()?;
        let name = &self.bytes[range];
        Some((name.strip_suffix(b"/").unwrap_or(name), kind))
    }
}
