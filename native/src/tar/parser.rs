//! The headers of an archive, block by block, as the members that they describe.

use tar::Header;

use super::pax::{Extensions, Time};
use super::sparse::{MapReader, SparseMap, gnu_extents};
use super::{BLOCK, Malformed, field, padded};
use crate::file::failure::{Failure, OVER_LIMIT, REFUSED, shown_bytes};

/// Most bytes of an extended header or a long name.
const MAX_EXTENSION: u64 = 1 << 20;

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    File,
    Directory,
    Symlink,
    HardLink,
}

/// A member of an archive: its name, and the target of a link, are as the archive has them.
pub struct ArchiveMember {
    pub kind: MemberKind,
    pub name: Vec<u8>,
    pub link: Vec<u8>,
    /// Permission bits, 0o777 at most.
    pub mode: u32,
    pub mtime: Time,
    /// Where its header begins, extensions included.
    pub start: u64,
    /// Where its stored bytes begin.
    pub data: u64,
    /// How many of them there are.
    pub stored: u64,
    /// Where the next header begins.
    pub end: u64,
    /// Which bytes of the file those are; all of them without a map.
    pub sparse: Option<SparseMap>,
}

impl ArchiveMember {
    /// Size of the file on disk, in bytes.
    pub fn size(&self) -> u64 {
        self.sparse.as_ref().map_or(self.stored, |map| map.size)
    }

    /// Says why this member is not extracted.
    pub fn refused(&self, why: &str) -> Failure {
        refused(&self.name, why)
    }

    /// As [`ArchiveMember::refused`], for a limit.
    pub fn over(&self, why: &str) -> Failure {
        Failure::new(OVER_LIMIT, self.refused(why).text)
    }

    fn within(self, max: u64) -> Result<Self, Failure> {
        match self.size() > max {
            true => Err(self.over(&format!("is larger than the {max} bytes that are allowed"))),
            false => Ok(self),
        }
    }
}

fn refused(name: &[u8], why: &str) -> Failure {
    let text = format!("Cannot extract {}: it {why}", shown_bytes(name));
    Failure::new(REFUSED, text)
}

fn malformed(at: u64, why: &str) -> Failure {
    let text = format!("Cannot read the archive: {why} at byte {at}");
    Failure::new(REFUSED, text)
}

/// What a block has brought.
pub enum Parsed {
    /// Nothing that is whole.
    More,
    /// A member, whose content comes next.
    Member(ArchiveMember),
    /// The end marker.
    End,
}

/// What the next block is a part of.
enum Expected {
    Header,
    Extension(Extension),
    Map(ArchiveMember, MapReader),
}

/// An extension whose header was at `at` and of whose content `data` has come.
struct Extension {
    kind: u8,
    at: u64,
    size: usize,
    data: Vec<u8>,
}

/// Takes the blocks of headers; contents are passed over.
///
/// Invariant: `next` is where the block lies that is taken next, and `start` where the first header of the member lies
/// of which that block is a part. `said` is what extensions say of that member; `extended` tells whether there were any.
pub struct Parser {
    next: u64,
    start: u64,
    max_bytes: u64,
    global_mtime: Option<Time>,
    said: Extensions,
    extended: bool,
    expected: Expected,
}

impl Parser {
    /// A parser that refuses members larger than `max_bytes`.
    pub fn new(max_bytes: u64) -> Self {
        Self {
            next: 0,
            start: 0,
            max_bytes,
            global_mtime: None,
            said: Extensions::default(),
            extended: false,
            expected: Expected::Header,
        }
    }

    /// Where the block lies that is to be taken next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Goes to the member whose header begins at `start`.
    pub fn seek(&mut self, start: u64) {
        (self.next, self.start) = (start, start);
    }

    /// That the archive ends where a block is wanted.
    pub fn truncated(&self) -> Failure {
        truncated(self.next)
    }

    /// Takes the next block.
    pub fn take(&mut self, block: &[u8; BLOCK]) -> Result<Parsed, Failure> {
        let at = self.next;
        self.next += BLOCK as u64;
        match std::mem::replace(&mut self.expected, Expected::Header) {
            Expected::Header => self.header(at, block),
            Expected::Extension(mut extension) => {
                let wanted = BLOCK.min(extension.size - extension.data.len());
                extension.data.extend_from_slice(&block[..wanted]);
                self.extension(extension)
            }
            Expected::Map(member, reader) => self.map(member, reader, block),
        }
    }

