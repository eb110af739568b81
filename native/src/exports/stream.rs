//! Readers of an exec's stream.
#![allow(unsafe_code)]

use super::with_core;
use crate::abi::{UNKNOWN, bytes_mut};
use crate::process::log::{Log, Next};

/// Size of a record's head, in bytes.
const HEAD: usize = 24;

/// Attaches a reader at `offset`. Returns its handle; it is woken as `Readable`.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_stream_open(exec: u32, offset: u64) -> i32 {
    with_core(|core| {
        let exec = core.table.get(exec).ok_or(UNKNOWN)?;
        Ok(core.attach(&exec, offset) as i32)
    })
}

/// Fills `out` with records: a head of kind (0 stdout, 1 stderr, 2 gap, 3 end), length (u32 each),
/// then two u64: offset and 0, or a gap's bounds. Output follows its head, padded to eight bytes.
/// Returns the bytes used; 0 means that there is nothing now and the reader will be woken.
///
/// # Safety
/// `out` points to `len` bytes that nobody else uses until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_stream_next(stream: u32, out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let used = core.read(stream, |log, now| fill(log, stream, out, now));
        Ok(used.ok_or(UNKNOWN)? as i32)
    })
}

/// Returns the bytes used.
fn fill(log: &mut Log, reader: u32, out: &mut [u8], now: u64) -> usize {
    let mut used = 0;
    // What is left behind a record must hold a head and some bytes to be worth another.
    while out.len() - used > 2 * HEAD {
        let (head, body) = out[used..].split_at_mut(HEAD);
        // A multiple of eight, so that the padding of a full record stays inside.
        let room = body.len() & !7;
        // The reader waits only for what it was not given: not behind other records.
        let (kind, length, first, second) = match log.next(reader, &mut body[..room], now) {
            Next::Output(stream, offset, count) => (stream as u32, count, offset, 0),
            Next::Gap(from, to) => (2, 0, from, to),
            Next::End => (3, 0, 0, 0),
            Next::Nothing => break,
        };
        head[0..4].copy_from_slice(&kind.to_le_bytes());
        head[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        head[8..16].copy_from_slice(&first.to_le_bytes());
        head[16..24].copy_from_slice(&second.to_le_bytes());
        used += HEAD + length.next_multiple_of(8);
        if kind == 3 {
            break;
        }
    }
    used
}

/// Detaches a reader.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_stream_close(stream: u32) -> i32 {
    with_core(|core| {
        core.detach(stream);
        Ok(0)
    })
}
