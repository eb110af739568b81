//! An archive as members: what its headers say, with every extension applied.

use rustix::io::Errno;
use tar::Header;

use super::blocks::Blocks;
use super::extension::Extensions;
use super::sparse::{Lines, Map, Piece, push};
use super::spool::Spool;
use super::{BLOCK, Malformed, field, padded};
use crate::file::failure::{Failure, OVER_LIMIT, REFUSED, shown_bytes};

/// Most bytes of an extended header or a long name.
const MAX_EXTENSION: u64 = 1 << 20;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// Another name of a member before it.
    HardLink,
}

/// A member.
#[derive(Clone, Debug)]
pub struct Member {
    /// What it is.
    pub kind: Kind,
    /// Its name as the archive has it.
    pub name: Vec<u8>,
    /// Target of a link as the archive has it.
    pub link: Vec<u8>,
    /// Permission bits, 0o777 at most.
    pub mode: u32,
    /// Seconds since the epoch, and nanoseconds.
    pub mtime: (i64, u32),
    /// Where its header begins, extensions included.
    pub start: u64,
    /// Where its stored bytes begin.
    pub data: u64,
    /// How many of them there are.
    pub stored: u64,
    /// Which bytes of the file those are; all of them without a map.
    pub sparse: Option<Map>,
}

impl Member {
    /// Size of the file on disk, in bytes.
    pub fn size(&self) -> u64 {
        self.sparse.as_ref().map_or(self.stored, |map| map.size)
    }

    /// Says why this member is not extracted.
    pub fn refused(&self, why: &str) -> Failure {
        refused(&self.name, why)
    }
}

fn refused(name: &[u8], why: &str) -> Failure {
    Failure::new(
        REFUSED,
        format!("Cannot extract {}: it {why}", shown_bytes(name)),
    )
}

fn malformed(at: u64, why: &str) -> Failure {
    Failure::new(
        REFUSED,
        format!("Cannot read the archive: {why} at byte {at}"),
    )
}

fn truncated(at: u64) -> Failure {
    malformed(
        at,
        "it is truncated: there is neither a member nor the end marker",
    )
}

/// Reads members one after the other.
///
/// Invariant: `at` is where the next header begins; what lies before it is whole, except that the
/// content of the last member is only looked for when the next one is asked for, so that limits
/// are judged before its end is missed.
pub struct Members<'a> {
    blocks: Blocks<'a>,
    length: u64,
    at: u64,
    max_bytes: u64,
    global_mtime: Option<(i64, u32)>,
}

impl<'a> Members<'a> {
    /// Members of the archive in `spool`, none of them larger than `max_bytes`.
    pub fn new(spool: &'a Spool, max_bytes: u64) -> Self {
        Self {
            blocks: Blocks::new(spool),
            length: spool.length(),
            at: 0,
            max_bytes,
            global_mtime: None,
        }
    }

