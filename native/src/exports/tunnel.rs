//! Tunnels.
#![allow(unsafe_code)]

use super::with_core;
use crate::abi::{BAD_LAYOUT, UNKNOWN, bytes};
use crate::tunnel::engine::Purpose;

/// Takes over the connection `caller` of [`guestd_caller_hold`](super::caller::guestd_caller_hold),
/// which is used up. `purpose` is 0 to relay to `port` of the guest, 1 to relay once the caller has
/// proven itself, 2 to be closed. Returns the tunnel's handle; completes `token` with one of `End` and
/// its value. `-ENOKEY`.
#[unsafe(no_mangle)]
pub extern "C" fn guestd_tunnel_open(caller: u32, port: u32, purpose: u32, token: u32) -> i32 {
    with_core(|core| {
        let (Some(caller), Ok(port)) = (core.callers.take(caller), u16::try_from(port)) else {
            return UNKNOWN;
        };
        let purpose = match (purpose, core.tunnels.keys()) {
            (0, _) => Purpose::Relay(port),
            (1, Some(keys)) => Purpose::Prove(port, keys),
            (1, None) => return -libc::ENOKEY,
            (2, _) => Purpose::Refuse,
            _ => return BAD_LAYOUT,
        };
        match core.tunnels.open(caller, purpose, token) {
            Ok(id) => id as i32,
            Err(errno) => -errno.raw_os_error(),
        }
    })
}

/// Gives a tunnel bytes of the caller that somebody else has read before; with `last` not 0 the
/// rest is still in the socket. Completes `token` once the guest's socket has taken them, or the
/// tunnel is gone.
///
/// # Safety
/// `data` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_tunnel_feed(
    tunnel: u32,
    data: *const u8,
    len: u32,
    last: u32,
    token: u32,
) -> i32 {
    // SAFETY: bytes demands what this function demands of its caller.
    let data = unsafe { bytes(data, len) }.to_vec();
    with_core(|core| {
        core.tunnels.feed(tunnel, data, last != 0, token);
        0
    })
}

/// Ends a tunnel with a close frame of this code and reason, or without one for code 0. Completes
/// `token` once both of its connections are gone. To be called once for each tunnel.
///
/// # Safety
/// `reason` is null or points to `len` bytes that stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_tunnel_close(
    tunnel: u32,
    code: u32,
    reason: *const u8,
    len: u32,
    token: u32,
) -> i32 {
    // SAFETY: bytes demands what this function demands of its caller.
    let reason = String::from_utf8_lossy(unsafe { bytes(reason, len) }).into_owned();
    with_core(|core| {
        let Ok(code) = u16::try_from(code) else {
            return BAD_LAYOUT;
        };
        core.tunnels.close(tunnel, code, reason, token);
        0
    })
}
