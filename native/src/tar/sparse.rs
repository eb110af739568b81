//! Maps of sparse files: which of a file's bytes the archive holds.

use super::field::{decimal, number};
use super::{BLOCK, Malformed};

/// Most extents that a sparse file may have.
const MAX_EXTENTS: usize = 1 << 20;

/// Bytes of a file that the archive holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub length: u64,
}

/// A sparse file's map.
///
/// Invariant: extents do not overlap, lie in order, and end within `size`.
pub struct SparseMap {
    pub extents: Vec<Extent>,
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

/// The map of a sparse file while its blocks arrive, which lie between the header and the content.
///
/// Invariant: `extents` are those so far. In lines of numbers, as format 1.0 writes them, `line` is the
/// part of a line that was read, at most as long as a number may be; `offset` was read and has no length
/// yet; `left` is how many extents come after it.
#[derive(Default)]
pub struct MapReader {
    /// Whether it is in blocks that continue an old GNU header, and not in lines.
    pub gnu: bool,
    pub real_size: u64,
    /// Whether nothing more of it comes.
    pub whole: bool,
    pub extents: Vec<Extent>,
    line: Vec<u8>,
    left: Option<u64>,
    offset: Option<u64>,
}

impl MapReader {
    /// A reader of the map of a file of `real_size` bytes, of which nothing more comes if its `extents`
    /// are known.
    pub fn new(real_size: u64, extents: Option<Vec<Extent>>) -> Self {
        Self {
            real_size,
            whole: extents.is_some(),
            extents: extents.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Takes a block. An error if it is no map.
    pub fn take(&mut self, block: &[u8; BLOCK]) -> Result<(), Malformed> {
        match self.gnu {
            true => {
                self.whole = block[504] != 1;
                gnu_extents(&block[..504], &mut self.extents)
            }
            false => block.iter().try_for_each(|byte| self.take_byte(*byte)),
        }
    }

    fn take_byte(&mut self, byte: u8) -> Result<(), Malformed> {
        match byte {
            // The padding.
            _ if self.whole => return Ok(()),
            b'\n' => {}
            _ if self.line.len() >= 20 => return Err(Malformed),
            _ => {
                self.line.push(byte);
                return Ok(());
            }
        }
        let number = decimal(&self.line).ok_or(Malformed)?;
        self.line.clear();
        match (self.left, self.offset.take()) {
            (None, _) => self.left = Some(number),
            (_, None) => self.offset = Some(number),
            (Some(left), Some(offset)) => {
                push(&mut self.extents, offset, number).ok_or(Malformed)?;
                self.left = Some(left - 1);
            }
        }
        self.whole = self.left == Some(0);
        Ok(())
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
        let read = |text: &str| {
            let mut reader = MapReader::default();
            let read = text.bytes().try_for_each(|byte| reader.take_byte(byte));
            read.map(|()| (reader.whole, reader.extents))
        };
        let (one, two) = (extents(&[(0, 10)]), extents(&[(0, 10), (20, 3)]));
        assert_eq!(read("2\n0\n10\n20"), Ok((false, one)));
        assert_eq!(read("2\n0\n10\n20\n3\n\0\0"), Ok((true, two)));
        assert_eq!(read("0\n"), Ok((true, vec![])));
        for bad in ["\n", "123456789012345678901\n"] {
            assert_eq!(read(bad), Err(Malformed));
        }
    }
}