    fn header(&mut self, at: u64, block: &[u8; BLOCK]) -> Result<Parsed, Failure> {
        if block.iter().all(|byte| *byte == 0) {
            return match self.extended {
                true => Err(truncated(at)),
                false => Ok(Parsed::End),
            };
        }
        let header = Header::from_byte_slice(block);
        let fields = header.as_old();
        if !field::checksum_fits(block, &fields.cksum) {
            return Err(malformed(at, "there is no tar header"));
        }
        match fields.linkflag[0] {
            // GNU tar leaves the size of a label blank.
            b'V' if field::number(&fields.size) == Ok(None) => Ok(Parsed::More),
            kind @ (b'x' | b'g' | b'L' | b'K' | b'V') => {
                // One that is for no member in particular may stand alone.
                self.extended |= !matches!(kind, b'g' | b'V');
                let size = field::unsigned(&fields.size).filter(|size| *size <= MAX_EXTENSION);
                let why = "there is an extended header without a sane size";
                let size = size.ok_or_else(|| malformed(at, why))? as usize;
                let data = Vec::with_capacity(size);
                let extension = Extension {
                    kind,
                    at,
                    size,
                    data,
                };
                self.extension(extension)
            }
            _ => self.member(header),
        }
    }

    /// Applies an extension, if it is whole.
    fn extension(&mut self, extension: Extension) -> Result<Parsed, Failure> {
        let Extension {
            kind,
            at,
            size,
            ref data,
        } = extension;
        if data.len() < size {
            self.expected = Expected::Extension(extension);
            return Ok(Parsed::More);
        }
        let wrong = |why: &'static str| malformed(at, why);
        match kind {
            b'x' => self.said.apply(data).map_err(wrong)?,
            b'g' => self.global(data).map_err(wrong)?,
            b'L' => self.said.long_path = Some(field::text(data).to_vec()),
            b'K' => self.said.long_link = Some(field::text(data).to_vec()),
            // A label of the whole archive, of which nothing is made.
            _ => {}
        }
        Ok(Parsed::More)
    }

