//! What extended headers say of a member.

use super::pax;
use super::sparse::{Piece, of_list, push};

/// What the extensions before a header say of the member. A later one wins.
#[derive(Clone, Default)]
pub struct Extensions {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) long_path: Option<Vec<u8>>,
    pub(super) long_link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<(i64, u32)>,
    pub(super) sparse_name: Option<Vec<u8>>,
    pub(super) sparse_size: Option<u64>,
    pub(super) sparse_major: Option<u64>,
    pub(super) pieces: Option<Vec<Piece>>,
    pub(super) offset: Option<u64>,
}

impl Extensions {
    /// Takes an extended header's records. An error says what is wrong.
    pub fn apply(&mut self, mut data: &[u8]) -> Result<(), &'static str> {
        const BAD: &str = "there is a malformed extended header";
        while !data.is_empty() {
            let ((key, value), rest) = pax::next(data).ok_or(BAD)?;
            data = rest;
            let number = || pax::decimal(value).map(Some).ok_or(BAD);
            // An empty value takes back what was said before.
            let bytes = || (!value.is_empty()).then(|| value.to_vec());
            match key {
                b"path" => self.path = bytes(),
                b"linkpath" => self.link = bytes(),
                b"size" if value.is_empty() => self.size = None,
                b"size" => self.size = number()?,
                b"mtime" if value.is_empty() => self.mtime = None,
                b"mtime" => self.mtime = Some(pax::time(value).ok_or(BAD)?),
                b"GNU.sparse.name" => self.sparse_name = bytes(),
                b"GNU.sparse.realsize" | b"GNU.sparse.size" => self.sparse_size = number()?,
                b"GNU.sparse.major" => self.sparse_major = number()?,
                b"GNU.sparse.map" => self.pieces = Some(of_list(value).ok_or(BAD)?),
                b"GNU.sparse.offset" => self.offset = number()?,
                b"GNU.sparse.numbytes" => {
                    let (Some(offset), Some(length)) = (self.offset.take(), number()?) else {
                        return Err(BAD);
                    };
                    push(self.pieces.get_or_insert_default(), offset, length).ok_or(BAD)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
