//! Sessions of the tunnels' Noise.
#![allow(unsafe_code)]

use super::with_core;
use crate::abi::{BAD_LAYOUT, UNKNOWN, bytes, bytes_mut};

/// The client must send the confirmation first.
const MUST_CONFIRM: u8 = 1;
/// Both ends say when their stream ends.
const ENDS: u8 = 2;

/// Answers a client's first message for a tunnel to `port`. Writes the session's handle, its flags
/// and the answer to `out` and returns how much that is; `-EPERM` where the client is refused.
///
/// # Safety
/// Each pointer is null or points to as many bytes as said, `out` for this call alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_noise_accept(
    port: u32,
    first: *const u8,
    first_len: u32,
    out: *mut u8,
    out_len: u32,
) -> i32 {
    // SAFETY: bytes and bytes_mut demand what this function demands of its caller.
    let (first, out) = unsafe { (bytes(first, first_len), bytes_mut(out, out_len)) };
    with_core(|core| {
        let Ok(port) = u16::try_from(port) else {
            return BAD_LAYOUT;
        };
        let Ok(opened) = core.noise.open(port, first) else {
            return -libc::EPERM;
        };
        let mut flags = 0;
        flags |= if opened.must_confirm { MUST_CONFIRM } else { 0 };
        flags |= if opened.ends { ENDS } else { 0 };
        let written = [&opened.id.to_le_bytes()[..], &[flags], &opened.answer].concat();
        let Some(out) = out.get_mut(..written.len()) else {
            core.noise.close(opened.id);
            return BAD_LAYOUT;
        };
        out.copy_from_slice(&written);
        written.len() as i32
    })
}

/// Whether a message is the confirmation that the client must send: 1 or 0.
///
/// # Safety
/// `message` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_noise_confirms(id: u32, message: *const u8, len: u32) -> i32 {
    // SAFETY: bytes demands what this function demands of its caller.
    let message = unsafe { bytes(message, len) };
    with_core(|core| {
        let confirms = core.noise.with(id, |session| session.confirms(message));
        confirms.map_or(UNKNOWN, i32::from)
    })
}

/// Encrypts a chunk of at most 32768 bytes into `out`; returns the message's length, or `-EMSGSIZE`.
///
/// # Safety
/// Each pointer is null or points to as many bytes as said, `out` for this call alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_noise_seal(
    id: u32,
    plain: *const u8,
    len: u32,
    out: *mut u8,
    out_len: u32,
) -> i32 {
    // SAFETY: bytes and bytes_mut demand what this function demands of its caller.
    let (plain, out) = unsafe { (bytes(plain, len), bytes_mut(out, out_len)) };
    with_core(|core| {
        let sealed = core.noise.with(id, |session| session.seal(plain, out));
        sealed.map_or(UNKNOWN, |sealed| {
            sealed.map_or(-libc::EMSGSIZE, |length| length as i32)
        })
    })
}

/// Decrypts a message where it lies; returns the plaintext's length, or `-EBADMSG`.
///
/// # Safety
/// `message` is null or points to `len` bytes that are this call's alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_noise_open(id: u32, message: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function demands of its caller.
    let message = unsafe { bytes_mut(message, len) };
    with_core(|core| {
        let opened = core
            .noise
            .with(id, |session| session.open_in_place(message));
        opened.map_or(UNKNOWN, |opened| {
            opened.map_or(-libc::EBADMSG, |length| length as i32)
        })
    })
}

/// Ends a session, whose keys are wiped.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_noise_close(id: u32) -> i32 {
    with_core(|core| {
        core.noise.close(id);
        0
    })
}
