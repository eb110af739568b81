//! Who this guest is: the keys of the tunnels' handshake, and the repair of what its clones share.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::with_core;
use crate::abi::{BAD_LAYOUT, bytes, path_of};
use crate::identity;
use crate::noise::handshake::Keys;

/// Installs the keys of the tunnels' handshake: this VM's secret and its client's public key.
///
/// # Safety
/// Each pointer is null or points to as many bytes as said, which stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_identity_install(
    secret: *const u8,
    secret_len: u32,
    client: *const u8,
    client_len: u32,
) -> i32 {
    // SAFETY: bytes demands what this function does.
    let (secret, client) = unsafe { (bytes(secret, secret_len), bytes(client, client_len)) };
    with_core(|core| {
        core.noise
            .install(Keys::new(secret, client).ok_or(BAD_LAYOUT)?);
        Ok(0)
    })
}

/// Makes anew what clones of this guest share, beneath the directory `root`; see
/// [`identity::repair`]. Completes `token` with 0 and the outcomes as [`identity::pack`] gives them.
/// `-EAGAIN` when too many slow calls hang.
///
/// # Safety
/// Each pointer is null or points to as many bytes as said, which stay unchanged until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn guestd_identity_repair(
    root: *const u8,
    root_len: u32,
    secret: *const u8,
    secret_len: u32,
    token: u32,
) -> i32 {
    // SAFETY: path_of and bytes demand what this function does.
    let (root, secret) = unsafe { (path_of(root, root_len), bytes(secret, secret_len)) };
    let secret = secret.to_vec();
    with_core(|core| {
        let wake = Arc::clone(&core.wake);
        let job = move || {
            let outcomes = identity::repair(&root, &secret);
            // Wiped before anybody hears that it is done.
            drop(secret);
            wake.complete(token, 0, identity::pack(&outcomes));
        };
        core.jobs.run(job).map_err(|_| -libc::EAGAIN)?;
        Ok(0)
    })
}
