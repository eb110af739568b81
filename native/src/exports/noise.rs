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
    // SAFETY: bytes and bytes_mut demand what this function does.
    let (first, out) = unsafe { (bytes(first, first_len), bytes_mut(out, out_len)) };
    with_core(|core| {
        let port = u16::try_from(port).map_err(|_| BAD_LAYOUT)?;
        let accepted = core.noise.accept(port, first);
        let (session, answer) = accepted.ok_or(-libc::EPERM)?;
        let length = 5 + answer.len();
        let (id, rest) = out.get_mut(..length).ok_or(BAD_LAYOUT)?.split_at_mut(4);
        rest[0] = MUST_CONFIRM * u8::from(session.must_confirm)
            + ENDS * u8::from(session.authenticated_end);
        rest[1..].copy_from_slice(&answer);
        id.copy_from_slice(&core.noise.keep(session).to_le_bytes());
        Ok(length as i32)
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
    // SAFETY: bytes and bytes_mut demand what this function does.
    let (plain, out) = unsafe { (bytes(plain, len), bytes_mut(out, out_len)) };
    with_core(|core| {
        let sealed = core.noise.with(id, |session| session.seal(plain, out));
        Ok(sealed.ok_or(UNKNOWN)?.ok_or(-libc::EMSGSIZE)? as i32)
    })
}

/// Decrypts a message where it lies; returns the plaintext's length, or `-EBADMSG`.
///
/// # Safety
/// `message` is null or points to `len` bytes that are this call's alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_noise_open(id: u32, message: *mut u8, len: u32) -> i32 {
    // SAFETY: bytes_mut demands what this function does.
    let message = unsafe { bytes_mut(message, len) };
    with_core(|core| {
        let opened = core.noise.with(id, |session| session.open(message));
        Ok(opened.ok_or(UNKNOWN)?.ok_or(-libc::EBADMSG)? as i32)
    })
}

/// Ends a session, whose keys are wiped.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_noise_close(id: u32) -> i32 {
    with_core(|core| {
        core.noise.close(id);
        Ok(0)
    })
}