    /// The spooled bytes, for small contents.
    pub fn blocks(&mut self) -> &mut Blocks<'a> {
        &mut self.blocks
    }

    /// Goes to the member whose header begins at `at`.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// The next member; none at the end marker.
    pub fn next_member(&mut self) -> Result<Option<Member>, Failure> {
        let start = self.at;
        let mut extensions = Extensions::default();
        let mut extended = false;
        loop {
            let at = self.at;
            let block = *self
                .blocks
                .block(at)
                .map_err(unreadable)?
                .ok_or_else(|| truncated(at))?;
            if block.iter().all(|byte| *byte == 0) {
                return if extended {
                    Err(truncated(at))
                } else {
                    Ok(None)
                };
            }
            let header = Header::from_byte_slice(&block);
            let fields = header.as_old();
            if !field::checksum_fits(&block, &fields.cksum) {
                return Err(malformed(at, "there is no tar header"));
            }
            self.at += BLOCK as u64;
            let kind = fields.linkflag[0];
            match kind {
                b'x' | b'g' | b'L' | b'K' => {
                    // One that is for no member in particular may stand alone.
                    extended |= kind != b'g';
                    let data = self.extension(at, &fields.size)?;
                    match kind {
                        b'x' => extensions.apply(&data).map_err(|why| malformed(at, why))?,
                        b'g' => self.global(&data).map_err(|why| malformed(at, why))?,
                        b'L' => extensions.long_path = Some(field::text(&data).to_vec()),
                        _ => extensions.long_link = Some(field::text(&data).to_vec()),
                    }
                }
                // A label of the whole archive, of which nothing is made. GNU tar leaves its size blank.
                b'V' if matches!(field::number(&fields.size), Ok(None)) => {}
                b'V' => drop(self.extension(at, &fields.size)?),
                _ => return self.member(start, at, header, extensions).map(Some),
            }
        }
    }

    /// The content of an extension, past which it goes.
    fn extension(&mut self, at: u64, size: &[u8]) -> Result<Vec<u8>, Failure> {
        let size = field::number(size)
            .ok()
            .flatten()
            .and_then(|size| u64::try_from(size).ok());
        let size = size.filter(|size| *size <= MAX_EXTENSION);
        let size =
            size.ok_or_else(|| malformed(at, "there is an extended header without a sane size"))?;
        let mut data = Vec::with_capacity(size as usize);
        while (data.len() as u64) < size {
            let block = self.blocks.block(self.at).map_err(unreadable)?;
            let block = block.ok_or_else(|| truncated(self.at))?;
            let wanted = BLOCK.min(size as usize - data.len());
            data.extend_from_slice(&block[..wanted]);
            self.at += BLOCK as u64;
        }
        Ok(data)
    }

    /// A global header. What would name or measure every member is not believed.
    fn global(&mut self, data: &[u8]) -> Result<(), &'static str> {
        let mut said = Extensions::default();
        said.apply(data)?;
        let named = said.path.is_some() || said.link.is_some() || said.size.is_some();
        if named || said.pieces.is_some() || said.sparse_major.is_some() {
            return Err("there is a global header that names or measures members");
        }
        self.global_mtime = said.mtime.or(self.global_mtime);
        Ok(())
    }

    fn member(
        &mut self,
        start: u64,
        at: u64,
        header: &Header,
        mut said: Extensions,
    ) -> Result<Member, Failure> {
        let fields = header.as_old();
        let name = said
            .sparse_name
            .take()
            .or(said.path.take())
            .or(said.long_path.take());
        let name = name.unwrap_or_else(|| header_name(header));
        let fail = |why: &str| refused(&name, why);
        let flag = fields.linkflag[0];
        let slash = name.last() == Some(&b'/');
        let kind = match flag {
            b'0' | b'\0' | b'7' if slash => Kind::Directory,
            b'0' | b'\0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'5' | b'D' => Kind::Directory,
            b'3' | b'4' => return Err(fail("is a device")),
            b'6' => return Err(fail("is a fifo")),
            _ => return Err(fail("is of a kind that is not supported")),
        };
        let size = field::number(&fields.size)
            .map_err(|Malformed| fail("has a size that is no number"))?;
        let size = match said.size {
            Some(size) => size,
            None => u64::try_from(size.unwrap_or(0)).map_err(|_| fail("has a negative size"))?,
        };
        // Programs differ in whether content follows; a hard link's never does.
        // An incremental archive's directory lists what was in it.
        let listing = if flag == b'D' { size } else { 0 };
        if matches!(kind, Kind::Directory | Kind::Symlink) && size != listing {
            return Err(fail("has content although its kind has none"));
        }
        let size = if kind == Kind::File { size } else { 0 };
        if size > self.max_bytes {
            let over = format!(
                "is larger than the {} bytes that are allowed",
                self.max_bytes
            );
            return Err(Failure {
                status: OVER_LIMIT,
                ..fail(&over)
            });
        }
        let next = padded(size.max(listing)).and_then(|whole| self.at.checked_add(whole));
        let next = next.ok_or_else(|| fail("has a size that no file can have"))?;
        let (mut data, mut stored, mut sparse) = (self.at, size, None);
        if flag == b'S' {
            let map = self.old_sparse(header, size).map_err(unreadable)?;
            let map = map.ok_or_else(|| fail("has a broken map of a sparse file"))?;
            (data, sparse) = (self.at, Some(map));
        } else if said.sparse_major.is_some() || said.pieces.is_some() {
            let map = self.pax_sparse(&said, size).map_err(unreadable)?;
            let (map, from) = map.ok_or_else(|| fail("has a broken map of a sparse file"))?;
            (stored, data, sparse) = (size - (from - data), from, Some(map));
        }
        self.at = if flag == b'S' {
            next + (data - at - BLOCK as u64)
        } else {
            next
        };
        let mode = field::number(&fields.mode)
            .map_err(|Malformed| fail("has a mode that is no number"))?;
        let default = if kind == Kind::Directory {
            0o755
        } else {
            0o644
        };
        let header_time = field::number(&fields.mtime)
            .map_err(|Malformed| fail("has a time that is no number"))?;
        let mtime = said
            .mtime
            .or(self.global_mtime)
            .unwrap_or((header_time.unwrap_or(0), 0));
        let link = said.link.take().or(said.long_link.take());
        let link = link.unwrap_or_else(|| field::text(&fields.linkname).to_vec());
        let member = Member {
            kind,
            name,
            link,
            mode: mode.map_or(default, |mode| (mode & 0o777) as u32),
            mtime,
            start,
            data,
            stored,
            sparse,
        };
        if member.size() > self.max_bytes {
            let over = format!(
                "is larger than the {} bytes that are allowed",
                self.max_bytes
            );
            return Err(Failure {
                status: OVER_LIMIT,
                ..member.refused(&over)
            });
        }
        Ok(member)
    }

    /// Whether the content of `member` is there.
    pub fn check_content(&self, member: &Member) -> Result<(), Failure> {
        if member.data.saturating_add(member.stored) > self.length || self.at > self.length {
            return Err(refused(
                &member.name,
                "is truncated: the archive ends in its content",
            ));
        }
        Ok(())
    }

    /// The map in an old GNU header and in the blocks after it.
    fn old_sparse(&mut self, header: &Header, stored: u64) -> Result<Option<Map>, Errno> {
        let Some(gnu) = header.as_gnu() else {
            return Ok(None);
        };
        let mut pieces = Vec::new();
        let add = |pieces: &mut Vec<Piece>, offset: &[u8], length: &[u8]| {
            let offset = field::number(offset).ok()?;
            let length = field::number(length).ok()?;
            let (Some(offset), Some(length)) = (offset, length) else {
                return Some(());
            };
            push(
                pieces,
                u64::try_from(offset).ok()?,
                u64::try_from(length).ok()?,
            )
        };
        for piece in &gnu.sparse {
            if add(&mut pieces, &piece.offset, &piece.numbytes).is_none() {
                return Ok(None);
            }
        }
        let mut more = gnu.isextended[0] == 1;
        while more {
            let Some(block) = self.blocks.block(self.at)? else {
                return Ok(None);
            };
            for piece in block[..504].chunks_exact(24) {
                if add(&mut pieces, &piece[..12], &piece[12..]).is_none() {
                    return Ok(None);
                }
            }
            more = block[504] == 1;
            self.at += BLOCK as u64;
        }
        let size = field::number(&gnu.realsize).ok().flatten();
        let size = size.and_then(|size| u64::try_from(size).ok());
        Ok(size.and_then(|size| Map::new(pieces, size, stored)))
    }

    /// The map in an extended header, or before the content. Also where the content begins.
    fn pax_sparse(&mut self, said: &Extensions, stored: u64) -> Result<Option<(Map, u64)>, Errno> {
        let Some(size) = said.sparse_size else {
            return Ok(None);
        };
        if let Some(pieces) = &said.pieces {
            let map = Map::new(pieces.clone(), size, stored);
            return Ok(map.map(|map| (map, self.at)));
        }
        let (mut lines, mut at) = (Lines::default(), self.at);
        while said.sparse_major == Some(1) && at - self.at < stored {
            let Some(block) = self.blocks.block(at)? else {
                return Ok(None);
            };
            at += BLOCK as u64;
            match lines.take(block) {
                Ok(None) => {}
                Ok(Some(pieces)) => {
                    let left = stored.checked_sub(at - self.at);
                    let map = left.and_then(|left| Map::new(pieces, size, left));
                    return Ok(map.map(|map| (map, at)));
                }
                Err(Malformed) => return Ok(None),
            }
        }
        Ok(None)
    }
}

fn unreadable(errno: Errno) -> Failure {
    Failure::new(errno.raw_os_error(), "Cannot read the spooled archive")
}

/// The name in the header itself, with POSIX's prefix.
fn header_name(header: &Header) -> Vec<u8> {
    let name = field::text(&header.as_old().name);
    let prefix = header
        .as_ustar()
        .map_or(&[][..], |ustar| field::text(&ustar.prefix));
    if prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}
