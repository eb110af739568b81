//! This process's own connections.
#![allow(unsafe_code)]

use super::{known, with_core};
use crate::abi::{BAD_LAYOUT, bytes, bytes_mut};
use crate::connections::{Change, Door, Ends, Facts};
use crate::self_protection;

/// Size of [`Facts`] in a buffer, in bytes.
const FACTS_BYTES: usize = 20;

/// Watches the connection with these ends: the other one's host, as `End` has it, and its port, and the port of
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
        Ok(core.connections.watch(ends) as i32)
    })
}

/// Writes what is known of a connection now: its state, milliseconds since data came, bytes
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
    let words = [u32::from(facts.state), facts.came_ms, facts.unsent];
    for (place, word) in out.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    out[12..].copy_from_slice(&facts.acked.to_le_bytes());
    out
}

/// Ends a connection; `UNKNOWN` where it was not found or is gone.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_connection_end(id: u32) -> i32 {
    with_core(|core| known(core.connections.end(id)))
}

/// Watches a connection no more.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_connection_forget(id: u32) -> i32 {
    with_core(|core| {
        core.connections.forget(id);
        Ok(0)
    })
}

/// Size of a [`Change`] in a buffer, in bytes: the cookie (u64), 1 for one that came and 0 for one that is gone, the length of
/// its client's host (u8 each), two bytes of nothing, the client's port (u32), the host as text.
const CHANGE_BYTES: usize = 64;
const TEXT_AT: usize = 16;

/// From now on `Kind::Roll` is told when clients of the server on this port of TCP, or of vsock if `is_vsock` is not 0, come
/// and go. Returns how many of all servers there are to be, at most `most`: half the descriptors stay for what they ask for.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_connections_follow(is_vsock: u32, port: u32, most: u32) -> i32 {
    with_core(|core| {
        let is_vsock = is_vsock != 0;
        core.connections.follow(Door { is_vsock, port });
        let half = self_protection::descriptor_limit() / 2;
        Ok(u64::from(most).min(half).try_into().unwrap_or(i32::MAX))
    })
}

/// Writes who has come and gone since the last call, each as [`CHANGE_BYTES`] say, as many as there is room for; how many.
///
/// # Safety
/// `out` is null or points to `len` bytes that are this call's alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_connections_changes(out: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let out = unsafe { bytes_mut(out, len) };
    with_core(|core| {
        let places = out.len() / CHANGE_BYTES;
        let changes = core.connections.changes(places);
        for (place, change) in out.chunks_exact_mut(CHANGE_BYTES).zip(&changes) {
            encode_change(change, place);
        }
        Ok(changes.len() as i32)
    })
}

fn encode_change(change: &Change, place: &mut [u8]) {
    place[..8].copy_from_slice(&change.cookie.to_le_bytes());
    let text = change.peer.map(|peer| peer.host()).unwrap_or_default();
    place[8] = u8::from(change.peer.is_some());
    place[9] = text.len() as u8;
    let port = change.peer.map_or(0, |peer| peer.port());
    place[12..16].copy_from_slice(&port.to_le_bytes());
    place[TEXT_AT..TEXT_AT + text.len()].copy_from_slice(text.as_bytes());
}

/// Ends a client's connection; `UNKNOWN` where it is gone already.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_connections_expel(cookie: u64) -> i32 {
    with_core(|core| known(core.connections.expel(cookie)))
}
