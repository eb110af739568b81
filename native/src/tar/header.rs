//! Headers of a pax archive.

use rustix::fs::Stat;
use tar::{EntryType, Header};

use super::BLOCK;
use super::pax;

/// Highest numbers that the header's own octal fields hold.
const MAX_ID: u64 = 0o7_777_777;
const MAX_LONG: u64 = 0o77_777_777_777;

/// Appends the header of a member with these modes, owners and times, and before it an extended header
/// for what does not fit. `link` is the target of a link, else empty; `size` counts its content, without
/// the padding.
pub fn append(
    out: &mut Vec<u8>,
    stat: &Stat,
    kind: EntryType,
    name: &[u8],
    link: &[u8],
    size: u64,
) {
    let start = out.len();
    // The place of the extended header, should it have records.
    out.resize(start + BLOCK, 0);
    let mut header = Header::new_ustar();
    let fields = header.as_old_mut();
    // Both fields are as long.
    let too_long = |value: &[u8]| value.len() > fields.name.len();
    let binary = |value: &[u8]| too_long(value) && std::str::from_utf8(value).is_err();
    if binary(name) || binary(link) {
        // Readers take names for UTF-8 unless they are told.
        pax::append(out, "hdrcharset", b"BINARY");
    }
    for (key, value, field) in [
        ("path", name, &mut fields.name),
        ("linkpath", link, &mut fields.linkname),
    ] {
        let fits = value.len().min(field.len());
        field[..fits].copy_from_slice(&value[..fits]);
        if value.len() > field.len() {
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
    let uid = number("uid", stat.st_uid.into(), MAX_ID);
    let gid = number("gid", stat.st_gid.into(), MAX_ID);
    let size = number("size", size, MAX_LONG);
    // The type of the fraction differs between architectures and versions of the crate.
    #[allow(clippy::unnecessary_cast)]
    let (secs, nanos) = (stat.st_mtime, stat.st_mtime_nsec as u32);
    let whole = u64::try_from(secs).ok().filter(|secs| *secs <= MAX_LONG);
    if whole.is_none() || nanos != 0 {
        pax::append(out, "mtime", pax::time_text((secs, nanos)).as_bytes());
    }
    let numbers = [uid, gid, size, whole.unwrap_or(0)];
    finish(&mut header, kind, stat.st_mode & 0o7777, numbers);
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

/// Digits and a NUL. (`tar::Builder` and the setters of `tar::Header` format everything, and take two
/// and a half times as long: a fifth more for a tree of small files.)
fn octal(field: &mut [u8], mut value: u64) {
    if let Some((end, digits)) = field.split_last_mut() {
        *end = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value & 7) as u8;
            value >>= 3;
        }
    }
}
