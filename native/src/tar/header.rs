//! Headers of a pax archive.

use tar::{EntryType, Header};

use super::BLOCK;
use super::pax::{self, Time};

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
    /// Time of modification.
    pub mtime: Time,
    /// Bytes that follow, without the padding.
    pub size: u64,
}

/// Highest numbers that the header's own octal fields hold.
const MAX_ID: u64 = 0o7_777_777;
const MAX_LONG: u64 = 0o77_777_777_777;

/// Appends the header of `entry`, and before it an extended header for what does not fit.
pub fn append(out: &mut Vec<u8>, entry: &Entry) {
    let start = out.len();
    // The place of the extended header, should it have records.
    out.resize(start + BLOCK, 0);
    let mut header = Header::new_ustar();
    let fields = header.as_old_mut();
    let too_long = |value: &[u8], field: &[u8]| value.len() > field.len();
    let binary =
        |value: &[u8], field: &[u8]| too_long(value, field) && std::str::from_utf8(value).is_err();
    if binary(entry.name, &fields.name) || binary(entry.link, &fields.linkname) {
        // Readers take names for UTF-8 unless they are told.
        pax::append(out, "hdrcharset", b"BINARY");
    }
    for (key, value, field) in [
        ("path", entry.name, &mut fields.name),
        ("linkpath", entry.link, &mut fields.linkname),
    ] {
        let fits = value.len().min(field.len());
        field[..fits].copy_from_slice(&value[..fits]);
        if too_long(value, field) {
            pax::append(out, key, value);
        }
    }
    let mut number = |key: &str, value: u64, max: u64| {
        if value <= max {
            return value;
        }
        pax::append(out, key, value.to_string().as_bytes());
        0
    };
    let uid = number("uid", entry.uid.into(), MAX_ID);
    let gid = number("gid", entry.gid.into(), MAX_ID);
    let size = number("size", entry.size, MAX_LONG);
    let (secs, nanos) = entry.mtime;
    let whole = u64::try_from(secs).ok().filter(|secs| *secs <= MAX_LONG);
    if whole.is_none() || nanos != 0 {
        pax::append(out, "mtime", pax::time_text(entry.mtime).as_bytes());
    }
    let numbers = [uid, gid, size, whole.unwrap_or(0)];
    finish(&mut header, entry.kind, entry.mode & 0o7777, numbers);
    match out.len() - start - BLOCK {
        0 => out.truncate(start),
        length => {
            let mut before = Header::new_ustar();
            before.as_old_mut().name[..11].copy_from_slice(b"PaxHeader/x");
            let numbers = [0, 0, length as u64, 0];
            finish(&mut before, EntryType::XHeader, 0o644, numbers);
            out[start..start + BLOCK].copy_from_slice(before.as_bytes());
            out.resize(out.len().next_multiple_of(BLOCK), 0);
        }
    }
    out.extend_from_slice(header.as_bytes());
}

/// Fills in the kind, the mode, the uid, gid, size and time, all of which fit, and the checksum.
fn finish(header: &mut Header, kind: EntryType, mode: u32, [uid, gid, size, mtime]: [u64; 4]) {
    let fields = header.as_old_mut();
    fields.linkflag = [kind.as_byte()];
    octal(&mut fields.mode, mode.into());
    octal(&mut fields.uid, uid);
    octal(&mut fields.gid, gid);
    octal(&mut fields.size, size);
    octal(&mut fields.mtime, mtime);
    fields.cksum = [b' '; 8];
    let sum = header.as_bytes().iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut header.as_old_mut().cksum, sum);
}

/// Digits and a NUL. (The setters of `tar::Header` go through `format!`, which a tree of small files
/// has no time for.)
fn octal(field: &mut [u8], mut value: u64) {
    if let Some((end, digits)) = field.split_last_mut() {
        *end = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value & 7) as u8;
            value >>= 3;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_are_those_that_the_crate_writes(
            mode in 0u32..=0o7777, uid in 0..=MAX_ID, gid in 0..=MAX_ID, size in 0..=MAX_LONG,
            secs in 0..=MAX_LONG, name in "[a-z]{1,100}", link in "[a-z]{0,100}",
        ) {
            let mut wanted = Header::new_ustar();
            let fields = wanted.as_old_mut();
            fields.name[..name.len()].copy_from_slice(name.as_bytes());
            fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
            wanted.set_entry_type(EntryType::Link);
            wanted.set_mode(mode);
            wanted.set_uid(uid);
            wanted.set_gid(gid);
            wanted.set_size(size);
            wanted.set_mtime(secs);
            wanted.set_cksum();
            let mut out = Vec::new();
            append(&mut out, &Entry {
                kind: EntryType::Link,
                name: name.as_bytes(),
                link: link.as_bytes(),
                mode,
                uid: uid as u32,
                gid: gid as u32,
                mtime: (secs as i64, 0),
                size,
            });
            prop_assert_eq!(&out[..], &wanted.as_bytes()[..]);
        }
    }
}
