//! Maps of sparse files: which of a file's bytes the archive holds.

use super::field::{decimal, number};
use super::{BLOCK, Malformed};

/// Most extents that a sparse file may have.
const MAX_EXTENTS: usize = 1 << 20;

/// Bytes of a file that the archive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file they belong.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// A sparse file's map.
///
/// Invariant: extents do not overlap, lie in order, and end within `size`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseMap {
    /// The bytes that the archive holds, in their order.
    pub extents: Vec<Extent>,
    /// Size of the file.
    pub size: u64,
}

impl SparseMap {
    /// A map of a file of `size` bytes; none if the invariant does not hold or the extents are not `stored` bytes
    /// together.
    pub fn new(extents: Vec<Extent>, size: u64, stored: u64) -> Option<Self> {
        let (mut end, mut sum) = (0u64, 0u64);
        for extent in &extents {
            if extent.offset < end {
                return None;
            }
            end = extent.offset.checked_add(extent.length)?;
            sum = sum.checked_add(extent.length)?;
        }
        (end <= size && sum == stored).then_some(Self { extents, size })
    }
}

/// Adds an extent unless there are too many.
pub fn push(extents: &mut Vec<Extent>, offset: u64, length: u64) -> Option<()> {
    if extents.len() >= MAX_EXTENTS {
        return None;
    }
    if length > 0 {
        extents.push(Extent { offset, length });
    }
    Some(())
}

/// Extents as format 0.1 writes them: "offset,length,offset,length".
pub fn of_list(text: &[u8]) -> Option<Vec<Extent>> {
    let mut extents = Vec::new();
    if text.is_empty() {
        return Some(extents);
    }
    let mut numbers = text.split(|byte| *byte == b',');
    while let Some(offset) = numbers.next() {
        push(&mut extents, decimal(offset)?, decimal(numbers.next()?)?)?;
    }
    Some(extents)
}

/// Reads the part of a map that stands in blocks between a header and the content.
pub enum MapReader {
    /// Blocks that continue an old GNU header, and the extents so far.
    Gnu(Vec<Extent>),
    /// Lines of numbers, as format 1.0 writes them.
    Lines(Lines),
}

impl MapReader {
    /// Takes a block; gives the extents once they are all there. An error if it is no map.
    pub fn take(&mut self, block: &[u8; BLOCK]) -> Result<Option<Vec<Extent>>, Malformed> {
        match self {
            Self::Lines(lines) => lines.take(block),
            Self::Gnu(extents) => {
                gnu_extents(&block[..504], extents)?;
                Ok((block[504] != 1).then(|| std::mem::take(extents)))
            }
        }
    }
}

/// Adds extents as fields of an old GNU header give them: twelve bytes of offset, twelve of length, blank if unused.
pub fn gnu_extents(fields: &[u8], extents: &mut Vec<Extent>) -> Result<(), Malformed> {
    for field in fields.chunks_exact(24) {
        let (offset, length) = field.split_at(12);
        if let (Some(offset), Some(length)) = (number(offset)?, number(length)?) {
            let unsigned = |value: i64| u64::try_from(value).map_err(|_| Malformed);
            push(extents, unsigned(offset)?, unsigned(length)?).ok_or(Malformed)?;
        }
    }
    Ok(())
}

/// Invariant: `line` is the part of a line that was read, at most as long as a number may be.
#[derive(Default)]
pub struct Lines {
    line: Vec<u8>,
    count: Option<u64>,
    offset: Option<u64>,
    extents: Vec<Extent>,
    seen: u64,
}

impl Lines {
    fn take(&mut self, block: &[u8]) -> Result<Option<Vec<Extent>>, Malformed> {
        for byte in block {
            if *byte != b'\n' {
                if self.line.len() >= 20 {
                    return Err(Malformed);
                }
                self.line.push(*byte);
                continue;
            }
            let number = decimal(&self.line).ok_or(Malformed)?;
            self.line.clear();
            match (self.count, self.offset.take()) {
                (None, _) => self.count = Some(number),
                (_, None) => self.offset = Some(number),
                (_, Some(offset)) => {
                    push(&mut self.extents, offset, number).ok_or(Malformed)?;
                    self.seen += 1;
                }
            }
            if self.count == Some(self.seen) {
                return Ok(Some(std::mem::take(&mut self.extents)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        let extent = |&(offset, length)| Extent { offset, length };
        list.iter().map(extent).collect()
    }

    #[test]
    fn a_map_is_in_order_within_the_file_and_says_how_much_is_stored() {
        for (list, size, stored, good) in [
            (&[(0, 5), (5, 1)][..], 6, 6, true),
            (&[(0, 5), (4, 1)], 6, 6, false),
            (&[(0, 5), (5, 2)], 6, 7, false),
            (&[(0, 5)], 6, 6, false),
            (&[(u64::MAX, 1)], u64::MAX, 1, false),
        ] {
            assert_eq!(
                SparseMap::new(extents(list), size, stored).is_some(),
                good,
                "{list:?}"
            );
        }
        assert_eq!(of_list(b"0,5,7,0"), Some(extents(&[(0, 5)])));
        assert_eq!((of_list(b"0,5,7"), of_list(b"0,-5")), (None, None));
    }

    #[test]
    fn the_lines_of_a_map_may_lie_in_several_blocks() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"2\n0\n1"), Ok(None));
        let wanted = extents(&[(0, 10), (20, 3)]);
        assert_eq!(lines.take(b"0\n20\n3\n\0\0"), Ok(Some(wanted)));
        assert_eq!(Lines::default().take(b"0\n"), Ok(Some(vec![])));
        for bad in [&b"\n"[..], b"123456789012345678901\n"] {
            assert_eq!(Lines::default().take(bad), Err(Malformed));
        }
    }
}
