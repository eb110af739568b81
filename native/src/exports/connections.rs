//! This process's own connections.
#![allow(unsafe_code)]

use super::{known, with_core};
use crate::abi::{BAD_LAYOUT, bytes, bytes_mut};
use crate::connections::{Ends, Facts};

/// Size of [`Facts`] in a buffer, in bytes.
const FACTS_BYTES: usize = 24;

/// Watches the connection with these ends: the other one's address as text and its port, and the port of
/// this end, 0 where any will do. Returns a handle, for which `Kind::Connection` is told.
///
/// # Safety
/// `host` is null or points to `host_len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_connection_watch(
    host: *const u8,
    host_len: u32,
    port: u32,
    local_port: u32,
) -> i32 {
    // SAFETY: bytes demands what this function does.
    let host = unsafe { bytes(host, host_len) };
    with_core(|core| {
        let ends = Ends::new(host, port, local_port).ok_or(BAD_LAYOUT)?;
        let id = core.connections.watch(ends).map_err(|_| -libc::EAGAIN)?;
        Ok(id as i32)
    })
}

/// Writes what is known of a connection now: its state, milliseconds since data came and went, bytes
/// unacknowledged, each a u32, and bytes acknowledged, a u64. 1, or 0 where nothing is known of it.
///
/// # Safety
/// `out` is null or points to `len` bytes that are this call's alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_connection_facts(id: u32, out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let out = out.first_chunk_mut().ok_or(BAD_LAYOUT)?;
        let facts = core.connections.facts(id);
        if let Some(facts) = &facts {
            *out = encoded(facts);
        }
        Ok(i32::from(facts.is_some()))
    })
}

fn encoded(facts: &Facts) -> [u8; FACTS_BYTES] {
    let mut out = [0; FACTS_BYTES];
    let words = [
        u32::from(facts.state),
        facts.came_ms,
        facts.went_ms,
        facts.unsent,
    ];
    for (place, word) in out.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out[16..].copy_from_slice(&facts.acked.to_le_bytes());
    out
}

/// Ends a connection, with a reset if `reset` is not 0; `UNKNOWN` where it was not found or is gone.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_connection_end(id: u32, reset: u32) -> i32 {
    with_core(|core| known(core.connections.end(id, reset != 0)))
}

/// Watches a connection no more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_connection_forget(id: u32) -> i32 {
    with_core(|core| {
        core.connections.forget(id);
        Ok(0)
    })
}
