//! Maps of sparse files: which of a file's bytes the archive holds.

use super::Malformed;
use super::pax::decimal;

/// Most pieces that a sparse file may have.
const MAX_PIECES: usize = 1 << 20;

/// Bytes that the archive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the file they belong.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// A sparse file's map.
///
/// Invariant: pieces do not overlap, lie in order, and end within `size`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// The bytes that the archive holds, in their order.
    pub pieces: Vec<Piece>,
    /// Size of the file.
    pub size: u64,
}

impl Map {
    /// A map of `pieces` in a file of `size` bytes; none if that does not hold or the pieces are
    /// not `stored` bytes together.
    pub fn new(pieces: Vec<Piece>, size: u64, stored: u64) -> Option<Self> {
        let (mut end, mut sum) = (0u64, 0u64);
        for piece in &pieces {
            if piece.offset < end {
                return None;
            }
            end = piece.offset.checked_add(piece.length)?;
            sum = sum.checked_add(piece.length)?;
        }
        (end <= size && sum == stored).then_some(Self { pieces, size })
    }
}

/// Adds a piece unless there are too many.
pub fn push(pieces: &mut Vec<Piece>, offset: u64, length: u64) -> Option<()> {
    if pieces.len() >= MAX_PIECES {
        return None;
    }
    if length > 0 {
        pieces.push(Piece { offset, length });
    }
    Some(())
}

/// Pieces as format 0.1 writes them: "offset,length,offset,length".
pub fn of_list(text: &[u8]) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    if text.is_empty() {
        return Some(pieces);
    }
    let mut numbers = text.split(|byte| *byte == b',');
    while let Some(offset) = numbers.next() {
        push(&mut pieces, decimal(offset)?, decimal(numbers.next()?)?)?;
    }
    Some(pieces)
}

/// Reads the numbers of a map as format 1.0 writes it: their lines stand before the content.
///
/// Invariant: `line` is the part of a line that was read, at most as long as a number may be.
#[derive(Default)]
pub struct Lines {
    line: Vec<u8>,
    count: Option<u64>,
    offset: Option<u64>,
    pieces: Vec<Piece>,
    seen: u64,
}

impl Lines {
    /// Takes a block; gives the pieces once they are all there. An error if it is no map.
    pub fn take(&mut self, block: &[u8]) -> Result<Option<Vec<Piece>>, Malformed> {
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
                    push(&mut self.pieces, offset, number).ok_or(Malformed)?;
                    self.seen += 1;
                }
            }
            if self.count == Some(self.seen) {
                return Ok(Some(std::mem::take(&mut self.pieces)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_in_order_within_the_file_and_says_how_much_is_stored() {
        let piece = |offset, length| Piece { offset, length };
        assert!(Map::new(vec![piece(0, 5), piece(5, 1)], 6, 6).is_some());
        assert!(Map::new(vec![piece(0, 5), piece(4, 1)], 6, 6).is_none());
        assert!(Map::new(vec![piece(0, 5), piece(5, 2)], 6, 7).is_none());
        assert!(Map::new(vec![piece(0, 5)], 6, 6).is_none());
        assert!(Map::new(vec![piece(u64::MAX, 1)], u64::MAX, 1).is_none());
        assert_eq!(of_list(b"0,5,7,0"), Some(vec![piece(0, 5)]));
        assert_eq!(of_list(b"0,5,7"), None);
        assert_eq!(of_list(b"0,-5"), None);
    }

    #[test]
    fn the_lines_of_a_map_may_lie_in_several_blocks() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"2\n0\n1"), Ok(None));
        let wanted = vec![
            Piece {
                offset: 0,
                length: 10,
            },
            Piece {
                offset: 20,
                length: 3,
            },
        ];
        assert_eq!(lines.take(b"0\n20\n3\n\0\0"), Ok(Some(wanted)));
        assert_eq!(Lines::default().take(b"0\n"), Ok(Some(vec![])));
        assert_eq!(Lines::default().take(b"\n"), Err(Malformed));
        assert_eq!(
            Lines::default().take(b"123456789012345678901\n"),
            Err(Malformed)
        );
    }
}
