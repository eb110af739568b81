//! Headers of a pax archive.

use tar::{EntryType, Header};

use super::{BLOCK, pax};

/// What a header says of a member.
pub struct Entry<'a> {
    /// Its kind.
    pub kind: EntryType,
    /// Its name, of any bytes and length.
    pub name: &'a [u8],
    /// Target of a link, else empty.
    pub link: &'a [u8],
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since the epoch, and nanoseconds.
    pub mtime: (i64, u32),
    /// Bytes that follow, without the padding.
    pub size: u64,
}

/// Highest numbers that the header's own octal fields hold.
const MAX_ID: u64 = 0o7_777_777;
const MAX_LONG: u64 = 0o77_777_777_777;

/// Appends the header of `entry`, and before it an extended header for what does not fit.
pub fn append(out: &mut Vec<u8>, entry: &Entry) {
    let mut extended = Vec::new();
    let mut header = Header::new_ustar();
    let (name, link) = (entry.name, entry.link);
    let mut binary = false;
    let fields = header.as_old_mut();
    for (key, value, field) in [
        ("path", name, &mut fields.name),
        ("linkpath", link, &mut fields.linkname),
    ] {
        let fits = value.len().min(field.len());
        field[..fits].copy_from_slice(&value[..fits]);
        if fits < value.len() {
            binary |= std::str::from_utf8(value).is_err();
            pax::append(&mut extended, key, value);
        }
    }
    header.set_entry_type(entry.kind);
    header.set_mode(entry.mode & 0o7777);
    let mut number = |key: &str, value: i128, max: u64| {
        let fits = u64::try_from(value).ok().filter(|value| *value <= max);
        if fits.is_none() {
            pax::append(&mut extended, key, value.to_string().as_bytes());
        }
        fits.unwrap_or(0)
    };
    header.set_uid(number("uid", entry.uid.into(), MAX_ID));
    header.set_gid(number("gid", entry.gid.into(), MAX_ID));
    header.set_size(number("size", entry.size.into(), MAX_LONG));
    let (secs, nanos) = entry.mtime;
    let whole = u64::try_from(secs).ok().filter(|secs| *secs <= MAX_LONG);
    header.set_mtime(whole.unwrap_or(0));
    if whole.is_none() || nanos != 0 {
        pax::append(
            &mut extended,
            "mtime",
            pax::time_text(secs, nanos).as_bytes(),
        );
    }
    header.set_cksum();
    if !extended.is_empty() {
        if binary {
            // Readers take names for UTF-8 unless they are told.
            let mut records = Vec::new();
            pax::append(&mut records, "hdrcharset", b"BINARY");
            extended.splice(0..0, records);
        }
        let mut before = Header::new_ustar();
        before.as_old_mut().name[..11].copy_from_slice(b"PaxHeader/x");
        before.set_entry_type(EntryType::XHeader);
        before.set_mode(0o644);
        before.set_uid(0);
        before.set_gid(0);
        before.set_mtime(0);
        before.set_size(extended.len() as u64);
        before.set_cksum();
        out.extend_from_slice(before.as_bytes());
        extended.resize(extended.len().next_multiple_of(BLOCK), 0);
        out.extend_from_slice(&extended);
    }
    out.extend_from_slice(header.as_bytes());
}