    /// A global header. What would name or measure every member is not believed.
    fn global(&mut self, data: &[u8]) -> Result<(), &'static str> {
        let mut said = Extensions::default();
        said.apply(data)?;
        let named = said.path.is_some() || said.link.is_some() || said.size.is_some();
        if named || said.extents.is_some() || said.sparse_major.is_some() {
            return Err("there is a global header that names or measures members");
        }
        self.global_mtime = said.mtime.or(self.global_mtime);
        Ok(())
    }

    fn member(&mut self, header: &Header) -> Result<Parsed, Failure> {
        let fields = header.as_old();
        let said = std::mem::take(&mut self.said);
        let name = said.sparse_name.or(said.path).or(said.long_path);
        let name = name.unwrap_or_else(|| header_name(header));
        let fail = |why: &str| refused(&name, why);
        let flag = fields.linkflag[0];
        let kind = match flag {
            b'0' | b'\0' | b'7' if name.ends_with(b"/") => MemberKind::Directory,
            b'0' | b'\0' | b'7' | b'S' => MemberKind::File,
            b'1' => MemberKind::HardLink,
            b'2' => MemberKind::Symlink,
            b'5' | b'D' => MemberKind::Directory,
            b'3' | b'4' => return Err(fail("is a device")),
            b'6' => return Err(fail("is a fifo")),
            _ => return Err(fail("is of a kind that is not supported")),
        };
        let number = |field: &[u8], why: &str| field::number(field).map_err(|Malformed| fail(why));
        let size = number(&fields.size, "has a size that is no number")?.unwrap_or(0);
        let size = match said.size {
            Some(size) => size,
            None => u64::try_from(size).map_err(|_| fail("has a negative size"))?,
        };
        // An incremental archive's directory lists what was in it.
        let listing = if flag == b'D' { size } else { 0 };
        if matches!(kind, MemberKind::Directory | MemberKind::Symlink) && size != listing {
            return Err(fail("has content although its kind has none"));
        }
        // Programs differ in whether content follows; a hard link's never does.
        let stored = if kind == MemberKind::File { size } else { 0 };
        let mode = number(&fields.mode, "has a mode that is no number")?;
        let is_dir = kind == MemberKind::Directory;
        let default = if is_dir { 0o755 } else { 0o644 };
        let mtime = number(&fields.mtime, "has a time that is no number")?.unwrap_or(0);
        let link = said.link.or(said.long_link);
        let mut member = ArchiveMember {
            kind,
            link: link.unwrap_or_else(|| field::text(&fields.linkname).to_vec()),
            mode: mode.map_or(default, |mode| (mode & 0o777) as u32),
            mtime: said.mtime.or(self.global_mtime).unwrap_or((mtime, 0)),
            start: self.start,
            data: self.next,
            stored,
            end: self.next,
            sparse: None,
            name,
        }
        .within(self.max_bytes)?;
        let end = padded(stored.max(listing)).and_then(|whole| self.next.checked_add(whole));
        member.end = end.ok_or_else(|| member.refused("has a size that no file can have"))?;
        let reader = match (flag, said.extents, said.sparse_major) {
            (b'S', _, _) => gnu_map(header),
            (_, None, None) => return Ok(self.finish(member)),
            (_, None, Some(major)) if major != 1 => None,
            (_, extents, _) => (said.sparse_size).map(|size| MapReader::new(size, extents)),
        };
        let reader = reader.ok_or_else(|| member.refused(BROKEN_MAP))?;
        self.mapped(member, reader)
    }

    /// Takes a block of a map of a sparse file, which lies before the content.
    fn map(
        &mut self,
        mut member: ArchiveMember,
        mut reader: MapReader,
        block: &[u8; BLOCK],
    ) -> Result<Parsed, Failure> {
        let taken = reader.take(block).ok();
        let (mut stored, mut end) = (Some(member.stored), Some(member.end));
        match reader.gnu {
            // Blocks that the size does not count.
            true => end = member.end.checked_add(BLOCK as u64),
            false => stored = member.stored.checked_sub(BLOCK as u64),
        }
        let (Some(()), Some(stored), Some(end)) = (taken, stored, end) else {
            return Err(member.refused(BROKEN_MAP));
        };
        (member.data, member.stored, member.end) = (self.next, stored, end);
        self.mapped(member, reader)
    }

    fn mapped(&mut self, mut member: ArchiveMember, reader: MapReader) -> Result<Parsed, Failure> {
        if !reader.whole && (reader.gnu || member.stored > 0) {
            self.expected = Expected::Map(member, reader);
            return Ok(Parsed::More);
        }
        let whole = reader.whole.then_some(reader.extents);
        let map =
            whole.and_then(|extents| SparseMap::new(extents, reader.real_size, member.stored));
        member.sparse = Some(map.ok_or_else(|| member.refused(BROKEN_MAP))?);
        let member = member.within(self.max_bytes)?;
        Ok(self.finish(member))
    }

    fn finish(&mut self, member: ArchiveMember) -> Parsed {
        self.seek(member.end);
        self.extended = false;
        Parsed::Member(member)
    }
}

const BROKEN_MAP: &str = "has a broken map of a sparse file";

fn truncated(at: u64) -> Failure {
    let why = "it is truncated: there is neither a member nor the end marker";
    malformed(at, why)
}

/// The name in the header itself, with POSIX's prefix.
fn header_name(header: &Header) -> Vec<u8> {
    let name = field::text(&header.as_old().name);
    let prefix = header.as_ustar().map(|ustar| field::text(&ustar.prefix));
    match prefix {
        None | Some([]) => name.to_vec(),
        Some(prefix) => [prefix, b"/", name].concat(),
    }
}

/// The map in an old GNU header, or its beginning.
fn gnu_map(header: &Header) -> Option<MapReader> {
    let gnu = header.as_gnu()?;
    let mut reader = MapReader::new(field::unsigned(&gnu.realsize)?, None);
    (reader.gnu, reader.whole) = (true, gnu.isextended[0] != 1);
    gnu_extents(&header.as_bytes()[386..482], &mut reader.extents).ok()?;
    Some(reader)
}
